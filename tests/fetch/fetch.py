#!/usr/bin/env python3
"""Runs canigo-fetch as its users do: fetch.py CANIGO_FETCH [DEMO_SERVER [PART_OF_A_NAME …]].

Against a server in this process that notes when requests come and answers as their path says, and against
the demo server, which judges the quota. Ends with the totals that Catch2 prints.
"""

import base64
import fcntl
import gzip
import http.server
import io
import json
import multiprocessing
import os
import pty
import re
import resource
import shutil
import signal
import ssl
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
import unittest.mock
import urllib.request
from email.utils import formatdate

PROGRAM, DEMO_SERVER = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
# Any bytes go in and come out.
WIDE = {"encoding": "utf-8", "errors": "surrogateescape"}
EARLY = 0.001  # a timer here and the clock there may disagree by so many seconds


class Handler(http.server.BaseHTTPRequestHandler):
    """/ok…, /packed/TIMES…, /status/N…, /retry/FORM/TIMES…, /half, /big,
    /body/BYTES…, /hop/TIMES…, /to/URL, /moved/STATUS/URL, /flaky/STATUS|drop/TIMES…, /held… until the test lets go
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        with server.lock:
            server.requests.append((self.command, self.path, self.headers, body))
            server.seen.append((time.monotonic(), self.path))
            server.credentials.append(self.headers.get("Authorization"))
            times = sum(path == self.path for _, path in server.seen)
            server.arrived.notify_all()
        if self.command == "HEAD":
            return self.answer(200, b"")
        parts = self.path.split("?")[0].split("/")
        kind = parts[1]
        if kind == "status":
            self.answer(int(parts[2]), b"as asked\n")
        elif kind == "held":
            server.let_go.wait()
            self.answer(200, b"at last\n")
        elif kind == "retry" and times <= int(parts[3]):
            status, fields = {
                "seconds": (429, {"Retry-After": "1"}), "zero": (429, {"Retry-After": "0"}), "unsaid": (429, {}),
                "date": (503, {"Retry-After": formatdate(time.time() + 2, usegmt=True)}),
                "years": (429, {"Retry-After": "315360000"}), "forever": (429, {"Retry-After": "99999999999"}),
                "ms": (529, {"Retry-After": "600", "retry-after-ms": "1000"}), "forbidden": (403, {"Retry-After": "1"}),
                "quota": (429, {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1s"}),
                "final": (429, {"x-should-retry": "false"})}[parts[2]]
            self.answer(status, b"later\n", *fields.items())
        elif kind == "hop" and parts[2] != "0":
            self.answer(302, b"on\n", ("Location", "/".join(["", "hop", str(int(parts[2]) - 1), *parts[3:]])))
        elif kind == "to":
            self.answer(307, b"on\n", ("Location", self.path[len("/to/"):]))
        elif kind == "flaky" and times <= int(parts[3]):
            if parts[2] == "drop":
                self.close_connection = True
            else:
                self.answer(int(parts[2]), b"not now\n")
        elif kind == "moved":
            self.answer(int(parts[2]), b"on\n", ("Location", self.path.split("/", 3)[3]))
        elif kind == "body":
            self.answer(200, b"x" * int(parts[2]))
        elif kind == "packed":
            can = "gzip" in self.headers.get("Accept-Encoding", "")
            body = b"unpacked" * int(parts[2])
            self.answer(200, gzip.compress(body) if can else body, *([("Content-Encoding", "gzip")] if can else []))
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

    do_HEAD = do_POST = do_PUT = do_DELETE = do_BREW = do_GET

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

    def __init__(self, address="127.0.0.1"):
        super().__init__((address, 0), Handler)
        self.url = f"http://{address}:{self.server_address[1]}"
        self.lock = threading.Lock()
        self.arrived = threading.Condition(self.lock)
        self.let_go = threading.Event()
        self.seen = []
        self.credentials = []
        self.requests = []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def paths(self):
        with self.lock:
            return [path for _, path in self.seen]

    def times(self):
        with self.lock:
            return [at for at, _ in self.seen]

    def wait_for(self, path):
        with self.lock:
            self.arrived.wait_for(lambda: any(p == path for _, p in self.seen))

    def wait_for_requests(self, number):
        with self.lock:
            self.arrived.wait_for(lambda: len(self.seen) >= number)

    def handle_error(self, *_):
        pass


class Fetch:
    """A run of the program whose input stays open."""

    def __init__(self, *arguments, **streams):
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **WIDE)
        self.process = subprocess.Popen([PROGRAM, *arguments], **{**pipes, **streams})

    def feed(self, *lines):
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def interrupt(self, how=signal.SIGINT):
        self.process.send_signal(how)

    def told(self, words):
        """Waits for a line with these words on the standard error, and returns it. end() has the lines behind it."""
        line = b""
        while True:
            piece = os.read(self.process.stderr.fileno(), 1)
            if piece in (b"", b"\n"):
                if words in line.decode(**WIDE) or not piece:
                    return line.decode(**WIDE)
                line = b""
            else:
                line += piece

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


def said_by(call):
    """Its error, without the category and the number that Boost's errors say, too."""
    return re.sub(r" \[\w+:\d+\]$", "", call["error"] or "") or None


def fetch_json(lines, *arguments):
    """(exit status, calls, summary, standard error)"""
    status, out, err = fetch(lines, "--format", "json", *arguments)
    objects = [json.loads(line) for line in out]
    for call in objects[:-1]:
        call["error"] = said_by(call)
    return status, objects[:-1], objects[-1]["summary"], err


class Terminal:
    """What a terminal of so many columns shows of the text that it gets."""

    def __init__(self, columns):
        self.columns = columns
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.text = ""
        self.rows = [""]  # as they are now
        self.lines = []  # all that the last row ever was

    def read(self):
        """Reads on until there is a new line of progress. False: the last writer has gone."""
        known = len(self.lines)
        while len(self.lines) == known:
            try:
                piece = os.read(self.ours, 4096).decode()
            except OSError:  # the last one has closed it
                return False
            for part in re.split("(\r\n|\r|\x1b\\[K)", piece):
                if part == "\r\n":
                    self.rows.append("")
                elif part == "\x1b[K":
                    self.rows[-1] = ""
                elif part not in ("", "\r"):
                    self.rows[-1] += part
                    self.lines.append(self.rows[-1])
        return True

    def close(self):
        os.close(self.ours)


