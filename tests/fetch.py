#!/usr/bin/env python3
"""Runs canigo-fetch as its users do: fetch.py CANIGO_FETCH [DEMO_SERVER].

Against a server in this process that notes when requests come and answers as their path says, and against
the demo server, which judges the quota. Ends with the totals that Catch2 prints.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.request
from email.utils import formatdate

PROGRAM, DEMO_SERVER = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
EARLY = 0.001  # a timer here and the clock there may disagree by so many seconds


class Handler(http.server.BaseHTTPRequestHandler):
    """/ok…, /status/N…, /slow/SECONDS…, /retry/seconds|date|zero/TIMES…, /half, /big, /drip"""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        server = self.server
        with server.lock:
            server.seen.append((time.monotonic(), self.path))
            times = sum(path == self.path for _, path in server.seen)
            server.arrived.notify_all()
        parts = self.path.split("?")[0].split("/")
        kind = parts[1]
        if kind == "status":
            self.answer(int(parts[2]), b"as asked\n")
        elif kind == "slow":
            time.sleep(float(parts[2]))
            self.answer(200, b"late\n")
        elif kind == "retry" and times <= int(parts[3]):
            after = {"seconds": "1", "date": formatdate(time.time() + 2, usegmt=True), "zero": "0"}[parts[2]]
            self.answer(503 if parts[2] == "date" else 429, b"later\n", ("Retry-After", after))
        elif kind == "half":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"only this")
            self.close_connection = True
        elif kind == "big":
            self.send_response(200)
            self.send_header("Content-Length", str(1 << 30))
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                self.close_connection = True
        else:
            self.answer(200, b"fine\n")

    def answer(self, status, body, *headers):
        try:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 100

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.lock = threading.Lock()
        self.arrived = threading.Condition(self.lock)
        self.seen = []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def paths(self):
        with self.lock:
            return [path for _, path in self.seen]

    def wait_for(self, path):
        with self.lock:
            self.arrived.wait_for(lambda: any(p == path for _, p in self.seen))

    def handle_error(self, *_):
        pass


class Fetch:
    """A run of the program whose input stays open."""

    def __init__(self, *arguments):
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.process = subprocess.Popen([PROGRAM, *arguments], **pipes)

    def feed(self, *lines):
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        """Closes the input. (exit status, lines of the standard output, standard error)"""
        out, err = self.process.communicate()
        return self.process.returncode, out.splitlines(), err


    def close(self):
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except OSError:  # what was not written has nobody to go to
                pass


def processor_time(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return sum(map(int, file.read().split()[13:15]))


def peak_memory(pid):
    """In KiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


def fetch(lines, *arguments):
    run = Fetch(*arguments)
    run.feed(*lines)
    return run.end()


def fetch_json(lines, *arguments):
    """(exit status, calls, summary, standard error)"""
    status, out, err = fetch(lines, "--output", "json", *arguments)
    objects = [json.loads(line) for line in out]
    return status, objects[:-1], objects[-1]["summary"], err


