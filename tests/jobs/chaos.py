#!/usr/bin/env python3
"""Processes share the jobs of a store while they are killed and stopped at random: is a job lost, or done twice?

chaos.py WORKER [--store sqlite|postgres] [--seconds N] [--processes N] [--jobs N] [--seed N] [--keep FOLDER]
         [--longest-stall S] [--back-within S] [--isolation LEVEL] [--programs FOLDER]

Each process hands in --jobs jobs and runs those of all. For so many seconds one after the other is killed (kill -9) and
started again, or stopped for longer than its lease. A server of PostgreSQL is restarted, too, or killed, or stands
still for 3 to --longest-stall seconds. Its transactions have the isolation LEVEL unless they say otherwise. FOLDER has
its programs, and may have a command before it, as in "ROOT/enter --userspec=101 /usr/lib/postgresql/17/bin". Then all
is calm, and every job has to end. The judge reads the lines that the workers wrote, and the store:

  - each job that was acknowledged is there, is done, and was begun, also those that wait
    for a batch;
  - no result was accepted twice, and each that was accepted is that of the last token;
  - no job was begun again whose result was accepted;
  - a file of SQLite is sound;
  - with --back-within, each process began a job so many seconds after the server was back, or sooner.

In a second run the token of a result is not looked at. That run has to show results of holders that had lost their
job, or the judge is blind.
"""

import argparse
import collections
import os
import pathlib
import pwd
import random
import signal
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

DONE = 2  # job_state::done
OUTAGES = "restarts", "crashes", "kills", "stalls"  # of a server


