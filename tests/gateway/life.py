#!/usr/bin/env python3
"""The life of canigo-gateway, from its start over reloads to its end: life.py CANIGO_GATEWAY [PART_OF_A_NAME …].

nginx is the upstream. A few lines here stand for systemd: they hand over sockets, and hear what the gateway tells.
Ends with the totals that Catch2 prints.
"""

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import pathlib
import platform
import re
import resource
import selectors
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from rig import DEFECT, GATEWAY, TOKEN, GatewayCase, connects, curl, free_ports, main, wait_until

# What sanitizers and the measurement of coverage read.
TOOLS = {name: value for name, value in os.environ.items() if name.startswith(("ASAN_", "LLVM_", "TSAN_", "UBSAN_"))}
PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "gateway"


# The system calls that take a connection.
ACCEPT_CALLS = {"x86_64": (43, 288), "aarch64": (202, 242)}


def refuse_accept(error):
    """From now on this process, and what it starts, gets this error for each connection that it would take."""
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

    accept, accept4 = ACCEPT_CALLS[platform.machine()]
    code = [(0x20, 0, 0, 0),  # load the number of the call
            (0x15, 1, 0, accept), (0x15, 0, 1, accept4),  # jump if it is equal
            (0x06, 0, 0, 0x00050000 | error),  # the error
            (0x06, 0, 0, 0x7FFF0000)]  # or let it go
    packed = b"".join(struct.pack("=HBBI", *c) for c in code)
    libc = ctypes.CDLL(None, use_errno=True)
    for args in ((38, 1, 0, 0, 0), (22, 2, ctypes.byref(Program(len(code), packed)), 0, 0)):  # no new rights; filter
        if libc.prctl(*args) != 0:
            raise OSError(ctypes.get_errno(), "seccomp")


class Callers:
    """Many clients at once, each with a connection and one call, and what each of them gets."""

    def __init__(self, port, paths, *fields):
        # A path, or a path and a field of its own.
        calls = [p if isinstance(p, tuple) else (p, "X: x") for p in paths]
        head = "".join(f"{f}\r\n" for f in ("Host: x", "Connection: close", *fields))
        self.answers = {}
        self.times = {}
        self.pending = selectors.DefaultSelector()
        for path, own in calls:
            s = socket.create_connection(("127.0.0.1", port))
            s.sendall(f"GET {path} HTTP/1.1\r\n{head}{own}\r\n\r\n".encode())
            self.pending.register(s, selectors.EVENT_READ, [path, b""])
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while self.pending.get_map():
            for key, _ in self.pending.select():
                try:
                    piece = key.fileobj.recv(65536)
                except OSError:
                    piece = b""
                path = key.data[0]
                self.times.setdefault(path, time.monotonic())
                key.data[1] += piece
                if not piece:
                    self.pending.unregister(key.fileobj)
                    key.fileobj.close()
                    self.answers[path] = key.data[1].decode()

    def wait(self, seconds=120):
        """All answers, in the order of their arrival."""
        self.reader.join(seconds)
        assert not self.reader.is_alive(), f"{len(self.pending.get_map())} have no answer"
        return list(self.answers.values())

    def statuses(self, seconds=120):
        return sorted(int(a.split()[1]) if a else 0 for a in self.wait(seconds))


def field(answer, name):
    found = re.search(rf"\r\n{name}: (.*?)\r\n", answer, re.I)
    return found and found[1]


class Supervisor:
    """What systemd is to a service: it owns listening sockets, hands them over, and hears how it goes."""

    def __init__(self, sockets):
        self.sockets = sockets  # by name
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="canigo-supervisor"))
        self.ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ear.bind(str(self.dir / "notify"))
        self.ear.settimeout(60)
        self.processes = []

    def start(self, config, **more):
        # LISTEN_PID is that of the program, which nobody knows before it is there: a shell becomes the program.
        moves = " ".join(f"{3 + i}<&{100 + i}" for i in range(len(self.sockets)))
        closes = " ".join(f"{100 + i}<&-" for i in range(len(self.sockets)))
        script = f'LISTEN_PID=$$; export LISTEN_PID; exec "$@" {moves} {closes}'
        copies = []
        try:
            for i, s in enumerate(self.sockets.values()):
                os.dup2(s.fileno(), 100 + i)
                copies.append(100 + i)
            process = subprocess.Popen(
                ["bash", "-c", script, "bash", GATEWAY, "--config", config], pass_fds=copies,
                stderr=subprocess.PIPE, text=True,
                env={**os.environ, "CANIGO_ADMIN_TOKEN": TOKEN, "NOTIFY_SOCKET": str(self.dir / "notify"),
                     "LISTEN_FDS": str(len(self.sockets)), "LISTEN_FDNAMES": ":".join(self.sockets), **more})
        finally:
            for fd in copies:
                os.close(fd)
        self.processes.append(process)
        return process

    def hear(self):
        return self.ear.recv(4096).decode()

    def wait_for(self, word):
        while word not in self.hear():
            pass

    def close(self):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
                p.wait()
        self.ear.close()
        shutil.rmtree(self.dir, ignore_errors=True)
        ends = [p.stderr.read() for p in self.processes if not p.stderr.closed]
        for p in self.processes:
            p.stderr.close()
        assert not DEFECT.search("".join(ends)), ends


