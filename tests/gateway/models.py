#!/usr/bin/env python3
"""Limits of models of canigo-gateway: CANIGO_GATEWAY [PART...].

Times have a lower bound only. A rate that gives nothing for an hour tells that a call waits for it.
"""

import json
import subprocess
import threading

from rig import GATEWAY, Curls, GatewayCase, curl, main, wait_until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SLOW = 'rates = [{ limit = "1/1h" }]'  # it begins empty


def usage(tokens):
    body = json.dumps({"usage": {"prompt_tokens": 0, "completion_tokens": tokens}}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


class Models(GatewayCase):
    def answering(self, answer=OK):
        """An upstream that notes the model of each call, and answers once `go` is set; it is from the beginning."""
        go = threading.Event()
        go.set()
        models = []

        def reply(client, stream, head):
            length = next((int(line.split(": ")[1]) for line in head.split("\r\n")
                           if line.lower().startswith("content-length:")), 0)
            models.append(json.loads(stream.read(length) or b"{}").get("model"))
            go.wait()
            client.sendall(script.answer_now)

        script = self.script(reply)
        script.go, script.models, script.answer_now = go, models, answer
        self.addCleanup(go.set)
        return script

    def ai(self, port, *models, more=""):
        url = "" if "upstream.target" in more else f'url = "http://127.0.0.1:{port}"\n'
        wait = 'max_wait = { interactive = "12h", normal = "12h", batch = "12h" }'
        tables = "".join(f"[[upstream.model]]\n{m}\n" for m in models)
        return f'name = "ai"\n{url}prefix = "/ai"\n{wait}\n{more}\n{tables}'

    def body(self, model, **more):
        return json.dumps({"model": model, **more})

    def call(self, g, model, *args, **more):
        return curl("-d", self.body(model, **more), *args, f"{g.url}/ai/v1/chat/completions")

    def calls(self, g, model, n=1, **more):
        return Curls([f"{g.url}/ai/v1/chat/completions"] * n, "-d", self.body(model, **more))

    def of(self, g, model):
        return next(m for m in g.state()["models"] if m["name"] == model)

    def test_a_call_for_a_full_model_holds_up_no_one_of_another(self):
        for targets in (False, True):
            with self.subTest(targets=targets):
                up = self.answering()
                more = (f'[[upstream.target]]\nname = "a"\nurl = "http://127.0.0.1:{up.port}"\n' if targets else "")
                g = self.gateway(self.ai(up.port, f'match = "full"\n{SLOW}', more=more))
                waiting = self.calls(g, "full", 3)
                wait_until(lambda: g.waiting() == 3, "the calls for the full model wait")
                for model in ("other", "another"):
                    self.assertEqual(self.call(g, model)[0], 200)
                self.assertEqual(curl(f"{g.url}/ai/v1/models")[0], 200)
                state = g.state()
                self.assertEqual(state["binds"], "requests/1h of full")
                self.assertEqual({w["waits_for"] for w in state["waiters"]}, {"requests/1h of full"})
                self.assertEqual(self.of(g, "full")["granted"], 0)
                waiting.kill()
                wait_until(lambda: g.waiting() == 0, "they leave")
                self.assertEqual(sorted(up.models, key=str), [None, "another", "other"])
                bound = [e["bound_by"] for e in g.log() if e.get("bound_by")]
                self.assertEqual(set(bound), {"requests/1h of full"})

    def test_each_model_that_a_star_matches_has_limits_of_its_own(self):
        up = self.answering()
        g = self.gateway(self.ai(up.port, 'match = "gpt-*"\nconcurrency = 1',
                                 'match = "claude-*"\ntogether = true\nconcurrency = 1'))
        up.go.clear()
        running = [self.calls(g, m) for m in ("gpt-a", "gpt-b", "claude-a")]
        wait_until(lambda: len(up.models) == 3, "one call for each runs")
        waiting = [self.calls(g, m) for m in ("gpt-a", "claude-b")]
        wait_until(lambda: g.waiting() == 2, "the others wait")
        self.assertEqual({w["waits_for"] for w in g.state()["waiters"]},
                         {"concurrency of gpt-*", "concurrency of claude-*"})
        held = {m["name"]: m["held"] for m in g.state()["models"]}
        self.assertEqual(held, {"gpt-*": 0, "claude-*": 1, "gpt-a": 1, "gpt-b": 1})
        text = g.ask_admin("/metrics")
        self.assertIn('canigo_gateway_model_running{upstream="ai",model="gpt-a"} 1\n', text)
        self.assertIn('canigo_gateway_model_granted_total{upstream="ai",model="claude-*"} 1\n', text)
        self.assertIn('canigo_gateway_model_level{upstream="ai",model="gpt-a",limit="concurrency"} 0\n', text)
        self.assertIn('canigo_gateway_limit_binding_seconds_total{upstream="ai",limit="model"}', text)
        up.go.set()
        self.assertEqual([c.statuses() for c in running + waiting], [[200]] * 5)

    def test_models_beyond_256_share_the_limits_of_their_pattern(self):
        up = self.answering()
        g = self.gateway(self.ai(up.port, 'match = "named"\nconcurrency = 1', 'match = "*"\nconcurrency = 1'))
        for i in range(254):
            self.assertEqual(self.call(g, f"m{i}")[0], 200)
        self.assertEqual(len(g.state()["models"]), 256)
        up.go.clear()
        first = self.calls(g, "m254")
        wait_until(lambda: "m254" in up.models, "it runs")
        second = self.calls(g, "m255")
        wait_until(lambda: g.waiting() == 1, "another one waits for the same limits")
        others = [self.calls(g, m) for m in ("m0", "named")]
        wait_until(lambda: up.models[-2:] != ["m253", "m254"] and len(up.models) == 257, "these have their own")
        self.assertEqual(self.of(g, "*")["held"], 1)
        self.assertEqual(len(g.state()["models"]), 256)
        up.go.set()
        self.assertEqual([c.statuses() for c in [first, second, *others]], [[200]] * 4)

    def test_a_name_that_no_page_can_show_shares_the_limits_of_its_pattern(self):
        up = self.answering()
        g = self.gateway(self.ai(up.port, 'match = "m*"\nconcurrency = 9'))
        for model in ("m \u00e4", "m*", "m\"<b>\n"):
            self.assertEqual(self.call(g, model)[0], 200)
        self.assertEqual([(m["name"], m["granted"]) for m in g.state()["models"]], [("m*", 3)])
        g.ask_admin("/metrics")

    def test_tokens_of_a_model_are_reserved_and_settled(self):
        up = self.answering(usage(10))
        limit = 'rates = [{ limit = "3600/1h", burst = 3600, unit = "tokens" }]'
        g = self.gateway(self.ai(up.port, f'match = "m"\n{limit}', more='provider = "openai"\nwindow = "average"'))
        waiting = self.calls(g, "m", max_tokens=3000)
        wait_until(lambda: g.waiting() == 1, "a call waits for so many tokens")
        self.assertEqual(g.state()["waiters"][0]["waits_for"], "tokens/1h of m")
        self.assertEqual(self.call(g, "other", max_tokens=3000)[0], 200)
        waiting.kill()
        g.rewrite(("3600/1h", "3600000/1h"))
        g.ask_admin("/api/reload", method="POST")
        wait_until(lambda: self.of(g, "m")["limits"][0]["level"] > 1000, "there are tokens")
        self.assertEqual(self.call(g, "m", max_tokens=1000)[0], 200)
        self.assertGreater(self.of(g, "m")["limits"][0]["level"], 100)

    def test_a_reload_changes_the_limits_of_calls_that_wait(self):
        up = self.answering()
        g = self.gateway(self.ai(up.port, 'match = "m*"\nrates = [{ limit = "1/1h" }]'))
        waiting = self.calls(g, "m1", 3)
        wait_until(lambda: g.waiting() == 3, "the calls wait")
        g.rewrite(("1/1h", "1000/1s"))
        g.ask_admin("/api/reload", method="POST")
        self.assertEqual(waiting.statuses(), [200] * 3)
        for change, said in ((('match = "m*"', 'match = "n*"'), 'upstream[0].model[0].match is "n*", which needs'),
                             (('match = "n*"', 'match = "n*"\ntogether = true'), "together")):
            g.rewrite(change)
            done = curl("-X", "POST", "-H", "Authorization: Bearer an-admin-of-the-test", "-H", "X-Canigo-Admin: 1",
                        f"http://127.0.0.1:{g.admin}/api/reload")
            self.assertIn(said.split(" is ")[0], done[2].decode())
            self.assertIn("needs a restart", done[2].decode())

    def test_tenants_share_a_model_and_the_first_class_goes_first(self):
        up = self.answering()
        g = self.gateway(self.ai(up.port, 'match = "m"\nconcurrency = 1'))
        up.go.clear()
        running = self.calls(g, "m")
        wait_until(lambda: up.models == ["m"], "one runs")
        late = Curls([f"{g.url}/ai/batch"], "-d", self.body("m"), "-H", "X-Canigo-Priority: batch")
        wait_until(lambda: g.waiting() == 1, "a batch call waits")
        early = Curls([f"{g.url}/ai/first"], "-d", self.body("m"), "-H", "X-Canigo-Priority: interactive")
        wait_until(lambda: g.waiting() == 2, "an interactive call waits")
        up.go.set()
        self.assertEqual([c.statuses() for c in (running, late, early)], [[200]] * 3)
        self.assertEqual([h.split()[1] for h in up.heads], ["/v1/chat/completions", "/first", "/batch"])

    def test_a_target_and_a_model_are_taken_in_one_step(self):
        a, b = self.answering(), self.answering()
        targets = "".join(f'[[upstream.target]]\nname = "{n}"\nurl = "http://127.0.0.1:{s.port}"\nconcurrency = 1\n'
                          f"prefer = {i}\n" for i, (n, s) in enumerate((("a", a), ("b", b)), 1))
        g = self.gateway(self.ai(0, 'match = "m"\nconcurrency = 1', more=targets))
        a.go.clear()
        b.go.clear()
        one = self.calls(g, "m")
        wait_until(lambda: a.models == ["m"], "the first target has it")
        two = self.calls(g, "m")
        wait_until(lambda: g.waiting() == 1, "the second call for the model waits, although a target is free")
        three = self.calls(g, "x")
        wait_until(lambda: b.models == ["x"], "another model goes there")
        a.go.set()
        self.assertEqual(one.statuses() + two.statuses(), [200] * 2)
        b.go.set()
        self.assertEqual(three.statuses(), [200])
        self.assertEqual(a.models, ["m", "m"])

    def test_mistakes_are_told(self):
        g = self.gateway(self.upstream())
        for text, said in (('match = "a*b"\nconcurrency = 1', 'model[0].match is "a*b"; allowed: 1 to 64 visible'),
                           ("concurrency = 1", "model[0].match is missing"),
                           ('match = "a"', "model[0] limits nothing; allowed: rates, concurrency, or both"),
                           ('match = "a"\nconcurrency = 0', "model[0].concurrency is 0; allowed: 1 to"),
                           ('match = "a"\nrates = [{ limit = "1/1s", unit = "tokens" }]', "model counts tokens"),
                           ('match = "a"\nconcurrency = 1\n[[upstream.model]]\nmatch = "a"\nconcurrency = 2',
                            'model[1].match is "a"; allowed: each pattern once'),
                           ('match = "a*"\nconcurrency = 1\n[[upstream.model]]\nmatch = "ab"\nconcurrency = 2',
                            'model[1].match is "ab"; allowed: before "a*", which matches it, too')):
            file = g.dir / "check.toml"
            file.write_text('[[listen]]\naddress = "127.0.0.1:0"\n[[upstream]]\n' + self.ai(9, text))
            done = subprocess.run([GATEWAY, "--check", "--config", file], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    main(Models)
