#!/usr/bin/env python3
"""Runs canigo-gateway in front of upstreams that fail, are slow, or tell quotas: limits.py CANIGO_GATEWAY [PART …].

The upstreams are a few lines each, which count what reaches them; nginx is the judge of rates.
"""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from metric_lines import parse
from rig import Curls, Doorway, GatewayCase, connects, curl, free_ports, main, wait_until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Mortal(Doorway):
    """An upstream that closes each connection unanswered while it is dead. It keeps the time of each connection."""

    def __init__(self, hold=0.0):
        self.dead = True
        self.hold = hold
        self.times = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        super().__init__()

    def take(self, client):
        self.times.append(time.monotonic())
        with client, contextlib.suppress(OSError):
            if self.dead:
                return
            stream = client.makefile("rb")
            while True:
                while (line := stream.readline()) != b"\r\n":
                    if not line:
                        return
                with self.lock:
                    self.at_once += 1
                    self.most_at_once = max(self.most_at_once, self.at_once)
                time.sleep(self.hold)
                with self.lock:
                    self.at_once -= 1
                client.sendall(OK)


class Breaker(GatewayCase):
    def mortal(self, **more):
        upstream = Mortal(**more)
        self.addCleanup(upstream.close)
        return upstream

    def test_a_dead_upstream_is_left_alone_and_tried_by_three(self):  # G15
        upstream = self.mortal(hold=1.0)
        g = self.gateway(self.upstream("concurrency = 4\nmax_wait = 2m\nbreaker = { open = \"5s\" }\n"
                                       "retry = { attempts = 1 }", upstream.port))
        calls = Curls([f"{g.url}/web/{i}" for i in range(60)])
        self.addCleanup(calls.kill)
        wait_until(lambda: len(upstream.times) >= 20, "twenty fail")
        time.sleep(1)
        before = len(upstream.times)
        # Those that were under way at the twentieth failure.
        self.assertLessEqual(before, 20 + 3)
        opened = upstream.times[19]
        self.assertGreaterEqual(g.waiting(), 60 - before)
        upstream.dead = False
        wait_until(lambda: len(upstream.times) > before, "it is tried again")
        self.assertGreaterEqual(upstream.times[before] - opened, 4.9)
        time.sleep(0.5)  # the probes take a second
        self.assertEqual(len(upstream.times) - before, 3)
        self.assertEqual(upstream.at_once, 3)
        statuses = calls.statuses()
        self.assertEqual(sorted(statuses), [200] * (60 - before) + [502] * before)
        self.assertEqual(upstream.most_at_once, 4)

    def test_probes_that_fail_make_the_pause_longer(self):
        upstream = self.mortal()
        g = self.gateway(self.upstream('concurrency = 4\nmax_wait = 2m\nretry = { attempts = 1 }\n'
                                       'breaker = { of = 4, open = "1s", most = "3s" }', upstream.port))
        calls = Curls([f"{g.url}/web/{i}" for i in range(30)])
        self.addCleanup(calls.kill)
        wait_until(lambda: len(upstream.times) >= 16, "it has been tried four times", 120)
        gaps = [b - a for a, b in zip(upstream.times, upstream.times[1:])]
        pauses = [gap for gap in gaps if gap > 0.5]
        for pause, wanted in zip(pauses, (1, 2, 3, 3)):
            self.assertGreaterEqual(pause, wanted - 0.1, gaps)
        # Between two pauses there are at most three probes, and two failures are enough.
        trial = 0
        for gap in gaps[gaps.index(pauses[0]):]:
            trial = 1 if gap > 0.5 else trial + 1
            self.assertLessEqual(trial, 3, gaps)

    def test_a_call_that_cannot_wait_for_a_dead_upstream_is_told_so(self):
        upstream = self.mortal()
        g = self.gateway(self.upstream('concurrency = 1\nmax_wait = 2m\nretry = { attempts = 1 }\n'
                                       'breaker = { of = 4, open = "30s" }', upstream.port))
        short = "X-Canigo-Max-Wait: 20s"
        calls = Curls([f"{g.url}/web/{i}" for i in range(20)], "-H", short)
        start = time.monotonic()
        statuses = calls.statuses()
        self.assertLess(time.monotonic() - start, 15)  # none waits for its longest wait
        self.assertEqual(sorted(statuses), [502] * 4 + [503] * 16)
        status, fields, _ = curl("-H", short, f"{g.url}/web/late")
        self.assertEqual((status, fields["x-canigo-error"]), (503, "circuit_open"))
        self.assertGreater(int(fields["retry-after"]), 10)
        self.assertLessEqual(int(fields["retry-after"]), 30)
        self.assertEqual(len(upstream.times), 4)
        waits = Curls([f"{g.url}/web/waits"])
        self.addCleanup(waits.kill)
        wait_until(lambda: g.waiting() == 1, "who can wait does")

    def test_the_important_calls_are_the_probes(self):
        def answer(client, _stream, _head):
            if alive.is_set():
                time.sleep(1)  # so that all probes are there before one of them succeeds
                client.sendall(OK)
            else:
                client.sendall(b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n")

        upstream = self.script(answer)
        alive = threading.Event()
        g = self.gateway(self.upstream('concurrency = 4\nmax_wait = 2m\nbreaker = { of = 4, open = "10s" }',
                                       upstream.port))
        for i in range(4):
            self.assertEqual(curl(f"{g.url}/web/{i}")[0], 500)
        alive.set()
        batch = Curls([f"{g.url}/web/batch{i}" for i in range(10)], "-H", "X-Canigo-Priority: batch")
        wait_until(lambda: g.waiting() == 10, "batch calls wait")
        urgent = Curls([f"{g.url}/web/urgent{i}" for i in range(3)], "-H", "X-Canigo-Priority: interactive")
        self.assertEqual(urgent.statuses(), [200] * 3)
        self.assertEqual(batch.statuses(), [200] * 10)
        targets = [head.split()[1] for head in upstream.heads[4:]]
        self.assertEqual(sorted(targets[:3]), ["/urgent0", "/urgent1", "/urgent2"])

    def test_a_repeat_keeps_its_first_arrival(self):
        def answer(client, _stream, head):
            target = head.split()[1]
            begun[target].set()
            if upstream.heads.count(head) == 1 and target == "/a":
                let["/a"].wait()
                return client.sendall(b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")
            let[target].wait()
            return client.sendall(OK)

        names = ["/a", "/b", "/c", "/d"]
        begun, let = ({name: threading.Event() for name in names} for _ in range(2))
        upstream = self.script(answer)
        g = self.gateway(self.upstream("concurrency = 1\nmax_wait = 10m", upstream.port))
        calls = []
        for n, name in enumerate(names):
            calls.append(Curls([f"{g.url}/web{name}"]))
            self.addCleanup(calls[-1].kill)
            wait_until(lambda: begun["/a"].is_set() and g.waiting() == n, "it waits behind those before it")
        let["/a"].set()

        def targets():
            return [head.split()[1] for head in upstream.heads]

        def is_back():
            waiters = {w["path"] for w in g.state()["waiters"] if w["waits_for"] == "concurrency"}
            return waiters == {"/web/a", "/web/c", "/web/d"} or targets().count("/a") == 2

        wait_until(is_back, "/a waits in the line again, or goes")  # /b may go while /a is put off for a moment
        for event in let.values():
            event.set()
        for call in calls:
            self.assertEqual(call.statuses(), [200])
        order = targets()
        self.assertIn(order[:3], (["/a", "/b", "/a"], ["/a", "/a", "/b"]))
        self.assertEqual(order[3:], ["/c", "/d"])

    def flood(self, settings, answer, seconds=3):
        """A hundred calls a second, without waiting for answers. Returns how many reached the upstream."""
        upstream = self.script(lambda client, _stream, _head: client.sendall(answer))
        g = self.gateway(self.upstream("concurrency = 1000\nmax_wait = 2m\n" + settings, upstream.port))
        clients = []
        start = time.monotonic()
        for i in range(seconds * 10):
            time.sleep(max(0, start + i / 10 - time.monotonic()))
            clients.append(Curls([f"{g.url}/web/{i}-{j}" for j in range(10)]))
            self.addCleanup(clients[-1].kill)
        time.sleep(1)
        return len(upstream.heads)

    def test_a_failing_upstream_gets_no_flood_of_repeats(self):  # G14
        calls = 300
        for status in (503, 502):
            answer = f"HTTP/1.1 {status} Broken\r\nContent-Length: 0\r\n\r\n".encode()
            seen = self.flood("", answer)
            alone = self.flood('breaker = { of = 1_000_000 }', answer)
            free = self.flood('breaker = { of = 1_000_000 }\nretry = { budget = "100%", attempts = 5 }', answer)
            print(f"  {status}: {seen} of {calls}; {alone} without the breaker; {free} without the budget, too")
            self.assertLessEqual(seen, 60)
            self.assertLessEqual(alone, 1.2 * calls + 10)
            if status == 502:  # a 503 without Retry-After is not repeated
                self.assertGreater(free, 1.2 * calls + 10)
            self.assertGreaterEqual(alone, calls)


class Quotas(GatewayCase):
    def test_less_left_than_believed_counts_and_more_does_not(self):
        left = {}

        def answer(client, _stream, _head):
            fields = "".join(f"{name}: {value}\r\n" for name, value in left.items())
            client.sendall(f"HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n".encode())

        own = 'credential = { header = "Authorization", value = "env:CANIGO_ADMIN_TOKEN" }\n'
        rates = 'rates = [{ limit = "20/1s", burst = 20 }]\n'
        for passes in (False, True):
            with self.subTest(passes=passes):
                g = self.gateway(self.upstream(("" if passes else own) + rates, self.script(answer).port))
                wait_until(lambda: g.state()["levels"] == [20], "the bucket is full")
                left.clear()
                left["X-RateLimit-Remaining-Requests"] = 5000
                curl(f"{g.url}/web/more")
                wait_until(lambda: g.state()["levels"] == [20], "the bucket is full again")
                left["X-RateLimit-Remaining-Requests"] = 2
                curl(f"{g.url}/web/less")
                level = g.state()["levels"][0]
                if passes:  # of a tenant's own credential it says nothing about the others
                    self.assertGreaterEqual(level, 19)
                else:
                    self.assertLess(level, 15)
                wait_until(lambda: g.state()["levels"] == [20], "it fills as ever")

    def test_no_header_stops_an_upstream_for_long(self):
        hostile = (b"HTTP/1.1 200 OK\r\nX-RateLimit-Remaining: 0\r\nRateLimit: limit=1, remaining=0, reset=99999999\r\n"
                   b"RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 99999999999\r\nContent-Length: 0\r\n\r\n")
        script = self.script(lambda client, _stream, _head: client.sendall(hostile))
        g = self.gateway(self.upstream('credential = { header = "Authorization", value = "env:CANIGO_ADMIN_TOKEN" }\n'
                                       'rates = [{ limit = "20/1s", burst = 10 }]', script.port))
        start = time.monotonic()
        self.assertEqual(Curls([f"{g.url}/web/{i}" for i in range(30)]).statuses(), [200] * 30)
        self.assertLess(time.monotonic() - start, 20)
        retry = b"HTTP/1.1 429 No\r\nRetry-After: 99999999999\r\nContent-Length: 0\r\n\r\n"
        script = self.script(lambda client, _stream, _head: client.sendall(retry))
        g = self.gateway(self.upstream('credential = { header = "Authorization", value = "env:CANIGO_ADMIN_TOKEN" }\n'
                                       "max_wait = 10h", script.port))
        waits = Curls([f"{g.url}/web/long"])
        self.addCleanup(waits.kill)
        wait_until(lambda: g.waiting() == 1, "the call waits for another attempt")
        status, fields, _ = curl("-H", "X-Canigo-Max-Wait: 5s", f"{g.url}/web/short")
        self.assertEqual((status, fields["x-canigo-error"]), (429, "wait_too_long"))
        self.assertLessEqual(int(fields["retry-after"]), 3600)

    def test_waits_that_a_pause_makes_too_long_end_at_once(self):  # G8
        go = threading.Event()

        def answer(client, _stream, _head):
            go.wait()
            client.sendall(b"HTTP/1.1 429 No\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n")

        g = self.gateway(self.upstream('credential = { header = "Authorization", value = "env:CANIGO_ADMIN_TOKEN" }\n'
                                       "concurrency = 1\nmax_wait = 2m\nretry = { attempts = 1 }",
                                       self.script(answer).port))
        first = Curls([f"{g.url}/web/first"])
        wait_until(lambda: g.state()["held"] == 1, "one runs")
        others = Curls([f"{g.url}/web/{i}" for i in range(50)])
        patient = Curls([f"{g.url}/web/patient"], "-H", "X-Canigo-Max-Wait: 119m")
        self.addCleanup(patient.kill)
        wait_until(lambda: g.waiting() == 51, "the others wait")
        go.set()
        start = time.monotonic()
        self.assertEqual(others.statuses(), [429] * 50)
        took = time.monotonic() - start
        print(f"  all ended after {1000 * took:.0f} ms", file=sys.stderr)
        self.assertLess(took, 10)
        self.assertEqual(first.statuses(), [429])

    def test_a_pause_of_a_tenants_own_credential_is_only_its_own(self):
        def answer(client, _stream, head):
            client.sendall(b"HTTP/1.1 429 No\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"
                           if "/limited" in head.split()[1] else OK)

        keys = {"a": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                "b": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"}
        tenants = "".join(f'[[tenant]]\nname = "{n}"\nkeys = ["sha256:{k}"]\n' for n, k in keys.items())
        g = self.gateway(self.upstream("max_wait = 1m\nretry = { attempts = 1 }", self.script(answer).port) + tenants)
        a, b = (["-H", f"X-Canigo-Key: {key}"] for key in ("test", "test2"))
        self.assertEqual(curl(*a, f"{g.url}/web/limited")[0], 429)
        status, fields, _ = curl(*a, f"{g.url}/web/again")
        self.assertEqual((status, fields["x-canigo-error"]), (429, "wait_too_long"))
        self.assertGreater(int(fields["retry-after"]), 3000)
        self.assertEqual(curl(*b, f"{g.url}/web/other")[0], 200)

    def test_who_waits_for_a_pause_of_its_tenant_is_seen(self):
        refused = []

        def answer(client, _stream, _head):
            refused.append(1)
            late = b"HTTP/1.1 429 No\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n"
            client.sendall(late if len(refused) == 1 else OK)

        g = self.gateway(self.upstream("max_wait = 1m\nqueue = 4", self.script(answer).port))
        first = Curls([f"{g.url}/web/first"])
        wait_until(lambda: refused, "it is refused")
        others = Curls([f"{g.url}/web/{i}" for i in range(3)])
        wait_until(lambda: [w["waits_for"] for w in g.state()["waiters"]] == ["paused"] * 4, "they wait")
        state = g.state()
        self.assertEqual((state["binds"], state["waiting"]), ("paused", 4))
        metrics = g.ask_admin("/metrics")
        self.assertIn('canigo_gateway_waiting{upstream="web",class="batch"} 4', metrics)
        self.assertIn('canigo_gateway_connections{state="waiting"} 4', metrics)
        self.assertIn('canigo_gateway_paused{upstream="web",cause="tenant"} 1', metrics)
        self.assertEqual({w["path"]: w["waits_for"] for w in state["waiters"]},
                         {f"/web/{name}": "paused" for name in ("first", 0, 1, 2)})
        self.assertTrue(all(0 < w["estimate_ms"] <= 5000 for w in state["waiters"]), state["waiters"])
        self.assertEqual(curl(f"{g.url}/web/too_many")[1]["x-canigo-error"], "queue_full")
        self.assertEqual([(p["cause"], p["tenant"]) for p in state["pauses"]], [("upstream", "local")])
        self.assertEqual(first.statuses() + others.statuses(), [200] * 4)
        self.assertEqual((g.waiting(), g.state()["pauses"]), (0, []))
        self.assertEqual({line["bound_by"] for line in g.log() if line["status"] == 200}, {"paused"})

    def test_who_waits_for_a_pause_of_its_tenant_keeps_class_place_and_count(self):
        refused, served = [], []
        slow = threading.Event()

        def answer(client, _stream, head):
            path = head.split()[1]
            if path == "/limited" and not refused:
                refused.append(1)
                client.sendall(b"HTTP/1.1 429 No\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n")
                return
            if path.startswith("/other"):
                slow.wait(30)
            served.append(path)
            client.sendall(OK)

        keys = {t: f"key-of-{t}-which-is-long" for t in ("a", "b")}
        tenants = "".join(f'[[tenant]]\nname = "{t}"\nbest = "interactive"\n'
                          f'keys = ["sha256:{hashlib.sha256(k.encode()).hexdigest()}"]\n' for t, k in keys.items())
        limits = "max_wait = 1m\nqueue = 6\nconcurrency = 1\nretry = { attempts = 1 }"
        g = self.gateway(self.upstream(limits, self.script(answer).port) + tenants)

        def calls(tenant, priority, *paths):
            return Curls([f"{g.url}/web/{p}" for p in paths],
                         *("-H", f"X-Canigo-Key: {keys[tenant]}", "-H", f"X-Canigo-Priority: {priority}"))

        self.assertEqual(calls("a", "batch", "limited").statuses(), [429])
        batch = calls("a", "batch", "batch0", "batch1")
        important = calls("a", "interactive", "important0", "important1")
        wait_until(lambda: g.waiting() == 4, "they wait for the pause")
        classes = {c["name"]: (c["waiting"], c["granted"]) for c in g.state()["classes"]}
        self.assertEqual((classes["batch"], classes["interactive"]), ((2, 1), (2, 0)))
        others = calls("b", "batch", *(f"other{i}" for i in range(7)))
        wait_until(lambda: g.waiting() == 6, "the queue is full")

        def tenants(error):
            return sorted(e["tenant"] for e in g.log() if e["error"] == error)

        # The paused one has filled more of the queue, and makes room until both have as much.
        wait_until(lambda: tenants("queue_full") == ["b"] * 3, "three of b found no place")
        self.assertEqual(tenants("evicted"), ["a"])
        late = calls("a", "interactive", "important2")
        wait_until(lambda: tenants("evicted") == ["a", "b"], "b's last made room")
        wait_until(lambda: not g.state()["pauses"], "the pause is over")
        slow.set()
        self.assertEqual(sorted(batch.statuses()), [200, 429])
        self.assertEqual(important.statuses() + late.statuses(), [200] * 3)
        order = [p for p in served if not p.startswith("/other")]
        self.assertEqual({*order[:3]}, {"/important0", "/important1", "/important2"})
        self.assertEqual(sorted(others.statuses()), [200] * 3 + [429] * 4)
        waits = parse(g.ask_admin("/metrics"))["canigo_gateway_wait_seconds"][2]
        waits = [m for m in waits if m[0].endswith("_count")]
        self.assertEqual(sum(value for _, _, value in waits), 1 + 4 + 3)  # each that was granted, once

    def test_a_drain_tells_those_whose_pause_is_too_long(self):
        def answer(client, _stream, _head):
            client.sendall(b"HTTP/1.1 429 No\r\nRetry-After: 40\r\nContent-Length: 0\r\n\r\n")

        g = self.gateway(self.upstream("max_wait = 2m\nretry = { attempts = 1 }", self.script(answer).port),
                         head='grace = "15s"')
        self.assertEqual(curl(f"{g.url}/web/limited")[0], 429)
        waits = Curls([f"{g.url}/web/again"])
        time.sleep(0.5)
        self.assertIsNone(waits.process.poll())
        start = time.monotonic()
        g.process.send_signal(signal.SIGTERM)
        self.assertEqual(waits.statuses(), [503])
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(g.process.wait(), 0)


class Window(GatewayCase):
    """Clients that each send a call after another, and what the upstream knows of when these were sent.

    A call was granted after the client's answer before it had left the upstream, and before it came there. Both are
    seen by one clock. So what is counted was certainly granted in the window, however slow the machine is.
    """

    PERIOD = 3.0  # s
    LIMIT = 60
    BURST = 12

    def spans(self, settings, burst=BURST, body=b"", answer=OK, calls=180, clients=3):
        """The earliest and the latest time of the grant of each call."""
        answered, spans = {}, []

        def take(client, stream, head):
            now = time.monotonic()
            stream.read(len(body))
            name = head.split("/")[1]
            if name in answered:
                spans.append((answered[name], now))
            answered[name] = time.monotonic()
            client.sendall(answer)

        g = self.gateway(self.upstream(f"max_wait = 10m\n{settings}", self.script(take).port))
        wait_until(lambda: g.state()["levels"] == [burst], "the burst is there")
        statuses = []

        def send(name):
            line = http.client.HTTPConnection("127.0.0.1", g.port)
            for i in range(calls // clients):
                line.request("POST", f"/web/{name}/{i}", body)
                response = line.getresponse()
                response.read()
                statuses.append(response.status)
            line.close()

        threads = [threading.Thread(target=send, args=(str(i),)) for i in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [200] * calls)
        return spans, g

    def most_in(self, spans, period):
        return max(sum(start <= first and last <= start + period for first, last in spans) for start, _ in spans)

    def test_a_strict_window_never_holds_more_than_the_limit(self):
        rate = f'limit = "{self.LIMIT}/{self.PERIOD:.0f}s", burst = {self.BURST}'
        for window in ("average", "strict"):
            start = time.monotonic()
            spans, _ = self.spans(f'rates = [{{ {rate}, window = "{window}" }}]')
            took = time.monotonic() - start
            most = self.most_in(spans, self.PERIOD)
            print(f"  {window}: at most {most} of {self.LIMIT} in a window, all in {took:.1f} s", file=sys.stderr)
            if window == "strict":
                self.assertLessEqual(most, self.LIMIT)

    def test_a_strict_window_counts_the_tokens_that_were_used(self):
        asked, used = 20, 10
        usage = json.dumps({"usage": {"prompt_tokens": 4, "completion_tokens": used - 4}}).encode()
        answer = (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                  % (len(usage), usage))
        rate = f'limit = "{self.LIMIT * used}/{self.PERIOD:.0f}s", unit = "tokens", window = "strict"'
        start = time.monotonic()
        spans, g = self.spans(f'rates = [{{ {rate} }}]\ntokens = {{ api = "openai", learn = false }}',
                              self.LIMIT * used, json.dumps({"max_tokens": asked}).encode(), answer)
        took = time.monotonic() - start
        most = self.most_in(spans, self.PERIOD)
        print(f"  at most {most * used} of {self.LIMIT * used} tokens in a window, all in {took:.1f} s",
              file=sys.stderr)
        self.assertLessEqual(most, self.LIMIT)
        self.assertEqual({e["tokens_used"] for e in g.log()}, {used})
        self.assertGreaterEqual({e["tokens_asked"] for e in g.log()}.pop(), asked)


class Hedge(GatewayCase):
    def slow_first(self):
        """An upstream whose first answer to each target takes ten seconds. It counts the connections that leave it."""
        seen, left = {}, []

        def answer(client, _stream, head):
            target = head.split()[1]
            seen[target] = seen.get(target, 0) + 1
            if target.startswith("/slow") and seen[target] == 1:
                client.settimeout(10)
                try:
                    if client.recv(1) == b"":
                        left.append(target)
                        return "close"
                except TimeoutError:
                    pass
                client.settimeout(None)
            client.sendall(OK)
            return None

        return self.script(answer), seen, left

    def test_a_slow_get_is_sent_again_beside_and_the_loser_is_cancelled(self):
        script, seen, left = self.slow_first()
        g = self.gateway(self.upstream('hedge = { after = "200ms" }', script.port))
        start = time.monotonic()
        status, fields, body = curl(f"{g.url}/web/slow")
        took = time.monotonic() - start
        self.assertEqual((status, body, fields["x-canigo-attempts"]), (200, b"ok", "2"))
        self.assertGreaterEqual(took, 0.2)
        self.assertLess(took, 8)
        self.assertEqual(seen, {"/slow": 2})
        wait_until(lambda: left == ["/slow"], "the upstream sees the loser go", 8)
        wait_until(lambda: g.state()["held"] == 0, "both places are free", 8)
        # The connection goes on, and so do others.
        self.assertEqual(curl(f"{g.url}/web/a", "-o", "/dev/null", f"{g.url}/web/b")[0], 200)

    def test_only_gets_are_hedged_and_only_if_that_is_asked_for(self):
        for settings, args in (('hedge = { after = "200ms" }', ["-X", "POST"]),
                               ('hedge = { after = "200ms" }', ["-I"]),
                               ('hedge = { after = "200ms" }', ["-X", "GET", "-d", "body"]),
                               ('hedge = { after = "200ms" }\nconcurrency = 1', []),
                               ("", [])):
            with self.subTest(settings=settings, args=args):
                script, seen, _ = self.slow_first()
                g = self.gateway(self.upstream(settings, script.port))
                slow = subprocess.Popen(["curl", "-sS", *args, f"{g.url}/web/slow"], stdout=subprocess.DEVNULL)
                time.sleep(2)
                self.assertEqual(seen, {"/slow": 1})
                slow.kill()
                slow.wait()

    def test_a_quantile_needs_calls_that_it_knows(self):
        script, seen, _ = self.slow_first()
        g = self.gateway(self.upstream('hedge = { after = "p95" }', script.port))
        slow = Curls([f"{g.url}/web/slow0"])
        self.addCleanup(slow.kill)
        time.sleep(1)
        self.assertEqual(seen, {"/slow0": 1})
        self.assertEqual(Curls([f"{g.url}/web/{i}" for i in range(40)]).statuses(), [200] * 40)
        start = time.monotonic()
        status, fields, _ = curl(f"{g.url}/web/slow1")
        self.assertEqual((status, fields["x-canigo-attempts"]), (200, "2"))
        self.assertLess(time.monotonic() - start, 8)

    def test_a_hedge_that_fails_leaves_the_answer_to_the_first(self):
        def answer(client, _stream, head):
            first = not seen
            seen.append(head)
            if first:
                time.sleep(2)
                client.sendall(OK)
            else:
                client.sendall(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")

        seen = []
        g = self.gateway(self.upstream('hedge = { after = "200ms" }', self.script(answer).port))
        status, fields, body = curl(f"{g.url}/web/x")
        self.assertEqual((status, body), (200, b"ok"))
        self.assertEqual(len(seen), 2)
        wait_until(lambda: g.state()["held"] == 0, "both places are free")

    def test_two_bad_answers_at_once_are_one_answer(self):
        both = threading.Barrier(2)

        def answer(client, _stream, head):
            seen.append(head)
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait(20)
            client.sendall(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")

        seen = []
        g = self.gateway(self.upstream('hedge = { after = "50ms" }\nretry = { attempts = 1 }\n'
                                       'breaker = { failures = "100%", of = 1000 }', self.script(answer).port))
        for n in range(1, 9):  # the budget allows so many hedges
            status, fields, _ = curl(f"{g.url}/web/x")
            self.assertEqual((status, fields["x-canigo-attempts"], len(seen)), (503, "2", 2 * n))

    def test_a_call_that_was_sent_stays_charged_if_its_hedge_was_not(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def answer(_client, _stream, _head):
            script.close()  # nobody else gets a connection
            came.set()
            release.wait(20)
            return "close"

        came = threading.Event()
        script = self.script(answer)
        g = self.gateway(self.upstream('hedge = { after = "100ms" }\nretry = { attempts = 1 }\n'
                                       'rates = [{ limit = "1000/1s", burst = 2 }]', script.port))
        wait_until(lambda: g.state()["levels"][0] == 2, "there are two tokens")
        g.rewrite(('"1000/1s"', '"1/1h"'))
        g.ask_admin("/api/reload", method="POST")
        call = Curls([f"{g.url}/web/x"])
        self.assertTrue(came.wait(20))
        time.sleep(1)  # the second has no connection
        release.set()
        self.assertEqual(call.statuses(), [502])
        self.assertEqual(g.state()["levels"][0], 1)

    def test_a_client_that_leaves_ends_both(self):
        closed = []

        def answer(client, _stream, _head):
            seen.append(time.monotonic())
            client.settimeout(20)
            with contextlib.suppress(OSError):
                closed.append(client.recv(1))
            return "close"

        seen = []
        g = self.gateway(self.upstream('hedge = { after = "200ms" }', self.script(answer).port))
        slow = Curls([f"{g.url}/web/x"])
        wait_until(lambda: len(seen) == 2, "both are there")
        slow.kill()
        wait_until(lambda: closed == [b"", b""], "both are gone", 15)
        wait_until(lambda: g.state()["held"] == 0, "both places are free")


class Redis:
    """A redis-server that keeps nothing."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="canigo-redis"))
        (self.port,) = free_ports(1)
        self.url = f"redis://127.0.0.1:{self.port}"
        self.process = None
        self.start()

    def start(self, *more):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", str(self.dir), *more], stdout=subprocess.DEVNULL)
        wait_until(lambda: connects(self.port), "Redis listens")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def order(self, *words):
        """Says that to it, and waits for its answer, which is no error."""
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(" ".join(words).encode() + b"\r\n")
            answer = s.recv(4096)
        assert answer.startswith(b"+"), answer

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


@unittest.skipIf(shutil.which("redis-server") is None, "redis-server is missing")
class Shared(GatewayCase):
    OWN = 'credential = { header = "Authorization", value = "env:CANIGO_ADMIN_TOKEN" }\n'

    def setUp(self):
        super().setUp()
        self.redis = Redis()
        self.addCleanup(self.redis.close)
        os.environ["CANIGO_REDIS_URL"] = self.redis.url

    def two(self, settings, port=None, shared=True):
        """Two instances with the same file."""
        text = self.upstream(self.OWN + settings + ("\nshared = true" if shared else ""), port or self.nginx.plain)
        return [self.gateway(text, head='redis = "env:CANIGO_REDIS_URL"') for _ in range(2)]

    def times(self):
        return sorted(float(c[0]) for c in self.nginx.calls())

    def most_in(self, times, seconds):
        return max(sum(t <= u < t + seconds for u in times) for t in times)

    def test_two_instances_keep_one_rate(self):
        calls = {}
        for shared in (True, False):
            self.nginx.forget()
            a, b = self.two('rates = [{ limit = "40/1s", burst = 4 }]\nmax_wait = 2m', shared=shared)
            both = [Curls([f"{g.url}/web/{i}" for i in range(200)]) for g in (a, b)]
            for c in both:
                self.assertEqual(c.statuses(), [200] * 200)
            times = self.times()
            calls[shared] = (self.most_in(times, 2), (len(times) - 1) / (times[-1] - times[0]))
            print(f"  shared {shared}: {calls[shared][0]} in two seconds, {calls[shared][1]:.1f}/s", file=sys.stderr)
        # nginx logs when an answer has gone, so a call that was stopped meanwhile looks later.
        self.assertLessEqual(calls[True][0], 80 + 4 + 8)
        self.assertGreaterEqual(calls[True][1], 40 * 0.95)
        self.assertGreater(calls[False][0], 80 + 4 + 8)

    def test_who_waits_for_the_other_instances_is_seen(self):
        hold = threading.Event()
        self.addCleanup(hold.set)

        def answer(client, _stream, _head):
            hold.wait()
            client.sendall(OK)

        a, b = self.two("concurrency = 1\nmax_wait = 10h", self.script(answer).port)
        first = Curls([f"{a.url}/web/first"])
        wait_until(lambda: a.state()["running"], "it runs")
        others = Curls([f"{b.url}/web/other{i}" for i in range(2)])
        wait_until(lambda: {w["waits_for"] for w in b.state()["waiters"]} == {"concurrency", "shared"}, "both wait")
        state = b.state()
        self.assertEqual((state["waiting"], state["running"], sum(c["waiting"] for c in state["classes"])), (2, [], 2))
        self.assertEqual({w["path"] for w in state["waiters"]}, {"/web/other0", "/web/other1"})
        metrics = parse(b.ask_admin("/metrics"))

        def values(name, **wanted):
            return sum(v for _, labels, v in metrics[f"canigo_gateway_{name}"][2]
                       if all(labels[k] == w for k, w in wanted.items()))

        self.assertEqual((values("waiting"), values("running"), values("connections", state="waiting")), (2, 0, 2))
        hold.set()
        self.assertEqual(first.statuses() + others.statuses(), [200] * 3)

    def test_a_reload_changes_the_limits_of_all_instances(self):
        lock, running = threading.Lock(), []
        three = threading.Event()
        self.addCleanup(three.set)

        def answer(client, _stream, head):
            with lock:
                running.append(head)
                if len(running) >= 3:
                    three.set()
            three.wait()
            client.sendall(OK)

        a, b = self.two('rates = [{ limit = "1/1h", burst = 1 }]\nconcurrency = 1\nmax_wait = 10h',
                        self.script(answer).port)
        calls = Curls([f"{g.url}/web/{i}" for g in (a, b) for i in range(3)])
        wait_until(lambda: a.state()["waiting"] + b.state()["waiting"] == 6, "they wait, as a rate starts empty")
        for g in (a, b):
            g.rewrite(('"1/1h"', '"1000/1s"'), ("burst = 1", "burst = 10"), ("concurrency = 1", "concurrency = 4"))
            self.assertEqual(json.loads(g.ask_admin("/api/reload", method="POST"))["ok"], True)
        # With the old cap one would run at a time, and no call would end.
        self.assertEqual(calls.statuses(), [200] * 6)

    def test_a_hedge_takes_a_place_of_all_instances(self):
        lock, calls = threading.Lock(), []
        hold = threading.Event()
        self.addCleanup(hold.set)

        def answer(client, _stream, head):
            with lock:
                calls.append(head)
                is_first = len(calls) == 1
            if is_first:
                hold.wait()
            client.sendall(OK)

        for cap, seen in ((2, 2), (1, 1)):
            hold.clear()
            calls.clear()
            a, _ = self.two(f'hedge = {{ after = "50ms" }}\nconcurrency = {cap}', self.script(answer).port)
            call = Curls([f"{a.url}/web/x"])
            if cap == 1:  # all places are taken by the first attempt
                time.sleep(0.5)
                hold.set()
            self.assertEqual(call.statuses(), [200])
            self.assertEqual(len(calls), seen)

    def test_a_lone_instance_gets_the_whole_limit(self):
        rates = {}
        for shared in (True, False):
            self.nginx.forget()
            a, _ = self.two('rates = [{ limit = "100/1s", burst = 10 }]\nmax_wait = 2m', shared=shared)
            self.assertEqual(Curls([f"{a.url}/web/{i}" for i in range(500)]).statuses(), [200] * 500)
            times = self.times()
            rates[shared] = (len(times) - 1) / (times[-1] - times[0])
        print(f"  {rates[True]:.1f}/s of 100 through Redis, {rates[False]:.1f} without", file=sys.stderr)
        self.assertGreaterEqual(rates[True], 0.9 * rates[False])

    def test_the_cap_is_of_both_and_a_killed_instance_frees_its_places(self):  # G23
        lock = threading.Lock()
        running, most = [0], [0]
        release = threading.Event()
        self.addCleanup(release.set)

        def answer(client, _stream, head):
            if "/quick" in head.split()[1]:
                return client.sendall(OK)
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            release.wait()
            with lock:
                running[0] -= 1
            return client.sendall(OK)

        a, b = self.two("concurrency = 2\nmax_wait = 2m", self.script(answer).port)
        held = Curls([f"{a.url}/web/{i}" for i in range(2)])
        self.addCleanup(held.kill)
        wait_until(lambda: running[0] == 2, "the first instance holds both places")
        waits = Curls([f"{b.url}/web/quick"])
        time.sleep(7)  # longer than a lease: who lives keeps its places
        self.assertIsNone(waits.process.poll())
        start = time.monotonic()
        a.process.kill()
        self.assertEqual(waits.statuses(), [200])
        took = time.monotonic() - start
        print(f"  free after {took:.1f} s", file=sys.stderr)
        self.assertLess(took, 15)
        self.assertEqual(most[0], 2)

    def test_a_refusal_of_the_upstream_pauses_both(self):  # G7
        seen = {}
        for shared in (True, False):
            refused, after = [], []

            def answer(client, _stream, head, refused=refused, after=after):
                if "/first" in head.split()[1] and not refused:
                    refused.append(time.monotonic())
                    return client.sendall(b"HTTP/1.1 429 No\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n")
                if refused:
                    after.append(time.monotonic() - refused[0])
                return client.sendall(OK)

            a, b = self.two('rates = [{ limit = "20/1s", burst = 1 }]\nmax_wait = 2m', self.script(answer).port, shared)
            steady = Curls([f"{b.url}/web/{i}" for i in range(200)])
            time.sleep(1)
            self.assertEqual(curl(f"{a.url}/web/first")[0], 200)
            self.assertEqual(steady.statuses(), [200] * 200)
            # A grant that was on its way when the refusal came is no matter.
            seen[shared] = sum(0.2 < t < 1.9 for t in after)
        print(f"  during the pause: {seen[True]} calls, {seen[False]} if limits are not shared", file=sys.stderr)
        self.assertEqual(seen[True], 0)
        self.assertGreater(seen[False], 10)

    def test_an_important_call_at_one_instance_goes_before_others_at_the_other(self):
        a, b = self.two('rates = [{ limit = "4/1s", burst = 1 }]\nmax_wait = 10m')
        batch = [Curls([f"{g.url}/web/batch{i}" for i in range(50)], "-H", "X-Canigo-Priority: batch") for g in (a, b)]
        for c in batch:
            self.addCleanup(c.kill)
        wait_until(lambda: a.waiting() >= 35 and b.waiting() >= 35, "batch calls wait")
        before = len(self.nginx.calls())
        self.assertEqual(curl("-H", "X-Canigo-Priority: interactive", f"{b.url}/web/urgent")[0], 200)
        after = [c[2] for c in self.nginx.calls()[before:]]
        # It waits for one of those of its instance that have asked Redis already, and for one that goes meanwhile.
        self.assertIn("/urgent", after[:8], after)

    def test_without_redis_a_closed_limit_refuses(self):  # G23
        a, b = self.two('rates = [{ limit = "50/1s", burst = 5 }]\nmax_wait = 2m')
        for g in (a, b):
            self.assertEqual(curl(f"{g.url}/web/before")[0], 200)
        self.redis.kill()
        killed = time.monotonic()
        for g in (a, b):
            calls = Curls([f"{g.url}/web/{i}" for i in range(40)])
            self.assertEqual(calls.statuses(), [503] * 40)
            status, fields, _ = curl(f"{g.url}/web/away")
            self.assertEqual((status, fields["x-canigo-error"]), (503, "store_unavailable"))
            self.assertIn("retry-after", fields)
        before = len(self.nginx.calls())
        time.sleep(max(0, killed + 10 - time.monotonic()))
        self.assertEqual(len(self.nginx.calls()), before)
        self.redis.start()
        wait_until(lambda: all(curl(f"{g.url}/web/back")[0] == 200 for g in (a, b)), "they serve again", 60)

    def test_without_redis_each_goes_on_with_its_share(self):  # G23
        rate = 40
        a, b = self.two(f'rates = [{{ limit = "{rate}/1s", burst = 4 }}]\nmax_wait = 10m\n'
                        'on_redis_failure = "local:0.5"')
        both = [Curls([f"{g.url}/web/{name}{i}" for i in range(440)]) for name, g in (("a", a), ("b", b))]
        for c in both:
            self.addCleanup(c.kill)
        time.sleep(3)
        self.redis.kill()
        killed = time.time()
        time.sleep(10)
        self.redis.start()
        back = time.time()
        for c in both:
            self.assertEqual(c.statuses(), [200] * 440)
        calls = [(float(c[0]), c[2][1]) for c in self.nginx.calls()]
        times = sorted(t for t, _ in calls)
        away = {name: sum(killed + 2 < t < back - 1 and n == name for t, n in calls) / (back - killed - 3)
                for name in "ab"}
        parts = [[t for t in times if since <= t < until] for since, until in
                 ((0, killed), (killed - 2, killed + 3), (killed + 1, back), (back - 2, times[-1] + 1))]
        most = [self.most_in(part, 2) for part in parts]
        print(f"  away: {away}; most in two seconds before, at the kill, away, at the return: {most}", file=sys.stderr)
        for name in "ab":
            self.assertLessEqual(away[name], rate / 2 * 1.15)
            self.assertGreaterEqual(away[name], rate / 2 * 0.8)
        # The processes of this test stop each other, and a call that was stopped looks later.
        self.assertLessEqual(max(most), 2 * rate + 4 + 16)

    def test_who_can_not_wait_for_redis_refuses_nobody_else(self):
        for mode in ("closed", "open", "local:0.5"):
            with self.subTest(mode):
                g, _ = self.two(f'rates = [{{ limit = "100/1s", burst = 10 }}]\non_redis_failure = "{mode}"\n'
                                'max_wait = 2m')
                wait_until(lambda: curl(f"{g.url}/web/before")[0] == 200, "it serves", 60)
                self.redis.freeze()
                try:
                    status, fields, _ = curl("-H", "X-Canigo-Max-Wait: 100ms", f"{g.url}/web/hasty")
                finally:
                    self.redis.thaw()
                ends = {(503, "store_unavailable")}
                if mode != "closed":  # a slow gateway goes on without Redis by then
                    ends = {(429, "wait_timed_out"), (200, None)}
                self.assertIn((status, fields.get("x-canigo-error")), ends)
                self.assertEqual(curl(f"{g.url}/web/patient")[0], 200)

    def test_retry_after_counts_those_who_wait(self):
        a, _ = self.two('rates = [{ limit = "1/2s", burst = 1 }]\nmax_wait = 10m', shared=False)
        waits = Curls([f"{a.url}/web/{i}" for i in range(15)])
        self.addCleanup(waits.kill)
        wait_until(lambda: a.waiting() >= 13, "they wait")
        status, fields, _ = curl("-H", "X-Canigo-Max-Wait: 1s", f"{a.url}/web/hasty")
        self.assertEqual((status, fields["x-canigo-error"]), (429, "wait_too_long"))
        self.assertIn(int(fields["retry-after"]), range(15, 35))

    @unittest.skipIf(shutil.which("openssl") is None, "openssl is missing")
    def test_redis_that_wants_a_certificate_of_the_gateway(self):
        cert, key = self.redis.dir / "cert.pem", self.redis.dir / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key,
                        "-out", cert], check=True, capture_output=True)
        (tls_port,) = free_ports(1)
        self.redis.kill()
        self.redis.start("--tls-port", str(tls_port), "--tls-cert-file", str(cert), "--tls-key-file", str(key),
                         "--tls-ca-cert-file", str(cert))
        wait_until(lambda: connects(tls_port), "Redis listens for TLS")
        os.environ["CANIGO_REDIS_URL"] = f"rediss://localhost:{tls_port}"
        text = self.upstream(self.OWN + 'rates = [{ limit = "50/1s", burst = 5 }]\nshared = true')
        for own, status in ((f', cert = "{cert}", key = "{key}"', "200"), ("", "503")):
            g = self.gateway(text, head=f'redis = "env:CANIGO_REDIS_URL"\nredis_tls = {{ ca = "{cert}"{own} }}')
            code, _, _ = curl(f"{g.url}/web/1")
            self.assertEqual(str(code), status)
            if not own:
                why = json.loads(g.ask_admin("/api/state"))["redis"]["why"]
                self.assertIn("the server asks for a certificate of the client", why)

    def test_admin_says_that_redis_answers_with_errors(self):
        a, _ = self.two('rates = [{ limit = "50/1s", burst = 5 }]')

        def is_connected(wanted):
            return f"\ncanigo_gateway_redis_connected {wanted}\n" in a.ask_admin("/metrics")

        for broken, whole, cause in ((("config", "set", "maxmemory", "1"), ("config", "set", "maxmemory", "0"), "OOM"),
                                     (("replicaof", "127.0.0.1", "1"), ("replicaof", "no", "one"), "READONLY")):
            wait_until(lambda: is_connected(1), "it is connected")
            self.redis.order(*broken)
            wait_until(lambda: is_connected(0), f"it answers with {cause}", 15)
            self.assertIn(cause, json.loads(a.ask_admin("/api/state"))["redis"]["why"])
            self.redis.order(*whole)
        wait_until(lambda: is_connected(1), "it is connected again", 15)

    def test_admin_says_whether_redis_answers(self):
        a, _ = self.two('rates = [{ limit = "50/1s", burst = 5 }]')
        wait_until(lambda: '"is_connected":true' in a.ask_admin("/api/state").replace(" ", ""), "it is connected")
        self.assertIn("\ncanigo_gateway_redis_connected 1\n", a.ask_admin("/metrics"))
        self.redis.kill()
        wait_until(lambda: '"is_connected":false' in a.ask_admin("/api/state").replace(" ", ""), "it is not")
        self.assertIn("\ncanigo_gateway_redis_connected 0\n", a.ask_admin("/metrics"))
        _, told = a.stop()
        self.assertRegex(told, r"Redis, which keeps shared limits, answers\n(.*\n)*"
                               r"canigo-gateway: Redis, which keeps shared limits, does not answer: \S")


if __name__ == "__main__":
    main(Breaker, Quotas, Window, Hedge, Shared)
