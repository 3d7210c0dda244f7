#!/usr/bin/env python3
"""Runs http::client against servers that others wrote: real_servers.py HTTP_CALLS [PART_OF_A_NAME …].

These are nginx, Caddy, Go's net/http and Node, as many as are installed. Ends with the totals that Catch2 prints.
"""

import contextlib
import functools
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import zlib

CALLS = sys.argv[1]
HERE = pathlib.Path(__file__).resolve().parent / "real"
SKIPPED = 77
PATIENCE = 120  # seconds; only a defect waits so long

NGINX = """
{user} daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log; worker_processes 1;
events {{ worker_connections 1024; }}
http {{
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi; access_log {dir}/calls.log; keepalive_requests 100000;
  ssl_certificate {dir}/localhost.pem; ssl_certificate_key {dir}/localhost.key;
  server {{
    listen 127.0.0.1:{port}; listen 127.0.0.1:{tls} ssl http2; listen unix:{dir}/nginx.sock;
    root {dir}/files; client_max_body_size 1m; gzip_types text/plain; gzip_min_length 1;
    location /gz/ {{ alias {dir}/files/; gzip on; default_type text/plain; }}
    location /slow/ {{ alias {dir}/files/; limit_rate 200k; }}
    location /put/ {{ root {dir}; dav_methods PUT; client_max_body_size 0; }}
    location /moved {{ return 302 /small; }}
  }}
  server {{
    listen 127.0.0.1:{mutual} ssl http2; root {dir}/files;
    ssl_client_certificate {dir}/ca.pem; ssl_verify_client on;
  }}
}}
"""

CADDY = """
{{
  admin off
  auto_https off
  skip_install_trust
}}
http://127.0.0.1:{port} {{
  bind 127.0.0.1
  root * {files}
  encode gzip zstd
  file_server
}}
https://localhost:{tls} {{
  bind 127.0.0.1
  tls {dir}/localhost.pem {dir}/localhost.key
  root * {files}
  encode gzip zstd
  file_server
}}
"""


def free_ports(n):
    """Ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def wait_until(condition, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def connects(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def pattern(size):
    period = bytes(ord("a") + i * 31 % 26 for i in range(26))
    return (period * (size // 26 + 1))[:size]


def adler(text):
    return zlib.adler32(text)


def make_certificates(folder):
    """ca.pem signs localhost.pem, the servers', and client.pem."""
    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)

    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test")
    extensions = {"localhost": "subjectAltName=DNS:localhost,IP:127.0.0.1", "client": "keyUsage=digitalSignature"}
    for name, more in extensions.items():
        (folder / f"{name}.ext").write_text(more + "\n")
        openssl("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days",
                "2", "-out", f"{name}.pem", "-extfile", f"{name}.ext")