class FetchTest(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.url = self.server.url

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()

    def test_the_important_go_first_and_each_class_in_order(self):
        lines = [f"{i % 3} {self.url}/ok/{i}" for i in range(12)]
        status, calls, summary, _ = fetch_json(lines, "--rate", "100/s", "--connections", "1")
        self.assertEqual(status, 0)
        in_order = sorted(calls, key=lambda call: call["started_ms"])
        self.assertEqual([path[4:] for path in self.server.paths()],
                         ["0", "3", "6", "9", "1", "4", "7", "10", "2", "5", "8", "11"])
        self.assertEqual([call["class"] for call in in_order], [0] * 4 + [1] * 4 + [2] * 4)
        self.assertEqual(summary["calls"], 12)
        self.assertEqual([c["calls"] for c in summary["classes"]], [4, 4, 4])

    def test_a_line_that_comes_later_overtakes_those_that_matter_less(self):
        run = Fetch("--rate", "20/s")
        run.feed(*[f"2 {self.url}/ok/{i}" for i in range(20)])
        self.server.wait_for("/ok/1")
        run.feed(f"0 {self.url}/ok/important")
        self.server.wait_for("/ok/important")
        self.assertNotIn("/ok/19", self.server.paths())
        status, _, _ = run.end()
        self.assertEqual(status, 0)
        self.assertEqual(len(self.server.paths()), 21)

    def test_a_row_says_class_order_start_wait_status_and_bytes(self):
        status, out, _ = fetch([f"1 {self.url}/ok"], "--rate", "100/s")
        self.assertEqual(status, 0)
        self.assertRegex(out[0], r"^class +order +started +wait +status +bytes +url$")
        self.assertRegex(out[1], rf"^ +1 +1 +\d+ ms +\d+ ms +200 +5  {self.url}/ok$")
        self.assertRegex(out[3], r"^class +calls +failures +wait p50 +wait p99 +rate$")
        self.assertRegex(out[5], r"^ +all +1 +0 +\d+ ms +\d+ ms +0.00/s$")

    def test_with_output_none_there_is_the_summary_alone(self):
        _, out, _ = fetch([f"1 {self.url}/ok"], "--rate", "100/s", "--output", "none")
        self.assertEqual(len([line for line in out if line]), 3)
        self.assertNotIn(self.url, "".join(out))

    def test_a_bad_line_is_reported_with_its_number_and_skipped(self):
        lines = ["# a comment", "", f"0 {self.url}/ok/1", "nonsense", f"3 {self.url}/ok", f"-1 {self.url}/ok",
                 "1 ftp://host/file", f"x {self.url}/ok", f"0 {self.url}/ok two", "9" * 100_000, f"2 {self.url}/ok/2"]
        status, calls, summary, err = fetch_json(lines, "--rate", "1000/s")
        self.assertEqual(status, 3)
        self.assertEqual({call["url"] for call in calls}, {f"{self.url}/ok/1", f"{self.url}/ok/2"})
        self.assertEqual(summary["bad_lines"], 7)
        self.assertEqual([line.split(":")[0] for line in err.splitlines()], [f"line {n}" for n in range(4, 11)])
        self.assertIn("line 5: priority is 3; allowed: 0 to 2; skipped", err)

    def test_a_last_line_without_an_end_counts(self):
        run = Fetch("--rate", "1000/s")
        run.process.stdin.write(f"0 {self.url}/ok")
        self.assertEqual(run.end()[0], 0)
        self.assertEqual(self.server.paths(), ["/ok"])

    def test_lines_come_from_a_file_too(self):
        path = f"fetch_test.{os.getpid()}.txt"
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"0 {self.url}/ok/{i}\r\n" for i in range(3000)))
        try:
            status, calls, _, _ = fetch_json([], "--rate", "1000000/s", "--burst", "100", path)
        finally:
            os.remove(path)
        self.assertEqual((status, len(calls)), (0, 3000))

    def test_retry_after_holds_all_back_and_the_call_is_queued_again(self):
        for form in ("seconds", "date"):  # two seconds from now, but a date has whole ones
            with self.subTest(form):
                self.server.seen.clear()
                first = f"0 {self.url}/retry/{form}/1"
                status, calls, _, err = fetch_json([first] + [f"1 {self.url}/ok/{i}" for i in range(3)],
                                                   "--rate", "1000/s", "--connections", "1")
                self.assertEqual(status, 0)
                self.assertEqual(sorted(call["attempts"] for call in calls), [1, 1, 1, 2])
                times = [at for at, _ in self.server.seen]
                self.assertGreaterEqual(times[1] - times[0], 1 - EARLY)
                self.assertEqual(self.server.seen[1][1], self.server.seen[0][1])
                self.assertIn("all calls wait for", err)

    def test_attempts_are_bounded(self):
        status, calls, _, _ = fetch_json([f"0 {self.url}/retry/zero/99"], "--rate", "1000/s", "--attempts", "3")
        self.assertEqual(status, 1)
        self.assertEqual((calls[0]["attempts"], calls[0]["status"]), (3, 429))
        self.assertEqual(len(self.server.paths()), 3)

    def test_every_failure_is_told_and_harms_no_other(self):
        cases = {
            f"{self.url}/status/500": (500, None),
            f"{self.url}/status/404": (404, None),
            f"{self.url}/half": (0, "transferred"),
            f"{self.url}/big": (0, "larger than the limit"),
            f"{self.url}/slow/30": (0, "time"),
            "http://127.0.0.1:1/nobody": (0, "connect"),
            "http://no-such-host.invalid/": (0, "resolve"),
            "http://[half/": (0, "URL"),
            "http:///": (0, ""),
        }
        lines = [f"1 {url}" for url in cases] + [f"2 {self.url}/ok"]
        status, calls, summary, _ = fetch_json(lines, "--rate", "1000/s", "--burst", "20", "--timeout", "3s")
        self.assertEqual(status, 1)
        self.assertEqual(summary["failures"], len(cases))
        by_url = {call["url"]: call for call in calls}
        self.assertEqual(by_url.pop(f"{self.url}/ok")["status"], 200)
        for url, (code, error) in cases.items():
            with self.subTest(url):
                self.assertEqual(by_url[url]["status"], code)
                if error is None:
                    self.assertIsNone(by_url[url]["error"])
                else:
                    self.assertIn(error.lower(), by_url[url]["error"].lower())

    def test_an_interrupt_lets_those_that_run_finish(self):
        run = Fetch("--rate", "1000/s", "--connections", "1", "--output", "json", "--grace", "1h")
        run.feed(f"0 {self.url}/slow/0.5", *[f"1 {self.url}/ok/{i}" for i in range(5)])
        self.server.wait_for("/slow/0.5")
        run.interrupt()
        status, out, err = run.end()
        calls = [json.loads(line) for line in out]
        summary = calls.pop()["summary"]
        self.assertEqual(status, 130)
        self.assertTrue(summary["interrupted"])
        self.assertEqual([call["status"] for call in calls if call["class"] == 0], [200])
        self.assertEqual([call["attempts"] for call in calls if call["class"] == 1], [0] * 5)
        self.assertEqual(self.server.paths(), ["/slow/0.5"])
        self.assertIn("1 calls may finish within 1h", err)

    def test_an_interrupt_ends_the_reading_of_an_open_pipe(self):
        run = Fetch("--rate", "1000/s")
        run.feed(f"0 {self.url}/ok")
        self.server.wait_for("/ok")
        run.interrupt()
        self.assertEqual(run.process.wait(), 130)
        run.end()

    def test_a_second_interrupt_or_the_grace_time_cancels_those_that_run(self):
        for grace in ("1h", "50ms"):
            with self.subTest(grace):
                self.server.seen.clear()
                run = Fetch("--rate", "1000/s", "--timeout", "1h", "--output", "json", "--grace", grace)
                run.feed(f"0 {self.url}/slow/20")
                self.server.wait_for("/slow/20")
                run.interrupt()
                if grace == "1h":
                    while "stopping" not in run.process.stderr.readline():
                        pass
                    run.interrupt()
                began = time.monotonic()
                status, out, _ = run.end()
                self.assertEqual(status, 130)
                self.assertLess(time.monotonic() - began, 15)
                self.assertIsNotNone(json.loads(out[0])["error"])

    def test_a_million_lines_are_not_all_in_memory(self):
        def peak_of(lines):
            run = Fetch("--rate", "1/h", "--queue-limit", "1000", "--output", "none")

            def feed():
                try:
                    for _ in range(lines // 1000):
                        run.process.stdin.write(f"0 {self.url}/ok/with-a-path-of-some-length\n" * 1000)
                        run.process.stdin.flush()
                except OSError:
                    pass

            feeder = threading.Thread(target=feed)
            feeder.start()
            # All that will be read has been read when the program no longer gets processor time.
            before, spent = None, -1
            while before != spent:
                time.sleep(0.2)
                before, spent = spent, processor_time(run.process.pid)
            peak = peak_memory(run.process.pid)
            run.interrupt()
            run.process.wait()
            feeder.join()
            run.close()
            return peak

        self.assertLess(peak_of(1_000_000) - peak_of(2000), 20_000)  # KiB

    def test_a_million_bad_lines_take_no_memory_either(self):
        path = f"fetch_test.{os.getpid()}.txt"
        with open(path, "w", encoding="utf-8") as file:
            file.write("bad\n" * 1_000_000)
        try:
            with open(os.devnull, "w", encoding="utf-8") as nobody:
                run = subprocess.Popen([PROGRAM, "--output", "json", path], stdout=subprocess.PIPE, stderr=nobody)
                summary = json.loads(run.stdout.read())["summary"]
                run.stdout.close()
                _, status, used = os.wait4(run.pid, 0)
                run.returncode = os.waitstatus_to_exitcode(status)
        finally:
            os.remove(path)
        self.assertEqual((run.returncode, summary["bad_lines"]), (3, 1_000_000))
        self.assertLess(used.ru_maxrss, 400_000)  # KiB; the address sanitizer needs most of it

    def test_when_nobody_reads_what_it_prints_it_ends(self):
        run = Fetch("--rate", "1000/s")
        run.process.stdout.close()
        run.feed(f"0 {self.url}/ok")
        self.assertEqual(run.process.wait(), 2)
        self.assertIn("canigo-fetch: ", run.process.stderr.read())
        run.close()

    def test_any_text_in_a_url_makes_valid_json(self):
        status, out, _ = fetch([f'0 {self.url}/ok/"\\\u00e9\x01'], "--rate", "1000/s", "--output", "json")
        self.assertIn('\\"', out[0])
        json.loads(out[0])
        self.assertIn(status, (0, 1))

    def test_bad_usage_names_the_option_and_what_is_allowed(self):
        for arguments, words in {
            ("--rate", "0/s"): ("--rate", "above zero", "5/s"),
            ("--rate", "ten"): ("--rate", "ten", "5/s"),
            ("--burst", "0"): ("--burst", "0", "1 to 1000000"),
            ("--priorities", "0"): ("--priorities", "0", "1 to 1024"),
            ("--priorities", "-1"): ("--priorities", "-1", "1 to 1024"),
            ("--connections", "65537"): ("--connections", "65537", "1 to 65536"),
            ("--timeout", "5"): ("--timeout", "unit"),
            ("--timeout", "0s"): ("--timeout", "more than 0"),
            ("--output", "xml"): ("--output", "xml", "text,json,none"),
            ("no/such/file",): ("no/such/file", "No such file"),
            ("--bogus",): ("--bogus",),
        }.items():
            with self.subTest(arguments):
                status, out, err = fetch([], *arguments)
                self.assertEqual((status, out), (2, []))
                for word in words:
                    self.assertIn(word, err)

    def test_help_and_version(self):
        status, out, _ = fetch([], "--help")
        self.assertEqual(status, 0)
        for word in ("PRIORITY URL", "--rate", "Exit codes", "Ctrl-C"):
            self.assertIn(word, "\n".join(out))
        self.assertRegex("\n".join(fetch([], "--version")[1]), r"^\d+\.\d+\.\d+$")


@unittest.skipIf(DEMO_SERVER is None, "there is no demo server")
class DemoServerTest(unittest.TestCase):
    def serve(self, *arguments):
        server = subprocess.Popen([DEMO_SERVER, *arguments], stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        return f"http://127.0.0.1:{int(server.stdout.readline())}"

    def verdict(self, url):
        with urllib.request.urlopen(f"{url}/verdict.json") as reply:
            return json.load(reply)

    def test_the_quota_is_kept_and_classes_go_in_order(self):
        url = self.serve("--quota", "20/s", "--burst", "5")
        lines = [f"{i % 3} {url}/job/{i}?class={i % 3}" for i in range(30)]
        status, _, summary, _ = fetch_json(lines, "--rate", "20/s", "--burst", "5")
        verdict = self.verdict(url)
        self.assertEqual((status, summary["failures"]), (0, 0))
        self.assertEqual((verdict["requests"], verdict["kept"]), (30, True))
        self.assertEqual(verdict["order"], "0" * 10 + "1" * 10 + "2" * 10)

    def test_the_judge_sees_a_quota_that_is_not_kept(self):
        url = self.serve("--quota", "20/s", "--burst", "5")
        fetch([f"0 {url}/job/" for _ in range(30)], "--rate", "1000/s", "--burst", "30")
        self.assertEqual(self.verdict(url)["kept"], False)

    def test_a_server_that_enforces_its_quota_gets_all_calls_in_the_end(self):
        url = self.serve("--quota", "4/s", "--burst", "4", "--enforce")
        lines = [f"0 {url}/job/{i}" for i in range(12)]
        status, calls, _, _ = fetch_json(lines, "--rate", "200/s", "--attempts", "20")
        self.assertEqual(status, 0)
        self.assertEqual({call["status"] for call in calls}, {200})
        self.assertGreater(self.verdict(url)["refused"], 0)


if __name__ == "__main__":
    unittest.TestLoader.sortTestMethodsUsing = None
    result = unittest.main(argv=sys.argv[:1] + sys.argv[3:], exit=False, verbosity=2).result
    bad = len({test.id().split(" ")[0] for test, _ in result.failures + result.errors})
    ran = result.testsRun - len(result.skipped)
    if bad == 0:
        print(f"All tests passed ({ran} in {ran} test cases)")
    else:
        print(f"test cases: {ran} | {ran - bad} passed | {bad} failed")
    sys.exit(bad > 0)
