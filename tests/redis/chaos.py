#!/usr/bin/env python3
"""Several processes share a semaphore and a quota in Redis while everything is done to them: does anybody get too much?

chaos.py WORKER [--seconds N] [--grants N] [--lease MS] [--processes N] [--permits N] [--rate N] [--outages S,…]
         [--seed N]

Rounds:
  D1       40 tasks in 3 processes under a cap of 15, each inside for up to 2 s
  steady   nothing breaks; as many grants as can be, and --grants at least, however long that takes. D12: the clocks of
           the processes are five minutes apart
  chaos    workers are killed and stopped, Redis is killed, stopped, flushed, and started again with its file and
           without it, its scripts and its clients' connections are thrown away, and a proxy between them delays, cuts,
           half-closes and splits what passes. For a while the whole line is slow. Each of these at least once. Permits
           have weights, and the clocks are wrong (D12). Then all is calm, and every task that is left has to be served
           again (D4).
  limiter  the same with a limiter in the place of both: a cap, and rates of two units, which it grants in one step of
           the script. All three are judged.
  outages  Redis is killed and started, or stopped and goes on, after --outages seconds, while in each failure mode one
           process is busy and one asks once and is idle. The idle ones that may do without Redis must get a token
           during the outage, before their deadline of a second. Each must have a permit and a token within 2 s of the
           return of Redis, after the quarantine where there is one; from then on the quota counts for all of them, as
           far as the machine lets Redis and the workers go on, which must be a second at least.
  losses   one thing at a time: keys are deleted, any of them, or evicted; Redis is given back what it knew a while ago;
           its clock is set, forward and back; a worker is killed. After each every worker has to be served again,
           within a lease (the quarantine) and --service seconds.
  failover a master with two replicas and three sentinels, all real: the master is killed, and service judged as above,
           from when the sentinels know the next one. A fourth, which is asked first, names the first master for ever.
  control  the guards are switched off: the quarantine, and the quota's being closed without Redis. This round has to
           show violations of both, or the judge is blind. In a second one each process has a limiter of its own; it has
           to show violations of the cap and of both rates.

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
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import judge
import sentinels


class Proxy(threading.Thread):
    """Between the workers and Redis, byte by byte if need be."""

    def __init__(self, path, target, seed):
        super().__init__(daemon=True)
        self.path, self.target, self.random = path, target, random.Random(seed)
        self.mischief = False
        self.delay = 0  # seconds that every message takes, in each direction
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
                if self.delay > 0:
                    await asyncio.sleep(self.delay)
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
    """Writes all that it is told to a file. Its clock can be set where `shim` is there (tests/redis/clock.cpp)."""

    def __init__(self, folder, shim=None):
        self.path = str(folder / "redis.sock")
        self.folder, self.process = folder, None
        self.clock = folder / "clock"
        self.clock.write_bytes(bytes(8))
        self.settings = {"CANIGO_CLOCK": str(self.clock), "LD_PRELOAD": str(shim)} if shim and shim.exists() else {}

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", str(self.folder), "--save", "",
             "--appendonly", "yes", "--loglevel", "warning"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, **self.settings})
        for _ in range(600):
            if self.cli("PING").strip() == "PONG":
                return
            time.sleep(0.02)
        raise RuntimeError("redis-server does not answer")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def forget(self):
        """The file is lost."""
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
        for file in self.folder.glob("*.aof"):
            file.unlink()

    def set_clock(self, seconds):
        """From what it shows now."""
        with self.clock.open("r+b") as file:
            shift = int.from_bytes(file.read(8), sys.byteorder, signed=True) + int(seconds * 1e6)
            file.seek(0)
            file.write(shift.to_bytes(8, sys.byteorder, signed=True))

    def copy(self):
        """What it has written by now; the end may be cut off, as after a crash."""
        shutil.rmtree(self.folder / "copy", ignore_errors=True)
        (self.folder / "copy").mkdir()
        for name in [*self.folder.glob("appendonlydir"), *self.folder.glob("*.aof")]:
            (shutil.copytree if name.is_dir() else shutil.copy)(name, self.folder / "copy" / name.name)

    def give_back_copy(self):
        self.forget()
        for name in (self.folder / "copy").iterdir():
            (shutil.copytree if name.is_dir() else shutil.copy)(name, self.folder / name.name)

    def cli(self, *command):
        return subprocess.run(["redis-cli", "-s", self.path, *command], capture_output=True, text=True,
                              check=False).stdout


class Workers:
    def __init__(self, options, url, log, dice, **settings):
        self.settings = settings
        self.command = [options.worker, url, str(log)]
        self.dice = dice
        self.ends = {}   # pid -> when it was killed
        self.stops = {}  # pid -> [(stopped, went on)]
        self.started = 0
        self.running = [self.spawn(which) for which in range(options.processes)]

    def spawn(self, which):
        # Five minutes apart, whoever is compared, and by different clocks.
        self.started += 1
        shifts = [300 * (self.started % 3), 300 * (self.started // 3 % 3), self.dice.choice([-300, 0, 300])]
        settings = dict(self.settings, **dict(zip(("monotonic", "boottime", "realtime"), shifts)))
        own = {name: value[which] if isinstance(value, list) else value for name, value in settings.items()}
        return subprocess.Popen(self.command + [f"{name}={value}" for name, value in own.items()])

    def kill_one(self, which):
        victim = self.running[which]
        victim.kill()
        victim.wait()
        self.ends[victim.pid] = time.monotonic_ns()
        self.running[which] = self.spawn(which)

    def stop_one(self, which, seconds):
        pid = self.running[which].pid
        os.kill(pid, signal.SIGSTOP)
        stopped = time.monotonic_ns()
        time.sleep(seconds)
        self.stops.setdefault(pid, []).append((stopped, time.monotonic_ns()))
        os.kill(pid, signal.SIGCONT)

    def kill_all(self):
        for worker in self.running:
            if worker.poll() is None:
                worker.kill()
                worker.wait()

    def finish(self, seconds=60):
        """Whether all ended by themselves."""
        good = True
        for worker in self.running:
            worker.send_signal(signal.SIGTERM)
        for worker in self.running:
            try:
                good = worker.wait(seconds) == 0 and good
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
                self.ends[worker.pid] = time.monotonic_ns()
                print("a worker did not end by itself", flush=True)
                good = False
        return good


class Trouble:
    """Everything that may happen, and what has."""

    def __init__(self, redis, workers, proxy, options, dice):
        self.redis, self.workers, self.proxy, self.options, self.dice = redis, workers, proxy, options, dice
        self.lease = options.lease / 1000
        self.times = {name: 0 for name in self.kinds}

    kinds = ("kill", "stop", "blink", "restart", "restart_without_file", "scripts", "clients", "pushes", "pause",
             "flush", "slow")

    def make(self, what):
        self.times[what] += 1
        which = self.dice.randrange(self.options.processes)
        if what == "kill":
            self.workers.kill_one(which)
        elif what == "stop":
            self.workers.stop_one(which, self.lease * (1.2 + self.dice.random()))
        elif what == "blink":
            self.workers.stop_one(which, self.lease / 4)
        elif what in ("restart", "restart_without_file"):
            self.redis.kill()
            if what == "restart_without_file":
                self.redis.forget()
            time.sleep(self.lease * self.dice.random())
            self.redis.start()
        elif what == "scripts":
            self.redis.cli("SCRIPT", "FLUSH")
        elif what == "clients":
            self.redis.cli("CLIENT", "KILL", "TYPE", "normal")
        elif what == "pushes":
            self.redis.cli("CLIENT", "KILL", "TYPE", "pubsub")
        elif what == "pause":
            self.redis.process.send_signal(signal.SIGSTOP)
            time.sleep(self.lease * 1.5 * self.dice.random())
            self.redis.process.send_signal(signal.SIGCONT)
        elif what == "flush":
            self.redis.cli("FLUSHALL")
        elif what == "slow":
            # A lease stands the first two lines, and not the third.
            self.proxy.delay = self.lease * self.dice.choice([0.05, 0.15, 0.6])
            time.sleep(self.lease * 3)
            self.proxy.delay = 0

    def go_on_until(self, end):
        """All of them once, in any order, and more while there is time."""
        order = list(self.kinds)
        self.dice.shuffle(order)
        turn = 0
        while order or time.monotonic() < end:
            turn += 1
            self.proxy.mischief = turn % 2 == 0
            self.make(order.pop() if order else self.dice.choice(self.kinds))
            time.sleep(self.dice.random() * self.lease / 2)
        self.proxy.mischief = False

    def told(self):
        return ", ".join(f"{n} {what}" for what, n in self.times.items())


class Tail:
    """What has come into a file since it was looked at last, in whole lines: one that crosses a page of memory may be
    seen in two pieces."""

    def __init__(self, path):
        self.path, self.at = path, 0

    @classmethod
    def from_now(cls, path):
        """After the last whole line: the size of the file may end in the middle of one."""
        tail = cls(path)
        tail.lines()
        return tail

    def lines(self):
        with self.path.open("rb") as file:
            file.seek(self.at)
            text = file.read()
        whole = text[:text.rfind(b"\n") + 1]
        self.at += len(whole)
        return whole.decode().splitlines()


class Losses:
    """What makes Redis forget, or believe that it is another time; one at a time, and then all are served."""

    def __init__(self, r):
        self.round, self.redis, self.workers, self.dice = r, r.redis, r.workers, r.dice
        self.lease = r.options.lease / 1000
        self.worst = {}  # kind -> seconds until all were served
        self.bursts = 0  # that the quota may have released beyond its own

    kinds = ("keys", "keys", "eviction", "copy", "forward", "forward a bit", "back", "kill")

    def make(self, what):
        if what == "keys":
            keys = [f"{{canigo:default:chaos}}:{kind}:{key}" for kind in "sr" for key in ("state", "sess", "q")]
            self.redis.cli("DEL", *self.dice.sample(keys, self.dice.randint(1, len(keys))))
        elif what == "eviction":
            self.redis.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
            self.redis.cli("CONFIG", "SET", "maxmemory", "1")
            time.sleep(self.lease * self.dice.random())
            self.redis.cli("CONFIG", "SET", "maxmemory", "0")
        elif what == "copy":
            self.redis.copy()
            time.sleep(self.lease * self.dice.random())
            self.redis.kill()
            self.redis.give_back_copy()
            self.redis.start()
        elif what == "forward":
            self.redis.set_clock(self.dice.choice([3600, 86400, 10]))
        elif what == "forward a bit":
            self.bursts += 1  # too little to be seen where sessions last 10 s
            self.redis.set_clock(self.lease * self.dice.choice([0.1, 0.2, 0.4]))
        elif what == "back":
            self.redis.set_clock(-self.dice.choice([3600, self.lease]))
        elif what == "kill":
            self.workers.kill_one(self.dice.randrange(self.round.options.processes))

    def go_on_until(self, end):
        order = []
        while order or not self.worst or time.monotonic() < end:
            order = order or self.dice.sample(self.kinds, len(self.kinds))
            what = order.pop()
            self.make(what)
            self.round.expect_service(what, self.worst)
            time.sleep(self.lease * self.dice.random())

    def told(self):
        return told_of(self.worst)


def told_of(worst):
    return "all served again, in seconds at most: " + ", ".join(f"{what} {s:.1f}" for what, s in worst.items())


def unserved(log, workers, options, since, seconds=60):
    """The tasks of the workers that run which were not let in after `since`; waits for them."""
    give_up = time.monotonic() + seconds
    left = {(w.pid, "S", task) for w in workers.running for task in range(options.tasks)}
    left |= {(w.pid, "G", task) for w in workers.running for task in range(4)}
    tail = Tail(log)
    while left and time.monotonic() < give_up:
        time.sleep(0.3)
        for line in tail.lines():  # what has come since: the proxy, a thread of this program, needs its share
            what, pid, task, at, *rest = line.split()
            if int(rest[0] if what == "G" else at) > since:
                left.discard((int(pid), what, int(task)))
    return len(left)


def wait_for_grants(log, wanted, patience=60):
    """Whether so many come, with no minute in which none does."""
    grants, give_up = 0, time.monotonic() + patience
    with log.open() as lines:  # each is written in one piece
        while grants < wanted and time.monotonic() < give_up:
            if more := sum(line[0] in "SG" for line in lines):
                grants, give_up = grants + more, time.monotonic() + patience
            time.sleep(0.1)
    return grants >= wanted


class Lateness(threading.Thread):
    """How late this machine wakes who sleeps, at worst: so much nobody can be blamed for."""

    def __init__(self):
        super().__init__(daemon=True)
        self.worst = 0
        self.is_over = False
        self.start()

    def run(self):
        while not self.is_over:
            before = time.monotonic_ns()
            time.sleep(0.01)
            self.worst = max(self.worst, time.monotonic_ns() - before - 10_000_000)

    def slow(self):
        """Nanoseconds that a machine like this may take for what takes others none."""
        return 10 * self.worst + 500_000_000


class Answers(threading.Thread):
    """When Redis was late: what a limit then decides without it, it may."""

    LATE = 60_000_000  # as for the loops of the workers

    def __init__(self, path, log):
        super().__init__(daemon=True)
        self.path, self.tail = path, Tail(log)
        self.late = []  # (from, to) in which Redis or a worker was late
        self.is_over = False
        self.last = time.monotonic_ns()
        self.start()

    def run(self):
        while not self.is_over:
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(self.path)
                    self.ask_on(connection)
            except OSError:
                time.sleep(0.01)

    def ask_on(self, connection):
        while not self.is_over:
            connection.sendall(b"PING\r\n")
            if not connection.recv(64):
                raise ConnectionError
            now = time.monotonic_ns()
            if now - self.last > self.LATE:
                self.late.append((self.last, now))
            self.last = now
            time.sleep(0.01)

    def quiet(self, start, end):
        """What is left of a time without those in which Redis or a worker was late, and the 2 s behind each, in which a
        limit may still do without Redis."""
        self.late += judge.Log("\n".join(line for line in self.tail.lines() if line[0] == "L"), {}, {}, 0).late
        return judge.quiet(start, end, [*self.late, (self.last + self.LATE, end)], 2_000_000_000)

    def wait_for_quiet(self, start, patience=60):
        """Until 2 s can be judged, of which a worker that is late just now may take some; or for so long, where the
        machine is always late."""
        give_up = time.monotonic() + patience
        while length_of(self.quiet(start, time.monotonic_ns())) < 2 and time.monotonic() < give_up:
            time.sleep(0.1)


def length_of(parts):
    """Of all together, in seconds."""
    return sum(until - since for since, until in parts) / 1e9


class Round:
    def __init__(self, name, options):
        self.name, self.options = name, options
        self.good = True
        self.workers = None

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="canigo-chaos-"))
        self.log = self.folder / "log"
        self.log.touch()
        self.dice = random.Random(f"{self.options.seed} {self.name}")
        self.redis = Redis(self.folder, pathlib.Path(self.options.worker).resolve().parent / "libredis_clock.so")
        self.redis.start()
        return self

    def __exit__(self, *_):
        # A worker that outlives its round keeps the test's output open, and the test seems to hang.
        if self.workers:
            self.workers.kill_all()
        self.redis.process.kill()
        self.redis.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, proxied=False, url=None, **settings):
        url = url or "unix:" + self.redis.path
        if proxied:
            self.proxy = Proxy(str(self.folder / "proxy.sock"), self.redis.path, self.options.seed)
            self.proxy.start()
            self.proxy.ready.wait()
            url = "unix:" + self.proxy.path
        self.settings = settings
        self.workers = Workers(self.options, url, self.log, self.dice, **settings)

    def expect_service(self, what, worst):
        """Every worker gets a permit and tokens, within a lease and --service seconds from now."""
        since, lateness, tail = time.monotonic_ns(), Lateness(), Tail.from_now(self.log)
        left = {(w.pid, kind) for w in self.workers.running for kind in "SG"}
        members = {w.pid for w in self.workers.running}
        bound = self.options.lease / 1000 + self.options.service
        took = 0
        while left and time.monotonic_ns() < since + 60_000_000_000:
            time.sleep(0.01)
            for key, at in judge.first_service(tail.lines(), members, since).items():
                if key in left:
                    left.discard(key)
                    took = max(took, (at - since) / 1e9)
        worst[what] = max(worst.get(what, 0), took)
        lateness.is_over = True
        self.expect(not left and took <= bound + lateness.slow() / 1e9, f"after {what}: {len(left)} of the workers' "
                    f"limits are not served, or after {took:.1f} s only")

    def expect(self, ok, what):
        if not ok:
            self.good = False
            print(f"{self.name}: {what}", flush=True)

    def is_over_cap_by_now(self):
        now = {w.pid: time.monotonic_ns() for w in self.workers.running}
        log = judge.Log("\n".join(Tail(self.log).lines()), now, self.workers.stops, self.options.lease * 1_000_000)
        return log.over_the_cap(self.settings["permits"])[0] > 0

    def judge(self):
        self.expect(self.workers.finish(), "a worker hung, or failed")
        log = judge.Log(self.log.read_text(), self.workers.ends, self.workers.stops, self.options.lease * 1_000_000)
        permits = self.settings["permits"]
        self.over_cap, most = log.over_the_cap(permits)
        said = f"{log.grants()} permits, {self.over_cap} over the cap of {permits} (most at once {most})"
        self.over_quota = 0
        if rate := self.settings.get("rate", 0):
            self.over_quota, excess = log.over_the_quota(rate, self.settings["burst"])
            said += f"; {len(log.tokens)} times tokens, {self.over_quota} over the quota"
            said += f" (by {excess:.0f})" if self.over_quota else ""
        self.over_units = 0
        if units := self.settings.get("units", 0):
            self.over_units, excess = log.over_the_units(units, self.settings["units_burst"])
            said += f"; {len(log.units)} times units, {self.over_units} over their rate"
            said += f" (by {excess:.0f})" if self.over_units else ""
        print(f"{self.name}: {said}", flush=True)
        return log


def d1(options):
    with Round("D1", argparse.Namespace(**{**vars(options), "processes": 3})) as r:
        r.start(permits=15, lease_ms=1000, tasks=[14, 13, 13], hold_us=2_000_000, once=1)
        for worker in r.workers.running:
            worker.wait(120)
        log = r.judge()
        r.expect(len(log.through) == log.grants() == 40, f"{log.grants()} of 40 tasks were let in")
        r.expect(r.over_cap == 0, "too many were inside")
        return r


def steady(options, seconds):
    with Round("steady (D12)", options) as r:
        r.start(permits=options.permits, lease_ms=options.lease, tasks=options.tasks, hold_us=options.hold,
                rate=options.rate, burst=options.burst)
        time.sleep(seconds)
        r.expect(wait_for_grants(r.log, options.grants), "nobody was granted anything for a minute")
        r.judge()
        r.expect(r.over_cap == r.over_quota == 0, "too much was given")
        return r


def chaos(options, seconds):
    with Round("chaos (D4, D12)", options) as r:
        r.start(proxied=True, permits=options.permits, lease_ms=options.lease, tasks=options.tasks,
                hold_us=options.hold, weight=3, deadline_ms=100, rate=options.rate, burst=options.burst)
        end = time.monotonic() + seconds
        time.sleep(2 * options.lease / 1000)
        trouble = Trouble(r.redis, r.workers, r.proxy, options, r.dice)
        trouble.go_on_until(end)
        for worker in r.workers.running:
            worker.send_signal(signal.SIGUSR1)  # or class 0 would leave nothing to class 1
        left = unserved(r.log, r.workers, options, time.monotonic_ns())
        r.expect(left == 0, f"{left} tasks were not served any more")
        r.judge()
        print("  " + trouble.told(), flush=True)
        r.expect(r.over_cap == r.over_quota == 0, "too much was given")
        return r


def limiter(options, seconds):
    with Round("limiter", options) as r:
        r.start(proxied=True, permits=options.permits // 2, lease_ms=options.lease, tasks=options.tasks,
                hold_us=options.hold, weight=3, deadline_ms=100, rate=options.rate, burst=options.burst,
                units=options.rate * 3 // 2, units_burst=options.burst)
        end = time.monotonic() + seconds
        time.sleep(2 * options.lease / 1000)
        trouble = Trouble(r.redis, r.workers, r.proxy, options, r.dice)
        trouble.go_on_until(end)
        for worker in r.workers.running:
            worker.send_signal(signal.SIGUSR1)
        left = unserved(r.log, r.workers, options, time.monotonic_ns())
        r.expect(left == 0, f"{left} tasks were not served any more")
        r.judge()
        print("  " + trouble.told(), flush=True)
        r.expect(r.over_cap == r.over_quota == r.over_units == 0, "too much was given")
        return r


def outages(options):
    second = 1_000_000_000
    modes = {"closed": 1, "open": 0, "local": 2}
    with Round("outages", argparse.Namespace(**{**vars(options), "processes": 2 * len(modes)})) as r:
        busy = [which % 2 == 0 for which in range(2 * len(modes))]
        r.start(permits=options.permits, lease_ms=options.lease, hold_us=options.hold, rate=options.rate // 5,
                burst=options.burst, give_up_ms=options.give_up, pace_us=2000,
                tasks=[options.tasks if b else 0 for b in busy], quota_tasks=[4 if b else 0 for b in busy],
                group=[which // 2 for which in range(2 * len(modes))],
                closed=[mode for mode in modes.values() for _ in range(2)])
        members = {w.pid: f"{name}, {'busy' if b else 'idle'}" for w, name, b in
                   zip(r.workers.running, [name for name in modes for _ in range(2)], busy)}
        idle = [w for w, b in zip(r.workers.running, busy) if not b]
        calm = []  # (from, to): the quota counts
        worst, lateness, tail, answers = {}, Lateness(), Tail(r.log), Answers(r.redis.path, r.log)

        def all_served(since, patience):
            """When each was served, as far as it was."""
            end, seen = time.monotonic() + patience, {}
            while len(seen) < 2 * len(members) and time.monotonic() < end:
                for w in idle:
                    w.send_signal(signal.SIGUSR2)
                time.sleep(0.1)
                for key, at in judge.first_service(tail.lines(), members, since).items():
                    seen.setdefault(key, at)
            return seen

        ready = set()
        while len(ready) < len(members):
            time.sleep(0.05)
            ready |= {line.split()[1] for line in Tail(r.log).lines() if line[0] == "R"}
        r.expect(len(all_served(0, 60)) == 2 * len(members), "not all were served before the first outage")
        for number, length in enumerate(float(s) for s in options.outages.split(",")):
            is_killed = number % 2 == 0
            time.sleep(1)
            if calm:
                calm[-1] = calm[-1][0], time.monotonic_ns()
            if is_killed:
                r.redis.kill()
            else:
                r.redis.process.send_signal(signal.SIGSTOP)
            time.sleep(min(0.5, length / 2))
            asked, meanwhile = time.monotonic_ns(), Tail.from_now(r.log)
            for w in idle:
                w.send_signal(signal.SIGUSR2)
            time.sleep(length - min(0.5, length / 2))
            if length >= 2:
                served = judge.first_service(meanwhile.lines(), set(members), asked)
                for w in idle[1:]:
                    r.expect((w.pid, "G") in served, f"{members[w.pid]}: no token before the deadline in an outage of "
                             f"{length:g} s ({'killed' if is_killed else 'stopped'})")
            lateness.worst = 0
            if is_killed:
                r.redis.start()
            else:
                r.redis.process.send_signal(signal.SIGCONT)
            back = time.monotonic_ns()
            allowed = 2 * second + (options.lease * 1_000_000 if is_killed else 0)
            seen = all_served(back, 20)
            slow = lateness.slow()
            for pid, name in members.items():
                for what, thing in (("S", "permit"), ("G", "token")):
                    took = seen.get((pid, what), back + 20 * second) - back
                    worst[name] = max(worst.get(name, 0), took)
                    r.expect(took <= allowed + slow, f"{name}: no {thing} for {took / second:.1f} s after an outage of "
                             f"{length:g} s ({'killed' if is_killed else 'stopped'})")
            calm.append((back + allowed + slow, 0))
            time.sleep(max(0, (calm[-1][0] - time.monotonic_ns()) / second))
            answers.wait_for_quiet(calm[-1][0])
        calm[-1] = calm[-1][0], time.monotonic_ns()
        pids = list(members)
        r.expect(r.workers.finish(), "a worker hung, or failed")
        log = judge.Log(r.log.read_text(), r.workers.ends, r.workers.stops, options.lease * 1_000_000)
        judged = [answers.quiet(start, end) for start, end in calm]
        answers.is_over = True
        least = min(length_of(parts) for parts in judged)
        r.expect(least >= 1, f"the quota could be judged for {least:.1f} s only after one of the outages, because this "
                 "machine was late")
        calm = [part for parts in judged for part in parts]
        r.over_cap = r.over_quota = 0
        for group in range(len(modes)):
            part = log.of(pids[2 * group:2 * group + 2])
            r.over_cap += part.over_the_cap(options.permits)[0]
            times = [(0, time.monotonic_ns())] if group == 0 else calm
            r.over_quota += sum(part.between(*t).over_the_quota(options.rate // 5, options.burst)[0] for t in times)
        print(f"outages: {log.grants()} permits, {r.over_cap} over the cap; {len(log.tokens)} times tokens, "
              f"{r.over_quota} over the quota; {length_of(calm):.1f} s of it judged; "
              "served again after " +
              ", ".join(f"{took / second:.1f} s ({name})" for name, took in worst.items()), flush=True)
        r.expect(r.over_cap == r.over_quota == 0, "too much was given")
        return r


def losses(options, seconds):
    with Round("losses", options) as r:
        r.start(permits=options.permits, lease_ms=options.lease, tasks=options.tasks, hold_us=options.hold,
                weight=3, rate=options.rate, burst=options.burst)
        worst = {}
        r.expect_service("start", worst)
        trouble = Losses(r)
        trouble.go_on_until(time.monotonic() + seconds)
        r.settings["burst"] *= 1 + trouble.bursts
        r.judge()
        print("  " + trouble.told(), flush=True)
        r.expect(r.over_cap == r.over_quota == 0, "too much was given")
        return r


def failover(options, seconds):
    with Round("failover", options) as r:
        servers = sentinels.Sentinels(r.folder)
        try:
            r.start(url=servers.url(), permits=options.permits, lease_ms=options.lease, tasks=options.tasks,
                    hold_us=options.hold, weight=3, rate=options.rate, burst=options.burst)
            worst, end = {}, time.monotonic() + seconds
            r.expect_service("start", worst)
            while "failover" not in worst or time.monotonic() < end:
                dead = servers.kill_master()
                r.expect_service("failover", worst)
                if not r.good:
                    print("  " + servers.told(), flush=True)
                    break
                servers.bring_back(dead)
            r.judge()
        finally:
            servers.close()
        print("  " + told_of(worst), flush=True)
        r.expect(r.over_cap == r.over_quota == 0, "too much was given")
        return r


def control(options, seconds):
    with Round("control", options) as r:
        # What is held across the loss of the data must be long enough to be seen twice.
        r.start(permits=options.permits, lease_ms=options.lease, tasks=options.tasks, hold_us=options.lease * 1000,
                quarantine=0, rate=options.rate, burst=options.burst, closed=0)
        end = time.monotonic() + seconds
        time.sleep(options.lease / 1000)
        # On a busy machine few are let in between two losses.
        while time.monotonic() < end or (not r.is_over_cap_by_now() and time.monotonic() < end + 60):
            r.redis.cli("FLUSHALL")
            time.sleep(options.lease / 2000)
        r.redis.kill()
        time.sleep(3)  # a call that waits for a connection ends after two
        r.redis.start()
        r.judge()
        r.expect(r.over_cap > 0, "the judge is blind: no violation of the cap without the quarantine")
        r.expect(r.over_quota > 0, "the judge is blind: no violation of the quota that is open without Redis")
        return r


def control_of_limiter(options, seconds):
    with Round("control of the limiter", options) as r:
        r.start(permits=2, lease_ms=options.lease, tasks=options.tasks, hold_us=80 * options.hold, weight=3, rate=60,
                burst=5, units=100, units_burst=5, group=list(range(options.processes)))
        time.sleep(seconds)
        r.judge()
        r.expect(r.over_cap > 0, "the judge is blind: no violation of the cap by limiters that share nothing")
        r.expect(r.over_quota > 0 and r.over_units > 0, "the judge is blind: no violation of a rate by them")
        return r


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker")
    parser.add_argument("--seconds", type=float, default=40, help="of all rounds but D1 and control, together")
    parser.add_argument("--grants", type=int, default=1, help="in the steady round, at least")
    parser.add_argument("--lease", type=int, default=400, help="milliseconds")
    parser.add_argument("--hold", type=int, default=500, help="microseconds that a permit is held for, at most")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--permits", type=int, default=15)
    parser.add_argument("--tasks", type=int, default=8, help="of each process, that contend for permits")
    parser.add_argument("--rate", type=int, default=500, help="tokens of the quota in a second")
    parser.add_argument("--service", type=float, default=2, help="seconds in which all are served after a fault")
    parser.add_argument("--burst", type=int, default=20)
    parser.add_argument("--outages", default="6,3", help="seconds, of each")
    parser.add_argument("--give-up", type=int, default=2000, help="milliseconds, in the outages")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    judge.selftest()
    ended_threads = []

    def note_end(what):
        ended_threads.append(what)
        threading.__excepthook__(what)

    threading.excepthook = note_end  # what such a thread was to see, nobody sees any more
    part = options.seconds / 5
    rounds = [d1(options), steady(options, part), chaos(options, part), limiter(options, part),
              losses(options, part), failover(options, part), outages(options), control(options, 2),
              control_of_limiter(options, 2)]
    good = all(r.good for r in rounds) and not ended_threads
    print("passed" if good else "FAILED", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    status = 1
    try:
        status = main()
    except Exception:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the proxy's thread is in the middle of something
