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
import struct
import subprocess
import tempfile
import threading
import time
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


# Sets the clock on the wall of the program that it is loaded into.
CLOCK = pathlib.Path(GATEWAY).parent / "libgateway_clock.so"


class Clock:
    """A clock on the wall, which begins ten minutes after a full hour of UTC."""

    def __init__(self, path):
        self.path = path
        self.by = 600 - int(time.time()) % 3600
        path.write_bytes(bytes(8))
        self.set()

    def step(self, seconds):
        self.by += seconds
        self.set()

    def set(self):
        with self.path.open("r+b") as file:  # the program has mapped it
            file.write(struct.pack("<q", self.by * 1_000_000))


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

    def check_least_spent(self, g, amount):
        self.assertGreaterEqual(self.sums_of(g)["spent"], amount)

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

    def test_a_call_is_refused_with_the_cause_while_the_sum_can_not_be_read(self):
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.budget(1)), head=self.head())
        with contextlib.closing(sqlite3.connect(self.dir / "state.db")) as other:
            table = other.execute("SELECT sql FROM sqlite_schema WHERE name = 'canigo_spent'").fetchone()[0]
            other.execute("DROP TABLE canigo_spent")
            status, fields, body = self.call(g)
            told = status, fields["x-canigo-error"], fields["retry-after"]
            self.assertEqual(told, (503, "store_unavailable", "10"))
            self.assertIn("can't be read", json.loads(body)["detail"])
            other.execute(table)
        self.assertEqual(self.call(g)[0], 200)
        self.assertEqual(self.sums_of(g)["spent"], 0.01)

    def test_kill_9_while_many_calls_are_settled_loses_none_that_was_shown(self):
        upstream = self.telling()
        shown = 0
        for _ in range(5):
            g = self.gateway(self.ai(upstream.port, self.budget(1000)), head=self.head())
            self.check_least_spent(g, shown)
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

    def clocked(self, *upstreams, **more):
        """A gateway, and the clock that it goes by."""
        if not CLOCK.exists():
            self.skipTest("a sanitizer is to be loaded first")
        clock = Clock(self.dir / "clock")
        env = {"LD_PRELOAD": str(CLOCK), "CANIGO_CLOCK": str(clock.path)}
        return self.gateway(*upstreams, head=self.head(), env=env, **more), clock

    def queueing(self, usd, more="", per="hour", at="queue"):
        return (f'budget = {{ usd = "{usd}/{per}", at = "{at}" }}\ntokens.learn = false\n'
                f'max_wait = {{ interactive = "2h", normal = "2h", batch = "2h" }}\n{more}')

    def begin(self, g, *args, max_tokens=10, path="ai", n=1):
        body = json.dumps({"model": "gpt-x", "max_tokens": max_tokens})
        return Curls([f"{g.url}/{path}/v1/chat/completions"] * n, "-H", "Content-Type: application/json", "-d", body,
                     *args)

    def wait_for_waiting(self, g, n, name="ai", kind="upstream"):
        wait_until(lambda: self.sums_of(g, name, kind)["waiting"] == n, f"{n} wait for money")

    def test_a_call_waits_for_money_until_the_window_turns(self):
        upstream = self.telling()
        g, clock = self.clocked(self.ai(upstream.port, self.queueing("0.01")))
        self.assertEqual(self.begin(g).statuses(), [200])
        waiting = self.begin(g)
        self.wait_for_waiting(g, 1)
        state = g.state()
        self.assertEqual((state["waiting"], state["binds"]), (1, "budget of upstream"))
        waiter = state["waiters"][0]
        self.assertEqual(waiter["waits_for"], "budget of upstream")
        self.assertGreater(waiter["estimate_ms"], 40 * 60_000)
        self.assertIn('canigo_gateway_budget_waiting{kind="upstream",name="ai"} 1\n', g.ask_admin("/metrics"))
        self.assertEqual(curl(f"{g.url}/ai/v1/models")[0], 200)  # it costs nothing
        clock.step(3600)
        self.assertEqual(waiting.statuses(), [200])
        wait_until(lambda: self.sums_of(g)["spent"] == 0.01, "it is settled")
        last = g.log()[-1]
        self.assertEqual((last["bound_by"], last["usd"], last["attempts"]), ("budget of upstream", 0.01, 1))
        with self.subTest("a clock that steps back finds the earlier window, which is spent"):
            clock.step(-3600)
            waiting = self.begin(g)
            self.wait_for_waiting(g, 1)
            self.assertEqual(len(upstream.heads), 3)
            clock.step(7200)
            self.assertEqual(waiting.statuses(), [200])

    def test_a_call_waits_until_another_gives_money_back(self):
        upstream = self.telling(usage_of(completion_tokens=5))
        g = self.gateway(self.ai(upstream.port, self.queueing("0.02", per="month")), head=self.head())
        upstream.go.clear()
        running = self.begin(g, n=2)
        wait_until(lambda: len(upstream.heads) == 2, "two calls have reserved all")
        waiting = self.begin(g)
        self.wait_for_waiting(g, 1)
        self.assertIsNone(g.state()["waiters"][0]["estimate_ms"])
        upstream.go.set()
        self.assertEqual(running.statuses() + waiting.statuses(), [200] * 3)
        wait_until(lambda: self.sums_of(g)["spent"] == 0.015, "each has cost half a cent")

    def test_those_that_wait_for_money_keep_their_order(self):
        upstream = self.telling(usage_of(completion_tokens=1))
        one = self.ai(upstream.port, self.queueing("0.02", per="month")).replace("= 1000", "= 1")
        g = self.gateway(one, head=self.head(), threads=1)
        upstream.go.clear()
        running = self.begin(g, max_tokens=15)
        wait_until(lambda: upstream.heads, "a call has reserved 0.015")
        batch = ("-H", "X-Canigo-Priority: batch")
        large = self.begin(g, *batch, "-H", "X-Name: large", max_tokens=10)
        self.wait_for_waiting(g, 1)
        small = self.begin(g, *batch, "-H", "X-Name: small", max_tokens=1)
        self.wait_for_waiting(g, 2)  # although 0.005 is left
        first = self.begin(g, "-H", "X-Canigo-Priority: interactive", "-H", "X-Name: first", max_tokens=1)
        wait_until(lambda: "concurrency" in {w["waits_for"] for w in g.state()["waiters"]},
                   "a more important call has its money, and waits for the place alone")
        self.assertEqual(self.sums_of(g)["waiting"], 2)
        upstream.go.set()
        self.assertEqual([c.statuses() for c in (running, first, large, small)], [[200]] * 4)
        names = [next((n for n in ("first", "large", "small") if f"X-Name: {n}" in h), None) for h in upstream.heads]
        self.assertEqual(names, [None, "first", "large", "small"])

    def test_calls_of_other_tenants_do_not_wait_for_a_tenants_money(self):
        upstream = self.telling()
        tenant = ('[[tenant]]\nname = "team"\nkeys = ["sha256:%s"]\nbudget = { usd = "0.01/month", at = "queue" }\n'
                  'max_wait = "1h"\n' % hashlib.sha256(b"key-of-team").hexdigest())
        g = self.gateway(self.ai(upstream.port, "concurrency = 1") .replace("concurrency = 1000\n", "") + tenant,
                         head=self.head())
        key = ("-H", "X-Canigo-Key: key-of-team")
        upstream.go.clear()
        running = self.begin(g, *key)
        wait_until(lambda: upstream.heads, "one has all the money of its tenant")
        waiting = self.begin(g, *key, "-H", "X-Canigo-Max-Wait: 1m")
        self.wait_for_waiting(g, 1, "team", "tenant")
        self.assertEqual(g.state()["waiters"][0]["waits_for"], "budget of tenant")
        other = self.begin(g)
        wait_until(lambda: g.state()["waiting"] == 2, "a call of another tenant waits for the place alone")
        self.assertEqual(self.sums_of(g, "team", "tenant")["waiting"], 1)
        upstream.go.set()
        self.assertEqual(running.statuses() + other.statuses(), [200] * 2)
        # The money of this month is spent by then, and the call need not wait for what does not come in time.
        self.assertEqual(waiting.statuses(), [402])

    def test_a_call_does_not_wait_for_money_that_comes_too_late(self):
        upstream = self.telling()
        more = 'max_wait = { interactive = "1m", normal = "1m", batch = "1m" }'
        g, clock = self.clocked(self.ai(upstream.port, 'budget = { usd = "0.01/hour", at = "queue" }\n' + more))
        self.assertEqual(self.call(g)[0], 200)
        status, fields, _ = self.call(g)
        self.assertEqual((status, fields["x-canigo-error"]), (402, "budget_spent"))
        self.assertGreater(int(fields["retry-after"]), 40 * 60)
        status, fields, _ = self.call(g, max_tokens=11)  # the whole budget is less
        self.assertEqual((status, fields.get("retry-after")), (402, None))
        clock.step(3600 - 600 - 30)
        waiting = self.begin(g)
        self.wait_for_waiting(g, 1)
        clock.step(31)
        self.assertEqual(waiting.statuses(), [200])

    def test_a_wait_for_money_ends_at_the_longest_wait(self):
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.queueing("0.01", per="month")), head=self.head())
        upstream.go.clear()
        running = self.begin(g)
        wait_until(lambda: upstream.heads, "one has all the money")
        status, fields, body = curl("-d", json.dumps({"model": "gpt-x", "max_tokens": 10}), "-H",
                                    "X-Canigo-Max-Wait: 100ms", f"{g.url}/ai/v1/chat/completions")
        self.assertEqual((status, fields["x-canigo-error"], fields["retry-after"]), (402, "budget_spent", "1"))
        self.assertIn(b"beside the calls that run", body)
        self.assertGreaterEqual(g.log()[0]["wait_ms"], 90)  # its time began before it waited
        waiting = self.begin(g)
        self.wait_for_waiting(g, 1)
        waiting.kill()
        self.wait_for_waiting(g, 0)
        upstream.go.set()
        self.assertEqual(running.statuses(), [200])
        wait_until(lambda: self.sums_of(g)["spent"] == 0.01, "the call is settled")

    def test_a_reload_changes_the_budget_for_those_that_wait(self):
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.queueing("0.01", per="month")), head=self.head())
        upstream.go.clear()
        running = self.begin(g)
        wait_until(lambda: upstream.heads, "one has all the money")
        waiting = self.begin(g, n=3)
        self.wait_for_waiting(g, 3)
        g.rewrite(("0.01/month", "0.03/month"))
        g.ask_admin("/api/reload", method="POST")
        wait_until(lambda: len(upstream.heads) == 3, "two more go")
        self.assertEqual(self.sums_of(g)["waiting"], 1)
        g.rewrite(('at = "queue"', 'at = "refuse"'))
        g.ask_admin("/api/reload", method="POST")
        self.wait_for_waiting(g, 0)
        upstream.go.set()
        self.assertEqual(sorted(running.statuses() + waiting.statuses()), [200, 200, 200, 402])

    def targets(self, *targets, more=""):
        """An upstream "ai" with targets of these names, ports and budgets, the first one preferred."""
        return (f'name = "ai"\nprefix = "/ai"\nprovider = "openai"\ntokens.learn = false\n{more}\n' + "".join(
            f'[[upstream.target]]\nname = "{name}"\nurl = "http://127.0.0.1:{port}"\nprefer = {i}\n{budget}\n'
            'credential = { header = "Authorization", value = "env:CANIGO_ADMIN_TOKEN" }\n'
            for i, (name, port, budget) in enumerate(targets, 1)))

    def test_a_target_whose_budget_is_spent_leaves_its_calls_to_another(self):
        a, b = self.telling(), self.telling()
        g, clock = self.clocked(self.targets(("a", a.port, 'budget = { usd = "0.02/hour" }'),
                                             ("b", b.port, 'budget = { usd = "0.01/day" }')))
        statuses = [self.call(g)[0] for _ in range(3)]
        self.assertEqual((statuses, len(a.heads), len(b.heads)), ([200] * 3, 2, 1))
        status, fields, body = self.call(g)
        self.assertEqual((status, fields["x-canigo-error"]), (402, "budget_spent"))
        self.assertIn(b'the budget of target \\"ai/a\\", 0.02 USD in a hour', body)  # it has money first
        self.assertLessEqual(int(fields["retry-after"]), 3600)
        self.assertEqual(curl(f"{g.url}/ai/v1/models")[0], 200)  # it costs nothing
        self.assertEqual(len(a.heads), 3)
        self.assertEqual([self.sums_of(g, f"ai/{n}", "target")["spent"] for n in "ab"], [0.02, 0.01])
        clock.step(3600)
        self.assertEqual(self.call(g)[0], 200)
        self.assertEqual((len(a.heads), len(b.heads)), (4, 1))

    def test_calls_at_once_pass_no_budget_of_a_target(self):
        a, b = self.telling(), self.telling()
        a.go.clear()
        b.go.clear()
        g = self.gateway(self.targets(("a", a.port, self.budget("0.05")), ("b", b.port, self.budget("0.03"))),
                         head=self.head())
        running = self.begin(g, n=20)
        wait_until(lambda: len(a.heads) + len(b.heads) == 8 and len(g.log()) == 12, "eight go, and twelve are refused")
        self.assertEqual((len(a.heads), len(b.heads)), (5, 3))
        a.go.set()
        b.go.set()
        self.assertEqual(sorted(running.statuses()), [200] * 8 + [402] * 12)
        wait_until(lambda: [self.sums_of(g, f"ai/{n}", "target")["spent"] for n in "ab"] == [0.05, 0.03], "settled")

    def test_a_call_that_waits_goes_to_a_target_that_has_money_again(self):
        a, b = self.telling(), self.telling()
        wait = 'max_wait = { interactive = "2h", normal = "2h", batch = "2h" }'
        g, clock = self.clocked(self.targets(("a", a.port, 'budget = { usd = "0.01/hour" }'),
                                             ("b", b.port, "concurrency = 1"), more=wait))
        self.assertEqual(self.begin(g).statuses(), [200])
        b.go.clear()
        running = self.begin(g)
        wait_until(lambda: b.heads, "the second target is busy")
        waiting = self.begin(g)
        wait_until(lambda: g.waiting() == 1, "the call waits for it")
        self.assertEqual(g.state()["waiters"][0]["targets"], ["b"])
        clock.step(3600)
        self.assertEqual(waiting.statuses(), [200])
        self.assertEqual((len(a.heads), len(b.heads)), (2, 1))
        b.go.set()
        self.assertEqual(running.statuses(), [200])

    def test_a_refusal_by_a_target_gives_its_money_back(self):
        a = self.telling(b"HTTP/1.1 429 No\r\nRetry-After: 600\r\nContent-Length: 0\r\n\r\n")
        b = self.telling()
        g = self.gateway(self.targets(("a", a.port, self.budget("0.01")), ("b", b.port, self.budget("0.01"))),
                         head=self.head())
        self.assertEqual(self.call(g)[0], 200)
        sums = [self.sums_of(g, f"ai/{n}", "target") for n in "ab"]
        self.assertEqual([(s["spent"], s["reserved"]) for s in sums], [(0, 0), (0.01, 0)])

    def test_a_rate_in_money_is_reserved_and_settled(self):
        upstream = self.telling(usage_of(completion_tokens=5))
        rate = 'rates = [{ limit = "3600/1h", burst = "0.02", unit = "usd" }]'  # a dollar a second
        wait = 'max_wait = { interactive = "2h", normal = "2h", batch = "2h" }\nwindow = "average"'
        g = self.gateway(self.ai(upstream.port, f"{rate}\ntokens.learn = false\n{wait}"), head=self.head())

        def level():
            return next(one for one in g.state()["limits"] if one["name"] == "usd/1h")["level"]

        wait_until(lambda: level() == 20_000, "it is full")
        g.rewrite(("3600/1h", "0.01/1h"))
        g.ask_admin("/api/reload", method="POST")
        upstream.go.clear()
        running = self.begin(g, n=2)
        wait_until(lambda: len(upstream.heads) == 2, "two calls of a cent go")
        waiting = self.begin(g)
        wait_until(lambda: g.waiting() == 1, "the third waits")
        self.assertEqual(g.state()["binds"], "usd/1h")
        self.assertLess(level(), 1000)
        upstream.go.set()
        # Each has cost half a cent, so a cent comes back.
        self.assertEqual(running.statuses() + waiting.statuses(), [200] * 3)
        wait_until(lambda: 5_000 <= level() < 6_000, "the last one is settled")
        self.assertEqual({e["tokens_asked"] for e in g.log()}, {None})
        status, fields, _ = curl("-d", json.dumps({"model": "other"}), f"{g.url}/ai/v1/chat/completions")
        self.assertEqual((status, fields["x-canigo-error"]), (404, "no_price"))

    def test_mistakes_of_budgets_and_rates_in_money_are_told(self):
        port, = free_ports(1)
        for text, said in ((self.ai(port, 'rates = [{ limit = "x/1m", unit = "usd" }]'), "allowed: US dollars and a"),
                           (self.ai(port, 'rates = [{ limit = "1/1m", burst = 0, unit = "usd" }]'),
                            "burst is 0; allowed: 0.000001"),
                           (self.targets(("a", port, 'budget = { usd = "1/day", at = "queue" }')),
                            'target[0].budget.at is "queue"; allowed: refuse, warn')):
            file = self.dir / "check.toml"
            file.write_text(self.head() + '[[listen]]\naddress = "127.0.0.1:0"\n[[upstream]]\n' + text)
            done = subprocess.run([GATEWAY, "--check", "--config", file], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(said, done.stderr)

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
