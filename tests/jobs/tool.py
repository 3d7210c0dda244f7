#!/usr/bin/env python3
"""Runs canigo-jobs as its users do: tool.py CANIGO_JOBS JOBS_WORKER [POSTGRES_WORKER].

On a file with jobs that a worker has run, and others that are put into the file here. Ends with the totals that Catch2
prints.
"""

import base64
import datetime
import json
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

import chaos

PROGRAM, WORKER, *POSTGRES_WORKER = sys.argv[1:]


class Tool(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="canigo-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.file = str(self.folder / "jobs.db")
        subprocess.run([WORKER, self.file, "3", "0"], stdout=subprocess.DEVNULL, timeout=120, check=True)

    def run_tool(self, *arguments, status=0):
        ran = subprocess.run([PROGRAM, self.file, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=120, check=False)
        self.assertEqual(ran.returncode, status, ran.stdout + ran.stderr)
        return ran.stdout if status == 0 else ran.stderr

    def objects(self, *arguments):
        return [json.loads(line) for line in self.run_tool("--json", *arguments).splitlines()]

    def states(self):
        return [job["state"] for job in self.objects("list")]

    def test_jobs_are_listed(self):
        jobs = self.objects("list")
        self.assertEqual([job["id"] for job in jobs], [1, 2, 3])
        self.assertEqual({job["state"] for job in jobs}, {"done"})
        self.assertEqual([job["priority"] for job in jobs], [0, 1, 2])
        self.assertEqual([job["id"] for job in self.objects("list", "--after", "1", "--limit", "1")], [2])
        self.assertEqual(self.objects("list", "--state", "dead"), [])
        self.assertEqual(self.objects("list", "--queue", "mail"), [])
        lines = self.run_tool("list").splitlines()
        self.assertEqual(lines[0].split(), ["id", "state", "priority", "attempt", "due", "queue", "kind"])
        self.assertEqual(lines[2].split()[:4], ["2", "done", "1", "1"])

    def test_a_job_is_shown_whole(self):
        with sqlite3.connect(self.file) as db:
            db.execute("UPDATE canigo_job SET payload=?, result=? WHERE id=2", (b'a"\\\n\xff', b"r"))
        job, = self.objects("show", "2")
        self.assertEqual(base64.b64decode(job["payload_base64"]), b'a"\\\n\xff')
        self.assertEqual((job["result"], job["history"]), ("r", []))
        self.assertNotIn("payload", job)
        self.assertEqual(job["created_at"][10] + job["created_at"][-1], "TZ")
        text = self.run_tool("show", "2")
        self.assertIn('payload      a"\\\\x0a\\xff\n', text)
        self.assertEqual(self.run_tool("show", "9", status=1), "canigo-jobs: there is no job 9\n")

    def test_what_becomes_of_jobs(self):
        self.assertEqual(self.run_tool("retry", "1", "2"), "job 1 will run again\njob 2 will run again\n")
        self.assertEqual(self.states(), ["waiting", "waiting", "done"])
        self.assertEqual(self.run_tool("retry", "1", status=1), "canigo-jobs: job 1 was left: it has not ended\n")
        self.assertEqual(self.run_tool("cancel", "1"), "job 1 is cancelled\n")
        self.assertEqual(self.run_tool("cancel", "3", status=1), "canigo-jobs: job 3 was left: it has ended\n")
        self.assertEqual(self.states(), ["cancelled", "waiting", "done"])
        self.assertEqual(self.run_tool("remove", "3"), "job 3 is forgotten\n")
        self.assertEqual(self.run_tool("remove", "3", status=1), "canigo-jobs: job 3 is unknown\n")
        subprocess.run([WORKER, self.file, "0", "0"], stdout=subprocess.DEVNULL, timeout=120, check=True)
        self.assertEqual(self.states(), ["cancelled", "done"])

    def forget_the_key_of(self, *ids):
        with sqlite3.connect(self.file) as db:
            db.executemany("UPDATE canigo_job SET unique_key=NULL WHERE id=?", [(i,) for i in ids])

    def test_jobs_are_moved_to_another_queue(self):
        self.run_tool("retry", "1", "2", "3")
        self.run_tool("cancel", "3")
        self.forget_the_key_of(1)
        with sqlite3.connect(self.file) as db:
            db.execute("UPDATE canigo_job SET payload=?, attempt=2, max_attempts=5 WHERE id=1", (b"a\x00\xff",))
        self.assertEqual(self.run_tool("move", "1", "--queue", "mail"), "job 1 is job 4 now\n")
        job, = self.objects("show", "4")
        self.assertEqual([job[f] for f in ("queue", "state", "payload_base64", "priority", "max_attempts")],
                         ["mail", "waiting", base64.b64encode(b"a\0\xff").decode(), 0, 3])
        left = self.run_tool("move", "1", "2", "3", "--queue", "mail", status=1).splitlines()
        self.assertEqual(left, ["canigo-jobs: job 1 is unknown",
                                "canigo-jobs: job 2 was left: it has a key, which is unique where it is",
                                "canigo-jobs: job 3 was left: it has ended"])
        self.assertEqual([(j["id"], j["state"]) for j in self.objects("list")],
                         [(2, "waiting"), (3, "cancelled"), (4, "waiting")])

    def test_a_batch_is_listed_and_left_together(self):
        with sqlite3.connect(self.file) as db:
            db.execute("UPDATE canigo_job SET state=0, finished_at=NULL, unique_key=NULL")
            db.execute("UPDATE canigo_job SET batch='import' WHERE id<3")
            db.execute("UPDATE canigo_job SET after_batch='import', run_at=9223372036854775807 WHERE id=3")
        self.assertEqual([job["id"] for job in self.objects("list", "--batch", "import")], [1, 2])
        self.assertEqual(self.objects("list", "--batch", "other"), [])
        last, = self.objects("show", "3")
        self.assertEqual((last["after_batch"], last["run_at"]), ("import", "after its batch"))
        left = self.run_tool("move", "1", "3", "--queue", "mail", status=1).splitlines()
        self.assertEqual(left, ["canigo-jobs: job 1 was left: it has a batch, or waits for one",
                                "canigo-jobs: job 3 was left: it has a batch, or waits for one"])
        self.run_tool("remove", "1")
        self.assertEqual(self.objects("show", "3")[0]["run_at"], "after its batch")
        self.run_tool("cancel", "2")
        self.assertEqual(self.objects("show", "3")[0]["run_at"][10], "T")

    def test_jobs_are_moved_to_another_store(self):
        self.run_tool("retry", "1", "2")
        self.forget_the_key_of(1, 2)
        with sqlite3.connect(self.file) as db:
            later = 300 * 365 * 86400 * 1000000  # more nanoseconds than a number has
            db.execute(f"UPDATE canigo_job SET run_at = run_at + {later}, deadline = run_at + 2 * {later} WHERE id=2")
        here, there = self.file, str(self.folder / "other.db")
        self.assertIn("other.db: there is no such file", self.run_tool("move", "1", "--to", there, status=1))
        self.assertEqual(self.states(), ["waiting", "waiting", "done"])
        subprocess.run([WORKER, there, "1", "0"], stdout=subprocess.DEVNULL, timeout=120, check=True)
        due = self.objects("show", "2")[0]["run_at"]
        self.assertEqual(self.run_tool("move", "1", "2", "--to", there), "job 1 is job 2 now\njob 2 is job 3 now\n")
        self.assertEqual(self.states(), ["done"])
        self.file = there
        self.assertEqual(self.states(), ["done", "waiting", "waiting"])
        moved = self.objects("show", "3")[0]
        self.assertEqual(moved["run_at"], due)
        self.assertNotIn("deadline", moved)  # no limit can be that long
        self.file = here
        with sqlite3.connect(there) as db:
            db.execute("UPDATE canigo_schema SET version=99")
        self.run_tool("retry", "3")
        self.forget_the_key_of(3)
        self.assertIn("version 99", self.run_tool("move", "3", "--to", there, status=1))
        self.assertEqual(self.states(), ["waiting"])

    def test_queues(self):
        self.run_tool("pause", "default")
        queue, = self.objects("stats")
        self.assertEqual((queue["queue"], queue["is_paused"], queue["done"], queue["dead"]), ("default", True, 3, 0))
        self.assertEqual(self.run_tool("stats").splitlines()[1].split(), ["default", *"00300", "0.0s", "paused"])
        self.assertRegex(self.run_tool("stats").splitlines()[-1], r"^(SQLite|PostgreSQL) \d+\.\d+")
        self.assertEqual(self.run_tool("resume", "default"), "queue default goes on\n")
        self.assertFalse(self.objects("stats")[0]["is_paused"])

    def test_a_queue_is_not_made_by_a_mistake(self):
        for command in "pause", "resume":
            self.assertIn('no queue "größe"', self.run_tool(command, "größe", status=1))
        self.assertEqual(len(self.objects("stats")), 1)
        self.assertEqual(self.run_tool("pause", "größe", "--create"), "queue größe is paused\n")
        self.assertEqual([(q["queue"], q["is_paused"]) for q in self.objects("stats")],
                         [("default", False), ("größe", True)])
        self.assertIn("größe", self.run_tool("stats"))

    def test_jobs_that_have_ended_are_forgotten(self):
        self.run_tool("retry", "2")
        with sqlite3.connect(self.file) as db:
            db.execute("UPDATE canigo_job SET finished_at = finished_at - 172800000000 WHERE id=1")  # two days
        for how, forgotten, left in ((["--older-than", "2.5"], 0, [1, 2, 3]), (["--older-than", "1.5"], 1, [2, 3]),
                                     (["--keep", "1"], 0, [2, 3]), (["--keep", "0"], 1, [2])):
            self.assertEqual(self.run_tool("trim", "default", *how), f"jobs of queue default forgotten: {forgotten}\n")
            self.assertEqual([job["id"] for job in self.objects("list")], left)
        self.assertEqual(self.states(), ["waiting"])
        self.assertIn('no queue "mial"\n', self.run_tool("trim", "mial", "--keep", "0", status=1))
        self.assertIn("--older-than or --keep", self.run_tool("trim", "default", status=2))
        for days in "-1", "nan", "1d", "36501":
            self.assertIn(days, self.run_tool("trim", "default", "--older-than", days, status=2))

    def test_any_bytes_come_through_json(self):
        with sqlite3.connect(self.file) as db:
            for length in range(1, 6):
                for payload in bytes(range(length)), bytes(range(0x80, 0x80 + length)), "äß€😀"[:length].encode():
                    db.execute("UPDATE canigo_job SET payload=? WHERE id=2", (payload,))
                    db.commit()
                    job, = self.objects("show", "2")
                    shown = job["payload"].encode() if "payload" in job else base64.b64decode(job["payload_base64"])
                    self.assertEqual(shown, payload)

    def test_queues_are_watched(self):
        lines = self.run_tool("top", "--every", "0.05", "--rounds", "2").splitlines()
        self.assertEqual(lines[1].split(), ["default", *"000", "0.0s", "-", "-"])
        self.assertEqual(lines[3].split(), ["default", *"000", "0.0s", "0.0", "0.0"])

    def test_numbers_are_taken_as_they_are_or_not_at_all(self):
        for arguments in (["show", "99999999999999999999"], ["show", "010"], ["show", "0x1"], ["show", "-1"],
                          ["show", "0"], ["list", "--limit", "-1"], ["list", "--limit", "0"],
                          ["list", "--limit", "99999999999999999999"], ["list", "--after", "-1"],
                          ["top", "--every", "0"], ["top", "--every", "nan"], ["top", "--every", "1s"],
                          ["top", "--rounds", "0"]):
            with self.subTest(arguments):
                self.assertIn(arguments[-1], self.run_tool(*arguments, status=2))

    @unittest.skipUnless(POSTGRES_WORKER, "built without PostgreSQL")
    def test_jobs_in_postgresql(self):
        server = chaos.Server(self.folder)
        self.addCleanup(server.end)
        subprocess.run([*POSTGRES_WORKER, server.place, "3", "0"], stdout=subprocess.DEVNULL, timeout=120, check=True)
        file, self.file = self.file, server.place
        self.assertEqual(self.states(), ["done"] * 3)
        self.assertEqual(self.run_tool("retry", "1"), "job 1 will run again\n")
        self.assertEqual(self.objects("stats")[0]["waiting"], 1)
        self.file = file
        self.run_tool("retry", "3")
        self.forget_the_key_of(3)
        self.assertEqual(self.run_tool("move", "3", "--to", server.place), "job 3 is job 4 now\n")
        self.assertEqual(self.states(), ["done"] * 2)
        self.file = server.place
        self.assertEqual(self.objects("stats")[0]["waiting"], 2)
        self.file = "postgresql://nobody@/postgres?host=" + server.folder
        self.assertIn("28000", self.run_tool("stats", status=1))

    def list_at_once(self, place):
        """What several processes print that start together; None for one that fails."""
        started = [subprocess.Popen([PROGRAM, place, "list", "--json"], stdout=subprocess.PIPE, text=True)
                   for _ in range(4)]
        printed = [process.communicate(timeout=120)[0] for process in started]
        return {text if process.returncode == 0 else None for process, text in zip(started, printed)}

    def test_processes_bring_a_file_up_to_date_at_once(self):
        before = self.run_tool("list", "--json")
        with sqlite3.connect(self.file) as db:
            db.executescript("""DROP TRIGGER canigo_batch_ends;
                DROP INDEX canigo_job_batch; DROP INDEX canigo_job_after;
                ALTER TABLE canigo_job DROP COLUMN batch; ALTER TABLE canigo_job DROP COLUMN after_batch;
                UPDATE canigo_schema SET version=1""")
        self.assertEqual(self.list_at_once(self.file), {before})

    @unittest.skipUnless(POSTGRES_WORKER, "built without PostgreSQL")
    def test_processes_bring_a_database_up_to_date_at_once(self):
        server = chaos.Server(self.folder)
        self.addCleanup(server.end)
        subprocess.run([*POSTGRES_WORKER, server.place, "3", "0"], stdout=subprocess.DEVNULL, timeout=120, check=True)
        self.file = server.place
        before = self.run_tool("list", "--json")
        undo = """DROP FUNCTION canigo_batch_ends CASCADE; UPDATE canigo_schema SET version=1;
            ALTER TABLE canigo_job DROP COLUMN batch, DROP COLUMN after_batch"""
        self.assertEqual(server.call("psql", "-X", "-q", "-d", server.place, "-c", undo).wait(), 0)
        self.assertEqual(self.list_at_once(server.place), {before})

    def test_what_is_no_file(self):
        self.file = str(self.folder / "nothing.db")
        self.assertIn("nothing.db: there is no such file", self.run_tool("stats", status=1))
        self.assertFalse(pathlib.Path(self.file).exists())
        pathlib.Path(self.file).write_text("x" * 5000)
        self.assertIn("name another file", self.run_tool("stats", status=1))

    def test_how_it_is_called(self):
        for arguments, said in ((["list", "--state", "asleep"], "asleep"), (["show"], "id"), (["move", "1"], "--queue"),
                                (["show", "x"], '"x"'), (["fly"], "fly"), ([], "command"),
                                (["list", "--queue", ""], "1 to 255"), (["move", "1", "--queue", ""], "1 to 255"),
                                (["--json", "retry", "1"], "--json"), (["pause", "a", "b"], "b")):
            with self.subTest(arguments):
                self.assertIn(said, self.run_tool(*arguments, status=2))
        self.assertIn("retry", self.run_tool("--help"))
        self.assertEqual(self.objects("list"), [json.loads(j) for j in self.run_tool("list", "--json").splitlines()])

    def test_what_needs_no_place(self):
        def run(*arguments):
            return subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=120, check=False)
        self.assertRegex(run("--version").stdout, r"^canigo-jobs \d+\.\d+\.\d+\nSQLite/")
        for command in ("stats", "top", "list", "show", "retry", "cancel", "remove", "move", "pause", "resume",
                        "trim"):
            with self.subTest(command):
                helped = run(command, "--help")
                self.assertEqual(helped.returncode, 0, helped.stderr)
                self.assertIn("canigo-jobs " + command, helped.stdout)
        self.assertEqual(run("list").returncode, 2)
        self.assertEqual(run("list", self.file).stdout, self.run_tool("list"))

    def test_output_that_is_lost_is_no_success(self):
        with open("/dev/full", "w", encoding="utf8") as full:
            self.assertEqual(subprocess.run([PROGRAM, self.file, "list"], stdout=full, stderr=subprocess.DEVNULL,
                                            timeout=120, check=False).returncode, 1)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    if failed:
        print(f"test cases: {result.testsRun} | {result.testsRun - failed} passed | {failed} failed")
    else:
        print(f"All tests passed ({result.testsRun} assertions in {result.testsRun} test cases)")
    sys.exit(failed > 0)
