#!/usr/bin/env python3
"""Budgets in money of canigo-gateway: CANIGO_GATEWAY [PART...].

The upstreams of these tests tell the usage that a test chose, so what a call costs is known to the micro-dollar. The
windows are months, which rarely end during a test.
"""

import contextlib
import datetime
import hashlib
import json
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import zoneinfo

from rig import GATEWAY, Curls, GatewayCase, curl, free_ports, main, wait_until

# A token of output costs a tenth of a cent, and one of input nothing, except for the model "read".
PRICES = """
[[price]]
match = "read*"
input = "1000"
cached_input = "100"
per_call = "0.5"
[[price]]
match = "gpt*"
output = 1000
"""


def usage_of(**usage):
    body = json.dumps({"usage": {"prompt_tokens": 1, **usage}}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


class Budgets(GatewayCase):
    def setUp(self):
        super().setUp()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="canigo-budgets"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        (self.dir / "prices.toml").write_text(PRICES)

    def head(self, more=""):
        return f'prices = "file:{self.dir}/prices.toml"\nstate = "{self.dir}/state.db"\n{more}'

    def ai(self, port, more="", name="ai"):
        return (f'name = "{name}"\nurl = "http://127.0.0.1:{port}"\nprefix = "/{name}"\nprovider = "openai"\n'
                f"concurrency = 1000\n{more}\n")

    def budget(self, usd, more=""):
        return f'budget = {{ usd = "{usd}/month"{more} }}'

    def telling(self, answer=usage_of(completion_tokens=10)):
        """An upstream that gives this answer to each call, once `go` is set; it is from the beginning."""
        go = threading.Event()
        go.set()

        def reply(client, stream, head):
            length = next((int(line.split(": ")[1]) for line in head.split("\r\n")
                           if line.lower().startswith("content-length:")), 0)
            stream.read(length)
            go.wait()
            client.sendall(script.answer_now)

        script = self.script(reply)
        script.go, script.answer_now = go, answer
        self.addCleanup(go.set)
        return script

    def call(self, g, *args, model="gpt-x", max_tokens=10, path="ai"):
        """A call of which nothing is reserved any more: it is settled just after its client has the answer."""
        body = json.dumps({"model": model, "max_tokens": max_tokens})
        answer = curl("-H", "Content-Type: application/json", "-d", body, *args, f"{g.url}/{path}/v1/chat/completions")
        wait_until(lambda: all(b["reserved"] == 0 for b in g.whole_state()["budgets"]), "the call is settled")
        return answer

    def sums_of(self, g, name="ai", kind="upstream"):
        return next(b for b in g.whole_state()["budgets"] if (b["kind"], b["name"]) == (kind, name))

    def test_a_thousand_calls_at_once_overspend_by_what_their_estimates_were_too_low(self):
        upstream = self.telling(usage_of(completion_tokens=12))
        upstream.go.clear()
        g = self.gateway(self.ai(upstream.port, self.budget(1)), head=self.head())
        body = json.dumps({"model": "gpt-x", "max_tokens": 10})
        # curl runs no more than 300 calls at once.
        curls = [Curls([f"{g.url}/ai/v1/chat/completions"] * 250, "-H", "Content-Type: application/json", "-d", body)
                 for _ in range(4)]
        wait_until(lambda: len(upstream.heads) == 100 and len(g.log()) == 900, "100 calls go, and 900 are refused", 300)
        now = self.sums_of(g)
        self.assertEqual((now["spent"], now["reserved"], now["left"]), (0, 1, 0))
        upstream.go.set()
        statuses = sum((c.statuses() for c in curls), [])
        self.assertEqual((statuses.count(200), statuses.count(402)), (100, 900))
        wait_until(lambda: self.sums_of(g)["reserved"] == 0, "all calls are settled")
        # Each call has used 12 tokens, and was expected to use 10.
        self.assertEqual(self.sums_of(g)["spent"], 1.2)
        self.assertEqual(len(upstream.heads), 100)

    def test_calls_one_after_the_other_use_the_budget_up(self):
        upstream = self.telling(usage_of(completion_tokens=5))
        g = self.gateway(self.ai(upstream.port, self.budget("0.03") + "\ntokens.learn = false"), head=self.head())
        statuses = [self.call(g)[0] for _ in range(9)]
        # What a call does not use comes back: after 4 calls 0.02 are spent, which leaves enough for one more.
        self.assertEqual(statuses, [200] * 5 + [402] * 4)
        self.assertEqual(self.sums_of(g)["spent"], 0.025)

    def test_a_call_that_is_refused_is_told_when_the_budget_is_whole_again(self):
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.budget("0.01")), head=self.head())
        self.assertEqual(self.call(g)[0], 200)
        status, fields, body = self.call(g)
        self.assertEqual((status, fields["x-canigo-error"], fields["x-should-retry"]), (402, "budget_spent", "false"))
        now = datetime.datetime.now(datetime.timezone.utc)
        reset = datetime.datetime.fromisoformat(self.sums_of(g)["until"].replace("Z", "+00:00"))
        self.assertEqual((reset.day, reset.hour, reset.minute), (1, 0, 0))
        self.assertGreaterEqual(int(fields["retry-after"]), int((reset - now).total_seconds()))
        text = json.loads(body)["detail"]
        self.assertIn('the budget of upstream "ai", 0.01 USD in a month, has less than the 0.01 USD', text)
        # One that is dearer than the whole budget has no such time.
        _, fields, _ = self.call(g, max_tokens=11)
        self.assertEqual((fields["x-canigo-error"], fields.get("retry-after")), ("budget_spent", None))
        self.assertEqual([e.get("usd") for e in g.log()], [0.01, None, None])

    def test_cached_tokens_and_the_call_have_prices_of_their_own(self):
        upstream = self.telling(usage_of(prompt_tokens=100, completion_tokens=3,
                                         prompt_tokens_details={"cached_tokens": 60}))
        g = self.gateway(self.ai(upstream.port, self.budget(10)), head=self.head())
        self.assertEqual(self.call(g, model="read-1")[0], 200)
        self.assertEqual([e["usd"] for e in g.log()], [0.546])  # 40 * 0.001 + 60 * 0.0001 + 0.5
        self.assertEqual(self.sums_of(g)["spent"], 0.546)
        text = g.ask_admin("/metrics")
        self.assertIn('canigo_gateway_spent_usd_total{upstream="ai",tenant="local",model="read*"} 0.546\n', text)
        self.assertIn('canigo_gateway_budget_spent_usd{kind="upstream",name="ai"} 0.546\n', text)
        self.assertIn('canigo_gateway_budget_usd{kind="upstream",name="ai"} 10\n', text)
        self.assertIn('canigo_gateway_budget_reserved_usd{kind="upstream",name="ai"} 0\n', text)
        self.assertIn("canigo_gateway_state_failures_total 0\n", text)

    def test_a_call_that_was_not_sent_or_was_refused_costs_nothing(self):
        port, = free_ports(1)
        upstream = self.telling(b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n")
        g = self.gateway(self.ai(port, self.budget(1) + "\nretry.attempts = 1"),
                         self.ai(upstream.port, self.budget(1), "b"), head=self.head())
        self.assertEqual(self.call(g)[0], 502)
        self.assertEqual(self.call(g, path="b")[0], 400)
        for status in (500, 502, 503, 504, 529):
            upstream.answer_now = b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status
            self.assertEqual(self.call(g, path="b")[0], status)
        for name in ("ai", "b"):
            now = self.sums_of(g, name)
            self.assertEqual((now["spent"], now["reserved"]), (0, 0), name)
        # One that may have been served costs what was expected.
        upstream.answer_now = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        self.assertEqual(self.call(g, path="b")[0], 200)
        self.assertEqual(self.sums_of(g, "b")["spent"], 0.01)

    def test_kill_9_loses_what_was_in_flight_and_nothing_that_was_settled(self):
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.budget("0.3")), head=self.head())
        for _ in range(20):
            self.assertEqual(self.call(g)[0], 200)
        wait_until(lambda: self.sums_of(g)["spent"] == 0.2, "all are settled")
        upstream.go.clear()
        running = Curls([f"{g.url}/ai/v1/chat/completions"] * 3, "-d", '{"model": "gpt-x", "max_tokens": 10}')
        wait_until(lambda: self.sums_of(g)["reserved"] == 0.03, "three calls are in flight")
        g.process.send_signal(signal.SIGKILL)
        g.process.wait()
        running.kill()
        upstream.go.set()
        g = self.gateway(self.ai(upstream.port, self.budget("0.3")), head=self.head())
        now = self.sums_of(g)
        self.assertEqual((now["spent"], now["reserved"], round(now["left"], 6)), (0.2, 0, 0.1))
        self.assertEqual([self.call(g)[0] for _ in range(11)], [200] * 10 + [402])

    def test_a_stream_without_a_usage_costs_a_token_for_each_event(self):
        events = b'data: {"choices": []}\n\n' * 40
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
        upstream = self.telling(head % len(events) + events)
        g = self.gateway(self.ai(upstream.port, self.budget(1)), head=self.head())
        self.assertEqual(self.call(g)[0], 200)
        self.assertEqual(self.sums_of(g)["spent"], 0.04)

    def test_calls_go_on_while_another_process_locks_the_state(self):
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.budget(1)), head=self.head())
        self.assertEqual(self.call(g)[0], 200)
        with contextlib.closing(sqlite3.connect(self.dir / "state.db", isolation_level=None)) as other:
            saved = "SELECT micro_usd FROM canigo_spent"
            other.execute("BEGIN IMMEDIATE")
            self.assertEqual([self.call(g)[0] for _ in range(20)], [200] * 20)
            self.assertEqual(self.sums_of(g)["spent"], 0.21)
            # Only the first of them has tried to write.
            self.assertIn("\ncanigo_gateway_state_failures_total 1\n", g.ask_admin("/metrics"))
            other.execute("COMMIT")
            wait_until(lambda: other.execute(saved).fetchall() == [(210_000,)], "the sums are saved")
            self.assertEqual(self.call(g)[0], 200)
            wait_until(lambda: other.execute(saved).fetchall() == [(220_000,)], "each call saves again")
            other.execute("BEGIN IMMEDIATE")
            self.assertEqual(self.call(g)[0], 200)
            g.process.send_signal(signal.SIGTERM)
            other.execute("COMMIT")
        self.assertEqual(g.process.wait(), 0)
        with contextlib.closing(sqlite3.connect(self.dir / "state.db")) as other:
            self.assertEqual(other.execute(saved).fetchall(), [(230_000,)])

    def test_kill_9_while_many_calls_are_settled_loses_none_that_was_shown(self):
        upstream = self.telling()
        shown = 0
        for _ in range(5):
            g = self.gateway(self.ai(upstream.port, self.budget(1000)), head=self.head())
            self.assertGreaterEqual(self.sums_of(g)["spent"], shown)
            before = len(upstream.heads)
            running = Curls([f"{g.url}/ai/v1/chat/completions"] * 200, "-d", '{"model": "gpt-x", "max_tokens": 10}')
            wait_until(lambda: len(upstream.heads) >= before + 50, "some calls were sent")
            shown = self.sums_of(g)["spent"]
            g.process.send_signal(signal.SIGKILL)
            g.process.wait()
            running.kill()

    def test_a_reload_changes_the_budget_and_keeps_what_is_spent(self):
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.budget("0.01")), head=self.head())
        self.assertEqual([self.call(g)[0] for _ in range(2)], [200, 402])
        g.rewrite(("0.01/month", "0.03/month"))
        g.ask_admin("/api/reload", method="POST")
        self.assertEqual([self.call(g)[0] for _ in range(3)], [200, 200, 402])
        self.assertEqual(self.sums_of(g)["spent"], 0.03)
        # The prices are read anew, too.
        (self.dir / "prices.toml").write_text(PRICES.replace("output = 1000", "output = 2000"))
        g.rewrite(("0.03/month", "1/month"))
        g.ask_admin("/api/reload", method="POST")
        self.assertEqual(self.call(g)[0], 200)
        self.assertEqual(self.sums_of(g)["spent"], 0.05)

    def test_a_tenant_has_one_budget_for_all_upstreams(self):
        upstream = self.telling()
        tenant = ('[[tenant]]\nname = "team"\nkeys = ["sha256:%s"]\n%s\n'
                  % (hashlib.sha256(b"key-of-team").hexdigest(), self.budget("0.02")))
        g = self.gateway(self.ai(upstream.port, self.budget(1)), self.ai(upstream.port, name="b") + tenant,
                         head=self.head())
        key = ("-H", "X-Canigo-Key: key-of-team")
        self.assertEqual([self.call(g, *key, path=p)[0] for p in ("ai", "b", "ai", "b")], [200, 200, 402, 402])
        self.assertEqual(self.call(g)[0], 200)  # another tenant
        self.assertEqual(self.sums_of(g, "team", "tenant")["spent"], 0.02)
        self.assertEqual(self.sums_of(g)["spent"], 0.02)
        with self.subTest("a call that one budget refuses takes nothing of the other"):
            self.assertEqual(self.sums_of(g)["reserved"], 0)

    def test_a_budget_may_only_warn(self):
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.budget("0.01", ', at = "warn"')), head=self.head())
        self.assertEqual([self.call(g)[0] for _ in range(3)], [200] * 3)
        now = self.sums_of(g)
        self.assertEqual((now["spent"], now["left"], now["at"]), (0.03, 0, "warn"))

    def test_a_model_without_a_price_is_refused_unless_it_is_free(self):
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.budget(1)), self.ai(upstream.port, name="b"), head=self.head())
        status, fields, body = self.call(g, model="other")
        self.assertEqual((status, fields["x-canigo-error"], fields["x-should-retry"]), (404, "no_price", "false"))
        self.assertIn(b'prices has none for the model \\"other\\"', body)
        self.assertEqual(self.call(g, model="other", path="b")[0], 200)  # there is no budget
        self.assertEqual(curl(f"{g.url}/ai/v1/models")[0], 200)  # it uses no tokens
        g.rewrite(("state = ", 'unpriced = "free"\nstate = '))
        g.ask_admin("/api/reload", method="POST")
        self.assertEqual(self.call(g, model="other")[0], 200)
        self.assertEqual(self.sums_of(g)["spent"], 0)

    def test_a_window_ends_by_the_clocks_of_its_zone(self):
        upstream = self.telling()
        for zone in ("Europe/Paris", "America/New_York"):
            clocks = zoneinfo.ZoneInfo(zone)

            def midnight():
                day = datetime.datetime.now(clocks).date() + datetime.timedelta(days=1)
                return datetime.datetime.combine(day, datetime.time(), clocks).timestamp()

            budget = f'budget = {{ usd = "1/day", zone = "{zone}" }}'
            g = self.gateway(self.ai(upstream.port, budget), head=self.head())
            before = midnight()
            until = datetime.datetime.fromisoformat(self.sums_of(g)["until"].replace("Z", "+00:00")).timestamp()
            self.assertIn(until, (before, midnight()))

    def test_a_state_that_can_not_be_opened_is_told(self):
        for path, why in ((f"{self.dir}/none/state.db", "its folder is missing"), (f"{self.dir}/", "")):
            file = self.dir / "gateway.toml"
            file.write_text(f'state = "{path}"\n[[listen]]\naddress = "127.0.0.1:0"\n[[upstream]]\n' + self.ai(9))
            done = subprocess.run([GATEWAY, "--check", "--config", file], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(f'state is "{path}"', done.stderr)
            self.assertIn(why, done.stderr)
            # The folder may be of a disk that is mounted later, so a service manager tries again.
            done = subprocess.run([GATEWAY, "--config", file], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1 if why else 2, done)
            self.assertIn(f'state is "{path}"', done.stderr)


if __name__ == "__main__":
    main(Budgets)
