#!/usr/bin/env python3
"""Processes share the jobs of a file while they are killed and stopped at random: is a job lost, or done twice?

chaos.py WORKER [--seconds N] [--processes N] [--jobs N] [--seed N] [--keep FOLDER]

Each process hands in --jobs jobs and runs those of all. For so many seconds one after the other is killed (kill -9) and
started again, or stopped for longer than its lease. Then all is calm, and every job has to end. The judge reads the
lines that the workers wrote, and the file:

  - each job that was acknowledged is there, is done, and was begun;
  - no result was accepted twice, and each that was accepted is that of the last token;
  - the file is sound.

In a second run the token of a result is not looked at. That run has to show results of holders that had lost their
job, or the judge is blind.
"""

import argparse
import collections
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

DONE = 2  # job_state::done


class Workers:
    def __init__(self, options, folder, has_fencing):
        self.options, self.folder, self.has_fencing = options, folder, has_fencing
        self.file = folder / "jobs.db"
        self.processes, self.starts, self.kills, self.stops = {}, 0, 0, 0

    def start(self, index):
        self.starts += 1
        command = [self.options.worker, str(self.file), str(self.options.jobs), str(index * self.options.jobs)]
        if not self.has_fencing:
            command.append("--no-fencing")
        with open(self.folder / f"worker-{self.starts}.log", "wb") as log:
            self.processes[index] = subprocess.Popen(command, stdout=log)

    def disturb(self, chance):
        index = chance.choice(sorted(self.processes))
        process = self.processes[index]
        if process.poll() is not None:
            self.start(index)
            return
        if self.has_fencing and chance.random() < 0.6:
            process.kill()
            process.wait()
            self.kills += 1
            self.start(index)
        else:
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            process.send_signal(signal.SIGCONT)
            self.stops += 1

    def end(self):
        """Lets all jobs end. A worker that ends by itself says that there are none."""
        for index in sorted(self.processes):
            if self.processes[index].poll() is not None:
                self.start(index)
        return [p.wait(timeout=300) for p in self.processes.values()]

    def kill(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def lines(self):
        for log in sorted(self.folder.glob("worker-*.log")):
            for line in log.read_text().splitlines():
                yield line.split()


def judge(workers):
    """What is wrong, and how often."""
    told = collections.defaultdict(list)
    for what, first, second in workers.lines():
        told[what].append((int(first), int(second)))
    with sqlite3.connect(workers.file) as db:
        sound = db.execute("PRAGMA integrity_check").fetchone()[0]
        rows = db.execute("SELECT id, state, token, CAST(result AS TEXT) FROM canigo_job").fetchall()
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
    wrong["put twice"] = sum(len(jobs) > 1 for jobs in ids.values())
    wrong["by a stale holder"] = sum(rows[j][1] != token for j, token in told["accepted"] if j in rows)
    wrong["result of another"] = sum(row[0] == DONE and str(row[1]) != row[2] for row in rows.values())
    wrong["file: " + sound] = int(sound != "ok")
    counts = f"{len(acknowledged)} jobs, {len(told['begun'])} runs, {workers.kills} kills, {workers.stops} stops"
    return {what: n for what, n in wrong.items() if n}, counts, len(acknowledged)


def run(options, name):
    has_fencing = name == "chaos"
    keep = options.keep or tempfile.TemporaryDirectory(prefix="canigo-jobs-")
    folder = pathlib.Path(getattr(keep, "name", keep)) / name
    folder.mkdir(parents=True)
    chance = random.Random(options.seed)
    workers = Workers(options, folder, has_fencing)
    try:
        for index in range(options.processes):
            workers.start(index)
        end = time.monotonic() + options.seconds
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
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--jobs", type=int, help="of each process; by default 20 for each second")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--keep")
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
