#!/usr/bin/env python3
"""Asks the admin of canigo-gateway, as operators and strangers do: admin.py CANIGO_GATEWAY [PART_OF_A_NAME …].

Pictures of the page are kept beside the program, in the folder "pictures". Without Chromium its tests are skipped.
"""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error

from metric_lines import parse
from rig import GATEWAY, TOKEN, Curls, GatewayCase, curl, free_ports, main, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = pathlib.Path(GATEWAY).resolve().parent / "pictures"
NEVER = 'rates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 10h\n'
KEY = "a-key-of-a-tenant"
LOW_KEY = "a-key-of-a-tenant-of-batch"
TENANT = f"""
[[tenant]]
name = "reports"
keys = ["sha256:{hashlib.sha256(LOW_KEY.encode()).hexdigest()}"]
class = "batch"
[[tenant]]
name = "search"
keys = ["sha256:{hashlib.sha256(KEY.encode()).hexdigest()}"]
class = "normal"
best = "interactive"
limits.web = {{ concurrency = 8 }}
"""
PRIVATE = ["/metrics", "/api/state", "/api/events"]
LOG_FIELDS = ("time id tenant class route upstream method host path upstream_id status error detail wait_ms bound_by "
              "attempts kept connect_ms first_byte_ms total_ms bytes_in bytes_out tokens_asked tokens_used").split()


class Answer:
    """What the admin says to one request over a connection of its own."""

    def __init__(self, gateway, method, path, token=TOKEN, **headers):
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            fields["Authorization"] = f"Bearer {token}"
        connection = http.client.HTTPConnection("127.0.0.1", gateway.admin)
        connection.request(method, path, headers=fields)
        answer = connection.getresponse()
        self.status = answer.status
        self.fields = {k.lower(): v for k, v in answer.getheaders()}
        self.text = answer.read().decode() if self.fields.get("content-type") != "text/event-stream" else ""
        connection.close()