class Call:
    """http_calls with these arguments, which tells each line as it comes."""

    def __init__(self, *args):
        self.process = subprocess.Popen([CALLS, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, errors="replace")
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def line(self):
        return self.lines.get(timeout=PATIENCE)

    def head(self):
        line = self.line()
        assert line.startswith("head "), line
        return int(line.split()[1])

    def rest(self):
        """The objects that it prints up to its end."""
        lines = []
        while (line := self.line()) is not None:
            lines.append(line)
        self.process.stdin.close()
        self.process.stdout.close()
        code = self.process.wait()
        assert code == 0, (code, lines)
        return [json.loads(line) for line in lines if line.startswith("{")]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def call(*args):
    results = Call(*args).rest()
    assert len(results) == 1, results
    return results[0]


class Server:
    """A process with a port for plain HTTP and one for TLS."""

    def __init__(self, command, port, tls):
        self.port, self.tls = port, tls
        self.plain, self.secure = f"http://127.0.0.1:{port}", f"https://localhost:{tls}"
        self.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_until(lambda: connects(port) and connects(tls) or self.process.poll() is not None, f"{command[0]} listens")
        assert self.process.poll() is None, command

    def counts(self):
        return json.loads(call("send", f"{self.plain}/counts")["text"])

    @contextlib.contextmanager
    def stopped(self):
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


class World:
    """All that is installed, started once."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="canigo-real"))
        self.dir.chmod(0o755)
        make_certificates(self.dir)
        self.ca = self.dir / "ca.pem"
        files = self.dir / "files"
        files.mkdir()
        self.put = self.dir / "put"
        self.put.mkdir()
        self.put.chmod(0o777)
        (files / "small").write_text("small")
        (files / "large").write_bytes(pattern(20_000_000))
        (files / "text").write_bytes(pattern(300_000))
        self.missing = []
        self.nginx = self.start("nginx", self.start_nginx)
        self.caddy = self.start("caddy", self.start_caddy)
        self.go = self.start("go", self.start_go)
        self.node = self.start("node", self.start_node)

    def start(self, program, how):
        if shutil.which(program):
            return how()
        self.missing.append(program)
        return None

    def start_nginx(self):
        port, tls, self.mutual = free_ports(3)
        user = "user root;" if os.geteuid() == 0 else ""
        text = NGINX.format(user=user, dir=self.dir, port=port, tls=tls, mutual=self.mutual)
        (self.dir / "nginx.conf").write_text(text)
        return Server(["nginx", "-p", self.dir, "-c", self.dir / "nginx.conf"], port, tls)

    def start_caddy(self):
        port, tls = free_ports(2)
        (self.dir / "Caddyfile").write_text(CADDY.format(dir=self.dir, files=self.dir / "files", port=port, tls=tls))
        return Server(["caddy", "run", "--config", self.dir / "Caddyfile", "--adapter", "caddyfile"], port, tls)

    def start_go(self):
        program = self.dir / "go_server"
        subprocess.run(["go", "build", "-o", program, HERE / "server.go"], check=True,
                       env={**os.environ, "GO111MODULE": "off"})
        ports = free_ports(2)
        return Server([program, *ports, self.dir / "localhost.pem", self.dir / "localhost.key"], *ports)

    def start_node(self):
        ports = free_ports(2)
        certificate = [self.dir / "localhost.pem", self.dir / "localhost.key"]
        return Server(["node", HERE / "server.js", *ports, *certificate], *ports)

    def servers(self):
        return [s for s in (self.nginx, self.caddy, self.go, self.node) if s]

    def scripted(self):
        """Each way to those that have the paths of server.go: a name, the server, a URL, and options."""
        for name, server in (("go", self.go), ("node", self.node)):
            if server:
                yield f"{name}, HTTP/1.1", server, server.plain, []
                yield f"{name}, HTTP/2", server, server.secure, ["--ca", self.ca, "--version", "2"]
                yield f"{name}, HTTP/1.1 with TLS", server, server.secure, ["--ca", self.ca, "--version", "1"]

    def files(self):
        """Each way to those that serve files."""
        for name, server in (("nginx", self.nginx), ("caddy", self.caddy)):
            if server:
                yield f"{name}, HTTP/1.1", server, server.plain, []
                yield f"{name}, HTTP/2", server, server.secure, ["--ca", self.ca, "--version", "2"]
                yield f"{name}, HTTP/1.1 with TLS", server, server.secure, ["--ca", self.ca, "--version", "1"]

    def close(self):
        for server in self.servers():
            server.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def every_way(ways):
    """Runs a test once for each way to a server: with the server, a URL and options."""
    def around(test):
        @functools.wraps(test)
        def run(self):
            for name, *way in ways(self.world):
                with self.subTest(name):
                    test(self, *way)
        return run
    return around


class RealServers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World()
        if cls.world.missing:
            print("left out, as they are not installed:", ", ".join(cls.world.missing), file=sys.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.world.close()

    def start(self, *args):
        c = Call(*args)
        self.addCleanup(c.close)
        return c

    def assert_body(self, result, size, status=200):
        self.assertNotIn("error", result)
        self.assertEqual((result["status"], result["size"], result["sum"]), (status, size, adler(pattern(size))))

    @every_way(World.scripted)
    def test_a_body_arrives_whole_in_parts_of_any_size(self, _server, url, options):
        for path in ("bytes", "chunked"):
            for part in (999, 65536):
                self.assert_body(call(*options, "--part", part, "open", f"{url}/{path}/1000003"), 1000003)
            self.assert_body(call(*options, "send", f"{url}/{path}/1000003"), 1000003)

    @every_way(World.files)
    def test_a_file_arrives_whole(self, _server, url, options):
        self.assert_body(call(*options, "open", f"{url}/large"), 20_000_000)

    @every_way(World.scripted)
    def test_a_slow_reader_and_a_slow_server_lose_nothing(self, _server, url, options):
        self.assert_body(call(*options, "--part", 20_000, "--pause", 5, "open", f"{url}/chunked/1000003"), 1000003)
        self.assert_body(call(*options, "open", f"{url}/trickle/30"), 30)

    def test_a_server_that_keeps_a_rate_loses_nothing(self):
        if self.world.nginx:
            url = self.world.nginx.plain
            self.assert_body(call("open", f"{url}/slow/text"), 300_000)

    @every_way(World.scripted)
    def test_many_exchanges_at_once_are_each_whole(self, _server, url, options):
        results = Call(*options, "--many", 50, "--part", 3000, "open", f"{url}/chunked/100003").rest()
        self.assertEqual(len(results), 50)
        for result in results:
            self.assert_body(result, 100003)

    @every_way(World.scripted)
    def test_a_body_that_nobody_reads_waits_while_others_of_its_connection_go_on(self, _server, url, options):
        size = 30_000_003  # more than the server may send unread
        for more in ((), ("--decode", "on")):
            self.assert_body(call(*options, *more, "--max-body", 100_000, "--beside", f"{url}/bytes/{size}", "open",
                                  f"{url}/bytes/{size}"), size)

    @every_way(World.files)
    def test_a_download_is_the_file(self, _server, url, options):
        to = self.world.dir / "downloaded"
        result = call(*options, "download", f"{url}/large", to)
        self.assertEqual((result["status"], result["bytes"]), (200, 20_000_000))
        self.assertEqual(to.read_bytes(), pattern(20_000_000))
        to.unlink()
        result = call(*options, "download", f"{url}/missing", to)
        self.assertEqual(result["status"], 404)
        self.assertFalse(to.exists())

    @every_way(World.scripted)
    def test_an_upload_arrives_whole_with_and_without_a_length(self, _server, url, options):
        size = 1_000_003
        for length, part in (("known", 70_000), ("unknown", 70_000), ("known", 999), ("unknown", 999)):
            result = call(*options, "--method", "PUT", "--size", size, "--length", length, "--part", part,
                          "upload", f"{url}/echo")
            self.assertEqual(result.get("status"), 200, result)
            seen = json.loads(result["text"])
            self.assertEqual((seen["size"], seen["sum"], seen["complete"]), (size, adler(pattern(size)), True))
            self.assertEqual(seen["length"], size if length == "known" else -1)
        result = call(*options, "--method", "POST", "--size", 200_000, "--pause", 20, "--length", "unknown",
                      "upload", f"{url}/echo")
        self.assertEqual(json.loads(result["text"])["size"], 200_000)
        result = call(*options, "--method", "POST", "--size", size, "send", f"{url}/echo")
        self.assertEqual(json.loads(result["text"])["sum"], adler(pattern(size)))
        result = call(*options, "--method", "POST", "--length", "known", "upload", f"{url}/echo")  # no bytes
        self.assertEqual(json.loads(result["text"])["size"], 0)

    def test_an_upload_to_nginx_is_the_file(self):
        if not self.world.nginx:
            self.skipTest("nginx")
        ways = ((self.world.nginx.plain, []), (self.world.nginx.secure, ["--ca", self.world.ca]))
        for n, (url, options) in enumerate(ways):
            for length in ("known", "unknown"):
                result = call(*options, "--method", "PUT", "--size", 5_000_003, "--length", length, "upload",
                              f"{url}/put/{n}{length}")
                self.assertEqual(result.get("status"), 201, result)
                self.assertEqual((self.world.put / f"{n}{length}").read_bytes(), pattern(5_000_003))

    @every_way(World.scripted)
    def test_a_server_that_answers_before_the_body_ends_is_heard(self, _server, url, options):
        for seen in (0, 100_000):
            for length in ("known", "unknown"):
                # More than a server takes on its own account after it has answered.
                result = call(*options, "--method", "POST", "--size", 50_000_000, "--length", length, "upload",
                              f"{url}/refuse/{seen}")
                self.assertEqual(result.get("status"), 413, result)
                self.assertEqual(result["text"], "too much")
                self.assertLess(result["written"], 50_000_000)

    def test_a_server_that_looks_at_no_body_is_heard(self):
        """One of HTTP/2 may end the stream behind its answer, and libcurl then loses that."""
        for server in filter(None, (self.world.go, self.world.node)):
            for size in (10, 100_000):
                for _ in range(5):
                    result = call("--ca", self.world.ca, "--method", "POST", "--size", size, "upload",
                                  f"{server.secure}/refuse/0")
                    self.assertEqual(result.get("status"), 413, result)

    def test_a_body_that_nginx_does_not_want_is_refused_by_it(self):
        if self.world.nginx:
            for url, options in ((self.world.nginx.plain, []), (self.world.nginx.secure, ["--ca", self.world.ca])):
                result = call(*options, "--method", "POST", "--size", 50_000_000, "upload", f"{url}/small")
                self.assertEqual(result.get("status"), 413, result)

    @every_way(World.scripted)
    def test_a_server_that_drops_an_upload_is_an_error(self, _server, url, options):
        for length in ("known", "unknown"):
            result = call(*options, "--method", "POST", "--size", 50_000_000, "--length", length, "upload",
                          f"{url}/drop/100000")
            self.assertIn("error", result)

    @every_way(World.scripted)
    def test_an_expectation_is_met(self, _server, url, options):
        result = call(*options, "--method", "PUT", "--header", "Expect=100-continue", "--size", 300_000, "upload",
                      f"{url}/echo")
        self.assertEqual(result.get("status"), 200, result)
        seen = json.loads(result["text"])
        self.assertEqual(seen["sum"], adler(pattern(300_000)))
        result = call(*options, "send", f"{url}/early")
        self.assertEqual((result["status"], result["text"]), (200, "after 103"))

    @every_way(World.scripted)
    def test_a_body_that_is_cut_off_is_an_error_after_its_bytes(self, _server, url, options):
        result = call(*options, "open", f"{url}/cut/100000")
        self.assertIn("error", result)
        self.assertEqual((result["status"], result["size"]), (200, 100_000))
        self.assertIn("error", call(*options, "send", f"{url}/cut/100000"))
        to = self.world.dir / "cut"
        self.assertIn("error", call(*options, "download", f"{url}/cut/100000", to))
        self.assertEqual(list(self.world.dir.glob("cut*")), [])

    @every_way(World.scripted)
    def test_a_body_is_decoded_and_of_one_that_is_cut_short_no_byte_is_wrong(self, _server, url, options):
        for what in ("send", "open"):
            self.assert_body(call(*options, "--decode", "yes", what, f"{url}/gzip/300000"), 300_000)
            # Only some versions of libcurl see that this one has no end. See client_options::decode_body.
            result = call(*options, "--decode", "yes", what, f"{url}/gzip-cut/300000")
            self.assertLess(result.get("size", 0), 300_000)
            if "error" not in result:
                self.assert_body(result, result["size"])
        plain = call(*options, "send", f"{url}/gzip/300000")
        self.assertLess(plain["size"], 30_000)

    @every_way(World.files)
    def test_a_file_is_decoded(self, server, url, options):
        path = "gz/text" if server is self.world.nginx else "text"
        self.assert_body(call(*options, "--decode", "yes", "open", f"{url}/{path}"), 300_000)

    @every_way(World.scripted)
    def test_events_come_whole_over_chunks_of_a_byte_and_over_connections(self, _server, url, options):
        results = Call(*options, "--events", 7, "events", f"{url}/events").rest()
        events = [r for r in results if "data" in r]
        self.assertEqual([e["id"] for e in events], [str(i) for i in range(1, 8)])
        for i, e in enumerate(events, 1):
            self.assertEqual((e["type"], e["data"]), ("größe", f"é {i} €\n𝄞 second"))
        self.assertEqual(len([r for r in results if "lost" in r]), 2)

    @every_way(World.scripted)
    def test_a_server_hears_at_once_of_an_exchange_that_goes(self, server, url, options):
        before = server.counts()
        c = self.start(*options, "--most-read", 50, "open", f"{url}/hold")
        self.assertEqual(c.head(), 200)
        wait_until(lambda: server.counts()["left"] == before["left"] + 1, "the server hears of it")
        c.close()
        before = server.counts()
        c = self.start(*options, "send", f"{url}/silence")
        wait_until(lambda: server.counts()["held"] == before["held"] + 1, "the server has it")
        c.process.send_signal(signal.SIGUSR1)
        self.assertIn("error", c.rest()[0])
        wait_until(lambda: server.counts()["left"] == before["left"] + 1, "the server hears of it")

    @every_way(World.scripted)
    def test_slow_readers_over_one_connection_each_get_their_own(self, _server, url, options):
        results = Call(*options, "--many", 40, "--part", 50_000, "--pause", 1, "open",
                       f"{url}/chunked/300000").rest()
        self.assertEqual([r.get("sum") for r in results], [adler(pattern(300_000))] * 40)

    @every_way(World.scripted)
    def test_a_server_that_stands_still_for_a_while_is_waited_for(self, server, url, options):
        reading = self.start(*options, "--pause", 1, "--part", 30_000, "open", f"{url}/chunked/30000000")
        writing = self.start(*options, "--method", "PUT", "--pause", 1, "--size", 30_000_000, "upload",
                             f"{url}/echo")
        self.assertEqual(reading.head(), 200)
        with server.stopped():
            time.sleep(3)
        self.assert_body(reading.rest()[0], 30_000_000)
        self.assertEqual(json.loads(writing.rest()[0]["text"])["sum"], adler(pattern(30_000_000)))

    @every_way(World.scripted)
    def test_a_server_that_stands_still_is_a_timeout_that_says_which(self, server, url, options):
        with server.stopped():
            result = call(*options, "--timeout", 400, "--connect-timeout", 60_000, "send", f"{url}/bytes/10")
            missing = "a header of the response came" if url.startswith("http:") else "TLS was set up, or"
            self.assertIn(f"client_options.timeout of 400ms passed before {missing}", result["what"])
        result = call(*options, "--timeout", 400, "send", f"{url}/hold")
        self.assertIn("client_options.timeout of 400ms passed before the response was complete", result["what"])
        result = call(*options, "--timeout", 400, "send", f"{url}/silence")
        self.assertIn("client_options.timeout of 400ms passed before a header of the response came", result["what"])

    def test_a_server_that_dies_is_an_error(self):
        if not self.world.node:
            self.skipTest("node")
        for secure in (False, True):
            server = self.world.start_node()
            self.addCleanup(server.close)
            url, options = (server.secure, ["--ca", self.world.ca]) if secure else (server.plain, [])
            reading = self.start(*options, "open", f"{url}/hold")
            self.assertEqual(reading.head(), 200)
            asking = self.start(*options, "send", f"{url}/silence")
            wait_until(lambda: server.counts()["held"] == 2, "the server has both")
            server.close()
            self.assertIn("error", reading.rest()[0])
            self.assertIn("error", asking.rest()[0])
            self.assertIn("error", call(*options, "send", f"{url}/bytes/10"))

    def test_a_client_shows_its_certificate(self):
        if not self.world.nginx:
            self.skipTest("nginx")
        url, ca = f"https://localhost:{self.world.mutual}/small", ["--ca", self.world.ca]
        mine = ["--cert", self.world.dir / "client.pem", "--key", self.world.dir / "client.key"]
        for version in ([], ["--version", "1"]):
            self.assertEqual(call(*ca, *version, "send", url)["status"], 400)
            result = call(*ca, *mine, *version, "send", url)
            self.assertEqual((result["status"], result["text"]), (200, "small"))
            self.assertEqual(call(*ca, *mine, *version, "open", url)["size"], 5)
        self.assertIn("certificate", call("send", url)["error"])

    @every_way(World.scripted)
    def test_a_redirect_is_followed_and_a_private_address_refused(self, _server, url, options):
        inner = urllib.parse.quote(f"{url}/bytes/10", safe="")
        self.assert_body(call(*options, "send", f"{url}/to?url={inner}"), 10)
        result = call(*options, "--public", "only", "send", f"{url}/bytes/10")
        self.assertEqual(result["error"], "The client does not connect to the server's address")

    def test_a_redirect_of_nginx_is_followed(self):
        if self.world.nginx:
            result = call("send", f"{self.world.nginx.plain}/moved")
            self.assertEqual((result["status"], result["text"]), (200, "small"))

    def test_a_unix_socket_is_spoken_to(self):
        if not self.world.nginx:
            self.skipTest("nginx")
        path = self.world.dir / "nginx.sock"
        self.assertEqual(call("--unix", path, "send", "http://any.example/small")["text"], "small")
        self.assert_body(call("--unix", path, "open", "http://any.example/large"), 20_000_000)
        result = call("--unix", path, "--method", "PUT", "--size", 5_000_003, "upload", "http://any.example/put/unix")
        self.assertEqual(result.get("status"), 201, result)
        self.assertEqual((self.world.put / "unix").read_bytes(), pattern(5_000_003))

    def test_httpbin_agrees(self):
        if not shutil.which("gunicorn"):
            self.skipTest("gunicorn")
        if subprocess.run(["gunicorn", "--check-config", "httpbin:app"], capture_output=True).returncode != 0:
            self.skipTest("httpbin")
        port, = free_ports(1)
        process = subprocess.Popen(["gunicorn", "-b", f"127.0.0.1:{port}", "--threads", "8", "httpbin:app"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        wait_until(lambda: connects(port), "gunicorn listens")
        url = f"http://127.0.0.1:{port}"
        for path in ("gzip", "brotli", "deflate"):
            result = call("--decode", "yes", "send", f"{url}/{path}")
            self.assertIn("Host", json.loads(result["text"])["headers"], path)
        self.assertEqual(call("open", f"{url}/stream-bytes/100000")["size"], 100_000)
        self.assertEqual(call("open", f"{url}/drip?duration=1&numbytes=10")["size"], 10)
        for length in ("known", "unknown"):
            result = call("--method", "POST", "--size", 1000, "--length", length, "upload", f"{url}/post")
            self.assertEqual(json.loads(result["text"])["data"], pattern(1000).decode(), length)
        self.assertEqual(call("send", f"{url}/redirect/3")["status"], 200)


def main():
    names = unittest.TestLoader().getTestCaseNames(RealServers)
    wanted = [n for n in names if len(sys.argv) < 3 or any(part in n for part in sys.argv[2:])]
    if not any(shutil.which(p) for p in ("nginx", "caddy", "go", "node")) or not shutil.which("openssl"):
        print("no server is installed")
        sys.exit(SKIPPED)
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(RealServers(n) for n in wanted))
    # A test that fails in several ways is one test.
    failed = {str(getattr(test, "test_case", test)) for test, _ in result.failures + result.errors}
    good = len(wanted) - len(failed)
    print(f"test cases: {len(wanted)} | {good} passed | {len(failed)} failed" if failed or not wanted else
          f"All tests passed (1 assertion in {good} test cases)")
    sys.exit(0 if wanted and result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
