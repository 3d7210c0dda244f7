#!/usr/bin/env python3
"""Several processes share a semaphore in Redis while everything is done to them: is anybody let in beyond the cap?

chaos.py WORKER [--seconds N] [--grants N] [--lease MS] [--processes N] [--permits N] [--seed N]

Runs three rounds. "steady": nothing breaks; as many grants as can be. "chaos": workers are killed and stopped, Redis
is killed and started again, with and without its file, its scripts and its clients' connections are thrown away, and
a proxy between them delays, cuts, half-closes and splits what passes. "control": the guard is switched off, and Redis
loses its data; this round has to show violations, or the judge is blind.

The judge reads the log that the workers append to: each line is one write, the clock is the machine's. A worker that
was killed has left when it was; one that was stopped did nothing from then on if it lost its lease meanwhile.
"""

import argparse
import asyncio
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time


class Proxy(threading.Thread):
    """Between the workers and Redis, byte by byte if need be."""

    def __init__(self, path, target, seed):
        super().__init__(daemon=True)
        self.path, self.target, self.random = path, target, random.Random(seed)
        self.mischief = False
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.listen())
        self.ready.set()
        self.loop.run_forever()

    async def listen(self):
        self.server = await asyncio.start_unix_server(self.serve, self.path)

    async def serve(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self.pump(reader, far_writer), self.pump(far_reader, writer))

    async def pump(self, reader, writer):
        try:
            while data := await reader.read(65536):
                dice = self.random.random() if self.mischief else 1
                if dice < 0.002:
                    break  # a connection that is cut
                if dice < 0.004:
                    await asyncio.sleep(3600)  # one that goes silent, half open
                if dice < 0.01:
                    await asyncio.sleep(self.random.random() * 0.3)
                if dice < 0.1:
                    for i in range(len(data)):
                        writer.write(data[i:i + 1])
                        await writer.drain()
                else:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        writer.close()


class Redis:
    def __init__(self, folder, *arguments):
        self.path = str(folder / "redis.sock")
        self.folder, self.arguments, self.process = folder, arguments, None

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", str(self.folder), "--save", "",
             "--loglevel", "warning", *self.arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            if self.cli("PING").strip() == "PONG":
                return
            time.sleep(0.02)
        raise RuntimeError("redis-server does not answer")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def cli(self, *command):
        return subprocess.run(["redis-cli", "-s", self.path, *command], capture_output=True, text=True,
                              check=False).stdout


class Workers:
    def __init__(self, options, url, log, quarantine, seconds):
        self.command = [options.worker, url, str(log), str(options.permits), str(options.lease), "8",
                        str(options.hold), str(seconds), "1" if quarantine else "0"]
        self.ends = {}   # pid -> when it was killed
        self.stops = {}  # pid -> [(stopped, went on)]
        self.running = [self.spawn() for _ in range(options.processes)]

    def spawn(self):
        return subprocess.Popen(self.command)

    def kill_one(self, which):
        victim = self.running[which]
        victim.kill()
        victim.wait()
        self.ends[victim.pid] = time.monotonic_ns()
        self.running[which] = self.spawn()

    def stop_one(self, which, seconds):
        pid = self.running[which].pid
        os.kill(pid, signal.SIGSTOP)
        stopped = time.monotonic_ns()
        time.sleep(seconds)
        self.stops.setdefault(pid, []).append((stopped, time.monotonic_ns()))
        os.kill(pid, signal.SIGCONT)

    def finish(self, timeout):
        for worker in self.running:
            try:
                worker.wait(timeout)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
                self.ends[worker.pid] = time.monotonic_ns()
                print("a worker did not end by itself", flush=True)
                self.hung = True

    hung = False