class FetchTest(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.url = self.server.url

    def tearDown(self):
        self.server.let_go.set()
        self.server.shutdown()
        self.server.server_close()

    def other_server(self):
        other = Server()
        self.addCleanup(other.server_close)
        self.addCleanup(other.shutdown)
        self.addCleanup(other.let_go.set)
        return other

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
        run = Fetch("--rate", "1000/s", "--connections", "1", "--timeout", "1h")
        run.feed(f"2 {self.url}/held", *[f"2 {self.url}/ok/{i}" for i in range(20)])
        self.server.wait_for("/held")
        run.feed(f"0 {self.url}/ok/important", "the last line")
        run.told("line 23")
        self.server.let_go.set()
        self.assertEqual(run.end()[0], 3)
        self.assertEqual(self.server.paths()[:3], ["/held", "/ok/important", "/ok/0"])
        self.assertEqual(len(self.server.paths()), 22)

    def test_a_row_says_class_order_start_wait_status_and_bytes(self):
        status, out, _ = fetch([f"1 {self.url}/ok"], "--rate", "100/s")
        self.assertEqual(status, 0)
        self.assertRegex(out[0], r"^class +order +started +wait +status +bytes +url$")
        self.assertRegex(out[1], rf"^ +1 +1 +\d+ ms +\d+ ms +200 +5  {self.url}/ok$")
        self.assertRegex(out[3], r"^class +calls +requests +failures +p50 wait <= +p99 wait <= +rate$")
        self.assertRegex(out[5], r"^ +all +1 +1 +0 +\d+ ms +\d+ ms +0.00/s$")

    def test_with_output_none_there_is_the_summary_alone(self):
        _, out, _ = fetch([f"1 {self.url}/ok"], "--rate", "100/s", "--format", "none")
        self.assertEqual(len(out), 3)
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

    def test_a_url_without_a_host_is_a_bad_line_and_shows_no_password(self):
        place = self.url.removeprefix("http://")
        lines = [f"0 http:///u:secret@{place}/ok", f"0 https:////u:secret@{place}/ok", "0 http://", "0 http://?q"]
        status, calls, summary, err = fetch_json(lines, "--rate", "1000/s")
        self.assertEqual(status, 3)
        self.assertEqual(calls, [])
        self.assertEqual(summary["bad_lines"], 4)
        self.assertNotIn("secret", err)
        self.assertIn("***@", err)

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

    def test_retry_after_holds_all_of_its_server_back_and_the_call_is_queued_again(self):
        # The date is two seconds from now, and has whole ones.
        for form in ("seconds", "date", "ms", "forbidden", "quota"):
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
                self.assertIn("its calls wait for", err)

    def test_a_server_that_forbids_another_attempt_gets_none(self):
        status, calls, _, _ = fetch_json([f"0 {self.url}/retry/final/1"], "--rate", "1000/s")
        self.assertEqual((status, calls[0]["status"], calls[0]["attempts"]), (1, 429, 1))

    def test_each_server_has_a_rate_of_its_own(self):
        other = self.other_server()
        lines = [f"0 {self.url}/ok/{i}" for i in range(9)] + [f"1 {self.url}/to/{other.url}/ok/{i}" for i in range(3)]
        lines += [f"2 {other.url}/ok/{i}" for i in range(9)]
        status, calls, summary, _ = fetch_json(lines, "--per-host", "10/s", "--per-host-burst", "2", "--queue-limit",
                                               "3")
        self.assertEqual((status, summary["requests"]), (0, 24))
        at = {call["url"]: call["started_ms"] for call in calls}
        # Ten more than the two of the burst take a second, however late each of them is.
        self.assertGreaterEqual(max(at.values()) - min(at.values()), 999)
        # The one server's calls did not wait for those of the other, which matter more.
        self.assertLess(at[f"{other.url}/ok/0"], at[f"{self.url}/ok/8"])

    def test_a_rate_of_all_calls_and_one_of_each_server_hold_together(self):
        other = self.other_server()
        lines = [f"0 {server.url}/ok/{i}" for i in range(6) for server in (self.server, other)]
        status, calls, _, _ = fetch_json(lines, "--rate", "100/s", "--per-host", "20/s")
        self.assertEqual(status, 0)
        for server in (self.server, other):
            at = [call["started_ms"] for call in calls if call["url"].startswith(server.url)]
            self.assertGreaterEqual(max(at) - min(at), 5 * 50 - 1)
        at = [call["started_ms"] for call in calls]
        self.assertGreaterEqual(max(at) - min(at), 11 * 10 - 1)

    def test_a_server_that_is_slow_holds_up_nobody_else(self):
        other = self.other_server()
        lines = [f"0 {self.url}/held/{i}" for i in range(20)] + [f"2 {other.url}/ok/{i}" for i in range(20)]
        run = Fetch("--rate", "1000/s", "--connections", "3", "--per-host-connections", "2", "--queue-limit", "5",
                    "--timeout", "60s", "--attempts", "1", "--format", "json")
        run.feed(*lines)
        other.wait_for_requests(20)
        self.assertEqual(sorted(self.server.paths()), ["/held/0", "/held/1"])
        self.server.let_go.set()
        status, out, _ = run.end()
        self.assertEqual((status, {json.loads(line)["status"] for line in out[:-1]}), (0, {200}))

    def test_calls_that_wait_for_a_slow_server_end_with_an_interrupt(self):
        run = Fetch("--per-host", "1000/s", "--per-host-connections", "1", "--grace", "1ms", "--format", "json")
        run.feed(*[f"{i % 3} {self.url}/held/{i}" for i in range(9)])
        self.server.wait_for("/held/0")
        run.interrupt()
        status, out, _ = run.end()
        self.assertEqual((status, len(out)), (130, 10))
        not_made = [json.loads(line)["order"] for line in out[:-1] if json.loads(line)["attempts"] == 0]
        self.assertEqual(not_made, [4, 7, 2, 5, 8, 3, 6, 9])

    def test_a_failure_that_may_pass_is_tried_again_where_that_does_no_harm(self):
        nobody = "http://127.0.0.1:1"
        cases = {("GET", "/flaky/500/2"): (3, 200), ("PUT", "/flaky/502/1"): (2, 200), ("HEAD", "/ok"): (1, 200),
                 ("GET", "/flaky/408/1"): (2, 200), ("DELETE", "/flaky/504/9"): (3, 504), ("GET", "/big"): (1, 0),
                 ("GET", "/flaky/drop/2"): (3, 200), ("POST", "/flaky/drop/9"): (1, 0),
                 ("POST", "/flaky/503/1"): (2, 200), ("POST", "/flaky/500/1"): (1, 500),
                 ("BREW", "/flaky/502/1"): (1, 502), ("GET", "/flaky/501/1"): (1, 501),
                 ("GET", "/flaky/404/1"): (1, 404), ("POST", nobody): (3, 0)}
        # Each connection is new, so the client itself sends nothing again.
        lines = [json.dumps({"url": path if path == nobody else f"{self.url}{path}/x/{method}", "method": method,
                             "headers": {"Connection": "close"}}) for method, path in cases]
        status, calls, _, _ = fetch_json(lines, "--rate", "1000/s", "--attempts", "3")
        self.assertEqual(status, 1)
        ended = [(call["attempts"], call["status"]) for call in sorted(calls, key=lambda call: call["order"])]
        for case, end in zip(cases.items(), ended):
            with self.subTest(case[0]):
                self.assertEqual(end, case[1])

    def test_the_number_of_redirects_may_be_set_and_without_any_the_redirect_is_the_result(self):
        lines = [f"0 {self.url}/hop/2"]
        for most, end in {"2": (0, 200, 2), "1": (1, 302, 1), "0": (0, 302, 0)}.items():
            with self.subTest(most):
                status, calls, _, _ = fetch_json(lines, "--rate", "1000/s", "--max-redirs", most)
                self.assertEqual((status, calls[0]["status"], calls[0]["redirects"]), end)

    def test_compressed_responses_are_decoded_if_asked_for(self):
        folder = self.folder()
        lines = [f"0 {self.url}/packed/1000"]
        status, calls, _, _ = fetch_json(lines, "--rate", "1000/s", "--compressed", "-o", folder)
        self.assertEqual((status, calls[0]["bytes"], self.files(folder)), (0, 8000, {"1": b"unpacked" * 1000}))
        self.assertIn("gzip", self.server.requests[0][2]["Accept-Encoding"])
        fetch_json(lines, "--rate", "1000/s")
        self.assertIsNone(self.server.requests[1][2]["Accept-Encoding"])
        # A small answer that becomes a large one is bounded where it is large.
        status, calls, _, _ = fetch_json([f"0 {self.url}/packed/4000000"], "--rate", "1000/s", "--compressed")
        self.assertEqual(status, 1)
        self.assertIn("16777216 bytes", calls[0]["error"])

    def test_an_adaptive_number_of_calls_leaves_none_out(self):
        lines = [f"0 {self.url}/ok/{i}" for i in range(200)] + [f"0 {self.url}/retry/unsaid/1/{i}" for i in range(5)]
        status, calls, summary, _ = fetch_json(lines, "--rate", "100000/s", "--adaptive", "--connections", "4")
        self.assertEqual((status, len(calls), summary["requests"]), (0, 205, 210))

    def test_no_private_address_is_connected_to(self):
        port = self.url.rsplit(":", 1)[1]
        hosts = ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
        with unittest.mock.patch.dict(os.environ, {"http_proxy": self.url, "no_proxy": ""}):
            status, calls, _, _ = fetch_json([f"0 http://{host}:{port}/ok" for host in hosts], "--rate", "1000/s",
                                             "--no-private")
        self.assertEqual((status, len(calls), self.server.paths()), (1, len(hosts), []))
        for call in calls:
            with self.subTest(call["url"]):
                self.assertEqual((call["status"], call["attempts"]), (0, 1))
                self.assertRegex(call["error"], "^at [^ ]+, --no-private refuses [0-9.:a-f]+: ")

    def test_no_private_address_is_connected_to_behind_a_redirect(self):
        if "CANIGO_TEST_IS_ALONE" not in os.environ:
            # In a network of its own this machine has a public address, too.
            alone = ["unshare", "--map-root-user", "--net", "sh", "-c",
                     'ip link set lo up && ip address add 9.9.9.9/32 dev lo && exec "$@"', "sh"]
            if not (shutil.which("unshare") and subprocess.run([*alone, "true"], capture_output=True).returncode == 0):
                self.skipTest("nobody may make a network of its own here")
            done = subprocess.run([*alone, sys.executable, __file__, PROGRAM, "", self.id().split(".")[-1]], text=True,
                                  env={**os.environ, "CANIGO_TEST_IS_ALONE": "1"}, capture_output=True)
            return self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        public = Server("9.9.9.9")
        lines = [f"0 {public.url}/ok", f"0 {public.url}/to/{self.url}/ok"]
        status, calls, _, _ = fetch_json(lines, "--rate", "1000/s", "--no-private")
        self.assertEqual(status, 1)
        self.assertEqual([(c["status"], c["redirects"]) for c in sorted(calls, key=lambda c: c["order"])],
                         [(200, 0), (0, 1)])
        self.assertEqual(self.server.paths(), [])
        self.assertEqual(fetch(lines, "--rate", "1000/s")[0], 0)
        public.shutdown()
        public.server_close()

    def tls_server(self, *, asks_for_certificate=False):
        """The server speaks TLS from now on. (its URL, file of its certificate, file of its key)"""
        folder = self.folder()
        key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "certificate.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        if asks_for_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        return self.url.replace("http:", "https:"), certificate, key

    @unittest.skipIf(shutil.which("openssl") is None, "openssl makes the certificate")
    def test_a_certificate_is_shown_to_a_server_that_asks_for_one(self):
        url, certificate, key = self.tls_server(asks_for_certificate=True)
        lines = [f"0 {url}/ok"]
        usual = ("--rate", "1000/s", "--attempts", "1", "--cacert", certificate)
        self.assertEqual((fetch_json(lines, *usual)[0], self.server.paths()), (1, []))
        self.assertEqual(fetch_json(lines, *usual, "--cert", certificate, "--key", key)[0], 0)
        both, locked = os.path.join(self.folder(), "both.pem"), os.path.join(self.folder(), "locked.pem")
        with open(both, "w", encoding="ascii") as file:
            for part in (certificate, key):
                with open(part, encoding="ascii") as text:
                    file.write(text.read())
        self.assertEqual(fetch_json(lines, *usual, "--cert", both)[0], 0)
        subprocess.run(["openssl", "rsa", "-aes256", "-passout", "pass:s3cret", "-in", key, "-out", locked],
                       check=True, capture_output=True)
        self.assertEqual(fetch_json(lines, *usual, "--cert", certificate, "--key", locked, "--pass", "s3cret")[0], 0)
        for options, words in {("--cert", certificate): "--cert is .*; allowed: a PEM file with a key, too",
                               ("--cert", certificate, "--key", locked, "--pass", "wr0ng"):
                                   "--key is .*locked.pem; allowed: the key of the first certificate in --cert, "
                                   "to be read with --pass",
                               ("--cert", key): "--cert is .*key.pem; allowed: a PEM file with a certificate"}.items():
            with self.subTest(options):
                status, _, err = fetch(lines, "--cacert", certificate, *options)
                self.assertEqual(status, 2)
                self.assertRegex(err, words)
                self.assertNotIn("wr0ng", err)

    @unittest.skipIf(shutil.which("openssl") is None, "openssl makes the certificate")
    def test_a_certificate_is_checked_unless_told_otherwise(self):
        url, certificate, _ = self.tls_server()
        lines = [f"0 {url}/ok"]
        status, calls, _, _ = fetch_json(lines, "--rate", "1000/s")
        self.assertEqual((status, calls[0]["attempts"], self.server.paths()), (1, 1, []))
        self.assertIn("certificate", calls[0]["error"])
        for options in (("--cacert", certificate), ("-k",)):
            with self.subTest(options):
                self.assertEqual(fetch_json(lines, "--rate", "1000/s", *options)[0], 0)

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
            "http://127.0.0.1:1/nobody": (0, "connect"),
            "http://no-such-host.invalid/": (0, "resolve"),
            "http://[half/": (0, "URL"),
        }
        lines = [f"1 {url}" for url in cases] + [f"2 {self.url}/ok"]
        options = ("--rate", "1000/s", "--burst", "20", "--attempts", "1", "--timeout")
        status, calls, summary, _ = fetch_json(lines, *options, "1h")
        self.assertEqual(status, 1)
        self.assertEqual(summary["failures"], len(cases))
        slow = f"{self.url}/held"
        cases[slow] = (0, "--timeout of 1s")
        calls += fetch_json([f"0 {slow}"], *options, "1s")[1]
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
        run = Fetch("--rate", "1000/s", "--connections", "1", "--format", "json", "--grace", "1h")
        run.feed(f"0 {self.url}/held", *[f"1 {self.url}/ok/{i}" for i in range(5)])
        self.server.wait_for("/held")
        run.interrupt()
        self.assertIn("1 call may finish within 1h", run.told("stopping"))
        self.server.let_go.set()
        status, out, _ = run.end()
        calls = [json.loads(line) for line in out]
        summary = calls.pop()["summary"]
        self.assertEqual(status, 130)
        self.assertTrue(summary["interrupted"])
        self.assertEqual([call["status"] for call in calls if call["class"] == 0], [200])
        self.assertEqual([call["attempts"] for call in calls if call["class"] == 1], [0] * 5)
        self.assertEqual(self.server.paths(), ["/held"])

    def test_calls_that_were_not_made_have_no_row(self):
        run = Fetch("--rate", "1000/s", "--connections", "1", "--grace", "1h")
        run.feed(f"0 {self.url}/held", *[f"1 {self.url}/ok/{i}" for i in range(5)])
        self.server.wait_for("/held")
        run.interrupt()
        run.told("stopping")
        self.server.let_go.set()
        status, out, _ = run.end()
        self.assertEqual(status, 130)
        self.assertEqual([line.split()[-1] for line in out if self.url in line], [f"{self.url}/held"])
        self.assertEqual(out[-2:], ["5 calls were not made", "interrupted"])

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
                run = Fetch("--rate", "1000/s", "--timeout", "1h", "--format", "json", "--grace", grace)
                run.feed(f"0 {self.url}/held")
                self.server.wait_for("/held")
                run.interrupt()
                if grace == "1h":
                    run.told("stopping")
                    time.sleep(0.2)  # or it would count as the same one
                    run.interrupt()
                status, out, _ = run.end()
                self.assertEqual(status, 130)
                self.assertIsNotNone(json.loads(out[0])["error"])

    def test_an_interrupt_that_comes_twice_at_once_is_one(self):
        # As from timeout(1), which signals the process and then its group.
        run = Fetch("--rate", "1000/s", "--timeout", "1h", "--format", "json", "--grace", "1h")
        run.feed(f"0 {self.url}/held")
        self.server.wait_for("/held")
        # Both come together, however long this process is kept from running. Two of a kind would be one already.
        run.interrupt(signal.SIGSTOP)
        run.interrupt(signal.SIGINT)
        run.interrupt(signal.SIGTERM)
        run.interrupt(signal.SIGCONT)
        run.told("stopping")
        time.sleep(0.05)  # both have been delivered
        self.server.let_go.set()
        ended, out, _ = run.end()
        self.assertIn(ended, (130, 143))
        self.assertEqual(json.loads(out[0])["status"], 200)

    def test_a_million_lines_are_not_all_in_memory(self):
        def peak_of(lines):
            run = Fetch("--rate", "1/h", "--queue-limit", "1000", "--format", "none")

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
                run = subprocess.Popen([PROGRAM, "--format", "json", path], stdout=subprocess.PIPE, stderr=nobody)
                summary = json.loads(run.stdout.read())["summary"]
                run.stdout.close()
                _, status, used = os.wait4(run.pid, 0)
                run.returncode = os.waitstatus_to_exitcode(status)
        finally:
            os.remove(path)
        self.assertEqual((run.returncode, summary["bad_lines"]), (3, 1_000_000))
        self.assertLess(used.ru_maxrss, 400_000)  # KiB; the address sanitizer needs most of it

    def run_on_terminal(self, terminal, *arguments, **more):
        environment = {**os.environ, "TERM": "xterm"}
        run = Fetch("--rate", "1000/s", *arguments, stderr=terminal.theirs, env=environment, **more)
        os.close(terminal.theirs)
        self.addCleanup(terminal.close)
        return run

    def test_a_terminal_shows_in_one_line_how_far_it_is(self):
        lines = [f"0 {self.url}/ok/{i}" for i in range(3)] + [f"1 {self.url}/status/404", f"1 {self.url}/held"]
        lines += [f"2 {self.url}/ok"] * 20
        for columns, pattern in ((80, r"^4/25  \d+:\d\d left  [\d.]+/s  1 failed  1 running  20 in class 2$"),
                                 (24, r"^4/25  \d+:\d\d left( |$)"), (5, "^4/25$"), (3, "^$")):
            with self.subTest(columns):
                self.server.let_go.clear()
                self.server.seen.clear()
                terminal = Terminal(columns + 1)
                run = self.run_on_terminal(terminal, "--connections", "1", "--timeout", "60s", "--attempts", "1",
                                           "--format", "none")
                run.feed(*lines)
                run.process.stdin.close()
                self.server.wait_for("/held")
                if columns > 3:
                    while terminal.read() and not re.search(pattern, terminal.lines[-1]):
                        pass
                self.server.let_go.set()
                while terminal.read():
                    pass
                run.process.stdout.read()
                self.assertEqual(run.process.wait(), 1)
                run.process.stdout.close()
                self.assertEqual(terminal.rows, [""])
                self.assertLessEqual(max((len(line) for line in terminal.lines), default=0), columns)

    def test_a_file_tells_how_many_calls_there_are_before_all_are_read(self):
        with tempfile.NamedTemporaryFile("w", dir=self.folder(), delete=False) as file:
            file.write(f"0 {self.url}/held\n" * 9000)
        terminal = Terminal(100)
        run = self.run_on_terminal(terminal, "--connections", "1", "--queue-limit", "100", "--timeout", "60s",
                                   "--attempts", "1", "--grace", "1h", "--format", "none", file.name)
        self.server.wait_for("/held")
        while terminal.read() and not re.search("^0/~9[0-9]{3}  1 running  [0-9]+ in class 0$", terminal.lines[-1]):
            self.assertNotIn("/9000", terminal.lines[-1])  # all have been read
        run.interrupt()
        while terminal.read() and "stopping: 1 call may finish" not in terminal.lines[-1]:
            pass
        self.server.let_go.set()
        while terminal.read():
            pass
        self.assertEqual(run.end()[0], 130)
        self.assertEqual(terminal.rows, ["stopping: 1 call may finish within 1h", ""])

    def test_without_a_terminal_there_is_progress_only_if_asked_for(self):
        for arguments, is_there in (((), False), (("--progress",), True)):
            with self.subTest(arguments):
                self.server.let_go.clear()
                run = Fetch("--rate", "1000/s", "--timeout", "60s", "--attempts", "1", *arguments)
                run.feed(f"0 {self.url}/held")
                self.server.wait_for("/held")
                if is_there:
                    self.assertEqual(os.read(run.process.stderr.fileno(), 3), b"\r\x1b[")
                else:
                    time.sleep(0.5)
                self.server.let_go.set()
                status, _, err = run.end()
                self.assertEqual(status, 0)
                self.assertEqual(err.endswith("\x1b[K"), is_there)
        terminal = Terminal(100)
        run = self.run_on_terminal(terminal, "--no-progress")
        run.feed(f"0 {self.url}/ok")
        self.assertEqual(run.end()[0], 0)
        self.assertFalse(terminal.read())

    def test_when_nobody_reads_what_it_prints_it_ends(self):
        run = Fetch("--rate", "1000/s")
        run.process.stdout.close()
        run.feed(f"0 {self.url}/ok")
        self.assertEqual(run.process.wait(), 2)
        self.assertIn("canigo-fetch: ", run.process.stderr.read())
        run.close()

    def test_any_text_in_a_url_makes_valid_json(self):
        paths = ['/ok/"\\', "/ok/\u00e9\u20ac\U0001f600", "/ok/\x01", "/ok/\x9b\u202e", "/ok/\udcff-\udce2\udc82"]
        _, out, _ = fetch([f"0 {self.url}{path}" for path in paths], "--rate", "1000/s", "--format", "json")
        self.assertNotRegex("".join(out), "[\udc80-\udcff]")  # all of it is UTF-8
        self.assertNotRegex("".join(out), "[\x00-\x1f\x7f-\x9f\u202e]")
        urls = {call["order"]: call["url"] for call in map(json.loads, out[:-1])}
        self.assertEqual([urls[i + 1].removeprefix(self.url) for i in range(4)], paths[:4])
        self.assertEqual(urls[5].removeprefix(self.url), "/ok/\ufffd-\ufffd\ufffd")

    def test_what_steers_a_terminal_is_spelled_out(self):
        lines = [f"0 {self.url}/ok/\x1b[31m", "1 \x1b]0;title\x07", "\x1b[2J http://h/",
                 f"0 {self.url}/ok/\x9b\u202e\u00e9\udcff"]
        _, out, err = fetch(lines, "--rate", "1000/s")
        self.assertNotRegex("".join(out) + err.replace("\n", ""), "[\x00-\x1f\x7f-\x9f\u202e\udcff]")
        self.assertIn("/ok/\\x1b[31m", "".join(out))
        self.assertIn("/ok/\\u009b\\u202e\u00e9\\xff", "".join(out))
        self.assertIn("\\x1b]0;title\\x07", err)

    def test_a_password_is_sent_and_not_printed(self):
        secret = self.url.replace("//", "//user:secret@")
        lines = [f"0 {secret}/ok", f"0 {secret}/retry/seconds/1", "0 http://user:se/cret@host/",
                 "1 ftp://user:secret@h/", "user:secret@h http://h/",
                 f"1 {self.url}/to/http://user:secret@127.0.0.1:1/"]
        for form in ("text", "json"):
            with self.subTest(form):
                self.server.seen.clear()
                _, out, err = fetch(lines, "--rate", "1000/s", "--format", form, "--attempts", "2")
                text = "\n".join(out) + err
                self.assertNotIn("secret", text)
                self.assertNotIn("cret@", text)
                self.assertIn("://***@127.0.0.1", text)
        self.assertIn("Basic dXNlcjpzZWNyZXQ=", self.server.credentials)

    def test_each_redirect_is_a_request_within_the_quota(self):
        lines = [f"1 {self.url}/hop/5/{i}" for i in range(5)]
        status, calls, summary, _ = fetch_json(lines, "--rate", "20/s")
        self.assertEqual(status, 0)
        self.assertEqual([(call["status"], call["redirects"], call["attempts"]) for call in calls], [(200, 5, 1)] * 5)
        self.assertEqual({call["redirected_to"] for call in calls}, {f"{self.url}/hop/0/{i}" for i in range(5)})
        self.assertEqual((summary["calls"], summary["requests"], len(self.server.paths())), (5, 30, 30))
        self.assertLess(summary["rate_per_s"], 29)  # 20, but the first may have been late

    def test_redirects_are_bounded_and_lead_to_http_alone(self):
        cases = {
            f"{self.url}/hop/6": (302, "redirects"),
            f"{self.url}/to/ftp://127.0.0.1:1/": (307, "protocol"),
            f"{self.url}/to/": (307, None),
        }
        status, calls, _, _ = fetch_json([f"1 {url}" for url in cases], "--rate", "1000/s")
        self.assertEqual(status, 1)
        self.assertEqual(len(self.server.paths()), 8 + (2 if "/" in self.server.paths() else 0))
        for call in calls:
            code, error = cases[call["url"]]
            if error:
                self.assertEqual(call["status"], code)
                self.assertIn(error, call["error"].lower())

    def test_a_redirect_takes_credentials_to_the_same_server_alone(self):
        other = Server()
        self.addCleanup(other.server_close)
        self.addCleanup(other.shutdown)
        secret = self.url.replace("//", "//user:secret@")
        lines = [f"0 {secret}/hop/1", f"0 {secret}/to/{self.url}/ok", f"0 {secret}/to/{other.url}/ok"]
        status, _, _, _ = fetch_json(lines, "--rate", "1000/s")
        self.assertEqual(status, 0)
        self.assertEqual(self.server.credentials, ["Basic dXNlcjpzZWNyZXQ="] * 5)
        self.assertEqual(other.credentials, [None])

    def test_a_long_url_is_requested_whole_or_refused(self):
        whole, too_long = "/ok/" + "x" * 20_000, "/ok/" + "y" * 70_000
        lines = [f"0 {self.url}{whole}", f"0 {self.url}{too_long}"]
        status, calls, summary, err = fetch_json(lines, "--rate", "1000/s")
        self.assertEqual(status, 3)
        self.assertEqual(self.server.paths(), [whole])
        self.assertEqual([call["url"] for call in calls], [self.url + whole])
        self.assertEqual(summary["bad_lines"], 1)
        self.assertIn("line 2: longer than 65536 bytes; skipped", err)

    def test_a_server_that_asks_for_years_holds_up_nobody_else(self):
        patient = Server()
        self.addCleanup(patient.server_close)
        self.addCleanup(patient.shutdown)
        lines = [f"0 {self.url}/retry/years/1"] + [f"0 {self.url}/ok/{i}" for i in range(30)]
        lines += [f"0 {patient.url}/ok/{i}" for i in range(20)]
        status, calls, _, err = fetch_json(lines, "--rate", "20/s", "--max-pause", "3s", "--queue-limit", "10")
        self.assertEqual(status, 0)
        self.assertEqual(len(calls), 51)
        refused, accepted = (at for at, path in self.server.seen if path == "/retry/years/1")
        self.assertGreaterEqual(accepted - refused, 3 - EARLY)
        # 20 others take one second.
        self.assertLess(patient.times()[0], accepted)
        self.assertIn(f"{self.url}: 429; its calls wait for 3s (--max-pause; it asks for 3650d)", err)

    def test_a_pause_of_more_than_there_is_time_is_told_as_the_longest(self):
        status, _, _, err = fetch_json([f"0 {self.url}/retry/forever/1"], "--rate", "1000/s", "--max-pause", "1s")
        self.assertEqual(status, 0)
        self.assertRegex(err, r"wait for 1s \(--max-pause; it asks for \d+s\)")

    def test_a_call_is_tried_again_also_if_the_server_does_not_say_when(self):
        status, calls, summary, _ = fetch_json([f"0 {self.url}/retry/unsaid/2"], "--rate", "1000/s")
        self.assertEqual((status, calls[0]["attempts"], calls[0]["status"], summary["requests"]), (0, 3, 200, 3))
        first, second, third = self.server.times()
        self.assertGreaterEqual(second - first, 0.25 - EARLY)
        self.assertGreaterEqual(third - second, 0.5 - EARLY)

    def test_a_class_that_is_full_does_not_hide_what_matters_more(self):
        run = Fetch("--rate", "20/s", "--queue-limit", "100", "--format", "none")
        run.feed(*[f"2 {self.url}/ok/{i}" for i in range(2000)], f"0 {self.url}/ok/important")
        self.server.wait_for("/ok/important")
        self.assertLess(len(self.server.paths()), 600)
        run.interrupt()
        self.assertEqual(run.end()[0], 130)

    def file(self, content):
        path = f"fetch_test.{os.getpid()}.{self.id().split('.')[-1]}"
        with open(path, "wb") as file:
            file.write(content)
        self.addCleanup(os.remove, path)
        return path

    def test_a_json_line_says_all_of_a_request_and_its_result_bears_its_id(self):
        path = self.file(b"from\0a file")
        lines = [
            {"url": f"{self.url}/ok/put", "method": "PUT", "body": "caf\u00e9", "id": "a \"b\" \u202e",
             "headers": {"Content-Type": "text/plain", "X-Two": ["1", "2"]}, "priority": 2},
            {"url": f"{self.url}/ok/file", "body_file": path, "id": 7},
            {"url": f"{self.url}/ok/plain"},
            {"url": f"{self.url}/ok/head", "method": "HEAD"},
            {"url": f"{self.url}/ok/empty", "method": "POST", "body": ""},
        ]
        status, calls, summary, err = fetch_json([json.dumps(line) for line in lines] + [f"1 {self.url}/ok/old"],
                                                 "--rate", "1000/s")
        self.assertEqual((status, summary["calls"], err), (0, 6, ""))
        by_path = {path: (method, headers, body) for method, path, headers, body in self.server.requests}
        method, headers, body = by_path["/ok/put"]
        self.assertEqual((method, body), ("PUT", "caf\u00e9".encode()))
        self.assertEqual((headers["Content-Type"], headers.get_all("X-Two")), ("text/plain", ["1", "2"]))
        self.assertEqual([by_path[f"/ok/{name}"][::2] for name in ("file", "plain", "head", "empty", "old")],
                         [("POST", b"from\0a file"), ("GET", b""), ("HEAD", b""), ("POST", b""), ("GET", b"")])
        results = {call["url"].rsplit("/")[-1]: (call["id"], call["class"], call["method"]) for call in calls}
        self.assertEqual(results["put"], ("a \"b\" \u202e", 2, "PUT"))
        self.assertEqual(results["file"], (7, 0, "POST"))
        self.assertEqual(results["plain"], (None, 0, "GET"))

    def test_a_json_line_that_is_wrong_is_named_with_its_number_and_its_mistake(self):
        url = f'"url":"{self.url}/ok"'
        wrong = {
            '{"url"': "no JSON: the mistake is at byte 7",
            "{" + url + "} more": "no JSON: the mistake is at byte",
            '{"id":1e999,' + url + "}": "a number is too large",
            "{}": "url is missing; allowed: http",
            '{"url":7}': "url is number; allowed: a string",
            '{"url":"ftp://host/"}': "url is ftp://host/; allowed: http://HOST",
            '{"url":"http://user:secret@host/ x"}': "url is http://***@host/ x; allowed: neither blanks",
            '{"url":"http://h/\\u0000"}': "url is http://h/\\x00; allowed: neither blanks",
            "{" + url + ',"priority":3}': "priority is 3; allowed: 0 to 2",
            "{" + url + ',"priority":"1"}': 'priority is "1"; allowed: 0 to 2',
            "{" + url + ',"priority":-9223372036854775808}': "allowed: 0 to 2",
            "{" + url + ',"priority":18446744073709551615}': "allowed: 0 to 2",
            "{" + url + ',"priority":0.5}': "priority is 0.5; allowed: 0 to 2",
            "{" + url + ',"id":[1]}': "id is array; allowed: a string or a whole number",
            "{" + url + ',"method":"A B"}': 'method is "A B"; allowed: letters',
            "{" + url + ',"method":"CONNECT"}': "allowed: any other method",
            "{" + url + ',"method":"GET","body":"x"}': "method is GET; allowed: one that may have a body",
            "{" + url + ',"headers":["secret"]}': "headers is array; allowed: an object of strings",
            "{" + url + ',"headers":{"a b":"secret"}}': "headers: name is 'a b'; allowed: letters",
            "{" + url + ',"headers":{"A":1}}': "headers: A is number; allowed: a string",
            "{" + url + ',"headers":{"A":"secret\\r\\nB: c"}}': "headers: A has a value that is not allowed: no line",
            "{" + url + ',"headers":{"Content-length":"1"}}': "headers: Content-length is not to be given",
            "{" + url + ',"body":{"secret":1}}': "body is object; allowed: a string",
            "{" + url + ',"body":"x","body_file":"y"}': "body and body_file are both given; allowed: one of them",
            "{" + url + ',"body_file":""}': 'body_file is ""; allowed: the path of a file',
            "{" + url + ',"metod":"PUT"}': 'a member is "metod"; allowed: body, body_file, headers, id, method',
            "{" + url + ',"id":1,"id":2}': 'a member is "id" again; allowed: each once',
            "{" + url + ',"\udcff":1}': "no JSON: the mistake is at byte",
            "{" + '"a":{' * 10_000: "no JSON: the mistake is at byte 50002",
            "{" + url + ',"id":' + "[" * 30_000 + "]" * 30_000 + "}": "id is array; allowed",
        }
        status, calls, summary, err = fetch_json([*wrong, "{" + url + ',"id":"good"}'], "--rate", "1000/s")
        self.assertEqual((status, summary["bad_lines"], [call["id"] for call in calls]), (3, len(wrong), ["good"]))
        for number, (told, words) in enumerate(zip(err.splitlines(), wrong.values()), 1):
            self.assertTrue(told.startswith(f"line {number}: "), told)
            self.assertIn(words, told)
            self.assertTrue(told.endswith("; skipped"), told)
        self.assertNotIn("secret", err)

    def test_a_body_that_cannot_be_read_fails_its_call_alone(self):
        pipe = f"fetch_test.{os.getpid()}.pipe"
        os.mkfifo(pipe)
        self.addCleanup(os.remove, pipe)
        cases = {"no/such/file": "No such file", "/": "Is a directory", pipe: "Invalid argument",
                 "/dev/zero": "Invalid argument", self.file(b"x" * (16 << 20) + b"x"): "larger than the limit"}
        lines = [json.dumps({"url": f"{self.url}/ok/{i}", "body_file": path}) for i, path in enumerate(cases)]
        status, calls, _, _ = fetch_json([*lines, f"2 {self.url}/ok/good"], "--rate", "1000/s")
        self.assertEqual((status, self.server.paths()), (1, ["/ok/good"]))
        errors = [call["error"] for call in sorted(calls, key=lambda call: call["order"])]
        for (path, words), error in zip(cases.items(), errors):
            self.assertIn(path, error)
            self.assertIn(words, error)

    def test_options_speak_for_all_calls_unless_a_line_says_otherwise(self):
        options = ("-X", "PUT", "-d", "a=b", "-H", "X-Common: 1", "-H", "Accept:text/plain", "-u", "na:me:p@ss/")
        lines = [f"0 {self.url}/ok/all",
                 json.dumps({"url": f"{self.url.replace('//', '//own:one@')}/ok/own", "method": "POST", "body": "mine",
                             "headers": {"x-common": "2"}}),
                 json.dumps({"url": f"{self.url}/ok/get", "method": "GET"})]
        status, _, _, _ = fetch_json(lines, "--rate", "1000/s", *options)
        self.assertEqual(status, 0)
        by_path = {path: (method, headers, body) for method, path, headers, body in self.server.requests}
        method, headers, body = by_path["/ok/all"]
        self.assertEqual((method, body, headers["X-Common"], headers["Accept"], headers["Content-Type"]),
                         ("PUT", b"a=b", "1", "text/plain", "application/x-www-form-urlencoded"))
        # Everything behind the first colon is the password, as it is for curl.
        self.assertEqual(base64.b64decode(headers["Authorization"].split()[1]), b"na:me:p@ss/")
        method, headers, body = by_path["/ok/own"]
        self.assertEqual((method, body, headers.get_all("X-Common"), headers["Content-Type"]),
                         ("POST", b"mine", ["2"], None))
        self.assertEqual(base64.b64decode(headers["Authorization"].split()[1]), b"own:one")
        method, headers, body = by_path["/ok/get"]
        self.assertEqual((method, body, headers["Content-Type"]), ("GET", b"", None))

    def test_what_follows_a_header_is_the_list(self):
        path = self.file(f"0 {self.url}/ok/1\n".encode())
        for options in (("-H", "X-A: 1", path), ("-H", "X-A: 1", "-H", "X-B: 2", path), (path, "-H", "X-A: 1")):
            with self.subTest(options):
                status, calls, _, err = fetch_json([], "--rate", "1000/s", *options)
                self.assertEqual((status, len(calls), err), (0, 1, ""))
                self.assertEqual(self.server.requests[-1][2]["X-A"], "1")

    def test_data_may_come_from_a_file(self):
        path = self.file(b"a\0b\n")
        status, calls, _, _ = fetch_json([f"0 {self.url}/ok"], "--rate", "1000/s", "-d", f"@{path}")
        self.assertEqual((status, calls[0]["method"], self.server.requests[0][3]), (0, "POST", b"a\0b\n"))

    def test_a_redirect_takes_secrets_to_the_same_server_alone(self):
        other = Server()
        self.addCleanup(other.server_close)
        self.addCleanup(other.shutdown)
        options = ("-u", "name:secret", "-H", "Cookie: secret", "-H", "authorization: Bearer secret",
                   "-H", "X-Other: 1")
        status, _, _, _ = fetch_json([f"0 {self.url}/to/{self.url}/to/{other.url}/ok"], "--rate", "1000/s", *options)
        self.assertEqual(status, 0)
        self.assertEqual([headers["Cookie"] for _, _, headers, _ in self.server.requests], ["secret"] * 2)
        self.assertEqual([headers["Authorization"] for _, _, headers, _ in self.server.requests], ["Bearer secret"] * 2)
        headers = other.requests[0][2]
        self.assertEqual((headers["Cookie"], headers["Authorization"], headers["X-Other"]), (None, None, "1"))

    def test_a_redirect_changes_the_method_as_browsers_do(self):
        cases = {("POST", 301): "GET", ("POST", 302): "GET", ("POST", 303): "GET", ("POST", 307): "POST",
                 ("POST", 308): "POST", ("PUT", 301): "PUT", ("PUT", 303): "GET"}
        lines = [json.dumps({"url": f"{self.url}/moved/{status}/{self.url}/ok/{method}{status}", "method": method,
                             "body": "x", "headers": {"Content-Type": "text/plain"}}) for method, status in cases]
        self.assertEqual(fetch_json(lines, "--rate", "1000/s")[0], 0)
        seen = {path: (method, body, headers["Content-Type"]) for method, path, headers, body in self.server.requests}
        for (before, status), after in cases.items():
            with self.subTest(f"{before} {status}"):
                self.assertEqual(seen[f"/ok/{before}{status}"],
                                 (after, b"", None) if after == "GET" else (after, b"x", "text/plain"))

    def folder(self):
        path = tempfile.mkdtemp(prefix="fetch_test.")
        self.addCleanup(shutil.rmtree, path)
        return path

    def files(self, folder):
        found = {}
        for root, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(root, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
        return found

    def test_bodies_go_into_a_folder_under_names_of_their_calls(self):
        folder = os.path.join(self.folder(), "new")
        lines = [f"0 {self.url}/body/3/a", f"1 {self.url}/status/404", f"2 {self.url}/body/0/b"]
        status, calls, _, _ = fetch_json(lines, "--rate", "1000/s", "-o", folder)
        self.assertEqual((status, self.files(folder)), (1, {"1": b"xxx", "3": b""}))
        self.assertEqual({call["order"]: call["file"] for call in calls}, {1: "1", 2: None, 3: "3"})
        lines = [json.dumps({"url": f"{self.url}/body/1/c.txt?q=/x", "id": "i", "priority": 1}),
                 json.dumps({"url": f"{self.url}/", "id": 5})]
        status, calls, _, _ = fetch_json(lines, "--rate", "1000/s", "-o", folder,
                                         "--name", "by/{host}/{class}-{id}-{file}.{order}.x")
        self.assertEqual((status, {call["file"] for call in calls}),
                         (0, {"by/127.0.0.1/1-i-c.txt.1.x", "by/127.0.0.1/0-5-index.2.x"}))
        self.assertEqual(self.files(folder)["by/127.0.0.1/1-i-c.txt.1.x"], b"x")

    def test_a_stored_body_is_not_in_memory(self):
        folder = self.folder()
        size = 100_000_000
        run = Fetch("--rate", "1000/s", "-o", folder, "--format", "json", "--timeout", "1h")
        peaks = []
        for bytes_of_each in (10, size):
            run.feed(f"0 {self.url}/body/{bytes_of_each}")
            self.assertEqual(json.loads(run.process.stdout.readline())["bytes"], bytes_of_each)
            peaks.append(peak_memory(run.process.pid))
        self.assertLess(peaks[1] - peaks[0], 60_000)
        self.assertEqual(run.end()[0], 0)
        self.assertEqual([os.path.getsize(os.path.join(folder, name)) for name in ("1", "2")], [10, size])

    def test_a_stored_body_is_bounded_in_length_and_in_time(self):
        folder = self.folder()
        status, calls, _, _ = fetch_json([f"0 {self.url}/body/{size}" for size in (1001, 1000)], "--rate", "1000/s",
                                         "-o", folder, "--max-filesize", "1000")
        self.assertEqual((status, self.files(folder)), (1, {"2": b"x" * 1000}))
        self.assertIn("the body has more than --max-filesize, 1000 bytes",
                      "".join(call["error"] or "" for call in calls))
        status, calls, _, _ = fetch_json([f"0 {self.url}/big"], "--rate", "1000/s", "-o", folder, "--timeout", "200ms",
                                         "--attempts", "1")
        self.assertEqual((status, self.files(folder)), (1, {"2": b"x" * 1000}))
        self.assertIn("--timeout of 200ms passed", calls[0]["error"])

    def test_bodies_behind_redirects_are_stored_and_those_of_redirects_are_not(self):
        other = self.other_server()
        for place in (f"{other.url}/body/3", "//" + other.url.split("//")[1] + "/body/3", "/body/3",
                      "/body/3?q=/r#f"):
            with self.subTest(place):
                folder = self.folder()
                lines = [f"0 {self.url}/moved/302/{place}"]
                status, calls, _, _ = fetch_json(lines, "--rate", "1000/s", "-o", folder)
                self.assertEqual((status, calls[0]["redirects"], self.files(folder)), (0, 1, {"1": b"xxx"}))
                expected = fetch_json(lines, "--rate", "1000/s")[1][0]
                self.assertEqual(calls[0]["redirected_to"], expected["redirected_to"])
        folder = self.folder()
        fetch([f"0 {self.url}/hop/1"], "--rate", "1000/s", "-o", folder, "--max-redirs", "0")
        self.assertEqual(self.files(folder), {"1": b"on\n"})

    def test_no_call_leads_out_of_the_folder(self):
        folder = self.folder()
        ids = ["..", ".", "../../up", "/etc/x", "a\0b", "a\\b\n", ".hidden", "caf\u00e9", "x" * 255]
        bad = ["", "x" * 256, "/" * 86]
        lines = [json.dumps({"url": f"{self.url}/ok", "id": i}) for i in ids + bad]
        lines += [f"0 {self.url}/ok", json.dumps({"url": f"{self.url}/ok/..", "id": "file"})]
        status, calls, summary, err = fetch_json(lines, "--rate", "1000/s", "-o", folder, "--name", "{id}")
        self.assertEqual((status, len(calls), summary["bad_lines"]), (3, len(ids) + 1, len(bad) + 1))
        self.assertEqual(set(self.files(folder)),
                         {"%2E.", "%2E", "%2E.%2F..%2Fup", "%2Fetc%2Fx", "a%00b", "a%5Cb%0A", "%2Ehidden", "caf%C3%A9",
                          "x" * 255, "file"})
        for number, words in zip(range(10, 14), ("name is ''", "has 256 bytes", "has 258 bytes", "there is no id")):
            self.assertRegex(err, f"line {number}: .*{words}.*; skipped")

    def test_a_file_that_is_there_is_kept_and_its_call_not_made(self):
        folder = self.folder()
        os.symlink("nowhere", os.path.join(folder, "2"))
        with open(os.path.join(folder, "1"), "wb") as file:
            file.write(b"old")
        lines = [f"0 {self.url}/ok/{i}" for i in range(3)]
        status, calls, _, _ = fetch_json(lines, "--rate", "1000/s", "-o", folder)
        self.assertEqual((status, self.server.paths()), (1, ["/ok/2"]))
        self.assertEqual(sorted(call["error"] or "" for call in calls),
                         ["", *(f"--output-dir: {n}, without --overwrite: File exists" for n in (1, 2))])
        self.assertEqual(fetch_json(lines, "--rate", "1000/s", "-o", folder, "--overwrite")[0], 0)
        self.assertEqual(self.files(folder), {"1": b"fine\n", "2": b"fine\n", "3": b"fine\n"})

    def test_a_call_that_is_not_sent_takes_no_token(self):
        folder = self.folder()
        for name in "123":
            with open(os.path.join(folder, name), "wb"):
                pass
        lines = [f"0 {self.url}/ok/{i}" for i in range(3)]
        # The next token comes in an hour.
        status, calls, _, _ = fetch_json(lines, "--rate", "1/h", "-o", folder)
        self.assertEqual((status, len(calls), self.server.paths()), (1, 3, []))
        no_body = json.dumps({"url": f"{self.url}/ok", "body_file": os.path.join(folder, "none")})
        status, calls, _, _ = fetch_json([*lines, no_body, f"0 {self.url}/ok/sent"], "--per-host", "1/h", "-o", folder)
        self.assertEqual((status, len(calls), self.server.paths()), (1, 5, ["/ok/sent"]))

    def test_of_two_calls_with_one_name_one_fails(self):
        folder = self.folder()
        run = Fetch("--rate", "1000/s", "-o", folder, "--name", "{host}", "--format", "json", "--timeout", "1h")
        run.feed(*[f"0 {self.url}/held/{i}" for i in range(2)])
        self.server.wait_for_requests(2)
        self.server.let_go.set()
        status, out, _ = run.end()
        calls = [json.loads(line) for line in out[:-1]]
        self.assertEqual((status, self.files(folder)), (1, {"127.0.0.1": b"at last\n"}))
        self.assertEqual(sorted(said_by(call) or "" for call in calls),
                         ["", "--output-dir: 127.0.0.1, without --overwrite: File exists"])

    def test_a_body_that_cannot_be_written_ends_the_program_and_leaves_no_part(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        folder = self.folder()
        run = Fetch("--rate", "1000/s", "-o", folder, preexec_fn=small_files)
        run.feed(f"0 {self.url}/body/200000")
        status, _, err = run.end()
        self.assertEqual((status, self.files(folder)), (2, {}))
        self.assertIn(f"canigo-fetch: {folder}/1: File too large", err)
        status, _, err = fetch([f"0 {self.url}/ok"], "-o", "/dev/null")
        self.assertEqual(status, 2)
        self.assertIn("/dev/null: Not a directory", err)

    def test_an_interrupted_list_goes_on_where_it_was(self):
        folder = self.folder()
        journal, results = os.path.join(folder, "journal"), os.path.join(folder, "out")
        options = ("--rate", "1000/s", "--connections", "1", "--journal", journal, "-o", results, "--timeout", "1h")
        lines = ["# a comment", "nonsense", *[f"{i % 2 * 2} {self.url}/ok/{i}" for i in range(40)],
                 f"1 {self.url}/held", f"0 {self.url}/status/404"]
        run = Fetch(*options, "--grace", "1h")
        run.feed(*lines)
        self.server.wait_for("/held")
        run.interrupt()
        run.told("stopping")
        self.server.let_go.set()
        self.assertEqual(run.end()[0], 130)
        self.assertEqual(set(self.files(results)), {str(i) for i in range(1, 42, 2)})
        status, calls, summary, _ = fetch_json(lines, *options)
        self.assertEqual((status, len(calls), summary["done_before"]), (1, 21, 21))
        self.assertEqual(sorted(path for path in self.server.paths() if path != "/status/404"),
                         sorted(["/held", *[f"/ok/{i}" for i in range(40)]]))
        self.assertEqual(set(self.files(results)), {str(i) for i in range(1, 42)})
        # What failed is made again, and nothing else.
        status, calls, summary, _ = fetch_json(lines, *options)
        self.assertEqual((status, [call["status"] for call in calls], summary["done_before"]), (1, [404], 41))
        self.assertEqual(len(self.server.paths()), 44)

    def test_a_run_that_was_killed_goes_on_too(self):
        journal = os.path.join(self.folder(), "journal")
        options = ("--rate", "1000/s", "--connections", "1", "--journal", journal, "--timeout", "1h")
        lines = [f"{i // 20} {self.url}/{'held' if i == 20 else 'ok'}/{i}" for i in range(60)]
        run = Fetch(*options)
        run.feed(*lines)
        self.server.wait_for("/held/20")
        run.interrupt(signal.SIGKILL)
        run.process.communicate()
        self.server.let_go.set()
        with open(journal, "ab") as file:
            file.write(b"99")  # a line that was cut off
        status, calls, summary, _ = fetch_json(lines, *options)
        self.assertEqual((status, len(calls), summary["done_before"]), (0, 40, 20))
        self.assertEqual(fetch_json(lines, *options)[2]["done_before"], 60)
        self.assertEqual(len(self.server.paths()), 61)

    def test_a_journal_that_is_none_or_of_another_list_is_refused_and_kept(self):
        folder = self.folder()
        journal = os.path.join(folder, "journal")
        lines = [f"0 {self.url}/ok/{i}" for i in range(3)]
        self.assertEqual(fetch(lines, "--rate", "1000/s", "--journal", journal)[0], 0)
        with open(journal, "rb") as file:
            good = file.read()
        self.server.seen.clear()
        status, _, err = fetch([f"0 {self.url}/other", *lines[1:]], "--journal", journal)
        self.assertEqual((status, self.server.paths()), (2, []))
        self.assertIn("journal: of another list: its call 1 is a different one", err)
        for text, words in {b"a text\n": "no journal of canigo-fetch", b"a text": "no journal of canigo-fetch",
                            b"x" * 200_000: "no journal of canigo-fetch", good + b"x\n": "line 5 is no entry",
                            good + b"9 f x\n": "line 5 is no entry", good + b"\n": "line 5 is no entry",
                            good + b"99999999999999999999 f\n": "line 5 is no entry"}.items():
            with self.subTest(text[-30:]):
                with open(journal, "wb") as file:
                    file.write(text)
                status, _, err = fetch(lines, "--journal", journal)
                self.assertEqual((status, self.server.paths()), (2, []))
                self.assertIn(f"canigo-fetch: {journal}: {words}", err)
                with open(journal, "rb") as file:
                    self.assertEqual(file.read(), text)
        for path, words in ((folder, "Is a directory"), ("/dev/zero", "no regular file"), ("no/such/file", "No such")):
            status, _, err = fetch(lines, "--journal", path)
            self.assertEqual(status, 2)
            self.assertIn(f"canigo-fetch: {path}: {words}", err)

    def test_a_journal_has_one_user_at_a_time(self):
        journal = os.path.join(self.folder(), "journal")
        run = Fetch("--rate", "1000/s", "--journal", journal)
        run.feed(f"0 {self.url}/ok")
        self.server.wait_for("/ok")
        status, _, err = fetch([], "--journal", journal)
        self.assertEqual(status, 2)
        self.assertIn("another process has it", err)
        self.assertEqual(run.end()[0], 0)

    def test_a_journal_that_cannot_grow_ends_the_program_and_can_be_gone_on_with(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))

        journal = os.path.join(self.folder(), "journal")
        lines = [f"0 {self.url}/ok/{i}" for i in range(5)]
        run = Fetch("--rate", "1000/s", "--journal", journal, preexec_fn=small_files)
        run.feed(*lines)
        status, _, err = run.end()
        self.assertEqual(status, 2)
        self.assertIn(f"canigo-fetch: {journal}: File too large", err)
        self.assertEqual(os.path.getsize(journal), 60)
        status, calls, summary, _ = fetch_json(lines, "--rate", "1000/s", "--journal", journal)
        self.assertEqual((status, summary["done_before"], len(calls)), (0, 1, 4))

    def test_bodies_are_not_kept(self):
        def peak_of(size):
            run = Fetch("--rate", "1000/s", "--burst", "16", "--format", "json", "--timeout", "1h")
            run.feed(*[f"0 {self.url}/body/{size}/{i}" for i in range(16)])
            run.process.stdin.close()
            out = run.process.stdout.read().splitlines()
            run.process.stdout.close()
            run.process.stderr.close()
            _, status, used = os.wait4(run.process.pid, 0)
            run.process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(run.process.returncode, 0)
            self.assertEqual({json.loads(line)["bytes"] for line in out[:-1]}, {size})
            return used.ru_maxrss

        self.assertLess(peak_of(12 << 20) - peak_of(10), 60_000)  # KiB; all of it is 196 MB

    def test_a_byte_order_mark_is_skipped_and_a_scheme_may_be_in_capitals(self):
        status, calls, _, _ = fetch_json([f"\ufeff0 {self.url}/ok/1", f"0 {self.url.replace('http', 'HTTP')}/ok/2"],
                                         "--rate", "1000/s")
        self.assertEqual((status, len(calls)), (0, 2))
        self.assertEqual(sorted(self.server.paths()), ["/ok/1", "/ok/2"])

    def test_a_host_may_have_any_letters(self):
        # A proxy sees the name as it would be looked up.
        url, environment = "http://b\u00fccher.example/ok", {**os.environ, "http_proxy": self.url, "LC_ALL": "C"}
        run = Fetch("--rate", "1000/s", "--format", "json", env=environment)
        run.feed(f"0 {url}")
        status, out, _ = run.end()
        self.assertEqual((status, json.loads(out[0])["url"]), (0, url))
        self.assertEqual(self.server.paths(), ["http://xn--bcher-kva.example/ok"])

    def test_what_cannot_be_read_is_no_empty_input(self):
        for path, word in (("/", "Is a directory"), ("/proc/self/mem", "Input/output error")):
            with self.subTest(path):
                run = Fetch(path, "--format", "none")
                status, _, err = run.end()
                self.assertEqual(status, 2)
                self.assertIn(f"canigo-fetch: {path}: {word}", err)

    def test_a_standard_stream_may_be_closed(self):
        line = f"0 {self.url}/ok\nnonsense\n"

        def run(redirection, text=line):
            pipes = dict(input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            return subprocess.run(["sh", "-c", f'exec "$0" --rate 1000/s {redirection}', PROGRAM], check=False, **pipes)

        without_input = run("<&-", "")
        self.assertEqual(without_input.returncode, 2)
        self.assertIn("standard input: Bad file descriptor", without_input.stderr)
        without_output = run(">&-")
        self.assertEqual(without_output.returncode, 2)
        self.assertIn("standard output: Bad file descriptor", without_output.stderr)
        full_output = run(">/dev/full")
        self.assertEqual(full_output.returncode, 2)
        self.assertIn("standard output: No space left on device", full_output.stderr)
        for errors in ("2>&-", "2>/dev/full"):
            with self.subTest(errors):
                without_errors = run(errors)
                self.assertEqual(without_errors.returncode, 3)
                self.assertIn("1 line was not understood", without_errors.stdout)

    def test_a_note_that_cannot_be_written_fails_no_call(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            run = Fetch("--rate", "1000/s", "--format", "json", stderr=full)
            run.feed(f"0 {self.url}/retry/seconds/1")
            out, _ = run.process.communicate()
        self.assertEqual((run.process.returncode, json.loads(out.splitlines()[0])["status"]), (0, 200))

    def test_the_exit_status_names_the_signal(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(how):
                self.server.seen.clear()
                run = Fetch("--rate", "1000/s")
                run.feed(f"0 {self.url}/ok")
                self.server.wait_for("/ok")
                run.interrupt(how)
                self.assertEqual(run.process.wait(), 128 + how)
                run.end()

    def test_bad_usage_names_the_option_and_what_is_allowed(self):
        for arguments, words in {
            ("--rate", "0/s"): ("--rate", "above zero", "5/s"),
            ("--rate", "ten"): ("--rate", "ten", "5/s"),
            ("--burst", "0"): ("--burst", "0", "1 to 1000000"),
            ("--priorities", "0"): ("--priorities", "0", "1 to 1024"),
            ("--priorities", "-1"): ("--priorities", "-1", "1 to 1024"),
            ("--per-host", "5"): ("--per-host", "5", "10/3s"),
            ("--per-host-burst", "5"): ("--per-host-burst", "--per-host"),
            ("--per-host-connections", "0"): ("--per-host-connections", "0", "1 to 65536"),
            ("--connections", "65537"): ("--connections", "65537", "1 to 65536"),
            ("--timeout", "5"): ("--timeout", "5 needs a unit, for instance 5s"),
            ("-m", "1d"): ("--max-pause", "1d", "unit", "ms, s, m, h"),
            ("-m", "soon"): ("--max-pause", "soon is no time", "ms, s, m, h"),
            ("-m", "1e9h"): ("--max-pause", "1e9h", "more than 0, up to 277777h"),
            ("--timeout", "0s"): ("--timeout", "more than 0"),
            ("--grace=-1s",): ("--grace", "-1s", "more than 0"),
            ("-X", "A B"): ("--request", "A B", "letters"),
            ("-X", "HEAD", "-d", "x"): ("--request", "HEAD has no body"),
            ("-H", "secret"): ("--header", "NAME: VALUE"),
            ("-H", "a b: c"): ("--header", "a b", "letters"),
            ("-H", "A: b\nC: d"): ("--header", "no line break"),
            ("-d", "@no/such/file"): ("--data", "no/such/file", "No such file"),
            ("-u", "name"): ("--user", "NAME:PASSWORD"),
            ("-o", "x", "--name", "{status}"): ("--name", "{status} is unknown", "{order}, {class}, {id}"),
            ("-o", "x", "--name", "a/../b"): ("--name", "a/../b", "allowed: a path below the folder"),
            ("-o", "x", "--name", "/tmp/{id}"): ("--name", "/tmp/{id}", "a part of it is empty"),
            ("-o", "x", "--name", ""): ("--name", "a part of it is empty"),
            ("-o", "x", "--name", "{id"): ("--name", "a brace is alone"),
            ("-o", "x", "--max-filesize", "0"): ("--max-filesize", "0", "1 to"),
            ("--name", "{id}"): ("--name", "--output-dir"),
            ("--max-redirs", "101"): ("--max-redirs", "101", "0 to 100"),
            ("--cacert", "no/such/file"): ("--cacert", "no/such/file"),
            ("-k", "--cacert", "/etc/passwd"): ("--insecure", "--cacert"),
            ("--cacert", "/etc/passwd"): ("--cacert is /etc/passwd; allowed: a PEM file with certificates",),
            ("--key", "/etc/passwd"): ("--key", "--cert"),
            ("--pass", "s3cret"): ("--pass", "--cert"),
            ("--format", "xml"): ("--format", "xml", "text,json,none"),
            ("no/such/file",): ("no/such/file", "No such file"),
            ("--bogus",): ("--bogus",),
        }.items():
            with self.subTest(arguments):
                status, out, err = fetch([], *arguments)
                self.assertEqual((status, out), (2, []))
                # CLI11 2.4 writes a range as "[1 - 64]".
                err = re.sub(r"\[(-?\d+) - (-?\d+)\]", r"\1 to \2", err)
                for word in words:
                    self.assertIn(word, err)

    def test_help_and_version(self):
        status, out, _ = fetch([], "--help")
        self.assertEqual(status, 0)
        for word in ("PRIORITY URL", "--rate", "Exit codes", "Ctrl-C"):
            self.assertIn(word, "\n".join(out))
        self.assertRegex(fetch([], "--version")[1][0], r"^canigo-fetch \d+\.\d+\.\d+$")


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
        # A slow machine makes them come closer together than they went.
        url = self.serve("--quota", "20/s", "--burst", "5", "--tolerance", "500")
        lines = [f"{i % 3} {url}/job/{i}?class={i % 3}" for i in range(30)]
        status, _, summary, _ = fetch_json(lines, "--rate", "20/s", "--burst", "5", "--connections", "1")
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

    def test_a_server_that_takes_less_is_soon_asked_for_no_more(self):
        # Each refusal is a pause of a second: at the rate asked for there would be one for every seventh call. Three at
        # once fit into the burst, when a slow machine makes them come together.
        url = self.serve("--quota", "50/s", "--burst", "5", "--enforce")
        status, _, summary, err = fetch_json([f"0 {url}/job/{i}" for i in range(200)], "--rate", "200/s",
                                              "--connections", "3")
        self.assertEqual((status, summary["failures"]), (0, 0))
        self.assertLess(self.verdict(url)["refused"], 14)
        self.assertRegex(err, r"429; its calls wait for 1s, then go at [\d.]+/s")


def run_case(name):
    """(what it printed, whether it ran, whether it passed)"""
    out = io.StringIO()
    case = unittest.defaultTestLoader.loadTestsFromName(name, sys.modules["__main__"])
    result = unittest.TextTestRunner(stream=out, verbosity=2).run(case)
    return out.getvalue(), not result.skipped, result.wasSuccessful()


if __name__ == "__main__":
    wanted = sys.argv[3:] or [""]
    names = [f"{of.__name__}.{name}" for of in (DemoServerTest, FetchTest)
             for name in unittest.defaultTestLoader.getTestCaseNames(of) if any(word in name for word in wanted)]
    ran = bad = 0
    # Most of their time they wait.
    with multiprocessing.get_context("fork").Pool(8) as pool:
        for text, has_run, is_good in pool.imap_unordered(run_case, names):
            print(text.split("\n\n---", 1)[0] if is_good else text, flush=True)
            ran += has_run
            bad += not is_good
    if bad == 0:
        print(f"All tests passed ({ran} in {ran} test cases)")
    else:
        print(f"test cases: {ran} | {ran - bad} passed | {bad} failed")
    sys.exit(bad > 0)