def children_of(parent):
    """The processes that this one has started, by number."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == parent:
            yield int(stat.parent.name)


class File:
    """Jobs in a file of SQLite."""

    outages = {}

    def __init__(self, folder):
        self.place = str(folder / "jobs.db")

    def end(self):
        pass

    def rows(self):
        """What is wrong with the store, and its jobs."""
        with sqlite3.connect(self.place) as db:
            sound = db.execute("PRAGMA integrity_check").fetchone()[0]
            return sound, db.execute("SELECT id, state, token, CAST(result AS TEXT) FROM canigo_job").fetchall()


class Server:
    """Jobs in PostgreSQL: a server of our own, which must not run as root."""

    def __init__(self, folder, programs="", isolation="read committed"):
        self.programs, self.isolation = programs.split(), isolation
        self.folder, self.outages = tempfile.mkdtemp(prefix="canigo-pg-"), collections.Counter()
        self.place = f"postgresql://tester@/postgres?host={self.folder}"
        self.user = None
        if os.geteuid() == 0:
            self.user = pwd.getpwnam("postgres")
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self.log = open(folder / "server.log", "ab")
        self.call("initdb", "-D", self.folder + "/data", "-U", "tester", "--auth=trust", "--no-sync").wait()
        self.start()

    def call(self, name, *arguments, **more):
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        command = [found[-1] if found else name]
        if self.programs:
            command = [*self.programs[:-1], f"{self.programs[-1]}/{name}"]
        # A command before it changes the user itself.
        if self.user is not None and len(command) == 1:
            more.update(user=self.user.pw_uid, group=self.user.pw_gid, extra_groups=[])
        return subprocess.Popen([*command, *arguments], cwd=self.folder, stderr=self.log,
                                stdout=more.pop("stdout", self.log), **more)

    def start(self):
        self.server = self.call("postgres", "-D", self.folder + "/data", "-k", self.folder, "-h", "", "-c",
                                f"default_transaction_isolation={self.isolation}")
        while self.call("pg_isready", "-q", "-d", self.place).wait() != 0:
            if self.server.poll() is not None:
                raise RuntimeError(f"PostgreSQL ended with {self.server.returncode}")
            time.sleep(0.05)

    def fail(self, how, chance, longest_stall):
        """Goes away and comes back: a restart, a crash, kill -9, or a time in which it stands still."""
        self.outages[how] += 1
        if how == "stalls":
            stopped = [self.server.pid]
            os.kill(self.server.pid, signal.SIGSTOP)  # from here on it starts no other one
            for child in children_of(self.server.pid):
                os.kill(child, signal.SIGSTOP)
                stopped.append(child)
            time.sleep(chance.uniform(3, max(3, longest_stall)))
            for process in reversed(stopped):
                os.kill(process, signal.SIGCONT)
            return
        left = list(children_of(self.server.pid))
        self.server.send_signal({"restarts": signal.SIGINT, "crashes": signal.SIGQUIT, "kills": signal.SIGKILL}[how])
        self.server.wait()
        # Those whose parent was killed notice it, and the next server refuses to start before.
        while any(pathlib.Path(f"/proc/{child}").exists() for child in left):
            time.sleep(0.01)
        time.sleep(chance.choice([chance.uniform(0, 0.3), chance.uniform(0, longest_stall)]))
        self.start()

    def end(self):
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGQUIT)
            self.server.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def rows(self):
        psql = self.call("psql", "-X", "-A", "-t", "-d", self.place, "-c",
                         "SELECT id, state, token, convert_from(result, 'UTF8') FROM canigo_job",
                         stdout=subprocess.PIPE, text=True)
        lines = [line.split("|") for line in psql.communicate()[0].splitlines()]
        return "ok", [(int(line[0]), int(line[1]), int(line[2]), line[3]) for line in lines]


class Workers:
    def __init__(self, options, folder, has_fencing):
        self.options, self.folder, self.has_fencing = options, folder, has_fencing
        self.store = File(folder)
        if options.store == "postgres":
            self.store = Server(folder, options.programs, options.isolation)
        self.processes, self.logs, self.starts, self.kills, self.stops = {}, {}, 0, 0, 0
        self.slowest, self.put = 0, collections.Counter()

    def start(self, index):
        self.starts += 1
        # It goes on with the last few jobs that the one before it handed in: they must be known.
        self.put[index] += self.logs[index].read_bytes().count(b"put ") if index in self.logs else 0
        done = max(0, min(self.put[index], self.options.jobs) - 5)
        self.put[index] = done
        command = [self.options.worker, self.store.place, str(self.options.jobs - done),
                   str(index * self.options.jobs + done), "--batches"]
        if not self.has_fencing:
            command.append("--no-fencing")
        self.logs[index] = self.folder / f"worker-{self.starts}.log"
        with open(self.logs[index], "wb") as log:
            self.processes[index] = subprocess.Popen(command, stdout=log)

    def disturb(self, chance):
        index = chance.choice(sorted(self.processes))
        process = self.processes[index]
        if process.poll() is not None:
            self.start(index)
            return
        if self.has_fencing and self.options.store == "postgres" and chance.random() < 0.1:
            self.break_server(chance.choice(OUTAGES), chance)
        elif self.has_fencing and chance.random() < 0.6:
            process.kill()
            process.wait()
            self.kills += 1
            self.start(index)
        else:
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            process.send_signal(signal.SIGCONT)
            self.stops += 1

    def break_server(self, how, chance):
        """Notes how long it took after the server's return until each process had begun a job."""
        self.store.fail(how, chance, self.options.longest_stall)
        back = time.monotonic()
        before = {index: self.begun(index) for index in self.processes}
        while time.monotonic() < back + 60:
            waiting = [i for i, p in self.processes.items() if p.poll() is None and self.begun(i) == before[i]]
            if not waiting:
                break
            time.sleep(0.02)
        self.slowest = max(self.slowest, time.monotonic() - back)

    def begun(self, index):
        return self.logs[index].read_bytes().count(b"begun ")

    def end(self):
        """Lets all jobs end. A worker that ends by itself says that there are none."""
        for index in sorted(self.processes):
            if self.processes[index].poll() is not None:
                self.start(index)
        # A busy machine may have fallen far behind.
        limit = 300 + 3 * self.options.seconds
        return [p.wait(timeout=limit) for p in self.processes.values()]

    def kill(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        self.store.end()

    def lines(self):
        for log in sorted(self.folder.glob("worker-*.log")):
            for line in log.read_text().splitlines():
                yield line.split()


def judge(workers):
    """What is wrong, and how often."""
    told = collections.defaultdict(list)
    for what, first, second in workers.lines():
        told[what].append((int(first), int(second)))
    sound, rows = workers.store.rows()
    rows = {row[0]: row[1:] for row in rows}
    begun = {job for job, _ in told["begun"]}
    accepted = collections.Counter(job for job, _ in told["accepted"])
    acknowledged = {job for _, job in told["put"]}
    ids = collections.defaultdict(set)
    for key, job in told["put"]:
        ids[key].add(job)
    wrong = collections.Counter()
    wrong["lost"] = sum(job not in rows for job in acknowledged)
    wrong["not done"] = sum(row[0] != DONE for row in rows.values())
    wrong["never begun"] = sum(job not in begun for job in acknowledged)
    wrong["accepted twice"] = sum(n > 1 for n in accepted.values())
    last = dict(told["accepted"])
    wrong["begun after its end"] = sum(token > last.get(job, token) for job, token in told["begun"])
    wrong["put twice"] = sum(len(jobs) > 1 for jobs in ids.values())
    wrong["by a stale holder"] = sum(rows[j][1] != token for j, token in told["accepted"] if j in rows)
    wrong["result of another"] = sum(row[0] == DONE and str(row[1]) != row[2] for row in rows.values())
    wrong["file: " + sound] = int(sound != "ok")
    counts = f"{len(acknowledged)} jobs, {len(told['begun'])} runs, {workers.kills} kills, {workers.stops} stops"
    if workers.store.outages:
        counts += ", of the server " + ", ".join(f"{n} {how}" for how, n in sorted(workers.store.outages.items()))
        counts += f", and all were back {workers.slowest:.1f} s after it"
    limit = workers.options.back_within
    wrong[f"back later than {limit} s after the server"] = int(limit is not None and workers.slowest > limit)
    return {what: n for what, n in wrong.items() if n}, counts, len(acknowledged)


def run(options, name):
    has_fencing = name == "chaos"
    if not has_fencing:  # it shows soon what it has to show
        options = argparse.Namespace(**{**vars(options), "seconds": min(options.seconds, 30),
                                        "jobs": min(options.jobs, 600)})
    keep = options.keep or tempfile.TemporaryDirectory(prefix="canigo-jobs-")
    folder = pathlib.Path(getattr(keep, "name", keep)) / name
    folder.mkdir(parents=True)
    chance = random.Random(options.seed)
    workers = Workers(options, folder, has_fencing)
    try:
        for index in range(options.processes):
            workers.start(index)
        end = time.monotonic() + options.seconds
        # Also in a short time.
        for how in OUTAGES if has_fencing and options.store == "postgres" else ():
            for _ in range(2):
                time.sleep(chance.uniform(0.02, 0.2))
                workers.disturb(chance)
            workers.break_server(how, chance)
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.02, 0.2))
            workers.disturb(chance)
        statuses = workers.end()
        if any(statuses):
            return {f"workers ended with {statuses}": 1}, "no end"
        wrong, counts, jobs = judge(workers)
        if jobs != options.jobs * options.processes:
            wrong["jobs that were not handed in"] = options.jobs * options.processes - jobs
        return wrong, counts
    finally:
        workers.kill()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("worker")
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--jobs", type=int, help="of each process; by default 20 for each second")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--keep")
    parser.add_argument("--longest-stall", type=float, default=3)
    parser.add_argument("--back-within", type=float)
    parser.add_argument("--isolation", default="read committed")
    parser.add_argument("--programs", default="")
    options = parser.parse_args()
    options.jobs = options.jobs or int(20 * options.seconds)
    print(f"seed {options.seed}")

    wrong, counts = run(options, "chaos")
    print(f"chaos: {counts}; {wrong or 'nothing is wrong'}")
    is_blind = True
    # A machine that stands still for long may show nothing once.
    for name in ("control", "control again"):
        seen, counts = run(options, name)
        print(f"{name}: {counts}; {seen or 'nothing is wrong'}")
        is_blind = "by a stale holder" not in seen
        if not is_blind:
            break
    else:
        print("the control shows no result of a stale holder: the judge is blind, or it was too short")
    print("FAILED" if wrong or is_blind else "passed")
    return int(bool(wrong) or is_blind)


if __name__ == "__main__":
    sys.exit(main())