class Admin(GatewayCase):
    def spend(self, g, upstream=0):
        """Takes what the limit has, so that everybody waits."""
        if g.state(upstream)["levels"][0] >= 1:
            curl(f"{g.url}/web/first")

    def hold(self):
        """An upstream that answers when it is let, and its event."""
        let = threading.Event()
        self.addCleanup(let.set)

        def answer(client, _stream, head):
            if "/begun" in head:
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000)
            let.wait()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return "close"

        return self.script(answer), let

    def test_nothing_is_told_or_done_without_the_token(self):
        g = self.gateway(self.upstream())
        calls = [("GET", path) for path in PRIVATE] + [("GET", "/no"), ("DELETE", "/api/requests/x")] + [
            ("POST", path) for path in ("/login", "/logout", "/api/drain", "/api/reload", "/api/upstreams/web/pause")]
        for method, path in calls:
            with self.subTest(f"{method} {path}"):
                self.assertEqual(Answer(g, method, path, None, X_Canigo_Admin="1").status, 401)
                self.assertEqual(Answer(g, method, path, Host="evil.example").status, 421)
                self.assertEqual(Answer(g, method, path, None, Cookie="canigo_admin=9999999999.00",
                                        X_Canigo_Admin="1").status, 401)
                if method != "GET":
                    self.assertEqual(Answer(g, method, path).status, 403)
        begin = time.monotonic()
        for path in ("/", "/api/state"):
            self.assertEqual(Answer(g, "GET", path, "x" * len(TOKEN)).status, 401)
            self.assertEqual(Answer(g, "GET", path, TOKEN + "x").status, 401)
        self.assertGreaterEqual(time.monotonic() - begin, 3.9)  # a wrong token costs a second
        self.assertEqual(Answer(g, "PUT", "/api/state").status, 405)
        for path in ("/healthz", "/readyz"):
            self.assertEqual(Answer(g, "GET", path, None, Host="10.0.0.1").status, 200)
        self.assertEqual(g.state()["pauses"], [])
        self.assertEqual(g.process.poll(), None)

    def test_every_answer_has_the_fields_that_browsers_obey(self):
        g = self.gateway(self.upstream())
        for path in ("/", "/page.js", "/page.css", "/api/session", "/healthz", *PRIVATE, "/no"):
            with self.subTest(path):
                fields = Answer(g, "GET", path, Origin="https://evil.example").fields
                self.assertIn("default-src 'self'", fields["content-security-policy"])
                self.assertEqual(fields["x-content-type-options"], "nosniff")
                self.assertEqual(fields["referrer-policy"], "no-referrer")
                self.assertEqual(fields["cache-control"], "no-store")
                self.assertFalse([name for name in fields if name.startswith("access-control")])
        page = [Answer(g, "GET", path, None).text for path in ("/", "/page.js", "/page.css")]
        self.assertLessEqual(sum(len(part.encode()) for part in page), 40 << 10)
        self.assertFalse(re.search(r"<style|<script>|style=|\son\w+=|https?://", page[0]))
        self.assertNotRegex(page[1], r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(")

    def test_too_many_clients_do_not_keep_it_out(self):
        g = self.gateway(self.upstream(), head="limits.connections = { all = 1, per_address = 1 }")
        with socket.create_connection(("127.0.0.1", g.port)) as first:
            first.sendall(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(first.recv(1))
            with socket.create_connection(("127.0.0.1", g.port)) as second:
                self.assertEqual(second.recv(1), b"")
            self.assertIn("limits.connections.all is 1; this one is from 127.0.0.1", g.process.stderr.readline())
            self.assertEqual(g.ask_admin("/healthz"), "ok\n")
            self.assertIn("canigo_gateway_connections_refused_total 1\n", g.ask_admin("/metrics"))

    def test_programs_of_this_machine_are_not_counted_by_address(self):
        g = self.gateway(self.upstream(), head="limits.connections = { per_address = 1 }")
        with contextlib.ExitStack() as stack:
            for _ in range(5):
                s = stack.enter_context(socket.create_connection(("127.0.0.1", g.port)))
                s.sendall(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
                self.assertTrue(s.recv(1))

    def test_silent_connections_do_not_keep_it_out(self):
        g = self.gateway(self.upstream())
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection(("127.0.0.1", g.admin))) for _ in range(150)]
            for _ in range(20):
                self.assertEqual(g.ask_admin("/healthz"), "ok\n")
            start = time.monotonic()
            for s in silent:
                s.settimeout(60)
                self.assertEqual(s.recv(1), b"")  # of those, too, that were not pushed out
            self.assertLess(time.monotonic() - start, 50)  # keep_alive is 75 s

    def test_idle_connections_do_not_keep_it_out(self):
        g = self.gateway(self.upstream())
        for text in (b"GET /healthz HTTP/1.1\r\nHost: loc", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            with contextlib.ExitStack() as stack:
                for _ in range(150):
                    s = stack.enter_context(socket.create_connection(("127.0.0.1", g.admin)))
                    s.sendall(text)
                    if text.endswith(b"\r\n\r\n"):
                        self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 200"))
                for _ in range(20):
                    self.assertEqual(g.ask_admin("/healthz"), "ok\n")

    def test_who_reaches_the_admin_from_elsewhere_is_told_of(self):
        for place, warns in (("0.0.0.0:0", True), ("127.0.0.1:0", False)):
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "c.toml"
                file.write_text(f'admin = {{ listen = "{place}", token = "env:CANIGO_TEST_TOKEN" }}\n'
                                '[[listen]]\naddress = "127.0.0.1:0"\n[[upstream]]\n' + self.upstream())
                done = subprocess.run([GATEWAY, "--check", "--config", file], capture_output=True, text=True,
                                      env={**os.environ, "CANIGO_TEST_TOKEN": TOKEN})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual("other machines reach admin.listen" in done.stderr, warns, done.stderr)

    def test_many_wrong_tokens_do_not_keep_the_right_one_out(self):
        g = self.gateway(self.upstream())
        statuses = []
        threads = [threading.Thread(target=lambda: statuses.append(Answer(g, "GET", "/api/state", "wrong").status))
                   for _ in range(80)]
        for t in threads:
            t.start()
        self.assertEqual(Answer(g, "GET", "/api/state").status, 200)
        for t in threads:
            t.join()
        self.assertEqual(len(statuses), 80)
        self.assertEqual(set(statuses) - {401, 429}, set())
        self.assertIn(401, statuses)

    def test_a_cookie_stands_for_the_token(self):
        g = self.gateway(self.upstream())
        self.assertEqual(json.loads(Answer(g, "GET", "/api/session", None).text), {"signed_in": False})
        login = Answer(g, "POST", "/login", X_Canigo_Admin="1")
        self.assertEqual(login.status, 200)
        cookie, *attributes = login.fields["set-cookie"].split("; ")
        self.assertTrue({"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes), attributes)
        self.assertNotIn(TOKEN, cookie)
        self.assertEqual(json.loads(Answer(g, "GET", "/api/session", None, Cookie=cookie).text), {"signed_in": True})
        self.assertEqual(Answer(g, "GET", "/api/state", None, Cookie=f"a=b; {cookie}").status, 200)
        self.assertEqual(Answer(g, "POST", "/api/upstreams/web/pause", None, Cookie=cookie).status, 403)
        self.assertEqual(Answer(g, "POST", "/login", None, Cookie=cookie, X_Canigo_Admin="1").status, 401)
        self.assertEqual(Answer(g, "GET", "/api/state", None, Cookie=cookie[:-1] + "z").status, 401)
        logout = Answer(g, "POST", "/logout", None, Cookie=cookie, X_Canigo_Admin="1")
        self.assertIn("canigo_admin=; ", logout.fields["set-cookie"])
        other = self.gateway(self.upstream())
        self.assertEqual(Answer(other, "GET", "/api/state", None, Cookie=cookie).status, 401)

    def test_the_state_says_who_waits_and_why(self):
        g = self.gateway(self.upstream('tokens = { api = "openai", learn = false }\n'
                                       'rates = [{ limit = "1000/1h", burst = 1000, unit = "tokens" }]\n'
                                       'max_wait = 10h') + TENANT)
        body = json.dumps({"max_tokens": 900, "messages": [{"content": "y" * 400}]})
        keyed = ["-H", f"X-Canigo-Key: {KEY}", "-d", body]
        first = Curls([f"{g.url}/web/v1/first"], *keyed)
        self.addCleanup(first.kill)
        wait_until(lambda: g.state()["waiting"] == 1, "it waits")
        batch = Curls([f"{g.url}/web/v1/{i}?secret=1" for i in range(3)], "-H", "X-Canigo-Priority: batch", *keyed)
        self.addCleanup(batch.kill)
        wait_until(lambda: g.state()["waiting"] == 4, "they wait")
        text = g.ask_admin("/api/state")
        for secret in (TOKEN, KEY, "secret=1", hashlib.sha256(KEY.encode()).hexdigest()):
            self.assertNotIn(secret, text)
        state = json.loads(text)
        u = state["upstreams"][0]
        self.assertEqual((u["binds"], [w["waits_for"] for w in u["waiters"]]), ("tokens/1h", ["tokens/1h"] * 4))
        self.assertGreater(u["binds_for_ms"], 1_000_000)
        self.assertEqual([(w["class"], w["tenant"], w["method"]) for w in u["waiters"]],
                         [("normal", "search", "POST")] + [("batch", "search", "POST")] * 3)
        self.assertEqual(u["waiters"][0]["path"], "/web/v1/first")
        self.assertEqual({w["path"] for w in u["waiters"][1:]}, {f"/web/v1/{i}" for i in range(3)})
        self.assertEqual([w["tokens"] for w in u["waiters"]], [1000] * 4)
        estimates = [w["estimate_ms"] for w in u["waiters"]]
        self.assertEqual(estimates, sorted(estimates))
        self.assertEqual(len({w["id"] for w in u["waiters"]}), 4)
        classes = {c["name"]: c for c in u["classes"]}
        self.assertEqual([classes[c]["waiting"] for c in ("interactive", "normal", "batch")], [0, 1, 3])
        self.assertEqual(classes["interactive"]["oldest_ms"], None)
        self.assertGreaterEqual(classes["normal"]["oldest_ms"], classes["batch"]["oldest_ms"])
        limits = {limit["name"]: limit for limit in u["limits"]}
        self.assertTrue(limits["tokens/1h"]["binds"] and not limits["concurrency"]["binds"])
        self.assertEqual((limits["tokens/1h"]["burst"], limits["concurrency"]["level"]), (1000, 64))
        [tenant] = [t for t in u["tenants"] if t["name"] == "search"]
        self.assertEqual((tenant["waiting"], tenant["limits"]),
                         (4, [{"name": "concurrency", "limit": 8, "level": 8, "burst": 8}]))
        self.assertEqual(state["config"]["upstreams"][0]["prefix"], "/web")

    def test_the_state_says_what_runs(self):
        script, let = self.hold()
        g = self.gateway(self.upstream("concurrency = 2\nmax_wait = 1h", script.port))
        running = [Curls([f"{g.url}/web/{name}?q"]) for name in ("begun", "silent")]
        wait_until(lambda: any(r["bytes_out"] >= 1000 for r in g.state()["running"]), "a response has begun")
        wait_until(lambda: len(g.state()["running"]) == 2, "both run")
        late = Curls([f"{g.url}/web/late"])
        wait_until(lambda: g.waiting() == 1, "one waits")
        u = g.state()
        self.assertEqual((u["binds"], u["binds_for_ms"], u["running_in_all"]), ("concurrency", None, 2))
        runs = {r["path"]: r for r in u["running"]}
        self.assertEqual((runs["/web/begun"]["status"], runs["/web/begun"]["bytes_out"]), (200, 1000))
        self.assertEqual((runs["/web/silent"]["status"], runs["/web/silent"]["first_byte_ms"]), (None, None))
        self.assertIsNotNone(runs["/web/begun"]["first_byte_ms"])
        let.set()
        for c in (*running, late):
            c.statuses()
        wait_until(lambda: g.state()["running"] == [] and g.state()["running_in_all"] == 0, "nothing runs")
        wait_until(lambda: len(g.log()) == 3, "all are in the log")
        [log] = [e for e in g.log() if e["path"] == "/web/late"]
        self.assertEqual((log["bound_by"], log["route"]), ("concurrency", "/web"))

    def test_the_state_says_who_waits_for_hosts_of_forward_mode(self):
        script, let = self.hold()
        g = self.gateway(head=f'[forward]\nallow = ["localhost:{script.port}"]\nprivate = true\nconcurrency = 1\n',
                         listen='mode = "forward"')
        url = f"http://localhost:{script.port}"
        running = Curls([f"{url}/runs?q"], "-x", g.url)
        wait_until(lambda: json.loads(g.ask_admin("/api/state"))["forwarded_running"], "one runs")
        waiting = Curls([f"{url}/waits?q"], "-x", g.url)
        wait_until(lambda: json.loads(g.ask_admin("/api/state"))["forwarded_waiters"], "one waits")
        state = json.loads(g.ask_admin("/api/state"))
        self.assertEqual([r["path"] for r in state["forwarded_running"]], [f"{url}/runs"])
        self.assertEqual([(w["path"], w["waits_for"], w["tenant"]) for w in state["forwarded_waiters"]],
                         [(f"{url}/waits", "concurrency", "local")])
        [host] = state["forwarded"]
        self.assertEqual((host["name"], host["binds"]), (f"localhost:{script.port}", "concurrency"))
        self.assertEqual(state["config"]["forward"]["allow"], [f"localhost:{script.port}"])
        self.assertEqual(self.end(g, state["forwarded_waiters"][0]["id"]), 200)
        self.assertEqual(waiting.statuses(), [503])
        let.set()
        self.assertEqual(running.statuses(), [200])

    def test_the_log_has_its_fields_and_no_others(self):
        g = self.gateway(self.upstream('rates = [{ limit = "2/1s", burst = 1 }]\nmax_wait = 1m', self.nginx.plain))
        for c in [Curls([f"{g.url}/web/{i}?q=1" for i in range(4)])]:
            self.assertEqual(c.statuses(), [200] * 4)
        curl(f"{g.url}/nowhere")
        wait_until(lambda: len(g.log()) == 5, "all are in the log")
        for entry in g.log():
            self.assertEqual(list(entry), LOG_FIELDS)
        waited = [e for e in g.log() if e["wait_ms"] > 100]
        self.assertGreaterEqual(len(waited), 2)
        self.assertEqual({e["bound_by"] for e in waited}, {"requests/1s"})
        self.assertTrue(all(e["first_byte_ms"] >= e["wait_ms"] for e in waited), waited)

    def test_the_last_errors_are_kept_and_no_more(self):
        def answer(client, _stream, head):
            status = re.match(r"GET /(\d+)", head)[1]
            client.sendall(b"HTTP/1.1 %s Bad\r\nContent-Length: 0\r\n\r\n" % status.encode())

        g = self.gateway(self.upstream("retry = { attempts = 1 }", self.script(answer).port))
        curl(f"{g.url}/web/599/first")
        Curls([f"{g.url}/web/{status}" for status in range(500, 599)]).statuses()
        Curls([f"{g.url}/nowhere/{i}" for i in range(7)]).statuses()
        curl(f"{g.url}/web/500/bad?q=1")
        curl(f"{g.url}/web/501/{'long' * 500}")
        errors = json.loads(g.ask_admin("/api/state"))["errors"]
        # Of 101 causes the oldest is gone, and equal ones are one.
        self.assertEqual(len(errors), 100)
        self.assertEqual((errors[1]["path"], errors[1]["status"], errors[1]["error"], errors[1]["count"]),
                         ("/web/500/bad", 500, None, 2))
        self.assertLess(len(errors[0]["path"]), 300)
        self.assertEqual((errors[2]["status"], errors[2]["error"], errors[2]["upstream"], errors[2]["count"]),
                         (404, "no_route", None, 7))
        self.assertEqual({e["status"] for e in errors}, {404, *range(500, 599)})

    def test_an_operator_pauses_and_resumes_an_upstream(self):
        g = self.gateway(self.upstream("max_wait = 1h", self.nginx.plain))
        self.assertEqual(Answer(g, "POST", "/api/upstreams/web/pause", X_Canigo_Admin="1").status, 200)
        waiting = Curls([f"{g.url}/web/{i}" for i in range(3)])
        wait_until(lambda: g.waiting() == 3, "they wait")
        u = g.state()
        self.assertEqual((u["binds"], u["pauses"]), ("paused", [{"cause": "operator", "until_ms": None}]))
        paused = parse(g.ask_admin("/metrics"))["canigo_gateway_paused"][2]
        self.assertEqual([v for _, labels, v in paused if labels["cause"] == "operator"], [1])
        self.assertEqual(Answer(g, "POST", "/api/upstreams/web/resume", X_Canigo_Admin="1").status, 200)
        self.assertEqual(waiting.statuses(), [200] * 3)
        self.assertEqual(g.state()["pauses"], [])
        wait_until(lambda: len(g.log()) == 3, "all are in the log")
        self.assertEqual({e["bound_by"] for e in g.log()}, {"paused"})
        for path in ("/api/upstreams/no/pause", "/api/upstreams//pause", "/api/upstreams/web/", "/api/upstreams/web"):
            self.assertEqual(Answer(g, "POST", path, X_Canigo_Admin="1").status, 404, path)

    def test_the_state_says_whose_refusal_it_was(self):
        def answer(client, _stream, _head):
            client.sendall(b"HTTP/1.1 429 Slow\r\nRetry-After: 1000\r\nContent-Length: 0\r\n\r\n")

        g = self.gateway(self.upstream('credential = { header = "X-Own", value = "env:CANIGO_ADMIN_TOKEN" }',
                                       self.script(answer).port))
        self.assertIsNone(g.state()["last_refusal"])
        _, fields, _ = curl(f"{g.url}/web/x")
        u = g.state()
        self.assertEqual([p["cause"] for p in u["pauses"]], ["upstream"])
        self.assertGreater(u["pauses"][0]["until_ms"], 900_000)
        last = u["last_refusal"]
        self.assertEqual((last["status"], last["tenant"], last["request"], last["of_tenant"]),
                         (429, "local", fields["x-request-id"], False))

    def end(self, g, number):
        return Answer(g, "DELETE", f"/api/requests/{number}", X_Canigo_Admin="1").status

    def test_an_operator_ends_a_waiting_request(self):
        g = self.gateway(self.upstream(NEVER))
        self.spend(g)
        calls = [subprocess.Popen(["curl", "-sSi", f"{g.url}/web/{i}"], stdout=subprocess.PIPE) for i in range(3)]
        for c in calls:
            self.addCleanup(c.wait)
            self.addCleanup(c.kill)
            self.addCleanup(c.stdout.close)
        wait_until(lambda: g.waiting() == 3, "they wait")
        levels = g.state()["levels"]
        [ended] = [w for w in g.state()["waiters"] if w["path"] == "/web/1"]
        self.assertEqual(self.end(g, ended["id"]), 200)
        text = calls[1].communicate()[0].decode()
        self.assertRegex(text, r"^HTTP/1.1 503 ")
        self.assertIn("X-Canigo-Error: cancelled\r\n", text)
        self.assertIn("Content-Type: application/json\r\n", text)
        self.assertIn("Retry-After: ", text)
        self.assertIn(f"X-Request-Id: {ended['id']}\r\n", text)
        self.assertEqual({w["path"] for w in g.state()["waiters"]}, {"/web/0", "/web/2"})
        self.assertEqual(g.state()["levels"], levels)
        self.assertEqual(self.end(g, ended["id"]), 404)
        self.assertEqual(self.end(g, "no-such-id"), 404)
        wait_until(lambda: [line["error"] for line in g.log()][-1:] == ["cancelled"], "it is in the log")

    def test_an_operator_ends_a_running_request(self):
        script, let = self.hold()
        g = self.gateway(self.upstream("", script.port))
        calls = {name: subprocess.Popen(["curl", "-sSi", f"{g.url}/web/{name}"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL) for name in ("begun", "silent", "other")}
        wait_until(lambda: any(r["status"] for r in g.state()["running"]), "a response has begun")
        wait_until(lambda: len(g.state()["running"]) == 3, "all run")
        for r in g.state()["running"]:
            if r["path"] != "/web/other":
                self.assertEqual(self.end(g, r["id"]), 200)
        text = calls["silent"].communicate()[0].decode()
        self.assertRegex(text, r"^HTTP/1.1 503 ")
        self.assertIn("X-Canigo-Error: cancelled\r\n", text)
        calls["begun"].communicate()
        self.assertEqual(calls["begun"].returncode, 18)  # curl's word for a part of a body
        wait_until(lambda: len(g.log()) == 2, "both are in the log")
        self.assertEqual({(e["path"], e["status"], e["error"]) for e in g.log()},
                         {("/web/begun", 200, "cancelled"), ("/web/silent", 503, "cancelled")})
        wait_until(lambda: g.state()["held"] == 1, "their places are free")
        let.set()
        self.assertRegex(calls["other"].communicate()[0].decode(), r"^HTTP/1.1 200 ")

    def listen(self, g):
        s = socket.create_connection(("127.0.0.1", g.admin))
        self.addCleanup(s.close)
        s.sendall(f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        return s

    def test_events_come_each_second_to_a_few(self):
        g = self.gateway(self.upstream())
        stream = self.listen(g).makefile("rb")
        head = b"".join(iter(stream.readline, b"\r\n"))
        self.assertIn(b"Content-Type: text/event-stream", head)
        times = []
        for _ in range(4):
            line = stream.readline()
            self.assertTrue(line.startswith(b"data: "), line)
            state = json.loads(line[6:])
            self.assertEqual(state["upstreams"][0]["name"], "web")
            self.assertNotIn("config", state)
            times.append(time.monotonic())
            self.assertEqual(stream.readline(), b"\n")
        self.assertGreater(times[-1] - times[0], 2.5)
        others = [self.listen(g) for _ in range(15)]
        for s in others:
            self.assertIn(b" 200 ", s.makefile("rb").readline())
        self.assertIn(b" 503 ", self.listen(g).makefile("rb").readline())
        for s in others:
            s.close()

        def has_room():
            return b" 200 " in self.listen(g).makefile("rb").readline()
        wait_until(has_room, "a place is free again")
        self.assertEqual(g.stop()[0], 0)  # a listener is no reason to wait

    def test_a_listener_ends_with_the_token_that_let_it_in(self):
        g = self.gateway(self.upstream())
        kept, ended = self.listen(g), self.listen(g)
        streams = [s.makefile("rb") for s in (kept, ended)]
        for stream in streams:
            self.assertIn(b" 200 ", stream.readline())
        (g.dir / "token").write_text("another-token-of-the-operator")
        g.rewrite(('token = "env:CANIGO_ADMIN_TOKEN"', f'token = "file:{g.dir}/token"'))
        g.process.send_signal(signal.SIGHUP)
        wait_until(lambda: Answer(g, "GET", "/api/state").status == 401, "the token is another one")
        for stream in streams:
            stream.read()  # to its end

    def test_a_listener_that_takes_nothing_is_cut(self):
        g = self.gateway(*(self.upstream(NEVER).replace('"web"', f'"web{i}"').replace('"/web"', f'"/web{i}"')
                           for i in range(60)))
        s = socket.socket()
        self.addCleanup(s.close)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", g.admin))
        open_before = json.loads(g.ask_admin("/api/state"))["connections"]
        s.sendall(f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        wait_until(lambda: json.loads(g.ask_admin("/api/state"))["connections"] < open_before, "it is cut", 300)

    def documented(self):
        page = (ROOT / "docs/gateway-admin.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| `(canigo_gateway_\w+)` \| (\w+) \| ([\w, ]*) \| (.*) \|$", page, re.MULTILINE)
        return {name: (kind, set(filter(None, labels.split(", "))), words) for name, kind, labels, words in rows}

    def test_the_metrics_are_those_of_the_page(self):
        home = pathlib.Path(tempfile.mkdtemp(prefix="canigo-money"))
        self.addCleanup(shutil.rmtree, home)
        (home / "prices.toml").write_text('[[price]]\nmatch = "gpt*"\noutput = 1\n')
        g = self.gateway(self.upstream('tokens = { api = "openai", default_output = 3 }\nmax_wait = 1h\n'
                                       'rates = [{ limit = "10/1s", burst = 9 },\n'
                                       '         { limit = "9000/1s", unit = "tokens" }]', self.nginx.plain),
                         f'name = "ai"\nprefix = "/ai"\nprovider = "openai"\nbudget = {{ usd = "1/month" }}\n'
                         f'[[upstream.target]]\nname = "one"\nurl = "http://127.0.0.1:{self.nginx.plain}"\n'
                         '[[upstream.model]]\nmatch = "gpt*"\nrates = [{ limit = "99/1s", burst = 9 }]\n' + TENANT,
                         head=f'prices = "file:{home}/prices.toml"\nstate = "{home}/state.db"')
        Curls([f"{g.url}/web/{i}" for i in range(12)], "-H", f"X-Canigo-Key: {KEY}").statuses()
        curl("-H", f"X-Canigo-Key: {LOW_KEY}", "-H", "X-Canigo-Priority: interactive", f"{g.url}/web/low")
        curl("-H", f"X-Canigo-Key: {KEY}", "-d", '{"model": "gpt-x", "max_tokens": 7}', f"{g.url}/ai/v1/chat")
        _, _, nowhere = curl(f"{g.url}/nowhere")
        wait_until(lambda: len(g.log()) == 15, "all have ended")
        text = g.ask_admin("/metrics")
        found = parse(text)
        wanted = self.documented()
        del wanted["canigo_gateway_redis_connected"]  # there is none
        self.assertGreaterEqual(len(wanted), 19)
        self.assertEqual(set(found), set(wanted))
        for name, (kind, words, samples) in found.items():
            with self.subTest(name):
                self.assertTrue(samples)
                labels = {label for _, of, _ in samples for label in of} - {"le"}
                self.assertEqual((kind, labels, words), wanted[name])
                self.assertEqual(kind == "counter", name.endswith("_total"))

        def value(name, suffix="", **labels):
            return sum(v for sample, of, v in found[name][2]
                       if sample == name + suffix and labels.items() <= of.items())
        p = "canigo_gateway_"
        self.assertEqual(value(p + "requests_total", upstream="web", tenant="search", code="200"), 12)
        self.assertEqual(value(p + "lowered_total", tenant="reports"), 1)
        self.assertEqual(value(p + "refused_total", reason="no_route"), 1)
        self.assertEqual(value(p + "duration_seconds", "_count", upstream="web"), 13)
        self.assertEqual(value(p + "first_byte_seconds", "_count", upstream="web"), 13)
        self.assertEqual(value(p + "wait_seconds", "_count", upstream="web"), 13)
        self.assertEqual(value(p + "bytes_total", direction="out"), 84 + len(nowhere))
        self.assertEqual(value(p + "spent_usd_total", upstream="ai", tenant="search", model="gpt*"), 0.000007)
        self.assertEqual(value(p + "budget_spent_usd", kind="upstream"), 0.000007)
        self.assertGreater(value(p + "limit_binding_seconds_total", limit="requests/1s"), 0)
        self.assertEqual(value(p + "breaker_state", upstream="web", state="closed"), 1)
        self.read_with_client(text, found)

    def read_with_client(self, text, found):
        """The parser of Prometheus' own client for Python, where it is installed."""
        script = ("import json, sys\nfrom prometheus_client.parser import text_string_to_metric_families as read\n"
                  "print(json.dumps([s.name for f in read(sys.stdin.read()) for s in f.samples]))")
        done = subprocess.run(["/usr/bin/python3", "-c", script], input=text, capture_output=True, text=True)
        if "No module named" in done.stderr:
            print("  prometheus_client is missing: only our own parser has read the metrics", file=sys.stderr)
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(json.loads(done.stdout)), sorted(s for _, _, samples in found.values()
                                                                 for s, _, _ in samples))

    def test_tenants_beyond_the_bound_are_counted_together(self):
        def key(i):
            return f"key-{i}"

        def digest(i):
            return hashlib.sha256(key(i).encode()).hexdigest()
        tenants = "".join(f'[[tenant]]\nname = "t{i}"\nkeys = ["sha256:{digest(i)}"]\n' for i in range(260))
        g = self.gateway(self.upstream(port=self.nginx.plain) + tenants)
        for i in (0, 255, 256, 257, 259):
            self.assertEqual(curl("-H", f"X-Canigo-Key: {key(i)}", f"{g.url}/web/")[0], 200)
        wait_until(lambda: len(g.log()) == 5, "all have ended")
        samples = parse(g.ask_admin("/metrics"))["canigo_gateway_requests_total"][2]
        self.assertEqual({of["tenant"]: v for _, of, v in samples}, {"t0": 1, "t255": 1, "other": 3})

    def test_an_operator_reloads_the_configuration(self):
        g = self.gateway(self.upstream(port=self.nginx.plain))
        before = json.loads(g.ask_admin("/api/state"))
        file = g.dir / "gateway.toml"
        right = file.read_text()
        file.write_text(right + "queue = 0\n")
        wrong = Answer(g, "POST", "/api/reload", X_Canigo_Admin="1")
        self.assertEqual(wrong.status, 422)
        self.assertRegex(wrong.text, r"gateway.toml:\d+:\d+: upstream\[0\].queue is 0")
        self.assertEqual(json.loads(g.ask_admin("/api/state"))["loaded"], before["loaded"])
        file.write_text(right + "concurrency = 7\n")
        done = Answer(g, "POST", "/api/reload", X_Canigo_Admin="1")
        self.assertEqual((done.status, done.text), (200, '{"ok":true}\n'))
        after = json.loads(g.ask_admin("/api/state"))
        self.assertEqual(after["upstreams"][0]["limits"][-1]["limit"], 7)
        self.assertEqual(after["config"]["upstreams"][0]["concurrency"], 7)
        self.assertNotEqual(after["loaded"], before["loaded"])
        reloads = parse(g.ask_admin("/metrics"))["canigo_gateway_reloads_total"][2]
        self.assertEqual({of["result"]: v for _, of, v in reloads}, {"done": 1, "refused": 1})
        for path in ("/api/reload", "/api/drain", "/api/upstreams/web/pause"):
            looked = Answer(g, "GET", path)
            self.assertEqual((looked.status, looked.fields["allow"]), (405, "POST"), path)
        self.assertEqual(Answer(g, "POST", "/api/upstreams/nobody/pause", X_Canigo_Admin="1").status, 404)

    def test_the_page_shows_the_whole_cause_of_an_error(self):
        if shutil.which("chromedriver") is None:
            self.skipTest("chromedriver is missing: the page was not looked at")
        g = self.gateway(self.upstream('retry = { attempts = 1 }', free_ports(1)[0]))
        for i in range(3):
            self.assertEqual(curl(f"{g.url}/web/{i}")[0], 502)
        self.assertEqual(curl(f"{g.url}/nowhere")[0], 404)
        causes = [e["detail"] for e in g.whole_state()["errors"]]
        for width in (1280, 390):
            with self.subTest(width=width):
                browser, look, _ = open_page(self, g, width)
                rows = "return document.querySelectorAll('#errors .cause').length"
                wait_until(lambda: browser.run(rows) >= 3, "the page shows the errors")
                seen = browser.run("""return [...document.querySelectorAll('#errors tbody tr')].map(r => {
                  const [cause, times] = [r.querySelector('.cause'), r.querySelector('.num')];
                  return [cause.textContent, cause.scrollWidth <= cause.clientWidth, times.textContent];
                })""")
                self.assertEqual(seen, [[causes[0], True, "1"], [causes[1], True, "3"]])
                self.assertIsNone(browser.run(look.WIDER))
                browser.picture(PICTURES / f"gateway-errors-{width}.png")

    def test_an_operator_drains_it(self):
        g = self.gateway(self.upstream(port=self.nginx.plain))
        self.assertEqual(Answer(g, "POST", "/api/drain", X_Canigo_Admin="1").status, 200)
        self.assertEqual(g.process.wait(60), 0)


def main_with_room():
    """Each waiting client has a descriptor."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    main(Admin, Page)


def open_page(case, g, width):
    """The page in a browser of that width, signed in; the module that looks at it; and what fills in a token."""
    sys.path.insert(0, str(ROOT / "docs/site"))
    import look
    browser = look.Browser(width)
    case.addCleanup(browser.close)
    browser.ask("POST", "/url", {"url": f"http://127.0.0.1:{g.admin}/"})

    def fill(token):
        wait_until(lambda: browser.run("return document.getElementById('sign-in').hidden") is False, "it asks")
        field = browser.element("#token")
        browser.ask("POST", f"/element/{field}/value", {"text": token})
        browser.ask("POST", f"/element/{browser.element('#form button')}/click", {})
    fill(TOKEN)
    return browser, look, fill


class Page(GatewayCase):
    """What 10,000 who wait cost, and the page that shows them."""

    WAITERS = 10_000

    def setUp(self):
        super().setUp()
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < self.WAITERS + 1000:
            self.skipTest(f"a process may have only {hard} descriptors")
        self.g = self.gateway(self.upstream('rates = [{ limit = "6/1m", burst = 1 }]\nmax_wait = 7d\nqueue = 20_000'),
                              head="limits.connections = { all = 20_000, per_address = 20_000 }")
        if self.g.state()["levels"][0] >= 1:
            curl(f"{self.g.url}/web/first")

    def wait_in_line(self):
        """That many clients. The first path would be dangerous as HTML. In the meantime a few are served."""
        with contextlib.ExitStack() as stack:
            for i in range(self.WAITERS + 100):
                s = stack.enter_context(socket.create_connection(("127.0.0.1", self.g.port)))
                path = f"/web/<img/src=x/onerror=document.title='taken'>/{i}"
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            wait_until(lambda: self.g.waiting() >= self.WAITERS, "all wait", 300)
            return stack.pop_all()

    def test_ten_thousand_wait_and_are_seen(self):  # G25
        idle = self.g.memory()
        clients = self.wait_in_line()
        self.addCleanup(clients.close)
        grown = self.g.memory() - idle
        begin = time.monotonic()
        text = self.g.ask_admin("/api/state")
        u = json.loads(text)["upstreams"][0]
        print(f"  {grown / u['waiting']:.0f} bytes each, the state of {len(text)} bytes took "
              f"{1000 * (time.monotonic() - begin):.0f} ms", file=sys.stderr)
        self.assertLessEqual(grown, 80 << 20)
        if "libjemalloc" in pathlib.Path(f"/proc/{self.g.process.pid}/maps").read_text():  # with it, sizes are steady
            self.assertLessEqual(grown / u["waiting"], 3600)
        self.assertEqual((len(u["waiters"]), u["binds"]), (50, "requests/1m"))
        self.assertGreater(u["waiting"], self.WAITERS - 100)
        self.assertLess(len(text), 100_000)
        if shutil.which("chromedriver") is None:
            self.skipTest("chromedriver is missing: the page was not looked at")
        for width in (1280, 390):
            with self.subTest(width=width):
                self.look(width)

    def look(self, width):
        browser, look, fill = open_page(self, self.g, width)
        begin = time.monotonic()
        shown = "return document.querySelectorAll('#upstreams .requests .what').length"
        wait_until(lambda: browser.run(shown) >= 50, "the page shows the first waiters")
        print(f"  at {width}: shown after {time.monotonic() - begin:.2f} s", file=sys.stderr)
        seen = browser.run("""return {
          waiting: document.getElementById('waiting').textContent,
          pill: document.querySelector('.head .pill').textContent,
          rows: [...document.querySelectorAll('#upstreams .requests tbody tr')].slice(0, 3).map(r => r.innerText),
          images: document.images.length, title: document.title,
          heads: [...document.querySelectorAll('h1, h2')].map(h => h.textContent.trim())}""")
        self.assertGreater(int(re.sub(r"\D", "", seen["waiting"])), self.WAITERS - 1000)
        self.assertIn("requests/1m", seen["pill"])
        self.assertIn("<img/src=x/onerror=document.title='taken'>", seen["rows"][0])
        self.assertEqual((seen["images"], seen["title"]), (0, "canigo-gateway"))
        order = browser.run("""return [...document.querySelectorAll('td.index')].map(c => Number(c.textContent))""")
        self.assertEqual(order, list(range(1, 51)))
        # The order is that of the state, in which one goes every ten seconds.
        shown = """return [...document.querySelectorAll('#upstreams .requests .what .line:last-child')]
          .map(c => c.textContent.split(' · ').pop())"""

        def is_in_order():
            now = browser.run(shown)
            return now == [w["id"] for w in self.g.state()["waiters"]]
        wait_until(is_in_order, "the page shows the order of the queue")
        before = browser.run("return document.body.scrollHeight")
        first = "return document.querySelector('#upstreams .requests tbody tr').innerText"
        was = browser.run(first)
        wait_until(lambda: browser.run(first) != was, "the waits grow")
        self.assertEqual(browser.run("return document.body.scrollHeight"), before)  # nothing moves
        self.assertIsNone(browser.run(look.WIDER))
        browser.picture(PICTURES / f"gateway-page-{width}.png")
        self.assertEqual(browser.complaints(), [])
        browser.run("document.getElementById('logout').click()")
        fill("wrong")
        wait_until(lambda: browser.run("return document.getElementById('refused').textContent") ==
                   "This is not the token.", "it refuses")
        self.assertTrue(browser.run("return document.getElementById('board').hidden"))


if __name__ == "__main__":
    main_with_room()