class Load:
    """Calls at a rate, each with a connection of its own. A call that gets no 200 has failed."""

    def __init__(self, port, calls, rate):
        self.failed = []
        self.done = 0
        self.port = port
        self.lock = threading.Lock()
        share = 8
        self.threads = [threading.Thread(target=self.run, args=(calls // share, share / rate, i / rate), daemon=True)
                        for i in range(share)]
        for t in self.threads:
            t.start()

    def run(self, calls, pause, first):
        due = time.monotonic() + first
        for _ in range(calls):
            time.sleep(max(0, due - time.monotonic()))
            due += pause
            try:
                with socket.create_connection(("127.0.0.1", self.port), 60) as s:
                    s.settimeout(60)
                    s.sendall(b"GET /web/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    answer = s.makefile("rb").read()
                wrong = None if answer.startswith(b"HTTP/1.1 200") else answer[:60]
            except OSError as e:
                wrong = e
            with self.lock:
                self.done += 1
                if wrong is not None:
                    self.failed.append(wrong)

    def wait(self):
        for t in self.threads:
            t.join()
        return self.failed


class Life(GatewayCase):
    def reload(self, g, *changes):
        """The lines that it writes about the reload."""
        g.rewrite(*changes)
        g.process.send_signal(signal.SIGHUP)
        lines = []
        while not lines or not lines[-1].startswith("canigo-gateway: "):
            line = g.process.stderr.readline()
            self.assertTrue(line, "it has ended")
            lines.append(line.rstrip("\n"))
        return lines

    def reload_well(self, g, *changes):
        self.assertEqual(self.reload(g, *changes), ["canigo-gateway: reloaded"])

    def blocked(self, more="", rate="1/1h"):
        """An upstream at which everybody waits for an hour, or as long as the rate says. The bound is a week."""
        return self.upstream(f'rates = [{{ limit = "{rate}", burst = 1 }}]\nqueue = 50_000\nmax_wait = 7d\n' + more,
                             self.nginx.plain)

    def empty(self, g):
        """Takes the one token that may be there."""
        if g.state()["levels"][0] >= 1:
            curl(f"{g.url}/web/first")

    def calls(self, g, n, what="web", *fields):
        c = Callers(g.port, [f"/{what}/{i}" for i in range(n)], *fields)
        return c

    # Reload.

    def test_a_reload_changes_the_rate_of_those_who_wait(self):  # G21
        n = int(os.environ.get("CANIGO_WAITING", "1000"))
        rate = max(100, n // 10)
        # Of one tenant the last would wait for longer than anybody may.
        keys = [f"key{i}" for i in range(n // 100)]
        digests = [hashlib.sha256(k.encode()).hexdigest() for k in keys]
        tenants = "".join(f'[[tenant]]\nname = "{k}"\nkeys = ["sha256:{d}"]\n' for k, d in zip(keys, digests))
        g = self.gateway(self.blocked() + tenants,
                         head="limits.connections = { all = 60_000, per_address = 60_000 }")
        self.empty(g)
        callers = Callers(g.port, [(f"/web/{i}", f"X-Canigo-Key: {keys[i // 100]}") for i in range(n)])
        wait_until(lambda: g.waiting() == n, "they wait")
        start = time.monotonic()
        self.reload_well(g, ('"1/1h"', f'"{rate}/1s"'))
        took = time.monotonic() - start
        self.assertEqual(callers.statuses(), [200] * n)
        first = min(callers.times.values()) - start
        print(f"  {n} wait: reloaded after {1000 * took:.1f} ms, the first was served after {1000 * first:.1f} ms",
              file=sys.stderr)
        self.assertLess(first, 5)
        wait_until(lambda: len(self.nginx.calls()) >= n, "nginx logs them")

    def test_a_broken_file_changes_nothing(self):  # G21
        g = self.gateway(self.blocked())
        self.empty(g)
        callers = self.calls(g, 3)
        wait_until(lambda: g.waiting() == 3, "they wait")
        before = (g.dir / "gateway.toml").read_text()
        broken = [('"1/1h"', '"1000/1s"'), ('prefix = "/web"', 'prefix = "web"')]
        lines = self.reload(g, *broken)
        line = 1 + (g.dir / "gateway.toml").read_text().split('prefix = "web"')[0].count("\n")
        self.assertRegex(lines[0], rf'gateway.toml:{line}:\d+: upstream\[0\].prefix is "web"; allowed: ')
        self.assertEqual(lines[1:], ["canigo-gateway: not reloaded, nothing has changed"])
        (g.dir / "gateway.toml").write_text(before + "[[\n")
        self.assertRegex(self.reload(g)[0], r"gateway.toml:\d+:\d+: TOML: ")
        (g.dir / "gateway.toml").unlink()
        self.assertRegex(self.reload(g)[0], r"gateway.toml:0:0: the configuration can't be opened")
        self.assertEqual(g.waiting(), 3)
        (g.dir / "gateway.toml").write_text(before)
        self.reload_well(g, ('"1/1h"', '"1000/1s"'))
        self.assertEqual(callers.statuses(), [200] * 3)

    def test_what_needs_a_restart_is_refused_and_named(self):
        g = self.gateway(self.blocked())
        self.empty(g)
        callers = self.calls(g, 2)
        wait_until(lambda: g.waiting() == 2, "they wait")
        lines = self.reload(g, ("threads = 2", "threads = 3"), ('"1/1h"', '"1000/1s"'))
        self.assertRegex(lines[0], r"gateway.toml:2:11: threads is 3, which needs a restart$")
        self.assertEqual(g.waiting(), 2)
        lines = self.reload(g, ("threads = 3", "threads = 2"), ("burst = 1 }", 'burst = 1 }, { limit = "9/1s" }'))
        self.assertRegex(lines[0], r"gateway.toml:\d+:9: upstream\[0\].rates has another number of rates, which needs")
        self.reload_well(g, (', { limit = "9/1s" }', ""))
        self.assertEqual(callers.statuses(), [200] * 2)

    def test_a_reload_adds_and_removes_upstreams(self):
        other = self.blocked().replace('"web"', '"other"').replace('"/web"', '"/other"')
        g = self.gateway(self.blocked(), other)
        self.empty(g)
        if g.state(1)["levels"][0] >= 1:
            curl(f"{g.url}/other/first")
        gone = self.calls(g, 5, "web")
        stays = self.calls(g, 5, "other")
        wait_until(lambda: g.state(0)["waiting"] == 5 and g.state(1)["waiting"] == 5, "they wait")
        # What was "web" is "new" now, with another prefix.
        self.reload_well(g, ('name = "web"', 'name = "new"'), ('prefix = "/web"', 'prefix = "/new"'),
                         ('"1/1h"', '"1000/1s"'))
        for answer in gone.wait():
            self.assertTrue(answer.startswith("HTTP/1.1 503"), answer)
            self.assertEqual(field(answer, "X-Canigo-Error"), "no_route")
            self.assertIsNotNone(field(answer, "Retry-After"))
        self.assertEqual(stays.statuses(), [200] * 5)
        self.assertEqual(curl(f"{g.url}/web/x")[0], 404)
        self.assertEqual(curl(f"{g.url}/new/x")[0], 200)

    def test_an_upstream_that_goes_and_comes_while_a_body_is_sent_is_another_one(self):
        g = self.gateway(self.blocked(rate="1000/1s"))
        with socket.create_connection(("127.0.0.1", g.port), 30) as client:
            client.sendall(b"POST /web/x HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\nExpect: 100-continue\r\n\r\n")
            self.assertIn(b" 100 ", client.recv(100))  # its head is judged
            there, elsewhere = 'name = "web"', 'name = "other"'
            self.reload_well(g, (there, elsewhere))
            self.reload_well(g, (elsewhere, there))
            client.sendall(b"y" * 20)
            answer = client.recv(65536).decode()
        self.assertTrue(answer.startswith("HTTP/1.1 503"), answer)
        self.assertEqual(field(answer, "X-Canigo-Error"), "no_route")
        self.assertEqual(field(answer, "Retry-After"), "1")
        self.assertEqual(curl(f"{g.url}/web/x")[0], 200)

    def test_a_reload_changes_keys_and_removes_tenants(self):
        # SHA-256 of "one", "two" and "three".
        one = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
        two = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"
        three = "8b5b9db0c13db24256c829aa364aa90c6d2eba318b9232a4ab9313b954d3555f"
        tenants = "".join(f'[[tenant]]\nname = "{n}"\nkeys = ["sha256:{k}"]\n' for n, k in (("a", one), ("b", two)))
        g = self.gateway(self.blocked() + tenants)
        self.empty(g)
        stays = self.calls(g, 4, "web", "X-Canigo-Key: one")
        goes = self.calls(g, 4, "web", "X-Canigo-Key: two")
        wait_until(lambda: g.waiting() == 8, "they wait")
        self.reload_well(g, (one, three), (f'[[tenant]]\nname = "b"\nkeys = ["sha256:{two}"]\n', ""))
        self.assertEqual(goes.statuses(), [401] * 4)
        self.assertEqual(g.waiting(), 4)
        self.assertEqual(curl("-H", "X-Canigo-Key: one", f"{g.url}/web/x")[0], 401)
        self.reload_well(g, ('"1/1h"', '"1000/1s"'))
        self.assertEqual(stays.statuses(), [200] * 4)  # they had a key when they came
        self.assertEqual(curl("-H", "X-Canigo-Key: three", f"{g.url}/web/x")[0], 200)

    def test_a_limit_of_a_tenant_holds_for_those_who_wait(self):
        g = self.gateway(self.blocked(rate="10/1h") + '[[tenant]]\nname = "local"\n')
        self.empty(g)
        n = 1000  # it takes a while to move them to the new share
        callers = self.calls(g, n)
        wait_until(lambda: g.waiting() == n, "they wait")
        own = 'limits.web = { rates = [{ limit = "10/1h", burst = 1 }] }\n'
        self.reload_well(g, ('"10/1h"', '"1000000/1s"'), ('name = "local"\n', 'name = "local"\n' + own))
        time.sleep(0.5)
        self.assertEqual(g.waiting(), n)  # a new share begins empty
        self.reload_well(g, (own, 'limits.web = { rates = [{ limit = "1000/1s", burst = 1 }] }\n'))
        self.assertEqual(callers.statuses(), [200] * n)

    def test_who_waits_for_more_than_a_smaller_burst_asks_for_less(self):
        tenant = '[[tenant]]\nname = "local"\n'
        own = 'limits.web = { rates = [{ limit = "1000000/1s", burst = 50, unit = "tokens" }] }\n'
        for changes in ([("burst = 1000", "burst = 100")],  # of the upstream
                        [(tenant, tenant + own)]):          # of the tenant alone
            with self.subTest(changes=changes):
                g = self.gateway(self.upstream(
                    'rates = [{ limit = "1000/1h", burst = 1000, unit = "tokens" }]\ntokens = { api = "bytes/4" }\n'
                    'max_wait = 7d', self.nginx.plain) + tenant)
                callers = self.calls(g, 20, "web", "X-Canigo-Tokens: 900")
                wait_until(lambda g=g: g.waiting() == 20, "they wait")
                self.reload_well(g, ('"1000/1h"', '"1000000/1s"'), *changes)
                self.assertEqual(callers.statuses(), [200] * 20)

    def test_a_tenant_that_is_gone_gets_nothing_of_a_higher_rate(self):
        digest = hashlib.sha256(b"key").hexdigest()
        tenant = f'[[tenant]]\nname = "gone"\nkeys = ["sha256:{digest}"]\n'
        g = self.gateway(self.blocked(rate="10/1h") + tenant)
        self.empty(g)
        n = 500
        callers = self.calls(g, n, "web", "X-Canigo-Key: key")
        wait_until(lambda: g.waiting() == n, "they wait")
        before = len(self.nginx.calls())
        self.reload_well(g, ('"10/1h"', '"1000000/1s"'), (tenant, ""))
        self.assertEqual(callers.statuses(), [401] * n)
        self.assertEqual(len(self.nginx.calls()), before)

    def test_of_many_reloads_at_once_the_last_one_counts(self):
        g = self.gateway(self.blocked())
        self.empty(g)
        callers = self.calls(g, 50)
        wait_until(lambda: g.waiting() == 50, "they wait")
        asking = [threading.Thread(target=g.ask_admin, args=("/api/reload",), kwargs={"method": "POST"})
                  for _ in range(20)]
        for i, one in enumerate(asking):
            g.process.send_signal(signal.SIGHUP)
            one.start()
            if i == 10:
                g.rewrite(('"1/1h"', '"1000/1s"'))
        for one in asking:
            one.join()
        self.assertEqual(callers.statuses(), [200] * 50)
        reloads = re.search(r'reloads_total\{result="(\w+)"\} (\d+)', g.ask_admin("/metrics"))
        self.assertEqual(reloads[1], "done")
        self.assertGreaterEqual(int(reloads[2]), 20)

    def test_another_url_gets_new_requests_and_the_old_one_those_in_flight(self):
        held = threading.Event()
        self.addCleanup(held.set)

        def answer(client, _stream, head):
            if "/held" in head:
                held.wait()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold")

        script = self.script(answer)
        g = self.gateway(self.upstream(port=script.port))
        self.assertEqual(curl(f"{g.url}/web/a")[2], b"old")
        running = Callers(g.port, ["/web/held"])
        wait_until(lambda: g.state()["held"] == 1, "it runs")
        self.reload_well(g, (f":{script.port}", f":{self.nginx.plain}"))
        for _ in range(4):  # a connection that was kept would lead to the old one
            self.assertEqual(curl(f"{g.url}/web/b")[2], b"hello\n")
        self.assertEqual(g.state()["held"], 1)
        held.set()
        self.assertTrue(running.wait()[0].endswith("old"))

    def test_a_credential_is_read_anew(self):
        script = self.script(lambda client, _s, _h: client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        secret = pathlib.Path(folder.name) / "secret"
        secret.write_text("first\n")
        g = self.gateway(self.upstream(f'credential = {{ header = "Authorization", value = "file:{secret}" }}',
                                       script.port))
        curl(f"{g.url}/web/a")
        secret.write_text("second\n")
        self.reload_well(g)
        curl(f"{g.url}/web/a")
        self.assertEqual([re.search(r"Authorization: (\w+)", h)[1] for h in script.heads], ["first", "second"])
        secret.unlink()
        self.assertIn("gateway.toml:", self.reload(g)[0])
        curl(f"{g.url}/web/a")
        self.assertIn("Authorization: second", script.heads[-1])

    def test_a_certificate_is_read_anew(self):
        if shutil.which("openssl") is None:
            self.skipTest("openssl is missing")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        cert, key = (os.path.join(folder.name, n) for n in ("cert.pem", "key.pem"))

        def make(name):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                            "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", key, "-out", cert],
                           check=True, capture_output=True)

        make("one")
        g = self.gateway(self.upstream(), listen=f'tls = {{ cert = "{cert}", key = "{key}" }}')
        first = ssl.get_server_certificate(("127.0.0.1", g.port))
        self.assertEqual(first, pathlib.Path(cert).read_text())
        make("two")
        self.assertEqual(ssl.get_server_certificate(("127.0.0.1", g.port)), first)
        self.reload_well(g)
        self.assertEqual(ssl.get_server_certificate(("127.0.0.1", g.port)), pathlib.Path(cert).read_text())
        self.assertNotEqual(pathlib.Path(cert).read_text(), first)
        pathlib.Path(cert).write_text("no certificate\n")
        self.assertIn(cert, self.reload(g)[0])
        self.assertEqual(curl("-k", f"https://127.0.0.1:{g.port}/web/x")[0], 200)

    def test_a_client_with_a_certificate_resumes_its_session(self):
        if shutil.which("openssl") is None:
            self.skipTest("openssl is missing")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        cert, key = (os.path.join(folder.name, n) for n in ("cert.pem", "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", "/CN=search", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
        g = self.gateway(self.upstream(port=self.nginx.plain) + '[[tenant]]\nname = "a"\nsubject = "CN=search"\n',
                         listen=f'tls = {{ cert = "{cert}", key = "{key}", client_ca = "{cert}" }}', anonymous="")
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            client.check_hostname = False
            client.load_verify_locations(cert)
            client.load_cert_chain(cert, key)
            client.minimum_version = client.maximum_version = version
            session = None
            for is_resumed in (False, True):
                with socket.create_connection(("127.0.0.1", g.port)) as plain:
                    with client.wrap_socket(plain, session=session) as s:
                        s.sendall(b"GET /web/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                        self.assertRegex(s.makefile("rb").read(), rb"^HTTP/1.1 200")
                        self.assertEqual(s.session_reused, is_resumed, version)
                        session = s.session
        wait_until(lambda: len(g.log()) == 4, "all are in the log")
        self.assertEqual({e["tenant"] for e in g.log()}, {"a"})

    def test_a_configuration_that_became_a_pipe_is_refused(self):
        g = self.gateway(self.upstream(port=self.nginx.plain))
        (g.dir / "gateway.toml").unlink()
        os.mkfifo(g.dir / "gateway.toml")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            g.ask_admin("/api/reload", method="POST")
        self.assertIn("is a pipe", refused.exception.read().decode())
        self.assertEqual(curl(f"{g.url}/web/")[0], 200)

    def test_a_log_that_was_moved_away_is_opened_anew(self):
        g = self.gateway(self.upstream(port=self.nginx.plain))
        curl(f"{g.url}/web/a")
        wait_until(lambda: len(g.log()) == 1, "it is in the log")
        (g.dir / "access.log").rename(g.dir / "access.log.1")
        curl(f"{g.url}/web/b")
        moved = g.dir / "access.log.1"
        wait_until(lambda: len(moved.read_text().splitlines()) == 2, "it is in the file that was moved")
        self.reload_well(g)
        curl(f"{g.url}/web/c")
        wait_until(lambda: len(g.log()) == 1, "it is in the new file")
        self.assertEqual(g.log()[0]["path"], "/web/c")
        self.assertEqual(len(moved.read_text().splitlines()), 2)

    def test_reloads_leave_memory_and_descriptors_alone(self):
        n = int(os.environ.get("CANIGO_RELOADS", "150"))
        g = self.gateway(self.blocked())
        self.empty(g)
        callers = self.calls(g, 20)
        wait_until(lambda: g.waiting() == 20, "they wait")

        def used():
            status = pathlib.Path(f"/proc/{g.process.pid}/status").read_text()
            return (int(re.search(r"VmRSS:\s+(\d+)", status)[1]), len(os.listdir(f"/proc/{g.process.pid}/fd")))

        rates = ['"1/1h"', '"2/1h"']
        for i in range(n):
            self.reload_well(g, (rates[i % 2], rates[1 - i % 2]), ("/web", "/web") if i % 3 else ("http:", "http:"))
            if i == n // 3:
                middle = used()
        end = used()
        print(f"  KiB and descriptors after {n // 3} reloads: {middle}, after {n}: {end}", file=sys.stderr)
        self.assertLess(end[0], middle[0] + 4096)
        self.assertLessEqual(end[1], middle[1] + 2)
        self.assertEqual(g.waiting(), 20)
        self.reload_well(g, (rates[n % 2], '"1000/1s"'))
        self.assertEqual(callers.statuses(), [200] * 20)

    # Drain.

    def test_a_drain_answers_everybody(self):  # G22
        hold = threading.Event()
        self.addCleanup(hold.set)

        def answer(client, _stream, head):
            if "/run" in head:
                hold.wait()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        script = self.script(answer)
        slow = self.upstream('concurrency = 20\nqueue = 50_000\nmax_wait = 10m', script.port)
        fast = (self.upstream('rates = [{ limit = "60/1s", burst = 1 }]\nqueue = 50_000\nmax_wait = 10m',
                              self.nginx.plain).replace('"web"', '"fast"').replace('"/web"', '"/fast"'))
        late = self.blocked().replace('"web"', '"late"').replace('"/web"', '"/late"')
        g = self.gateway(slow, fast, late, head='grace = "60s"')
        if g.state(2)["levels"][0] >= 1:
            curl(f"{g.url}/late/first")
        running = Callers(g.port, [f"/web/run{i}" for i in range(20)])
        waiting = self.calls(g, 500, "fast")
        too_late = self.calls(g, 20, "late")
        wait_until(lambda: g.state(0)["held"] == 20 and g.state(2)["waiting"] == 20 and g.state(1)["waiting"] > 200,
                   "they run and wait")
        start = time.monotonic()
        g.process.send_signal(signal.SIGTERM)
        for answer in too_late.wait():
            self.assertTrue(answer.startswith("HTTP/1.1 503"), answer)
            self.assertEqual(field(answer, "X-Canigo-Error"), "draining")
            self.assertGreater(int(field(answer, "Retry-After")), 60)
        self.assertLess(time.monotonic() - start, 20)  # at once, and not at the end
        # The loops close their doors one after the other, and another program may have the port then.
        wait_until(lambda: not g.listens(), "the doors are closed")
        with self.assertRaises(urllib.error.HTTPError) as busy:
            urllib.request.urlopen(f"http://127.0.0.1:{g.admin}/readyz")
        self.assertEqual(busy.exception.code, 503)
        busy.exception.close()
        hold.set()
        self.assertEqual(running.statuses(), [200] * 20)
        self.assertEqual(waiting.statuses(), [200] * 500)
        self.assertEqual(g.process.wait(), 0)

    def test_connections_that_the_system_refuses_cost_no_processor_time(self):
        if platform.machine() not in ACCEPT_CALLS:
            self.skipTest("the numbers of its system calls are not known here")
        for error in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EPERM):
            g = self.gateway(self.upstream(), preexec_fn=lambda error=error: refuse_accept(error))
            with socket.create_connection(("127.0.0.1", g.port)):
                before = g.processor_seconds()
                time.sleep(1)
                self.assertLess(g.processor_seconds() - before, 0.5, error)
            self.assertIsNone(g.process.poll())

    def test_the_end_of_the_grace_tells_those_without_an_answer_and_cuts_the_others(self):
        hold = threading.Event()
        self.addCleanup(hold.set)

        def answer(client, _stream, head):
            if "/half" in head:
                client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
            hold.wait()

        script = self.script(answer)
        g = self.gateway(self.upstream("concurrency = 2\nmax_wait = 10m", script.port), head='grace = "1s"')
        running = Callers(g.port, ["/web/run", "/web/half"])
        wait_until(lambda: sum(r["bytes_out"] for r in g.state()["running"]) == 5, "one has the half of its answer")
        wait_until(lambda: g.state()["held"] == 2, "both run")
        waiting = self.calls(g, 5)
        wait_until(lambda: g.waiting() == 5, "they wait")
        log = (g.dir / "access.log").open()
        self.addCleanup(log.close)
        g.process.send_signal(signal.SIGTERM)
        self.assertEqual(waiting.statuses(), [503] * 5)
        running.wait()
        self.assertIn("X-Canigo-Error: draining", running.answers["/web/run"])
        self.assertTrue(running.answers["/web/half"].endswith("5\r\nfirst\r\n"))
        self.assertEqual(g.process.wait(), 1)
        ends = {e["path"]: (e["status"], e["error"]) for e in map(json.loads, log)}
        self.assertEqual(ends["/web/run"], (503, "draining"))
        self.assertEqual(ends["/web/half"], (200, "draining"))

    def test_a_client_that_takes_nothing_is_cut_and_the_log_says_so(self):
        g = self.gateway(self.upstream(port=self.script(lambda c, _s, _h: c.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n" + bytes(50_000_000))).port),
            head='limits.time = { write_stall = "1s" }')
        with socket.create_connection(("127.0.0.1", g.port)) as client:
            client.sendall(b"GET /web/x HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until(g.log, "it ends")
            self.assertEqual([(e["status"], e["error"]) for e in g.log()], [(200, "stalled")])

    def test_without_threads_or_memory_it_says_so_and_ends(self):
        if b"__asan_init" in pathlib.Path(GATEWAY).read_bytes():
            self.skipTest("a sanitizer needs more address space")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "gateway.toml"
            file.write_text('threads = 4\n[[listen]]\naddress = "127.0.0.1:0"\nanonymous = "local"\n'
                            '[[upstream]]\nname = "web"\nprefix = "/web"\nurl = "http://127.0.0.1:1"\n')
            ends = []
            for megabytes in range(60, 400, 20):
                few = f"ulimit -v {megabytes << 10}; exec '{GATEWAY}' --config '{file}'"
                process = subprocess.Popen(["sh", "-c", few], stderr=subprocess.PIPE, text=True)
                line = process.stderr.readline()  # would wait for ever if it hung
                if "listening on" in line:
                    process.send_signal(signal.SIGTERM)
                    process.wait()
                    break
                ends.append(process.wait())
                self.assertIn(ends[-1], (1, 127), line)
                process.stderr.close()
            else:
                self.fail(f"it never serves: {ends}")
            process.stderr.close()
            self.assertIn(1, ends)

    def test_what_it_can_not_print_is_an_error(self):
        for argument in ("--version", "--help"):
            with open("/dev/full", "w") as full:
                self.assertEqual(subprocess.run([GATEWAY, argument], stdout=full).returncode, 1, argument)

    def test_nothing_begins_late_in_a_drain(self):
        def answer(client, _stream, _head):
            time.sleep(0.4)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        g = self.gateway(self.upstream("concurrency = 4\nmax_wait = 10m", self.script(answer).port),
                         head='grace = "20s"')
        waiting = self.calls(g, 400)  # for 40 seconds
        wait_until(lambda: g.waiting() > 300, "they wait")
        g.process.send_signal(signal.SIGTERM)
        ends = waiting.statuses()
        self.assertEqual(set(ends), {200, 503})
        self.assertGreater(ends.count(200), 50)
        self.assertEqual(g.process.wait(), 0)

    def test_nobody_is_cut_who_is_told(self):
        g = self.gateway(self.upstream('concurrency = 1\nrates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 10h'),
                         head='grace = "0s"')
        self.empty(g)
        waiting = self.calls(g, 5)
        wait_until(lambda: g.waiting() == 5, "they wait")
        g.process.send_signal(signal.SIGTERM)
        self.assertEqual(waiting.statuses(), [503] * 5)
        self.assertEqual(g.process.wait(), 0)

    def test_a_second_signal_ends_it_now(self):
        hold = threading.Event()
        self.addCleanup(hold.set)
        script = self.script(lambda _c, _s, _h: hold.wait())
        g = self.gateway(self.upstream("concurrency = 1\nmax_wait = 10m", script.port), head='grace = "10m"')
        running = Callers(g.port, ["/web/run"])
        wait_until(lambda: g.state()["held"] == 1, "it runs")
        waiting = self.calls(g, 3)
        wait_until(lambda: g.waiting() == 3, "they wait")
        g.process.send_signal(signal.SIGTERM)
        wait_until(lambda: json.loads(g.ask_admin("/api/state"))["draining"], "it drains")
        g.process.send_signal(signal.SIGTERM)
        self.assertEqual(g.process.wait(60), 1)
        self.assertEqual(waiting.statuses() + running.statuses(), [503] * 4)

    def test_a_drain_takes_those_who_have_connected_in_time(self):
        g = self.gateway(self.upstream(port=self.nginx.plain))
        self.assertEqual(curl(f"{g.url}/web/x")[0], 200)
        kept = socket.create_connection(("127.0.0.1", g.port))
        self.addCleanup(kept.close)
        kept.sendall(b"GET /web/kept HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: b"hello" in kept.recv(65536, socket.MSG_PEEK), "it is answered")
        g.process.send_signal(signal.SIGSTOP)
        queued = Callers(g.port, [f"/web/{i}" for i in range(50)])
        silent = socket.create_connection(("127.0.0.1", g.port))  # asks for nothing
        self.addCleanup(silent.close)
        g.process.send_signal(signal.SIGTERM)
        g.process.send_signal(signal.SIGCONT)
        self.assertEqual(queued.statuses(), [200] * 50)
        kept.settimeout(60)
        self.assertNotIn(b"Connection: close", kept.makefile("rb").read())  # ends, unasked
        self.assertEqual(g.process.wait(), 0)

    def test_the_last_answer_of_a_connection_says_so(self):
        hold = threading.Event()
        self.addCleanup(hold.set)

        def answer(client, _stream, _head):
            hold.wait()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        script = self.script(answer)
        g = self.gateway(self.upstream(port=script.port))
        with socket.create_connection(("127.0.0.1", g.port)) as client:
            client.sendall(b"GET /web/x HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until(lambda: g.state()["held"] == 1, "it runs")
            g.process.send_signal(signal.SIGTERM)
            wait_until(lambda: json.loads(g.ask_admin("/api/state"))["draining"], "it drains")
            time.sleep(0.1)
            hold.set()
            self.assertIn(b"\r\nConnection: close\r\n", client.makefile("rb").read())
        self.assertEqual(g.process.wait(), 0)

    # Deployment.

    def handed_over(self, more="", systemd="gateway"):
        """A supervisor with a socket, and the file of a gateway that takes it."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.addCleanup(listener.close)
        s = Supervisor({"gateway": listener})
        self.addCleanup(s.close)
        port = listener.getsockname()[1]
        config = s.dir / "gateway.toml"
        config.write_text(f'threads = 2\naccess_log = "off"\n{more}\n[[listen]]\naddress = "127.0.0.1:{port}"\n'
                          f'systemd = "{systemd}"\n[[upstream]]\n' + self.upstream(port=self.nginx.plain))
        return s, port, config

    def test_a_restart_by_sockets_that_are_handed_over_loses_nobody(self):  # G22
        calls = int(os.environ.get("CANIGO_CALLS", "1600"))
        s, port, config = self.handed_over()
        process = s.start(config)
        s.wait_for("READY=1")
        load = Load(port, calls, 200)
        restarts = 0
        while load.done < calls * 3 // 4:
            time.sleep(1)
            process.terminate()
            self.assertEqual(process.wait(), 0)
            process = s.start(config)
            s.wait_for("READY=1")
            restarts += 1
        self.assertEqual(load.wait(), [])
        print(f"  {calls} calls over {restarts} restarts", file=sys.stderr)
        self.assertGreaterEqual(restarts, 1)

    def test_two_instances_overlap_on_one_port(self):  # G22
        calls = int(os.environ.get("CANIGO_CALLS", "1600"))
        migrates = pathlib.Path("/proc/sys/net/ipv4/tcp_migrate_req")
        before = migrates.read_text() if migrates.exists() else None
        try:
            migrates.write_text("1")
        except OSError:
            self.skipTest("the kernel hands no connection from one socket to another, or this user may not ask it to")
        self.addCleanup(lambda: migrates.write_text(before))
        s = Supervisor({})
        self.addCleanup(s.close)
        port, admin = free_ports(2)
        config = s.dir / "gateway.toml"
        config.write_text(f'threads = 2\naccess_log = "off"\n'
                          f'admin = {{ listen = "127.0.0.1:{admin}", token = "env:CANIGO_ADMIN_TOKEN" }}\n'
                          f'[[listen]]\naddress = "127.0.0.1:{port}"\n'
                          f'reuse_port = true\n[[upstream]]\n' + self.upstream(port=self.nginx.plain))
        process = s.start(config)
        s.wait_for("READY=1")
        load = Load(port, calls, 200)
        restarts = 0
        while load.done < calls * 3 // 4:
            time.sleep(1)
            following = s.start(config)
            s.wait_for("READY=1")
            process.terminate()
            self.assertEqual(process.wait(), 0)
            process = following
            restarts += 1
        self.assertEqual(load.wait(), [])
        print(f"  {calls} calls over {restarts} restarts", file=sys.stderr)

    def test_a_socket_that_is_another_is_refused(self):
        s, port, config = self.handed_over(systemd="web")
        process = s.start(config)
        self.assertEqual(process.wait(), 1)
        self.assertIn('the socket "web" of systemd was not handed over', process.stderr.read())
        config.write_text(config.read_text().replace('"web"', '"gateway"', 1).replace(f":{port}", ":1", 1))
        process = s.start(config)
        self.assertEqual(process.wait(), 1)
        self.assertIn(f'the socket "gateway" of systemd is at 127.0.0.1:{port}, and the listener\'s address is '
                      "127.0.0.1:1", process.stderr.read())

    def unix_file(self, path, name):
        """A file of a gateway that listens at the path of a unix socket."""
        config = pathlib.Path(path).parent / name
        config.write_text(f'threads = 2\naccess_log = "off"\n[[listen]]\naddress = "unix:{path}"\n'
                          'anonymous = "local"\n[[upstream]]\n' + self.upstream(port=self.nginx.plain))
        return config

    def start_at(self, path, name):
        process = subprocess.Popen([GATEWAY, "--config", self.unix_file(path, name)], stderr=subprocess.PIPE, text=True)

        def end():
            process.kill()
            process.wait()
            process.stderr.close()

        self.addCleanup(end)
        return process

    def test_a_file_at_the_path_of_a_unix_socket_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "data.db")
            pathlib.Path(path).write_text("precious")
            process = self.start_at(path, "a.toml")
            self.assertEqual(process.wait(60), 1)
            self.assertIn(path, process.stderr.read())
            self.assertEqual(pathlib.Path(path).read_text(), "precious")

    def test_a_unix_socket_outlives_the_one_before_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")

            def ask(target="/web/x"):
                return curl("--unix-socket", path, f"http://x{target}")

            killed = self.start_at(path, "a.toml")
            self.assertIn("listening on", killed.stderr.readline())
            killed.kill()
            killed.wait()
            first = self.start_at(path, "b.toml")  # at what the killed one has left
            self.assertIn("listening on", first.stderr.readline())
            self.assertEqual(ask()[0], 200)
            kept = socket.socket(socket.AF_UNIX)
            self.addCleanup(kept.close)
            kept.connect(path)
            kept.sendall(b"GET /web/x HTTP/1.1\r\nHost: x")  # it drains as long as this is on
            time.sleep(0.2)
            first.send_signal(signal.SIGTERM)
            wait_until(lambda: not os.path.exists(path), "it listens no longer")
            second = self.start_at(path, "c.toml")
            self.assertIn("listening on", second.stderr.readline())
            kept.sendall(b"\r\n\r\n")
            self.assertEqual(first.wait(), 0)
            self.assertEqual(ask()[0], 200)
            second.terminate()
            self.assertEqual(second.wait(), 0)
            self.assertFalse(os.path.exists(path))

    def test_a_unix_socket_without_an_anonymous_tenant_is_for_all_users(self):
        with tempfile.TemporaryDirectory() as folder:
            for anonymous, wanted in (("local", 0o700), ("", 0o666)):
                path = os.path.join(folder, f"socket{wanted}")
                config = self.unix_file(path, "a.toml")
                digest = hashlib.sha256(b"key").hexdigest()
                config.write_text(config.read_text().replace('anonymous = "local"', f'anonymous = "{anonymous}"') +
                                  f'[[tenant]]\nname = "keyed"\nkeys = ["sha256:{digest}"]\n')
                with subprocess.Popen([GATEWAY, "--config", config], stderr=subprocess.PIPE, text=True,
                                      umask=0o077) as process:
                    self.assertIn("listening on", process.stderr.readline())
                    self.assertEqual(os.stat(path).st_mode & 0o777, wanted)
                    process.terminate()

    def test_a_socket_that_no_listener_names_is_told(self):
        s, _, config = self.handed_over()
        s.sockets["spare"] = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(s.sockets["spare"].close)
        process = s.start(config)
        s.wait_for("READY=1")
        self.assertIn('the socket "spare" of systemd is of no use: no listener names it', process.stderr.readline())

    def test_systemd_itself_hands_over_a_socket(self):
        if shutil.which("systemd-socket-activate") is None:
            self.skipTest("systemd-socket-activate is missing")
        _, _, config = self.handed_over()
        port, = free_ports(1)
        config.write_text(re.sub(r"(address = .*:)\d+", rf"\g<1>{port}", config.read_text()))
        process = subprocess.Popen(["systemd-socket-activate", "-l", f"127.0.0.1:{port}", "--fdname=gateway",
                                    GATEWAY, "--config", config], stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def is_served():
            with contextlib.suppress(AssertionError):
                return curl(f"http://127.0.0.1:{port}/web/x")[0] == 200

        wait_until(is_served, "it is served")
        process.terminate()
        self.assertEqual(process.wait(), 0)

    def test_a_supervisor_hears_how_it_goes(self):
        s, _, config = self.handed_over()
        start = time.monotonic()
        process = s.start(config, WATCHDOG_USEC="400000")
        self.assertEqual(s.hear(), "WATCHDOG=1")
        self.assertEqual(s.hear(), "READY=1")
        print(f"  ready after {1000 * (time.monotonic() - start):.0f} ms, with a shell before it", file=sys.stderr)
        self.assertEqual([s.hear() for _ in range(3)], ["WATCHDOG=1"] * 3)
        process.send_signal(signal.SIGHUP)
        heard = s.hear()
        while heard == "WATCHDOG=1":
            heard = s.hear()
        self.assertRegex(heard, r"^RELOADING=1\nMONOTONIC_USEC=\d+$")
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.assertLess(abs(now - int(heard.rpartition("=")[2])), 60_000_000)
        s.wait_for("READY=1")
        process.terminate()
        while not heard.startswith("STOPPING=1\nEXTEND_TIMEOUT_USEC="):
            heard = s.hear()
        self.assertEqual(process.wait(), 0)

    def test_it_may_open_as_many_files_as_it_is_allowed(self):
        s, _, config = self.handed_over()
        process = s.start(config)
        s.wait_for("READY=1")
        limits = pathlib.Path(f"/proc/{process.pid}/limits").read_text()
        soft, hard = re.search(r"Max open files\s+(\d+)\s+(\d+)", limits).groups()
        self.assertEqual(soft, hard)

    def test_it_needs_some_files(self):
        for threads, needed in ((2, 50), (12, 100), (64, 360)):
            g = self.gateway(self.upstream(port=self.nginx.plain), threads=threads,
                             preexec_fn=lambda n=needed: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
            self.assertEqual(curl(f"{g.url}/web/")[0], 200)
            self.assertEqual(g.ask_admin("/api/reload", method="POST"), '{"ok":true}\n')
            for few in (10, 24, needed - 1):
                done = subprocess.run([GATEWAY, "--config", g.dir / "gateway.toml"], stderr=subprocess.PIPE, text=True,
                                      env=os.environ | {"CANIGO_ADMIN_TOKEN": TOKEN},
                                      preexec_fn=lambda n=few: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
                self.assertEqual((done.returncode, done.stderr),
                                 (1, f"canigo-gateway: this process may open {few} files (RLIMIT_NOFILE); allowed: "
                                     f"{needed} or more, with {threads} threads and 1 listeners\n"))

    def test_a_check_says_that_the_log_can_not_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "gateway.toml"
            for log, why in ((f"{folder}/nowhere/log", "No such file or directory"), (folder, "Is a directory"),
                             (f"{file}/log", "Not a directory"), (f"{folder}/log", "")):
                file.write_text(f'access_log = "file:{log}"\n'
                                '[[listen]]\naddress = "127.0.0.1:0"\nanonymous = "local"\n'
                                '[[upstream]]\nname = "web"\nprefix = "/web"\nurl = "http://127.0.0.1:1"\n')
                done = subprocess.run([GATEWAY, "--check", "--config", file], capture_output=True, text=True)
                self.assertEqual(done.returncode, 2 if why else 0, done.stderr)
                told = f'{file}:1:14: access_log is "file:{log}": {why}\n' if why else ""
                self.assertEqual(done.stderr, told)
            self.assertEqual(os.listdir(folder), ["gateway.toml"])  # the program that serves may be another user's

    def test_a_check_looks_at_the_certificates_and_needs_no_standard_error(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate = pathlib.Path(folder) / "cert.pem"
            certificate.write_text("x")
            file = pathlib.Path(folder) / "gateway.toml"
            file.write_text('[[listen]]\naddress = "127.0.0.1:0"\nanonymous = "local"\n'
                            f'tls = {{ cert = "{certificate}", key = "{certificate}" }}\n'
                            '[[upstream]]\nname = "web"\nprefix = "/web"\nurl = "http://127.0.0.1:1"\n')
            done = subprocess.run([GATEWAY, "--check", "--config", file], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            told = f'{file}:4:16: listen[0].tls.cert is "{certificate}": '
            self.assertTrue(done.stderr.startswith(told), done.stderr)
            with open("/dev/full", "w") as full:
                done = subprocess.run([GATEWAY, "--check", "--config", file], stderr=full)
            self.assertEqual(done.returncode, 2)
            done = subprocess.run(["sh", "-c", f"exec '{GATEWAY}' --check --config '{file}' 2>&-"])
            self.assertEqual(done.returncode, 2)

    @contextlib.contextmanager
    def without_room_on_standard_error(self):
        """A gateway that listens, and waits until its first message is taken; its port, and where that is read."""
        port, = free_ports(1)
        told, stderr = os.pipe()
        self.addCleanup(os.close, told)
        os.set_blocking(stderr, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(stderr, b"x")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "gateway.toml"
            file.write_text(f'access_log = "off"\n[[listen]]\naddress = "127.0.0.1:{port}"\n'
                            '[[upstream]]\nname = "web"\nprefix = "/web"\nurl = "http://127.0.0.1:1"\n')
            process = subprocess.Popen([GATEWAY, "--config", file], stderr=stderr)
            os.close(stderr)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            wait_until(lambda: connects(port), "it listens")
            yield process, port, told
            process.terminate()
            self.assertEqual(process.wait(), 0)

    def test_a_signal_is_heard_as_soon_as_it_listens(self):
        with self.without_room_on_standard_error() as (process, _, told):
            time.sleep(0.1)  # by now it waits until that message is taken
            process.send_signal(signal.SIGHUP)
            time.sleep(0.1)  # the signal ends that wait, before there is room
            text = b""
            while piece := os.read(told, 65536):
                text += piece
                if b"reloaded\n" in text:
                    break
            self.assertRegex(text, b"listening on .*\ncanigo-gateway: reloaded\n$")

    def test_signals_prolong_no_wait_of_a_message(self):
        with self.without_room_on_standard_error() as (process, port, _):
            ask = ["curl", "-sS", "-m", "2", f"http://127.0.0.1:{port}/none"]

            def is_served():
                process.send_signal(signal.SIGHUP)
                return subprocess.run(ask, capture_output=True).returncode == 0

            wait_until(is_served, "it serves")

    def test_a_place_that_is_taken_is_named(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "gateway.toml"
            for admin, door, told in (
                    ("127.0.0.1:0", place, f'4:11: listen[0].address is "{place}": Address already in use'),
                    (place, "127.0.0.1:0", f'1:20: admin.listen is "{place}": Address already in use'),
                    ("127.0.0.1:0", f"unix:{folder}/no/s",
                     f'4:11: listen[0].address is "unix:{folder}/no/s": No such file or directory')):
                file.write_text(f'admin = {{ listen = "{admin}", token = "env:CANIGO_ADMIN_TOKEN" }}\n'
                                f'access_log = "off"\n[[listen]]\naddress = "{door}"\n'
                                '[[upstream]]\nname = "web"\nprefix = "/web"\nurl = "http://127.0.0.1:1"\n')
                done = subprocess.run([GATEWAY, "--config", file], capture_output=True, text=True,
                                      env={**TOOLS, "CANIGO_ADMIN_TOKEN": TOKEN})
                self.assertEqual((done.returncode, done.stderr), (1, f"{file}:{told}\n"))

    def test_a_check_a_start_and_a_reload_say_the_same(self):
        g = self.gateway(self.blocked(), env={"CANIGO_REDIS_OF_THE_TEST": "redis://:a-secret@127.0.0.1:99999"})
        file = g.dir / "gateway.toml"
        right = file.read_text()
        (g.dir / "cert.pem").write_text("x")
        tls = f'tls = {{ cert = "{g.dir}/cert.pem", key = "{g.dir}/cert.pem" }}'
        mistakes = [(f"file:{g.dir}/access.log", f"file:{g.dir}/no/log", 'access_log is "file:'),
                    ('anonymous = "local"', f'anonymous = "local"\n{tls}', "listen[0].tls.cert is "),
                    ('prefix = "/web"', 'prefix = "web"', 'upstream[0].prefix is "web"; '),
                    ("threads = 2", "threads =", "TOML: ")]
        for old, new, told in mistakes:
            self.assertIn(old, right)
            file.write_text(right.replace(old, new))
            lines = self.reload(g)[:-1]
            self.assertEqual(len(lines), 1, lines)
            self.assertIn(told, lines[0])
            self.assertRegex(lines[0], r"^.*/gateway.toml:\d+:\d+: ")
            for how in ([], ["--check"]):
                done = subprocess.run([GATEWAY, "--config", file, *how], capture_output=True, text=True,
                                      env={**TOOLS, "CANIGO_ADMIN_TOKEN": TOKEN})
                self.assertEqual((done.returncode, done.stderr.splitlines()), (2, lines), how)
        # Another Redis needs a restart, whatever it is: no reload looks at it.
        file.write_text('redis = "env:CANIGO_REDIS_OF_THE_TEST"\n' + right)
        for how in ([], ["--check"]):
            done = subprocess.run([GATEWAY, "--config", file, *how], capture_output=True, text=True,
                                  env={**TOOLS, "CANIGO_ADMIN_TOKEN": TOKEN,
                                       "CANIGO_REDIS_OF_THE_TEST": "redis://:a-secret@127.0.0.1:99999"})
            self.assertEqual((done.returncode, done.stderr),
                             (2, f'{file}:1:9: redis is "env:CANIGO_REDIS_OF_THE_TEST": redis url: port is 99999; '
                                 "allowed: 1 to 65535\n"))

    def test_the_kernel_looks_for_clients_that_vanish(self):
        g = self.gateway(self.blocked())
        self.empty(g)
        callers = self.calls(g, 5)
        wait_until(lambda: g.waiting() == 5, "they wait")
        kept_alive = "02"  # the timer that runs
        wait_until(lambda: sum(row[5].startswith(kept_alive) for row in g.sockets("01")) == 5, "they are looked for")
        self.reload_well(g, ('"1/1h"', '"1000/1s"'))
        self.assertEqual(callers.statuses(), [200] * 5)

    def test_what_is_shipped_is_sound(self):
        example = PACKAGING / "gateway.toml"
        done = subprocess.run([GATEWAY, "--check", "--config", example], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{example}: ok\n", ""))
        # Each line that is only a suggestion is right, too.
        with tempfile.TemporaryDirectory() as folder:
            text = re.sub(r"^#(?=[a-z]+ = |\[)", "", example.read_text(), flags=re.M)
            (pathlib.Path(folder) / "all.toml").write_text(text)
            self.assertIn("\n[admin]", text)
            done = subprocess.run([GATEWAY, "--check", "--config", pathlib.Path(folder) / "all.toml"],
                                  capture_output=True, text=True,
                                  env={"CANIGO_ADMIN_TOKEN": "t" * 16, "EXAMPLE_AUTHORIZATION": "x"})
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            if shutil.which("systemd-analyze") is None:
                return
            unit = pathlib.Path(folder) / "canigo-gateway.service"
            (pathlib.Path(folder) / "canigo-gateway").symlink_to(os.path.abspath(GATEWAY))
            unit.write_text((PACKAGING / "canigo-gateway.service.in").read_text()
                            .replace("@bindir@", folder).replace("Documentation=", "#"))
            shutil.copy(PACKAGING / "canigo-gateway.socket", folder)
            done = subprocess.run(["systemd-analyze", "verify", unit, pathlib.Path(folder) / "canigo-gateway.socket"],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_it_names_its_libraries(self):
        done = subprocess.run([GATEWAY, "--version"], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"^canigo-gateway \d+\.\d+\.\d+\nBoost/\S+ OpenSSL .* toml\+\+/\S+ "
                                      r"nlohmann_json/\S+\nAsio/\S+ fmt/\S+ CLI11/\S+\n$")
        for args in ([], ["--config"], ["--config", "x", "more"]):
            self.assertEqual(subprocess.run([GATEWAY, *args], capture_output=True).returncode, 2)


if __name__ == "__main__":
    main(Life)
