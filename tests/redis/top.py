#!/usr/bin/env python3
"""Runs canigo-redis-top as its users do: top.py CANIGO_REDIS_TOP REDIS_WORKER.

Against a redis-server of its own, with the limits of a worker that holds, waits and takes tokens, with one that is
written here as the script would, and against what is no server. Ends with the totals that Catch2 prints.
"""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, WORKER = sys.argv[1], sys.argv[2]
PATIENCE = 60  # seconds in which anything happens that happens at all


def top(*arguments):
    return subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          check=False)


def once(*arguments):
    return top(*arguments, "--rounds", "1")


class Redis:
    def __init__(self, *more):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="canigo-"))
        self.path = str(self.folder / "redis.sock")
        self.url = "unix:" + self.path
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "",
                                         "--dir", str(self.folder), *more], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                self.ask("PING")
                return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError("redis-server does not answer")

    def ask(self, *words):
        """The first bytes of the answer: enough of those that are asked for here."""
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.path)
            s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            return s.recv(65536)

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)


class Top(unittest.TestCase):
    def setUp(self):
        self.redis = Redis()
        self.addCleanup(self.redis.close)

    def run_worker(self, **settings):
        worker = subprocess.Popen([WORKER, self.redis.url, os.devnull, *(f"{k}={v}" for k, v in settings.items())])
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        return worker

    def shows(self, *patterns):
        """What is shown in the end; each line of it is as one of the patterns says, in this order."""
        end = time.monotonic() + PATIENCE
        while True:
            ran = once(self.redis.url)
            lines = ran.stdout.splitlines()
            if len(lines) == len(patterns) and all(map(re.fullmatch, patterns, lines)):
                break
            self.assertLess(time.monotonic(), end, ran.stdout + ran.stderr)
            time.sleep(0.05)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return lines

    def test_who_holds_and_who_waits(self):
        worker = self.run_worker(permits=2, tasks=5, for_ever=1, lease_ms=60000, quarantine=0)
        lines = self.shows("semaphore chaos0, space default", "  2 of 2 permits held",
                           r"  3 waiting, last token [0-9]{13,}, last call [0-9.]+ s ago",
                           rf"  session \S+:{worker.pid}:\S+ +holds +2  lease ends in [0-9.]+ s")
        lease = float(lines[3].split()[-2])
        self.assertGreater(lease, 0)
        self.assertLess(lease, 62)  # and what it is longer by, so that not every call writes it

    def test_a_foreign_key(self):
        self.redis.ask("SET", "{canigo:a:b}:s:state", "foreign")
        self.run_worker(permits=2, tasks=1, for_ever=1, lease_ms=60000, quarantine=0)
        self.shows("semaphore b, space a", "  has a key of another type", "semaphore chaos0, space default",
                   "  1 of 2 permits held", "  0 waiting, .*", r"  .*holds +1 .*")

    def test_two_processes(self):
        first = self.run_worker(permits=3, tasks=1, for_ever=1, lease_ms=60000, quarantine=0)
        limit = "semaphore chaos0, space default"
        self.shows(limit, "  1 of 3 permits held", "  0 waiting, .*", rf"  session \S+:{first.pid}:\S+ +holds +1 .*")
        second = self.run_worker(permits=3, tasks=3, for_ever=1, lease_ms=60000, quarantine=0)
        holders = rf"  session \S+:({first.pid}:\S+ +holds +1|{second.pid}:\S+ +holds +2) .*"
        lines = self.shows(limit, "  3 of 3 permits held", "  1 waiting, .*", holders, holders)
        self.assertNotEqual(lines[3], lines[4])

    def test_a_quota(self):
        worker = self.run_worker(permits=0, rate=1, burst=3, quota_tasks=4)
        self.shows("scheduler chaos0, space default", "  1/s, burst 3",
                   r"  [34] waiting, last token [0-9]+, last call [0-9.]+ s ago",
                   rf"  session \S+:{worker.pid}:\S+ +holds +0  lease ends in [0-9.]+ s")

    def test_a_quarantine(self):
        self.run_worker(permits=2, tasks=1, for_ever=1, lease_ms=60000)
        lines = self.shows("semaphore chaos0, space default", "  0 of 2 permits held", "  1 waiting, .*",
                           r"  in quarantine for [0-9.]+ s more", r"  session \S+ +holds +0 .*")
        self.assertLessEqual(float(lines[3].split()[3]), 60)

    def test_a_pause_a_name_with_spaces_and_a_session_that_has_gone(self):
        now = time.time() * 1e6
        numbers = {"last": now - 5e6, "fence": 12, "total": 1, "cap": 7, "pause": now + 40e6}
        fields = "last fence total zu zr epoch hold off lying qseq due reap keep version cap n p burst pause".split()
        self.redis.ask("HSET", "{canigo:mine:a%20b%1b}:s:state", "*",
                       struct.pack("<19d", *(numbers.get(f, 0) for f in fields)) + b"\3\3run\0", "host:1:1",
                       struct.pack("<5d", 1, 1, 0, now + 9e6, 0))
        self.redis.ask("ZADD", "{canigo:mine:a%20b%1b}:s:sess", now + 9e6, "host:1:1", now - 1e6, "gone:2:1")
        lines = self.shows(r"semaphore a b\\x1b, space mine", "  1 of 7 permits held",
                           r"  0 waiting, last token 12, last call [0-9.]+ s ago",
                           r"  paused for [34][0-9]\.[0-9] s more",
                           r"  session gone:2:1 +holds +0  lease ended [0-9.]+ s ago",
                           r"  session host:1:1 +holds +1  lease ends in [0-9.]+ s")
        # A space by itself, which is no pattern.
        self.assertEqual(once(self.redis.url, "mine").stdout.splitlines()[0], lines[0])
        for space in ("other", "min?", "*"):
            self.assertEqual(once(self.redis.url, space).stdout, "no limits\n")

    def test_a_limiter_with_several_rates(self):
        now = time.time() * 1e6
        fields = "last fence total zu zr epoch hold off lying qseq due reap keep version cap n p burst pause".split()
        numbers = {"last": now - 5e6, "fence": 12, "total": 1, "cap": 7, "n": 10, "p": 1e6, "burst": 20}
        further = struct.pack("<12d", 4711, 2, *(500, 6e7, 50, 0, 0), *(3, 1e6, 9, 0, 0))
        self.redis.ask("HSET", "{canigo:mine:api}:l:state", "*",
                       struct.pack("<19d", *(numbers.get(f, 0) for f in fields)) + b"\3\3run\1h\3" + b"1 0" + further,
                       "host:1:1", struct.pack("<5d", 1, 1, 0, now + 9e6, 0))
        self.redis.ask("ZADD", "{canigo:mine:api}:l:sess", now + 9e6, "host:1:1")
        self.shows("limiter api, space mine", "  1 of 7 permits held", "  10/s, burst 20", "  500/m, burst 50",
                   "  3/s, burst 9", "  0 waiting, .*", r"  session host:1:1 +holds +1  lease ends in [0-9.]+ s")

    def test_another_form(self):
        for text, form in ((struct.pack("<19d", *range(19)) + b"run\0\0", 1), (b"short", 1),
                           (struct.pack("<19d", *range(19)) + b"\4\3run\0", 4)):
            self.redis.ask("HSET", "{canigo:mine:later}:s:state", "*", text)
            self.shows("semaphore later, space mine",
                       rf"  is in form {form}, of another version of canigo; here is 3")

    def test_no_limits(self):
        self.redis.ask("SET", "canigo", "something else")
        self.assertEqual(once(self.redis.url).stdout, "no limits\n")

    def test_it_looks_again_and_again(self):
        self.assertEqual(top(self.redis.url, "--every", "0.01", "--rounds", "3").stdout, "no limits\n" * 3)
        shown = subprocess.Popen([PROGRAM, self.redis.url, "--every", "0.05"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(shown.stdout.close)
        self.addCleanup(shown.wait)
        self.addCleanup(shown.kill)
        self.assertEqual([shown.stdout.readline() for _ in range(3)], ["no limits\n"] * 3)
        self.run_worker(permits=2, tasks=1, for_ever=1, lease_ms=60000, quarantine=0)
        while shown.stdout.readline() != "semaphore chaos0, space default\n":
            self.assertIsNone(shown.poll())

    def test_on_a_terminal_each_look_begins_at_the_top(self):
        ours, its = os.openpty()
        self.addCleanup(os.close, ours)
        call = [PROGRAM, self.redis.url, "--every", "0.01", "--rounds", "2"]
        subprocess.run(call, stdout=its, timeout=120, check=True)
        os.close(its)
        shown = b""
        with contextlib.suppress(OSError):  # Linux ends a terminal that no process holds with EIO
            while piece := os.read(ours, 4096):  # which may be less than the terminal holds
                shown += piece
        self.assertEqual(shown.decode().replace("\r", ""), "\x1b[H\x1b[2Jno limits\n" * 2)

    def test_a_node_of_a_cluster(self):
        with socket.socket() as first, socket.socket() as second:
            ports = []
            for s in (first, second):
                s.bind(("127.0.0.1", 0))
                ports.append(str(s.getsockname()[1]))
        node = Redis("--port", ports[0], "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port", ports[1])
        self.addCleanup(node.close)
        self.assertEqual(once(node.url).stdout,
                         "one node of a cluster: the limits that others have are not here\nno limits\n")

    def test_what_is_no_server(self):
        for url, says in (("unix:/nonexistent/redis.sock", "/nonexistent/redis.sock"),
                          ("redis://127.0.0.1:1", "127.0.0.1:1"),
                          ("http://127.0.0.1", "http"),
                          ("redis://127.0.0.1:66666", "66666")):
            with self.subTest(url):
                ran = top(url)
                self.assertEqual((ran.returncode, ran.stdout), (1, ""))
                self.assertTrue(ran.stderr.startswith("canigo-redis-top: "), ran.stderr)
                self.assertIn(says, ran.stderr)

    def test_how_it_is_called(self):
        ran = top("--help")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn("Usage: canigo-redis-top URL", ran.stdout)
        for arguments, says in (([], "a URL"), (["--what"], "--what"), (["a", "b", "c"], "a URL"),
                                (["a", "--rounds"], "--rounds"), (["a", "--rounds", "0"], "from 1 to"),
                                (["a", "--every", "1s"], "--every: 1s"), (["a", "--every", "nan"], "nan")):
            with self.subTest(arguments):
                ran = top(*arguments)
                self.assertEqual((ran.returncode, ran.stdout), (2, ""))
                self.assertIn(says, ran.stderr)
                self.assertIn("Usage: canigo-redis-top URL", ran.stderr)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    if failed:
        print(f"test cases: {result.testsRun} | {result.testsRun - failed} passed | {failed} failed")
    else:
        print(f"All tests passed ({result.testsRun} assertions in {result.testsRun} test cases)")
    sys.exit(failed > 0)
