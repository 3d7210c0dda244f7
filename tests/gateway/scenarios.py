#!/usr/bin/env python3
"""The scenarios of canigo-gateway that reverse.py does not have whole: scenarios.py CANIGO_GATEWAY [PART_OF_A_NAME …].

Clients in four languages, exact amounts, and what a slow or greedy side may cost. Each has a control: the same look at
something that breaks the promise. Ends with the totals that Catch2 prints.
"""

import hashlib
import json
import os
import pathlib
import random
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from rig import GATEWAY, Curls, GatewayCase, connects, curl, free_ports, main, wait_until

CLIENTS = pathlib.Path(__file__).parent / "clients"
MIB = 1 << 20


def resident(pid):
    """KiB that a process has in memory."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1])


def queues_of(port, of_peer):
    """(bytes unacknowledged, bytes unread) of the connection between these ports, as its side at `port` has them."""
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(f.split(":")[1], 16) for f in fields[1:3]]
        if ports == [port, of_peer]:
            return tuple(int(n, 16) for n in fields[4].split(":"))
    raise AssertionError(f"there is no connection from {port} to {of_peer}")


def most_in_a_second(times):
    times = sorted(times)
    first = most = 0
    for last, t in enumerate(times):
        while times[first] <= t - 1:
            first += 1
        most = max(most, last - first + 1)
    return most


def granted_at(entry):
    """The second at which a call of the access log had its place."""
    at = time.strptime(entry["time"][:19], "%Y-%m-%dT%H:%M:%S")
    return time.mktime(at) + int(entry["time"][20:23]) / 1e3 + entry["wait_ms"] / 1e3


def clients(folder):
    """{name: the beginning of its command} of those that this machine has."""
    found = {"curl": None}
    for python in filter(None, {sys.executable, shutil.which("python3", path="/usr/bin:/bin")}):
        for library in ("urllib", "requests", "httpx"):
            if subprocess.run([python, "-c", f"import {library}"], capture_output=True).returncode == 0:
                found[library] = [python, CLIENTS / "client.py", library]
    if shutil.which("node") and subprocess.run(["node", "-e", "fetch"], capture_output=True).returncode == 0:
        found["node"] = ["node", CLIENTS / "client.mjs"]
    if shutil.which("go"):
        built = subprocess.run(["go", "build", "-o", folder / "client", CLIENTS / "client.go"],
                               env={**os.environ, "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}, capture_output=True,
                               text=True)
        assert built.returncode == 0, built.stderr
        found["go"] = [folder / "client"]
    return found


class Scenarios(GatewayCase):
    def use(self, g):
        """Takes the burst of 1 of an upstream, so that the next call waits."""
        if g.state()["levels"][0] >= 1:
            self.assertEqual(curl(f"{g.url}/web/first")[0], 200)

    def test_clients_of_four_languages_are_understood(self):  # G1
        def answer(client, stream, head):
            length = re.search(r"\r\nContent-Length: (\d+)", head)
            if length:
                body = stream.read(int(length[1]))
            else:
                body = b""
                while "\r\nTransfer-Encoding: chunked" in head and (size := int(stream.readline(), 16)):
                    body += stream.read(size)
                    stream.readline()
                if "\r\nTransfer-Encoding" in head:
                    stream.readline()
            got.append((*head.split(" ", 2)[:2], hashlib.sha256(body).hexdigest()))
            text = b"" if head.startswith("HEAD") else random.Random(head.split()[1]).randbytes(100_000)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + text)

        script = self.script(answer)
        g = self.gateway(self.upstream(port=script.port))
        body = random.Random(3).randbytes(MIB)
        (g.dir / "body").write_bytes(body)
        calls = [("GET", "/a"), ("POST", "/b?x=%2F"), ("PUT", "/c"), ("DELETE", "/d"), ("GET", "/e%2Ff//g?q=1&r=%20x")]
        sent = hashlib.sha256(body).hexdigest()
        empty = hashlib.sha256(b"").hexdigest()
        wanted = [(method, target, sent if method in ("POST", "PUT") else empty) for method, target in calls]
        for name, command in clients(g.dir).items():
            got = []
            if command is None:
                for method, target in calls:
                    more = ["--data-binary", f"@{g.dir}/body"] if method in ("POST", "PUT") else []
                    self.assertEqual(curl("-X", method, "--path-as-is", *more, f"{g.url}/web{target}")[0], 200)
            else:
                args = [part for method, target in calls for part in (method, f"/web{target}")]
                done = subprocess.run([*command, g.url, g.dir / "body", *args], capture_output=True, text=True,
                                      env={**os.environ, "NO_PROXY": "*"})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.splitlines(),
                                 [f"200 {hashlib.sha256(random.Random(t).randbytes(100_000)).hexdigest()}"
                                  for _, t in calls], name)
            self.assertEqual(got, wanted, name)
            print(f"  {name}: {len(calls)} calls", file=sys.stderr)

    def test_no_second_has_more_than_the_rate(self):  # G2
        calls = int(os.environ.get("CANIGO_CALLS", "600"))
        for rate in (10, 20):  # the second is the control
            n = calls if rate == 10 else 60
            g = self.gateway(self.upstream(f'rates = [{{ limit = "{rate}/1s", burst = 1 }}]\nmax_wait = 10m',
                                           self.nginx.plain))
            each = [Curls([f"{g.url}/web/{i}" for i in range(n // 3)]) for _ in range(3)]
            for c in each:
                self.assertEqual(c.statuses(), [200] * (n // 3))
            wait_until(lambda: len(g.log()) == n, "all are in the log")
            times = [granted_at(e) for e in g.log()]
            most = most_in_a_second(times)
            mean = (n - 1) / (max(times) - min(times))
            print(f"  {rate}/s: {mean:.2f}/s, at most {most} in a second", file=sys.stderr)
            if rate == 10:
                # One more than by the rate: on a busy machine a call may be noted before it has begun to wait.
                self.assertLessEqual(most, 12)
                self.assertGreaterEqual(mean, 9.8)
            else:
                self.assertGreater(most, 12)

    def test_the_youngest_of_the_least_important_is_evicted(self):  # G5
        g = self.gateway(self.upstream('rates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 10h\nqueue = 3'))
        self.use(g)
        waiters = []
        for i, priority in enumerate(("batch", "batch", "normal")):
            waiters.append(Curls([f"{g.url}/web/{i}"], "-H", f"X-Canigo-Priority: {priority}"))
            self.addCleanup(waiters[-1].kill)
            wait_until(lambda: g.waiting() == i + 1, "it waits")
        status, fields, _ = curl("-H", "X-Canigo-Priority: batch", f"{g.url}/web/control")
        self.assertEqual((status, fields["x-canigo-error"]), (429, "queue_full"))
        gone = []
        for urgent, evicted in (("3", 1), ("4", 0), ("5", 2)):  # the younger batch call, the older one, the normal one
            waiters.append(Curls([f"{g.url}/web/{urgent}"], "-H", "X-Canigo-Priority: interactive"))
            self.addCleanup(waiters[-1].kill)
            self.assertEqual(waiters[evicted].statuses(), [429])
            gone.append(f"/web/{evicted}")
            wait_until(lambda: [e["path"] for e in g.log() if e["error"] == "evicted"] == gone, f"{gone} are evicted")
        self.assertEqual(g.waiting(), 3)

    def test_a_hopeless_wait_is_refused_at_once(self):  # G6
        g = self.gateway(self.upstream('rates = [{ limit = "1/5s", burst = 1 }]\nmax_wait = 2s'))
        took, refused = [], 0
        for i in range(20):
            status, fields, _ = curl(f"{g.url}/web/late{i}")
            if status == 200:
                continue
            self.assertEqual((status, fields["x-canigo-error"]), (429, "wait_too_long"))
            refused += 1
            # Each is told a time when a place will be free for it: the next one 5 s after the one before.
            self.assertLessEqual(int(fields["retry-after"]), 5 * refused)
            wait_until(lambda: any(e["path"] == f"/web/late{i}" for e in g.log()), "it is in the log")
            took.append(g.log()[-1]["total_ms"])
            if took[-1] <= 10:
                break
        self.assertLessEqual(min(took), 10)  # of a busy machine, the quickest
        # The control: with 9 s to wait the same call has its turn.
        g = self.gateway(self.upstream('rates = [{ limit = "1/5s", burst = 1 }]\nmax_wait = 9s'))
        self.use(g)
        self.assertEqual(curl(f"{g.url}/web/late")[0], 200)

    def test_tokens_are_exact(self):  # G9, with a hundredth of its tokens: at its own rate the level moves too fast
        used = {"usage": {"prompt_tokens": 1, "completion_tokens": 3}}

        def answer(client, stream, head):
            stream.read(int(re.search(r"\r\nContent-Length: (\d+)", head)[1]))
            text = json.dumps({**used, "text": "x" * 500}).encode()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(text) + text)

        script = self.script(answer)
        rate = 50
        limit = (f'rates = [{{ limit = "{rate}/1s", burst = 1000, unit = "tokens" }}]\nmax_wait = 10m\n'
                 'tokens = { api = "openai", learn = false }')

        def level(g):
            """The level, and between which times it was that."""
            first = time.monotonic()
            now = g.state()["levels"][0]
            return now, first, time.monotonic()

        for known in (True, False):  # without a usage the estimate stands: the control
            if not known:
                used.clear()
            g = self.gateway(self.upstream(limit, script.port))
            before = level(g)
            n = 300 if known else 60
            calls = Curls([f"{g.url}/web/{i}" for i in range(n)], "-d", '{"max_tokens":10}')
            self.assertEqual(calls.statuses(), [200] * n)
            wait_until(lambda: len(g.log()) == n, "all are in the log")
            self.assertEqual({e["tokens_asked"] for e in g.log()}, {10})
            self.assertEqual({e["tokens_used"] for e in g.log()}, {4 if known else None})
            after = level(g)
            taken = n * (4 if known else 10)
            self.assertGreaterEqual(after[0] - before[0], rate * (after[1] - before[2]) - taken - 1)
            self.assertLessEqual(after[0] - before[0], rate * (after[2] - before[1]) - taken + 1)
            # Nobody waits for more than was used: the last goes when so much has come.
            print(f"  {n} calls, {taken} tokens at {rate}/s: {after[2] - before[1]:.1f} s", file=sys.stderr)
            self.assertLess(after[2] - before[1], taken / rate * 1.2 + 5)

    def big_response(self, size):
        """An upstream that sends so much on /big, and says how far it has come; a line on everything else."""
        sent = [0]
        piece = b"z" * MIB

        def answer(client, _stream, head):
            if " /big" not in head:
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall")
                return None
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            while sent[0] < size:
                sent[0] += client.send(piece[:min(MIB, size - sent[0])])
            return "close"

        return self.script(answer), sent

    def test_a_stopped_reader_costs_little_and_is_cut(self):  # G11
        script, sent = self.big_response(1000 * MIB)
        for stall in (4, 3600):  # the second is the control: it is not cut
            sent[0] = 0
            g = self.gateway(self.upstream("concurrency = 2", script.port),
                             head=f'limits.time = {{ write_stall = "{stall}s" }}')
            for _ in range(20):
                curl(f"{g.url}/web/warm")
            before = resident(g.process.pid)
            with socket.create_connection(("127.0.0.1", g.port)) as client:
                client.sendall(b"GET /web/big HTTP/1.1\r\nHost: x\r\n\r\n")
                client.recv(4096)
                last = -1
                while last != sent[0]:  # until nothing flows any longer
                    last = sent[0]
                    time.sleep(0.7)
                self.assertLess(sent[0], 500 * MIB)
                self.assertEqual(g.state()["held"], 1)
                self.assertLess(resident(g.process.pid) - before, 1024)
                self.assertEqual(curl(f"{g.url}/web/other")[2], b"small")
                if stall == 4:
                    wait_until(lambda: g.state()["held"] == 0, "the permit is free")
                    wait_until(lambda: g.log()[-1]["path"] == "/web/big", "it is in the log")
                    self.assertLess(g.log()[-1]["bytes_out"], 500 * MIB)
                    self.assertGreaterEqual(g.log()[-1]["total_ms"], 4000)
                else:
                    time.sleep(6)
                    self.assertEqual(g.state()["held"], 1)

    def test_an_upload_waits_in_its_socket(self):  # G12
        size = 1000 * MIB
        got = []

        def answer(client, stream, head):
            if head.startswith("POST"):
                self.assertNotIn("100-continue", head)
                n, room = 0, bytearray(MIB)
                while length := int(stream.readline(), 16):
                    left = length
                    while left > 0:
                        part = stream.readinto(memoryview(room)[:min(left, MIB)])
                        left -= part
                    n += length
                    stream.readline()
                stream.readline()
                got.append(n)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        script = self.script(answer)
        g = self.gateway(self.upstream('rates = [{ limit = "1/5s", burst = 1 }]\nmax_wait = 10m\n'
                                       'retry = { body = "64KiB" }', script.port),
                         head='limits.size = { body = "2GiB", read_ahead = "0B" }')
        curl(f"{g.url}/web/first")
        before = resident(g.process.pid)
        piece = b"%x\r\n" % MIB + b"y" * MIB + b"\r\n"
        with socket.create_connection(("127.0.0.1", g.port)) as client:
            client.sendall(b"POST /web/up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                           b"Connection: close\r\n\r\n")
            client.setblocking(False)
            sent = [0]

            def send():
                for _ in range(size // MIB):
                    at = 0
                    while at < len(piece):
                        try:
                            at += (n := client.send(piece[at:]))
                            sent[0] += n
                        except BlockingIOError:  # a blocking send would say nothing before it has sent all
                            select.select([], [client], [])
                client.setblocking(True)
                client.sendall(b"0\r\n\r\n")

            sender = threading.Thread(target=send, daemon=True)
            sender.start()
            wait_until(lambda: g.waiting() == 1, "it waits")
            last = -1
            while last != sent[0]:
                last = sent[0]
                time.sleep(0.3)
            self.assertEqual(g.waiting(), 1)
            own = client.getsockname()[1]
            unread = queues_of(own, g.port)[0] + queues_of(g.port, own)[1]
            read = 86 + sent[0] - unread
            print(f"  of {sent[0]} bytes, {read} were read while it waited", file=sys.stderr)
            self.assertLessEqual(read, 16 << 10)
            self.assertLess(resident(g.process.pid) - before, 1024)
            most = [0]
            while sender.is_alive():
                most[0] = max(most[0], resident(g.process.pid))
                time.sleep(0.1)
            self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 200"))
            self.assertLess(most[0] - before, 1024)
        self.assertEqual(got, [size])

    def test_a_tenant_is_served_as_its_best_class(self):  # G16
        def key(name):
            return hashlib.sha256(f"key-of-{name}".encode()).hexdigest()

        tenants = "".join(f'[[tenant]]\nname = "{name}"\nkeys = ["sha256:{key(name)}"]\nclass = "{usual}"\n'
                          f'best = "{best}"\n' for name, usual, best in
                          (("reports", "batch", "batch"), ("search", "normal", "interactive")))
        g = self.gateway(self.upstream('rates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 10h') + tenants)
        self.use(g)
        asks = [("reports", "interactive"), ("reports", None), ("search", "interactive"), ("search", "batch"),
                ("search", None)]  # as batch, batch, interactive, batch and normal
        for i, (tenant, asked) in enumerate(asks):
            more = ["-H", f"X-Canigo-Priority: {asked}"] if asked else []
            c = Curls([f"{g.url}/web/{i}"], "-H", f"X-Canigo-Key: key-of-{tenant}", *more)
            self.addCleanup(c.kill)
            wait_until(lambda: g.waiting() == i + 1, "it waits")
        waiting = {c["name"]: c["waiting"] for c in g.state()["classes"]}
        self.assertEqual(waiting, {"interactive": 1, "normal": 1, "batch": 3})
        self.assertIn('canigo_gateway_lowered_total{tenant="reports"} 1\n', g.ask_admin("/metrics"))
        self.assertNotIn('canigo_gateway_lowered_total{tenant="search"}', g.ask_admin("/metrics"))

    def test_the_page_for_beginners_is_true(self):  # docs/gateway.md
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "gateway.md").read_text()
        toml, python = (re.search(rf"```{kind}\n(.*?)```", page, re.S)[1] for kind in ("toml", "python"))
        upstream, client, admin = free_ports(3)
        toml = toml.replace(":9000", f":{upstream}").replace(":8080", f":{client}").replace(":9901", f":{admin}")
        folder = pathlib.Path(tempfile.mkdtemp(prefix="canigo-page"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "gateway.toml").write_text(toml)
        (folder / "calls.py").write_text(python.replace(":8080", f":{client}"))
        env = {**os.environ, "CANIGO_ADMIN_TOKEN": "an-admin-who-waits", "NO_PROXY": "*"}
        program = pathlib.Path(GATEWAY).resolve()
        check = [program, "--check", "--config", "gateway.toml"]
        self.assertEqual(subprocess.run(check, cwd=folder, env=env).returncode, 0)
        for command, port in (([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(upstream)], upstream),
                              ([program, "--config", "gateway.toml"], client)):
            process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            wait_until(lambda: connects(port), f"{command[0]} listens")
        calls = subprocess.Popen([sys.executable, "calls.py"], cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
        state = {}

        def they_wait():
            done = subprocess.run(["curl", "-s", "-H", "Authorization: Bearer an-admin-who-waits",
                                   f"http://127.0.0.1:{admin}/api/state"], capture_output=True, check=True)
            state.update(json.loads(done.stdout)["upstreams"][0])
            return state["waiting"] >= 5

        wait_until(they_wait, "calls wait")
        self.assertEqual(state["binds"], "requests/2s")
        self.assertEqual(len(state["waiters"]), state["waiting"])
        lines = [line.split() for line in calls.communicate()[0].splitlines()]
        self.assertEqual([status for _, status, _ in lines], ["200"] * 10)
        self.assertIn("9", [lines[0][0], lines[1][0]])
        self.assertGreater(max(int(wait) for _, _, wait in lines), 15_000)

    def test_the_upstream_sees_nothing_that_is_for_the_gateway(self):  # G16
        script = self.script(lambda client, _s, _h: client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
        digest = hashlib.sha256(b"my-key").hexdigest()
        tenant = f'[[tenant]]\nname = "search"\nkeys = ["sha256:{digest}"]\n'
        os.environ["CANIGO_TEST_CREDENTIAL"] = "Bearer of-the-upstream"
        own = 'credential = { header = "Authorization", value = "env:CANIGO_TEST_CREDENTIAL" }'
        other = own.replace('"Authorization"', '"X-Api-Key"')
        for more, field in (("", "X-Canigo-Key: my-key"), ("", "Proxy-Authorization: Bearer my-key"),
                            (own, "Authorization: Bearer my-key"), (other, "Authorization: Bearer my-key"),
                            (other, "X-Api-Key: my-key")):
            g = self.gateway(self.upstream(more, script.port) + tenant)
            status, _, _ = curl("-H", field, "-H", "X-Canigo-Priority: batch", "-H", "x-canigo-anything: 1",
                                "-H", "X-Other: stays", f"{g.url}/web/")
            self.assertEqual(status, 200)
            head = script.heads[-1]
            self.assertNotIn("canigo-", head.lower().replace("via: 1.1 canigo-", ""))
            self.assertNotIn("my-key", head)
            self.assertIn("\r\nX-Other: stays\r\n", head)
            wait_until(g.log, "it is in the log")
            self.assertEqual(g.log()[-1]["tenant"], "search")
            self.assertNotIn("my-key", (g.dir / "access.log").read_text() + g.ask_admin("/metrics"))
            self.assertEqual(head.count("Bearer of-the-upstream\r\n"), 1 if more else 0, (script.heads, g.log()))
        # The control: a field of the client that is not for the gateway arrives, its Authorization with it.
        g = self.gateway(self.upstream("", script.port) + tenant, anonymous="search")
        curl("-H", "Authorization: Bearer another", f"{g.url}/web/")
        self.assertIn("Bearer another", script.heads[-1])
        # The key of a tenant would arrive, too: it is refused.
        self.assertEqual(curl("-H", "Authorization: Bearer my-key", f"{g.url}/web/")[0], 401)
        self.assertNotIn("my-key", script.heads[-1])

    def test_an_upstream_that_a_test_has_closed_takes_nobody(self):  # or it might take a later test's calls
        script = self.script(lambda *_: "close")
        self.assertTrue(connects(script.port))
        time.sleep(0.1)  # and it waits for another one
        script.close()
        self.assertFalse(connects(script.port))


if __name__ == "__main__":
    main(Scenarios)
