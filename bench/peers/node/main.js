// The work of canigo's benchmarks, done in Node. Prints one JSON line per contestant and call.
import Bottleneck from 'bottleneck';
import PQueue from 'p-queue';
import { bullmq } from './jobs.js';

let work = 0;
const operation = async () => { ++work; };

/** Hands over n operations, 64 at a time, and waits for them. */
async function inBursts(n, add) {
  const start = process.hrtime.bigint();
  for (let left = n; left > 0; left -= 64) {
    const burst = [];
    for (let i = 0; i < 64; ++i) burst.push(add());
    await Promise.all(burst);
  }
  return Number(process.hrtime.bigint() - start) / n;
}

const contestants = [
  ['B7', 'p-queue, concurrency 8', async () => {
    const queue = new PQueue({ concurrency: 8 });
    return inBursts(32_000, () => queue.add(operation));
  }],
  ['B7', 'bottleneck, maxConcurrent 8', async () => {
    const limiter = new Bottleneck({ maxConcurrent: 8 });
    return inBursts(128, () => limiter.schedule(operation));
  }],
  ['B10', 'p-queue, concurrency 8, timeout', async () => {
    const queue = new PQueue({ concurrency: 8, timeout: 1000 });
    return inBursts(16_000, () => queue.add(operation));
  }],
  // Each job of bottleneck goes through a timer, so many jobs run at once to measure the time of one job.
  ['B2', 'bottleneck, reservoir', async () => {
    const limiter = new Bottleneck({ reservoir: 1e9 });
    return inBursts(128, () => limiter.schedule(operation));
  }],
  ...bullmq(process.env.BENCH_REDIS),
];

const args = process.argv.slice(2);
const at = args.indexOf('--only');
const only = at < 0 ? null : args[at + 1].split(',');
for (const [id, name, run] of contestants) {
  if (only && !only.includes(id)) continue;
  if (args.includes('--list')) {
    console.log(id, name);
    continue;
  }
  if (!id.startsWith('B22')) await run();  // a warm-up that is not measured
  const measured = await run();
  const figures = typeof measured === 'number' ? { ns: measured } : measured;
  console.log(JSON.stringify({ id, name: `Node: ${name}`, ...figures }));
}