def judge(log, workers, permits):
    """(grants, moments at which more than `permits` were inside, most that were)."""
    inside, events, grants = {}, [], 0
    for line in log.read_text().splitlines():
        what, pid, task, at, *how = line.split()
        key, at = (int(pid), task), int(at)
        if what == "S":
            inside[key] = at
            grants += 1
            continue
        start, end = inside.pop(key), at
        if how[0] == "lost":
            end = min([end] + [s for s, _ in workers.stops.get(key[0], []) if start <= s <= at])
        events += [(start, 1), (end, -1)]
    for (pid, _), start in inside.items():
        events += [(start, 1), (workers.ends.get(pid, start), -1)]
    now = most = violations = 0
    for _, change in sorted(events):
        now += change
        most = max(most, now)
        violations += change > 0 and now > permits
    return grants, violations, most


def run_round(name, options, seconds):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="canigo-chaos-"))
    dice = random.Random(options.seed)
    redis = Redis(folder)
    log = folder / "log"
    try:
        redis.start()
        url = "unix:" + redis.path
        if name == "chaos":
            proxy = Proxy(str(folder / "proxy.sock"), redis.path, options.seed)
            proxy.start()
            proxy.ready.wait()
            url = "unix:" + proxy.path
        workers = Workers(options, url, log, name != "control", seconds)
        end = time.monotonic() + seconds
        lease = options.lease / 1000
        time.sleep(min(lease * 2, seconds / 4))
        while time.monotonic() < end - lease and name != "steady":
            which = dice.randrange(options.processes)
            if name == "control":
                redis.cli("FLUSHALL")
                time.sleep(lease / 2)
                continue
            proxy.mischief = dice.random() < 0.5
            what = dice.choice(["kill", "stop", "blink", "redis", "aof", "scripts", "clients", "pause", "flush"])
            if what == "kill":
                workers.kill_one(which)
            elif what == "stop":
                workers.stop_one(which, lease * 2 * dice.random() + 0.01)
            elif what == "blink":
                workers.stop_one(which, lease / 4)
            elif what in ("redis", "aof"):
                redis.kill()
                redis.arguments = ("--appendonly", "yes") if what == "aof" else ()
                time.sleep(lease * dice.random())
                redis.start()
            elif what == "scripts":
                redis.cli("SCRIPT", "FLUSH")
            elif what == "clients":
                redis.cli("CLIENT", "KILL", "TYPE", dice.choice(["normal", "pubsub"]))
            elif what == "pause":
                redis.process.send_signal(signal.SIGSTOP)
                time.sleep(lease * 1.5 * dice.random())
                redis.process.send_signal(signal.SIGCONT)
            elif what == "flush":
                redis.cli("FLUSHALL")
            time.sleep(dice.random() * lease)
        if name == "chaos":
            proxy.mischief = False
        workers.finish(seconds + 30)
        grants, violations, most = judge(log, workers, options.permits)
        killed, stopped = len(workers.ends), sum(map(len, workers.stops.values()))
        print(f"{name}: {grants} grants, {violations} over the cap of {options.permits} (most at once {most}), "
              f"{killed} killed, {stopped} stopped", flush=True)
        return grants, violations, workers.hung
    finally:
        if redis.process is not None:
            redis.process.kill()
            redis.process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker")
    parser.add_argument("--seconds", type=float, default=40, help="of all rounds together")
    parser.add_argument("--grants", type=int, default=1, help="at least so many, or it fails")
    parser.add_argument("--lease", type=int, default=400, help="milliseconds")
    parser.add_argument("--hold", type=int, default=500, help="microseconds that a permit is held for")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--permits", type=int, default=15)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    steady = run_round("steady", options, options.seconds * 0.45)
    chaos = run_round("chaos", options, options.seconds * 0.45)
    # What is held across the loss of the data must be long enough to be seen twice.
    options.hold = options.lease * 500
    control = run_round("control", options, max(3.0, options.seconds * 0.1))
    good = steady[1] == chaos[1] == 0 and control[1] > 0 and not (steady[2] or chaos[2] or control[2])
    enough = steady[0] + chaos[0] >= options.grants
    print("passed" if good and enough else "FAILED", flush=True)
    return 0 if good and enough else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the proxy's thread is in the middle of something
