// Durable jobs of BullMQ, in a Redis that waits for the disk before it answers, and in a Redis that does not.
import { Queue, Worker } from 'bullmq';
import IORedis from 'ioredis';

const now = () => process.hrtime.bigint();
const put = (queue) => queue.add('noop', { text: 'payload' });

/** Makes a queue with nothing in it for `work`, which gets it and a way to make workers that call `ran`. */
async function withQueue(connection, fsync, work) {
  const redis = new IORedis(connection);
  await redis.flushall();
  await redis.config('SET', 'appendfsync', fsync);
  redis.disconnect();
  const queue = new Queue('default', { connection });
  await queue.waitUntilReady();
  const workers = [];
  const makeWorker = (concurrency, ran) => {
    const worker = new Worker('default', async () => ran(), {
      connection: { ...connection, maxRetriesPerRequest: null }, concurrency, autorun: false,
    });
    workers.push(worker);
    return worker;
  };
  try {
    return await work(queue, makeWorker);
  } finally {
    for (const worker of workers) await worker.close();
    await queue.close();
  }
}

const putJobs = (n, atOnce) => async (queue) => {
  await put(queue);
  const start = now();
  const inTurn = async () => { for (let left = n / atOnce; left > 0; --left) await put(queue); };
  await Promise.all(Array.from({ length: atOnce }, inTurn));
  return Number(now() - start) / n;
};

const runJobs = (waiting, n, concurrency) => async (queue, makeWorker) => {
  for (let left = waiting; left > 0; left -= 1000) {
    const size = Math.min(left, 1000);
    await queue.addBulk(Array.from({ length: size }, () => ({ name: 'noop', data: { text: 'payload' } })));
  }
  let count = 0;
  let start;
  await new Promise((done) => {
    const worker = makeWorker(concurrency, () => { if (++count === n) done(); });
    worker.waitUntilReady().then(() => { start = now(); worker.run(); });
  });
  return Number(now() - start) / n;
};

const startAlone = (n) => async (queue, makeWorker) => {
  let started;
  const worker = makeWorker(8, () => started(now()));
  await worker.waitUntilReady();
  worker.run();
  const took = [];
  for (let i = 0; i < n; ++i) {
    await new Promise((done) => { setTimeout(done, 10); });
    const runs = new Promise((done) => { started = done; });
    const begun = now();
    await put(queue);
    took.push(Number((await runs) - begun));
  }
  took.sort((a, b) => a - b);
  return { ns: took[Math.floor(n / 2)], p99_ns: took[Math.floor(n * 99 / 100)] };
};

/** The contestants; none without the socket of a server. For B22-many, to hand in 300,000 jobs takes minutes. */
export function bullmq(socket) {
  if (!socket) return [];
  const works = [
    ['B22-put', putJobs(300, 1)], ['B22-put100', putJobs(5_000, 100)], ['B22-run1', runJobs(500, 500, 1)],
    ['B22-run8', runJobs(2_000, 2_000, 8)], ['B22-idle', startAlone(100)],
  ];
  const found = [];
  for (const [id, work] of works) {
    for (const [name, fsync] of [['BullMQ', 'always'], ['BullMQ, appendfsync everysec', 'everysec']]) {
      found.push([id, name, () => withQueue({ path: socket }, fsync, work)]);
    }
  }
  return found;
}
