#!/usr/bin/env python3
"""Several targets behind one queue of canigo-gateway: CANIGO_GATEWAY [PART...].

Times have a lower bound only. A long pause tells which target a call went to.
"""

import collections
import json
import math
import threading
import time
import urllib.error

from rig import Curls, GatewayCase, curl, free_ports, main, wait_until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
JSON = "Content-Type: application/json"


def refusal(status, *fields, body=b""):
    head = f"HTTP/1.1 {status} No\r\n" + "".join(f + "\r\n" for f in fields)
    return head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def target_of(head):
    return head.split()[1]


def field_of(head, name):
    return next((line.split(": ", 1)[1] for line in head.split("\r\n") if line.lower().startswith(name + ":")), None)


class Targets(GatewayCase):
    def target(self, name, port, more=""):
        key = f'credential = {{ header = "Authorization", value = "env:KEY_{name}" }}'
        return (f'[[upstream.target]]\nname = "{name}"\nurl = "http://127.0.0.1:{port}"\n'
                f"{'' if 'credential' in more else key}\n{more}\n")

    def served(self, *targets, more="", env=None, **others):
        """A gateway with an upstream "ai" at /ai that has these targets."""
        keys = {f"KEY_{name}": f"Bearer of-{name}" for name in "abc"}
        more = more if "max_wait" in more else more + '\nmax_wait = { interactive = "5m", normal = "5m", batch = "5m" }'
        return self.gateway(f'name = "ai"\nprefix = "/ai"\n{more}\n' + "".join(targets),
                            env={**keys, **(env or {})}, **others)

    def answering(self, *answers, ends=False):
        """A target that gives these answers in turn, and then OK. `ends`: it closes the connection after each."""
        n = iter(range(1 << 30))

        def answer(client, _stream, head):
            length = int(field_of(head, "content-length") or 0)
            body = _stream.read(length)
            script.bodies.append(body)
            i = next(n)
            client.sendall(answers[i] if i < len(answers) else OK)
            return "close" if ends else None

        script = self.script(answer)
        script.bodies = []
        return script

    def holding(self):
        """A target that answers when `go` is set."""
        go = threading.Event()

        def answer(client, _stream, _head):
            go.wait()
            client.sendall(OK)

        script = self.script(answer)
        script.go = go
        self.addCleanup(go.set)
        return script

    def states(self, g):
        return {t["name"]: t for t in g.state()["targets"]}

    def test_a_call_goes_to_the_preferred_target_with_room_and_waits_for_any(self):
        a, b = self.holding(), self.holding()
        g = self.served(self.target("b", b.port, "prefer = 2\nconcurrency = 1"),
                        self.target("a", a.port, "concurrency = 1"))
        first = Curls([f"{g.url}/ai/1"])
        wait_until(lambda: a.heads, "the preferred target has the first")
        second = Curls([f"{g.url}/ai/2"])
        wait_until(lambda: b.heads, "the other one has the second")
        third = Curls([f"{g.url}/ai/3"])
        wait_until(lambda: g.waiting() == 1, "the third waits")
        waiter = g.state()["waiters"][0]
        self.assertEqual(sorted(waiter["targets"]), ["a", "b"])
        b.go.set()
        self.assertEqual(second.statuses() + third.statuses(), [200, 200])
        self.assertEqual([target_of(h) for h in b.heads], ["/2", "/3"])
        a.go.set()
        self.assertEqual(first.statuses(), [200])
        self.assertEqual([field_of(h, "authorization") for h in a.heads + b.heads],
                         ["Bearer of-a", "Bearer of-b", "Bearer of-b"])
        self.assertEqual(sorted((e["path"], e["target"]) for e in g.log()),
                         [("/ai/1", "a"), ("/ai/2", "b"), ("/ai/3", "b")])

    def test_the_model_decides_which_targets_serve_a_call(self):
        a, b = self.answering(), self.answering()
        g = self.served(self.target("a", a.port, 'models = ["gpt-x", "small*"]'),
                        self.target("b", b.port, 'models = ["gpt-y"]'))
        for model, to in (("gpt-x", a), ("small-2", a), ("gpt-y", b)):
            before = len(to.heads)
            self.assertEqual(curl("-H", JSON, "-d", json.dumps({"model": model}), f"{g.url}/ai/v1/x")[0], 200)
            self.assertEqual(len(to.heads), before + 1)
        status, fields, body = curl("-H", JSON, "-d", '{"model":"gpt-z"}', f"{g.url}/ai/v1/x")
        self.assertEqual((status, fields["x-canigo-error"]), (404, "no_target"))
        self.assertIn(b'no target of the upstream serves the model \\"gpt-z\\"', body)
        self.assertEqual(len(a.heads) + len(b.heads), 3)

    def test_a_target_has_paths_and_a_credential_of_its_own(self):
        a = self.answering()
        g = self.served(self.target("a", a.port, 'credential = { header = "api-key", value = "env:KEY_a" }\n'
                                    'path = { "/v1/chat" = "/openai/{model}/chat?api-version=7" }'))
        body = json.dumps({"model": "gpt x/1", "messages": []})
        for query in ("", "?a=b"):
            status = curl("-H", "Authorization: Bearer client", "-d", body, f"{g.url}/ai/v1/chat{query}")[0]
            self.assertEqual(status, 200)
        self.assertEqual(curl("-d", body, f"{g.url}/ai/v1/other?q")[0], 200)
        self.assertEqual([target_of(h) for h in a.heads],
                         ["/openai/gpt%20x%2F1/chat?api-version=7", "/openai/gpt%20x%2F1/chat?api-version=7&a=b",
                          "/v1/other?q"])
        self.assertEqual({field_of(h, "api-key") for h in a.heads}, {"Bearer of-a"})
        self.assertEqual({field_of(h, "authorization") for h in a.heads}, {None})
        self.assertEqual(a.bodies, [body.encode()] * 3)

    def test_a_refused_key_takes_its_target_out_and_the_call_goes_on_at_another(self):
        for status in (401, 402):
            with self.subTest(status):
                a, b = self.answering(refusal(status)), self.answering()
                g = self.served(self.target("a", a.port), self.target("b", b.port, "prefer = 2"))
                for _ in range(3):
                    self.assertEqual(curl("-d", "{}", f"{g.url}/ai/")[0], 200)
                self.assertEqual((len(a.heads), len(b.heads)), (1, 3))
                self.assertEqual([e["attempts"] for e in g.log()], [2, 1, 1])
                self.assertEqual([p["cause"] for p in self.states(g)["a"]["pauses"]], ["key"])
                self.assertEqual(self.states(g)["b"]["pauses"], [])
                # A new key may be in the file.
                g.ask_admin("/api/reload", method="POST")
                self.assertEqual(self.states(g)["a"]["pauses"], [])
                self.assertEqual(curl("-d", "{}", f"{g.url}/ai/")[0], 200)
                self.assertEqual(len(a.heads), 2)

    def test_clients_get_the_answer_of_the_last_target_if_all_keys_are_refused(self):
        a, b = self.answering(*[refusal(401, body=b"a")] * 9), self.answering(*[refusal(401, body=b"b")] * 9)
        g = self.served(self.target("a", a.port), self.target("b", b.port, "prefer = 2"))
        answers = [curl("-d", "{}", f"{g.url}/ai/") for _ in range(3)]
        self.assertEqual([(s, body) for s, _, body in answers], [(401, b"b")] * 3)
        self.assertEqual((len(a.heads), len(b.heads)), (1, 3))

    def test_a_refusal_by_a_limit_pauses_its_target_alone(self):
        for status, *fields in ((429, "Retry-After: 600"), (529, "retry-after: 600"), (429,)):
            with self.subTest(fields):
                a, b = self.answering(*[refusal(status, *fields)] * 9), self.answering()
                g = self.served(self.target("a", a.port), self.target("b", b.port, "prefer = 2"),
                                more='retry = { budget = "0%" }')
                self.assertEqual(curl("-d", "{}", f"{g.url}/ai/")[0], 200)
                self.assertEqual((len(a.heads), len(b.heads)), (1, 1))
                self.assertEqual(g.log()[0]["attempts"], 2)
                self.assertLess(g.log()[0]["wait_ms"], 60_000)
                self.assertEqual(g.state()["pauses"], [])
                if fields:
                    self.assertEqual([p["cause"] for p in self.states(g)["a"]["pauses"]], ["upstream"])
                    self.assertEqual(curl("-d", "{}", f"{g.url}/ai/")[0], 200)
                    self.assertEqual((len(a.heads), len(b.heads)), (1, 2))

    def test_an_account_without_money_takes_its_target_out(self):
        """OpenAI answers 429 for it, with a code after which no wait helps."""
        body = json.dumps({"error": {"message": "You exceeded your current quota", "type": "insufficient_quota",
                                     "code": "insufficient_quota"}}).encode()
        a, b = self.answering(*[refusal(429, JSON, body=body)] * 9), self.answering()
        g = self.served(self.target("a", a.port), self.target("b", b.port, "prefer = 2"), more='provider = "openai"')
        for _ in range(2):
            self.assertEqual(curl("-d", "{}", f"{g.url}/ai/")[0], 200)
        self.assertEqual((len(a.heads), len(b.heads)), (1, 2))

    def test_a_call_that_may_be_repeated_leaves_a_target_that_fails(self):
        broken, = free_ports(1)
        for what in ("502", "closed", "unreachable"):
            with self.subTest(what):
                a = self.script(lambda client, *_: "close") if what == "closed" else self.answering(*[refusal(502)] * 9)
                b = self.answering()
                g = self.served(self.target("a", broken if what == "unreachable" else a.port),
                                self.target("b", b.port, "prefer = 2"), more='retry = { budget = "0%" }')
                for _ in range(3):
                    self.assertEqual(curl(f"{g.url}/ai/")[0], 200)
                self.assertEqual(len(b.heads), 3)

    def test_a_call_returns_to_the_target_that_failed_it_rather_than_wait_for_a_busy_one(self):
        a, b = self.holding(), self.answering(refusal(502))
        g = self.served(self.target("a", a.port, "concurrency = 1"), self.target("b", b.port, "prefer = 2"))
        first = Curls([f"{g.url}/ai/1"])
        wait_until(lambda: a.heads, "the preferred target is busy")
        self.assertEqual(curl(f"{g.url}/ai/2")[0], 200)
        self.assertEqual([target_of(h) for h in b.heads], ["/2", "/2"])
        a.go.set()
        self.assertEqual(first.statuses(), [200])

    def test_a_call_returns_to_the_target_that_failed_it_rather_than_wait_for_a_paused_one(self):
        a, b = self.answering(refusal(429, "Retry-After: 60")), self.answering(OK, refusal(502))
        g = self.served(self.target("a", a.port), self.target("b", b.port, "prefer = 2"))
        for _ in range(2):
            self.assertEqual(curl(f"{g.url}/ai/")[0], 200)
        self.assertEqual((len(a.heads), len(b.heads)), (1, 3))

    def test_a_call_that_may_not_return_waits_for_an_untried_target_alone(self):
        for answers, more, tries in (([refusal(502)] * 9, "retry = { attempts = 2 }", 2), ([refusal(403)] * 9, "", 1)):
            with self.subTest(more):
                a, b = self.holding(), self.answering(*answers)
                g = self.served(self.target("a", a.port, "concurrency = 1"), self.target("b", b.port, "prefer = 2"),
                                more=more)
                first = Curls([f"{g.url}/ai/1"])
                wait_until(lambda: a.heads, "the preferred target is busy")  # pylint: disable=W0640
                second = Curls([f"{g.url}/ai/2"])
                wait_until(lambda: [w.get("targets") for w in g.state()["waiters"]] == [["a"]],  # pylint: disable=W0640
                           "the second call waits for the other target alone")
                self.assertEqual(len(b.heads), tries)
                a.go.set()
                self.assertEqual(first.statuses() + second.statuses(), [200] * 2)
                self.assertEqual(len(b.heads), tries)

    def test_the_only_target_of_a_model_stays_in_use_when_its_calls_fail(self):
        a, b = self.answering(*[refusal(500)] * 4), self.answering()
        g = self.served(self.target("a", a.port, 'models = ["x"]'), self.target("b", b.port, 'models = ["y"]'))
        for _ in range(4):
            self.assertEqual(curl("-H", JSON, "-d", '{"model":"x"}', f"{g.url}/ai/")[0], 500)
            self.assertEqual(self.states(g)["a"]["pauses"], [])
        self.assertEqual(curl("-H", JSON, "-d", '{"model":"x"}', f"{g.url}/ai/")[0], 200)

    def test_a_call_without_a_model_goes_to_no_target_that_needs_one_in_its_path(self):
        a, b = self.answering(), self.answering()
        needing = self.target("a", a.port, 'path = { "/chat" = "/of/{model}/chat" }')
        g = self.served(needing, self.target("b", b.port, "prefer = 2"))
        for body, to in (('{"model":"x"}', a), ("{}", b)):
            self.assertEqual(curl("-H", JSON, "-d", body, f"{g.url}/ai/chat?q")[0], 200)
            self.assertEqual(len(to.heads), 1)
        g = self.served(needing)
        status, fields, _ = curl("-H", JSON, "-d", "{}", f"{g.url}/ai/chat")
        self.assertEqual((status, fields["x-canigo-error"]), (404, "no_target"))
        self.assertEqual(curl("-H", JSON, "-d", "{}", f"{g.url}/ai/other")[0], 200)

    def test_a_call_without_a_model_is_refused_if_the_quota_of_its_only_target_is_used_up(self):
        a = self.answering()
        body = json.dumps({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x", "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
             "violations": [{"quotaId": "GenerateRequestsPerDayPerProject-FreeTier"}]}]}}).encode()
        b = self.answering(refusal(429, JSON, body=body))
        g = self.served(self.target("a", a.port, 'path = { "/chat" = "/of/{model}/chat" }'),
                        self.target("b", b.port, "prefer = 2"), more='provider = "gemini"')
        for _ in range(2):
            status, fields, _ = curl("-H", JSON, "-d", "{}", f"{g.url}/ai/chat")
            self.assertEqual(status, 429)
        self.assertEqual((fields["x-canigo-error"], len(a.heads), len(b.heads)), ("quota_used_up", 0, 1))

    def test_a_403_goes_on_at_another_target_and_takes_none_out_alone(self):
        a, b = self.answering(refusal(403), OK, refusal(403), OK), self.answering()
        g = self.served(self.target("a", a.port), self.target("b", b.port, "prefer = 2"))
        for _ in range(4):
            self.assertEqual(curl("-d", "{}", f"{g.url}/ai/")[0], 200)
        self.assertEqual((len(a.heads), len(b.heads)), (4, 2))
        self.assertEqual(self.states(g)["a"]["pauses"], [])

    def test_a_target_that_fails_gets_few_calls_however_few_there_are(self):
        half = OK.replace(b"Length: 2", b"Length: 9")
        for bad in (refusal(500), None, half):
            with self.subTest(bad):
                a = self.answering(*[bad] * 99, ends=bad is half) if bad else self.script(lambda client, *_: "close")
                b = self.answering()
                g = self.served(self.target("a", a.port), self.target("b", b.port))
                statuses, began = [], time.monotonic()
                while len(b.heads) < 6:
                    self.assertLess(len(statuses), 100)
                    statuses += Curls([f"{g.url}/ai/"], "-d", "{}").statuses()
                # It rests for 1 s after the second one, then for 2 s, 4 s and so on.
                self.assertLessEqual(len(a.heads), 3 + math.log2(1 + time.monotonic() - began))
                self.assertEqual(statuses[-1], 200)
                of = self.states(g)["a"]
                self.assertEqual(of["breaker"]["state"], "closed")
                if of["pauses"]:
                    self.assertEqual([p["cause"] for p in of["pauses"]], ["failures"])

    def test_more_targets_are_down_than_a_call_has_attempts(self):
        ports = free_ports(4)
        e = self.answering()
        dead = [self.target(n, p, 'credential = { header = "K", value = "env:KEY_a" }') for n, p in zip("wxyz", ports)]
        own = 'prefer = 2\ncredential = { header = "K", value = "env:KEY_a" }'
        g = self.served(*dead, self.target("e", e.port, own),
                        more='retry = { attempts = 2, budget = "0%" }')
        self.assertEqual(curl("-d", "{}", f"{g.url}/ai/")[0], 200)
        self.assertEqual(g.log()[0]["attempts"], 5)

    def test_a_call_that_waits_during_a_reload_has_the_new_key_and_url(self):
        old, new = self.answering(), self.answering()
        g = self.served(self.target("a", old.port, 'rates = [{ limit = "1/1h", burst = 1 }]'),
                        more='max_wait = { interactive = "9h", normal = "9h", batch = "9h" }')
        waits = Curls([f"{g.url}/ai/"])
        wait_until(lambda: g.waiting() == 1, "it waits")
        g.rewrite(("1/1h", "100/1s"), ("env:KEY_a", "env:KEY_b"), (f":{old.port}", f":{new.port}"))
        g.ask_admin("/api/reload", method="POST")
        self.assertEqual(waits.statuses(), [200])
        self.assertEqual([field_of(h, "authorization") for h in new.heads], ["Bearer of-b"])
        self.assertEqual(old.heads, [])

    def test_a_call_that_waits_to_return_during_a_reload_has_the_new_url(self):
        a, old, new = self.holding(), self.answering(refusal(429, "Retry-After: 10")), self.answering()
        g = self.served(self.target("a", a.port, "concurrency = 1"), self.target("b", old.port, "prefer = 2"))
        first = Curls([f"{g.url}/ai/1"])
        wait_until(lambda: a.heads, "the preferred target is busy")
        second = Curls([f"{g.url}/ai/2"])
        wait_until(lambda: [w.get("targets") for w in g.state()["waiters"]] == [["a", "b"]], "the call waits for both")
        g.rewrite((str(old.port), str(new.port)))
        self.assertEqual(json.loads(g.ask_admin("/api/reload", method="POST"))["ok"], True)
        self.assertEqual(second.statuses(), [200])
        self.assertEqual((len(old.heads), len(new.heads)), (1, 1))
        a.go.set()
        self.assertEqual(first.statuses(), [200])

    def test_a_refusal_of_the_old_key_does_not_take_out_the_new_one(self):
        go = threading.Event()

        def answer(client, _stream, head):
            if field_of(head, "authorization") == "Bearer of-a":
                go.wait()
                client.sendall(refusal(401))
            else:
                client.sendall(OK)

        a, b = self.script(answer), self.answering()
        self.addCleanup(go.set)
        g = self.served(self.target("a", a.port), self.target("b", b.port, "prefer = 2"))
        first = Curls([f"{g.url}/ai/"])
        wait_until(lambda: a.heads, "it has the old key")
        g.rewrite(("env:KEY_a", "env:KEY_c"))
        g.ask_admin("/api/reload", method="POST")
        go.set()
        self.assertEqual(first.statuses(), [200])
        self.assertEqual(self.states(g)["a"]["pauses"], [])
        self.assertEqual(curl(f"{g.url}/ai/")[0], 200)
        self.assertEqual(len(a.heads), 2)

    def test_a_call_that_may_have_been_executed_goes_to_no_other_target(self):
        a, b = self.answering(*[refusal(500)] * 9), self.answering()
        g = self.served(self.target("a", a.port), self.target("b", b.port, "prefer = 2"))
        self.assertEqual(curl("-d", "{}", f"{g.url}/ai/")[0], 500)
        self.assertEqual(len(b.heads), 0)

    def test_a_day_quota_that_is_used_up_is_one_targets(self):
        body = json.dumps({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x", "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
             "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}).encode()
        spent = refusal(429, JSON, body=body)
        a, b = self.answering(spent), self.answering(OK, OK, spent)
        g = self.served(self.target("a", a.port), self.target("b", b.port, "prefer = 2"), more='provider = "gemini"')
        url = f"{g.url}/ai/v1beta/models/m:generateContent"
        for _ in range(2):
            self.assertEqual(curl("-H", JSON, "-d", '{"contents":[]}', url)[0], 200)
        self.assertEqual((len(a.heads), len(b.heads)), (1, 2))
        self.assertEqual(curl("-H", JSON, "-d", '{"contents":[]}', url)[0], 429)
        status, fields, _ = curl("-H", JSON, "-d", '{"contents":[]}', url)
        self.assertEqual((status, fields["x-canigo-error"]), (429, "quota_used_up"))
        # Another model is not held up.
        self.assertEqual(curl("-H", JSON, "-d", '{"contents":[]}', url.replace("m:", "n:"))[0], 200)
        # Operators see whose quota it is, and end the pause of one target.
        self.assertEqual(g.state()["pauses"], [])
        self.assertEqual([[(p["cause"], p["model"]) for p in self.states(g)[name]["pauses"]] for name in "ab"],
                         [[("quota", "m")]] * 2)
        self.assertEqual((g.state()["last_refusal"]["target"], g.state()["last_refusal"]["status"]), ("b", 429))
        counted = 'canigo_gateway_target_paused{upstream="ai",target="%s",cause="quota"} %d'
        self.assertIn(counted % ("a", 1), g.ask_admin("/metrics"))
        g.ask_admin("/api/upstreams/ai/targets/a/resume", method="POST")
        self.assertEqual([len(self.states(g)[name]["pauses"]) for name in "ab"], [0, 1])
        self.assertIn(counted % ("a", 0), g.ask_admin("/metrics"))
        self.assertEqual(curl("-H", JSON, "-d", '{"contents":[]}', url)[0], 200)

    def test_calls_of_a_key_go_to_the_same_target_while_it_has_room(self):
        scripts = {name: self.answering() for name in "abc"}
        g = self.served(*[self.target(name, s.port) for name, s in scripts.items()], more='sticky = "header:X-Session"')
        homes = collections.defaultdict(set)
        for round_ in range(3):
            for i in range(12):
                before = {name: len(s.heads) for name, s in scripts.items()}
                self.assertEqual(curl("-H", f"X-Session: s{i}", f"{g.url}/ai/")[0], 200)
                homes[i].update(name for name, s in scripts.items() if len(s.heads) > before[name])
        self.assertEqual({len(h) for h in homes.values()}, {1})
        self.assertGreater(len({min(h) for h in homes.values()}), 1)

    def test_a_call_waits_a_second_for_the_target_of_its_key_and_then_goes_elsewhere(self):
        a, b = self.holding(), self.holding()
        g = self.served(self.target("a", a.port, "concurrency = 1"), self.target("b", b.port, "concurrency = 1"),
                        more='sticky = "cookie:sid"')
        first = Curls([f"{g.url}/ai/1"], "-H", "Cookie: x=y; sid=7")
        wait_until(lambda: a.heads or b.heads, "one has the first")
        home, other = (a, b) if a.heads else (b, a)
        began = time.monotonic()
        second = Curls([f"{g.url}/ai/2"], "-H", "Cookie: sid=7; x=y")
        wait_until(lambda: other.heads, "the other has the second")
        self.assertGreaterEqual(time.monotonic() - began, 0.9)
        home.go.set()
        other.go.set()
        self.assertEqual(first.statuses() + second.statuses(), [200, 200])

    def test_a_waiter_for_one_target_holds_up_none_for_another(self):
        a, b = self.holding(), self.answering()
        g = self.served(self.target("a", a.port, 'concurrency = 1\nmodels = ["m"]'), self.target("b", b.port))
        held = Curls([f"{g.url}/ai/1"], "-d", '{"model":"m"}')
        wait_until(lambda: a.heads or b.heads, "it runs")
        for _ in range(3):
            self.assertEqual(curl("-d", '{"model":"n"}', f"{g.url}/ai/2")[0], 200)
        a.go.set()
        self.assertEqual(held.statuses(), [200])

    def test_an_operator_pauses_one_target(self):
        a, b = self.answering(), self.answering()
        g = self.served(self.target("a", a.port), self.target("b", b.port, "prefer = 2"))
        g.ask_admin("/api/upstreams/ai/targets/a/pause", method="POST")
        self.assertEqual(curl(f"{g.url}/ai/")[0], 200)
        self.assertEqual((len(a.heads), len(b.heads)), (0, 1))
        self.assertEqual([p["cause"] for p in self.states(g)["a"]["pauses"]], ["operator"])
        self.assertEqual(g.state()["pauses"], [])
        g.ask_admin("/api/upstreams/ai/targets/b/pause", method="POST")
        self.assertEqual([p["cause"] for p in g.state()["pauses"]], ["operator"])
        waits = Curls([f"{g.url}/ai/"])
        wait_until(lambda: g.waiting() == 1, "it waits")
        self.assertEqual(g.state()["waiters"][0]["waits_for"], "paused")
        g.ask_admin("/api/upstreams/ai/targets/a/resume", method="POST")
        self.assertEqual(waits.statuses(), [200])
        self.assertEqual((len(a.heads), len(b.heads)), (1, 1))
        for path in ("ai/targets/c/pause", "ai/targets//pause", "ai/targets/a/stop", "no/targets/a/pause"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                g.ask_admin(f"/api/upstreams/{path}", method="POST")
            self.assertEqual(refused.exception.code, 404)
            refused.exception.close()

    def test_a_refused_attempt_uses_no_tokens(self):
        a, b = self.answering(refusal(401), refusal(401)), self.answering()
        rates = 'rates = [{ limit = "%s", burst = 1_000, unit = "tokens" }]'
        fast = rates % "100000/1s"
        g = self.served(self.target("a", a.port, fast), self.target("b", b.port, fast + "\nprefer = 2"),
                        more='tokens = { api = "openai", default_output = 300, learn = false }')

        def levels():
            return [self.states(g)[n]["limits"][0]["level"] for n in "ab"]
        wait_until(lambda: levels() == [1_000, 1_000], "both are full")
        # From now on nothing comes back that is not given back.
        g.rewrite(("100000/1s", "1/9h"))
        g.ask_admin("/api/reload", method="POST")
        self.assertEqual(curl("-d", '{"model":"m"}', f"{g.url}/ai/")[0], 200)
        self.assertEqual((len(a.heads), len(b.heads)), (1, 1))
        self.assertEqual(levels()[0], 1_000)
        self.assertLess(levels()[1], 701)

    def test_no_target_gets_more_than_its_own_quota(self):
        times = {"a": [], "b": []}

        def counting(name):
            def answer(client, _stream, _head):
                times[name].append(time.monotonic())
                client.sendall(OK)
            return self.script(answer)

        g = self.served(self.target("a", counting("a").port, 'rates = [{ limit = "10/1s", burst = 1 }]'),
                        self.target("b", counting("b").port, 'rates = [{ limit = "5/1s", burst = 1 }]'))
        began = time.monotonic()
        self.assertEqual(set(Curls([f"{g.url}/ai/{i}" for i in range(45)]).statuses()), {200})
        for name, rate in (("a", 10), ("b", 5)):
            self.assertLessEqual(len(times[name]), 1 + rate * (times[name][-1] - began))
        self.assertGreaterEqual(min(len(t) for t in times.values()), 10)

    def test_a_reload_changes_the_rates_of_a_target_for_its_waiters(self):
        a = self.answering()
        g = self.served(self.target("a", a.port, 'rates = [{ limit = "1/1h", burst = 1 }]'),
                        more='max_wait = { interactive = "9h", normal = "9h", batch = "9h" }')
        late = Curls([f"{g.url}/ai/{i}" for i in range(3)])
        wait_until(lambda: g.waiting() == 3, "they wait")
        self.assertEqual({w["waits_for"] for w in g.state()["waiters"]}, {"requests/1h of a"})
        g.rewrite(("1/1h", "100/1s"))
        g.ask_admin("/api/reload", method="POST")
        self.assertEqual(late.statuses(), [200] * 3)
        g.rewrite(('name = "a"', 'name = "other"'))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            g.ask_admin("/api/reload", method="POST")
        self.assertIn(b'upstream[0].target[0].name is "other", which needs a restart', refused.exception.read())
        refused.exception.close()

    def test_the_metrics_and_the_state_tell_of_each_target(self):
        a, b = self.answering(refusal(401)), self.answering()
        g = self.served(self.target("a", a.port, 'rates = [{ limit = "50/1s", burst = 2 }]\nmodels = ["m"]'),
                        self.target("b", b.port, "prefer = 2"))
        wait_until(lambda: self.states(g)["a"]["limits"][0]["level"] == 2, "its burst is full")
        self.assertEqual(curl("-d", '{"model":"m"}', f"{g.url}/ai/")[0], 200)
        of = self.states(g)
        self.assertEqual([of[n]["granted"] for n in "ab"], [1, 1])
        self.assertEqual([limit["name"] for limit in of["a"]["limits"]], ["requests/1s", "concurrency"])
        self.assertEqual((of["a"]["models"], of["b"]["models"], of["b"]["prefer"]), (["m"], [], 2))
        metrics = g.ask_admin("/metrics")
        for line in ('canigo_gateway_target_granted_total{upstream="ai",target="a"} 1',
                     'canigo_gateway_target_paused{upstream="ai",target="a",cause="key"} 1',
                     'canigo_gateway_target_paused{upstream="ai",target="b",cause="key"} 0',
                     'canigo_gateway_target_running{upstream="ai",target="b"} 0',
                     'canigo_gateway_target_level{upstream="ai",target="a",limit="requests/1s"} '):
            self.assertIn(line, metrics)


if __name__ == "__main__":
    main(Targets)
