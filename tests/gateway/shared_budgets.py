#!/usr/bin/env python3
"""Budgets in money whose sums instances of canigo-gateway share by Redis: CANIGO_GATEWAY [PART...].

Most tests of the budgets run once more, with the sums in Redis instead of a file.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import unittest
import urllib.error

from budgets import Budgets, usage_of
from limits import Redis
from rig import GATEWAY, Curls, curl, main, wait_until

# These are about the file, or about the configuration.
OF_THE_FILE = (
    "test_calls_go_on_while_another_process_locks_the_state",
    "test_a_call_is_refused_with_the_cause_while_the_sum_can_not_be_read",
    "test_kill_9_loses_what_was_in_flight_and_nothing_that_was_settled",
    "test_a_state_that_can_not_be_opened_is_told",
    "test_mistakes_of_budgets_and_rates_in_money_are_told",
    "test_a_window_ends_by_the_clocks_of_its_zone",
    "test_a_model_without_a_price_is_refused_unless_it_is_free",
    "test_a_rate_in_money_is_reserved_and_settled",
)


@unittest.skipIf(shutil.which("redis-server") is None, "redis-server is missing")
class SharedBudgets(Budgets):
    BODY = json.dumps({"model": "gpt-x", "max_tokens": 10})

    def setUp(self):
        super().setUp()
        self.redis = Redis()
        self.addCleanup(self.redis.close)
        os.environ["CANIGO_REDIS_URL"] = self.redis.url

    def head(self, more=""):
        return (f'prices = "file:{self.dir}/prices.toml"\nredis = "env:CANIGO_REDIS_URL"\nstate = "redis"\n'
                f"{more}")

    def instance(self, upstream, usd, more=""):
        return self.gateway(self.ai(upstream.port, self.budget(usd, more)), head=self.head())

    def calls(self, g, n):
        return Curls([f"{g.url}/ai/v1/chat/completions"] * n, "-H", "Content-Type: application/json", "-d", self.BODY)

    def check_least_spent(self, g, amount):
        wait_until(lambda: self.sums_of(g)["spent"] >= amount, f"{amount} USD are spent at least")

    def spent_by(self, g, amount):
        wait_until(lambda: (self.sums_of(g)["spent"], self.sums_of(g)["reserved"]) == (amount, 0),
                   f"{amount} USD are spent, and none is reserved")

    def test_two_instances_at_once_overspend_by_what_the_estimates_were_too_low(self):
        upstream = self.telling(usage_of(completion_tokens=12))
        upstream.go.clear()
        both = [self.instance(upstream, 1) for _ in range(2)]
        running = [self.calls(g, 125) for g in both]
        wait_until(lambda: len(upstream.heads) == 100 and sum(len(g.log()) for g in both) == 150,
                   "100 calls go, and 150 are refused", 300)
        for g in both:
            wait_until(lambda g=g: self.sums_of(g)["reserved"] == 1, "each instance sees what both have reserved")
        upstream.go.set()
        statuses = sum((c.statuses() for c in running), [])
        self.assertEqual((statuses.count(200), statuses.count(402)), (100, 150))
        for g in both:
            self.spent_by(g, 1.2)
        self.assertEqual(len(upstream.heads), 100)

    def test_two_instances_pass_no_budget_of_a_target(self):
        upstream = self.telling()
        upstream.go.clear()
        target = '[[upstream.target]]\nname = "only"\nurl = "http://127.0.0.1:{}"\n{}\n'
        both = [self.gateway('name = "ai"\nprefix = "/ai"\nprovider = "openai"\nconcurrency = 1000\n'
                             + target.format(upstream.port, self.budget("0.5")), head=self.head()) for _ in range(2)]
        running = [self.calls(g, 40) for g in both]
        wait_until(lambda: len(upstream.heads) == 50 and sum(len(g.log()) for g in both) == 30,
                   "50 calls go, and 30 are refused", 300)
        upstream.go.set()
        statuses = sum((c.statuses() for c in running), [])
        self.assertEqual((statuses.count(200), statuses.count(402)), (50, 30))

    def test_a_call_waits_for_money_that_another_instance_gives_back(self):
        upstream = self.telling(usage_of(completion_tokens=1))
        upstream.go.clear()
        a, b = (self.instance(upstream, "0.01", ', at = "queue"') for _ in range(2))
        first = self.calls(a, 1)
        wait_until(lambda: len(upstream.heads) == 1, "a call holds all the money")
        second = Curls([f"{b.url}/ai/v1/chat/completions"], "-d", json.dumps({"model": "gpt-x", "max_tokens": 5}))
        wait_until(lambda: self.sums_of(b)["waiting"] == 1, "the other instance's call waits")
        upstream.go.set()
        self.assertEqual((first.statuses(), second.statuses()), ([200], [200]))
        self.spent_by(a, 0.002)

    def test_kill_9_loses_nothing_that_was_settled_and_holds_what_was_in_flight(self):
        upstream = self.telling()
        a, b = (self.instance(upstream, "0.3") for _ in range(2))
        for _ in range(20):
            self.assertEqual(self.call(a)[0], 200)
        self.spent_by(b, 0.2)
        upstream.go.clear()
        running = self.calls(a, 3)
        wait_until(lambda: self.sums_of(a)["reserved"] == 0.03, "three calls are in flight")
        a.process.send_signal(signal.SIGKILL)
        a.process.wait()
        running.kill()
        upstream.go.set()
        # For 2 minutes, what it had reserved stays reserved: its calls may cost that.
        wait_until(lambda: self.sums_of(b)["reserved"] == 0.03, "the other instance sees it")
        statuses = [curl("-d", self.BODY, f"{b.url}/ai/v1/chat/completions")[0] for _ in range(8)]
        self.assertEqual(statuses, [200] * 7 + [402])
        again = self.instance(upstream, "0.3")
        wait_until(lambda: self.sums_of(again)["spent"] == 0.27, "it begins with what all have spent")

    def test_an_instance_that_ends_leaves_its_sums_and_no_reservation(self):
        upstream = self.telling()
        a, b = (self.instance(upstream, 1) for _ in range(2))
        running = self.calls(a, 30)
        wait_until(lambda: len(upstream.heads) >= 10, "some calls were sent")
        a.process.send_signal(signal.SIGTERM)
        spent = running.statuses().count(200) / 100
        self.assertEqual(a.process.wait(), 0)
        self.spent_by(b, spent)

    def test_a_pause_of_an_instance_passes_no_budget(self):
        upstream = self.telling()
        a, b = (self.instance(upstream, "0.5") for _ in range(2))
        upstream.go.clear()
        running = self.calls(a, 20)
        wait_until(lambda: len(upstream.heads) == 20, "20 calls are in flight")
        a.process.send_signal(signal.SIGSTOP)
        upstream.go.set()
        statuses = [self.call_only(b) for _ in range(31)]
        a.process.send_signal(signal.SIGCONT)
        self.assertEqual(statuses, [200] * 30 + [402])
        self.assertEqual(running.statuses(), [200] * 20)
        for g in (a, b):
            self.spent_by(g, 0.5)

    def call_only(self, g):
        return curl("-H", "Content-Type: application/json", "-d", self.BODY, f"{g.url}/ai/v1/chat/completions")[0]

    def test_calls_are_refused_while_redis_hangs_and_nothing_is_lost(self):
        upstream = self.telling()
        a, b = (self.instance(upstream, "0.3") for _ in range(2))
        self.assertEqual(self.call(a)[0], 200)
        upstream.go.clear()
        running = self.calls(a, 5)
        wait_until(lambda: len(upstream.heads) == 6, "5 calls are in flight")
        self.redis.freeze()
        upstream.go.set()
        self.assertEqual(running.statuses(), [200] * 5)  # what has its money needs no Redis
        begun = time.monotonic()
        status, fields, body = curl("-d", self.BODY, f"{b.url}/ai/v1/chat/completions")
        self.assertGreaterEqual(time.monotonic() - begun, 1.9)
        told = status, fields["x-canigo-error"], fields["retry-after"]
        self.assertEqual(told, (503, "store_unavailable", "10"))
        self.assertIn("can't be read from Redis", json.loads(body)["detail"])
        self.redis.thaw()
        wait_until(lambda: self.call_only(b) == 200, "calls go again")
        for g in (a, b):
            self.spent_by(g, 0.07)

    def test_clients_that_leave_while_redis_hangs_keep_no_place_among_those_that_wait_for_money(self):
        upstream = self.telling()
        g = self.instance(upstream, 1, ', at = "queue"')
        self.assertEqual(self.call(g)[0], 200)
        self.redis.freeze()
        leaving = self.calls(g, 5)
        time.sleep(0.5)  # they ask Redis, which gives no answer for 2 s
        leaving.kill()
        staying = self.calls(g, 2)
        wait_until(lambda: self.sums_of(g)["waiting"] == 2, "only the others wait")
        self.redis.thaw()
        self.assertEqual(staying.statuses(), [200] * 2)
        self.assertEqual(len(upstream.heads), 3)

    def check_calls_that_end_while_they_ask(self, end, error):
        """Three calls ask a Redis that hangs, and `end(g)` ends them. When Redis goes on, nothing is reserved."""
        upstream = self.telling()
        g, other = (self.instance(upstream, 1) for _ in range(2))
        self.assertEqual(self.call(g)[0], 200)
        self.redis.freeze()
        begun = time.monotonic()
        ending = self.calls(g, 3)
        wait_until(lambda: len(g.state()["waiters"]) == 3 or len(g.log()) == 4, "three calls ask")
        end(g)
        took = time.monotonic() - begun
        self.assertEqual(ending.statuses(), [503] * 3)
        self.redis.thaw()
        wait_until(lambda: len(g.log()) == 4, "all calls are in the log")
        if took < 2:  # otherwise the calls may have ended because Redis gave no answer for 2 s
            self.assertEqual([call["error"] for call in g.log()[1:]], [error] * 3)
        self.spent_by(other, 0.01)
        self.assertEqual(self.call(other)[0], 200)
        self.spent_by(other, 0.02)
        self.assertEqual(len(upstream.heads), 2)

    def test_calls_that_an_operator_ends_while_they_ask_redis_cost_nothing(self):
        def end(g):
            for call in g.state()["waiters"]:
                with contextlib.suppress(urllib.error.HTTPError):  # the call has ended
                    g.ask_admin(f"/api/requests/{call['id']}", method="DELETE")
            self.redis.thaw()  # its answers come to calls that have been ended

        self.check_calls_that_end_while_they_ask(end, "cancelled")

    def test_calls_that_a_drain_ends_while_they_ask_redis_cost_nothing(self):
        self.check_calls_that_end_while_they_ask(lambda g: g.process.send_signal(signal.SIGTERM), "draining")

    def check_calls_that_ask_are_answered(self, settings, end):
        """Two calls ask a Redis that hangs, the second one just before `end(g)` ends the instance."""
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.budget(1)), head=self.head(settings))
        self.assertEqual(self.call(g)[0], 200)
        self.redis.freeze()
        first = self.calls(g, 1)
        wait_until(lambda: len(g.state()["waiters"]) == 1 or len(g.log()) == 2, "a call asks")
        second = self.calls(g, 1)
        wait_until(lambda: len(g.state()["waiters"]) == 2 or len(g.log()) > 1, "both ask")
        end(g)
        self.assertEqual((first.statuses(), second.statuses()), ([503], [503]))
        g.process.wait()
        lines = [json.loads(line) for line in (g.dir / "access.log").read_text().splitlines()]
        self.assertEqual([line["status"] for line in lines], [200, 503, 503])
        self.redis.thaw()
        self.assertEqual(len(upstream.heads), 1)

    def test_calls_that_ask_a_redis_that_hangs_are_answered_when_a_second_signal_ends_the_drain(self):
        def end(g):
            g.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not g.listens(), "it drains")
            g.process.send_signal(signal.SIGTERM)

        self.check_calls_that_ask_are_answered("", end)

    def test_calls_that_ask_a_redis_that_hangs_are_answered_before_a_short_grace_ends(self):
        self.check_calls_that_ask_are_answered('grace = "1s"', lambda g: g.process.send_signal(signal.SIGTERM))

    def test_calls_in_line_behind_a_redis_that_hangs_get_503_and_go_when_it_comes_back(self):
        upstream = self.telling()
        g = self.instance(upstream, 1, ', at = "queue"')
        self.assertEqual(self.call(g)[0], 200)
        self.redis.freeze()
        asks = ("-H", "Content-Type: application/json", "-d", self.BODY)
        url = f"{g.url}/ai/v1/chat/completions"
        staying = [Curls([url], *asks, "-H", "X-Canigo-Max-Wait: 60s") for _ in range(3)]
        wait_until(lambda: self.sums_of(g)["waiting"] == 3, "three calls wait in line")
        late = Curls([url] * 5, *asks, "-H", "X-Canigo-Max-Wait: 700ms")
        self.assertEqual(late.statuses(), [503] * 5)
        self.redis.thaw()
        self.assertEqual([c.statuses() for c in staying], [[200]] * 3)
        wait_until(lambda: len(g.log()) == 9, "all calls are in the log")
        self.assertEqual({c["error"] for c in g.log() if c["status"] == 503}, {"store_unavailable"})
        self.spent_by(g, 0.04)

    def test_a_target_that_is_paused_while_a_call_asks_for_its_money_gets_no_call(self):
        upstream = self.telling()
        targets = {"paid": self.budget(1), "free": "prefer = 2"}
        g = self.gateway(self.of_targets(targets).replace("PORT", str(upstream.port)), head=self.head())
        self.assertEqual(self.call(g)[0], 200)
        self.redis.freeze()
        asks = self.calls(g, 1)
        wait_until(lambda: g.state()["waiting"] == 1, "the call asks")
        g.ask_admin("/api/upstreams/ai/targets/paid/pause", method="POST")
        self.redis.thaw()
        self.assertEqual(asks.statuses(), [200])
        wait_until(lambda: len(g.log()) == 2, "the call is in the log")
        self.assertEqual([c["target"] for c in g.log()], ["paid", "free"])
        wait_until(lambda: self.sums_of(g, "ai/paid", "target")["reserved"] == 0, "its money came back")

    def test_a_call_that_asks_redis_is_shown_as_waiting(self):
        upstream = self.telling()
        settings = self.of_targets({"only": self.budget(1)}).replace("PORT", str(upstream.port))
        g = self.gateway(self.ai(upstream.port, self.budget(1), name="all"), settings, head=self.head())
        for n, (name, wait) in enumerate((("all", "budget of upstream"), ("ai", "budget of target"))):
            self.assertEqual(self.call(g, path=name)[0], 200)
            self.redis.freeze()
            begun = time.monotonic()
            asks = Curls([f"{g.url}/{name}/v1/chat/completions"], "-H", "Content-Type: application/json",
                         "-d", self.BODY)
            wait_until(lambda: g.state(n)["waiting"] == 1 or len(g.log()) == 2 * n + 2, "the call waits")
            shown = g.state(n)
            time.sleep(0.1)
            self.redis.thaw()
            status = asks.statuses()
            took = time.monotonic() - begun
            wait_until(lambda: len(g.log()) == 2 * n + 2, "the call is in the log")
            line = g.log()[-1]
            self.assertEqual(line["bound_by"], wait)
            self.assertGreaterEqual(line["wait_ms"], 100)
            if took < 1.5:  # otherwise the call may have ended because Redis gave no answer for 2 s
                self.assertEqual(([w["waits_for"] for w in shown["waiters"]], shown["running"]), ([wait], []))
                self.assertEqual(status, [200])

    def check_calls_end_by_their_own_deadline(self, settings, name, kind):
        upstream = self.telling()
        g = self.gateway(settings.replace("PORT", str(upstream.port)), head=self.head())
        asks = ("-H", "Content-Type: application/json", "-d", self.BODY,
                f"{g.url}/{name.split('/')[0]}/v1/chat/completions")
        self.assertEqual(curl(*asks)[0], 200)

        def settled(calls):
            wait_until(lambda: (self.sums_of(g, name, kind)["spent"], self.sums_of(g, name, kind)["reserved"])
                       == (calls / 100, 0), f"{calls} calls are settled, and nothing is reserved")

        took = []
        for longest in ("700ms", "0s", "700ms"):
            settled(1 + len(took))
            self.redis.freeze()
            begun = time.monotonic()
            status, fields, body = curl(*asks, "-H", f"X-Canigo-Max-Wait: {longest}")
            took.append(time.monotonic() - begun)
            self.redis.thaw()  # it grants the money only now, so the money comes back
            self.assertEqual((status, fields["x-canigo-error"]), (503, "store_unavailable"), body)
            wait_until(lambda: curl(*asks)[0] == 200, "calls go again")
        settled(4)
        self.assertGreaterEqual(took[1], 0.5)  # although this call may not wait
        self.assertGreaterEqual(min(took[0], took[2]), 0.7)
        self.assertLess(min(took), 1.8)  # without a deadline, a call asks for 2 s
        self.assertEqual([curl(*asks)[0] for _ in range(2)], [200, 402])
        self.assertEqual(len(upstream.heads), 5)

    def test_a_call_that_asks_a_redis_that_hangs_ends_by_its_own_deadline_and_costs_nothing(self):
        self.check_calls_end_by_their_own_deadline(self.ai("PORT", self.budget("0.05")), "ai", "upstream")

    def test_a_call_that_waits_in_line_for_money_ends_by_its_own_deadline_too(self):
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.budget("0.05", ', at = "queue"')), head=self.head())
        self.assertEqual(self.call(g)[0], 200)
        self.redis.freeze()
        asks = Curls([f"{g.url}/ai/v1/chat/completions"] * 3, "-H", "Content-Type: application/json",
                     "-H", "X-Canigo-Max-Wait: 100ms", "-d", self.BODY)
        self.assertEqual(asks.statuses(), [503] * 3)
        self.redis.thaw()
        self.spent_by(g, 0.01)
        self.assertEqual(self.sums_of(g)["waiting"], 0)
        self.assertEqual([self.call(g)[0] for _ in range(4)], [200] * 4)
        self.assertEqual(len(upstream.heads), 5)

    def of_targets(self, targets):
        head = 'name = "ai"\nprefix = "/ai"\nprovider = "openai"\nconcurrency = 1000\n'
        return head + "".join(f'[[upstream.target]]\nname = "{name}"\nurl = "http://127.0.0.1:PORT"\n{more}\n'
                              for name, more in targets.items())

    def test_a_call_that_asks_for_the_money_of_a_target_ends_by_its_own_deadline_too(self):
        settings = self.of_targets({"only": self.budget("0.05")})
        self.check_calls_end_by_their_own_deadline(settings, "ai/only", "target")

    def test_a_call_for_whose_target_redis_gives_no_answer_goes_to_a_target_without_a_budget(self):
        upstream = self.telling()
        targets = {f"paid{n}": self.budget(1) for n in range(5)} | {"free": "prefer = 2"}
        g = self.gateway(self.of_targets(targets).replace("PORT", str(upstream.port)), head=self.head())
        took = []

        def target_of(call):
            before = len(g.log())
            self.assertEqual(call(), 200)
            wait_until(lambda: len(g.log()) > before, "the call is in the log")
            return g.log()[-1]["target"]

        def call_that_may_not_wait():
            begun = time.monotonic()
            status = curl("-H", "Content-Type: application/json", "-H", "X-Canigo-Max-Wait: 0s", "-d", self.BODY,
                          f"{g.url}/ai/v1/chat/completions")[0]
            took.append(time.monotonic() - begun)
            return status

        for _ in range(3):
            wait_until(lambda: target_of(lambda: self.call(g)[0]) == "paid0", "Redis answers")
            self.redis.freeze()
            self.assertEqual(target_of(call_that_may_not_wait), "free")
            self.redis.thaw()
        self.assertLess(min(took), 2)  # it waits for Redis once, not for each target

    def test_a_reload_while_calls_ask_redis_holds_for_these_calls(self):
        upstream = self.telling()
        g = self.gateway(self.ai(upstream.port, self.budget(1)), self.ai(upstream.port, self.budget(1), name="old"),
                         head=self.head())
        self.assertEqual((self.call(g)[0], self.call(g, path="old")[0]), (200, 200))
        self.redis.freeze()
        begun = time.monotonic()
        stays = self.calls(g, 2)
        goes = Curls([f"{g.url}/old/v1/chat/completions"], "-H", "Content-Type: application/json", "-d", self.BODY)
        wait_until(lambda: sum(len(u["waiters"]) for u in g.whole_state()["upstreams"]) == 3 or len(g.log()) == 5,
                   "three calls ask")
        g.rewrite(('name = "old"', 'name = "new"'), ('prefix = "/old"', 'prefix = "/new"'), ("1/month", "2/month"))
        g.ask_admin("/api/reload", method="POST")
        self.redis.thaw()
        statuses = stays.statuses(), goes.statuses()
        took = time.monotonic() - begun
        wait_until(lambda: len(g.log()) == 5, "all calls are in the log")
        if took < 1.5:  # otherwise the calls may have ended because Redis gave no answer for 2 s
            self.assertEqual(statuses, ([200] * 2, [503]))
            self.assertEqual([c["error"] for c in g.log() if c["status"] == 503], ["no_route"])
        wait_until(lambda: all(b["reserved"] == 0 for b in g.whole_state()["budgets"]), "nothing is reserved")
        wait_until(lambda: self.call_only(g) == 200, "calls go again")
        self.assertEqual(len(upstream.heads), 3 + statuses[0].count(200))
        # What the call to the old upstream had asked for is free again.
        cli = ["redis-cli", "-p", str(self.redis.port), "--raw"]
        (key,) = [k for k in self.told_by(*cli, "KEYS", "*upstream old:*") if not k.endswith(":live")]
        wait_until(lambda: self.told_by(*cli, "HGET", key, ".reserved") == ["0"], "the old budget has its money back")

    def told_by(self, *command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    def test_a_key_of_another_type_refuses_calls_until_it_is_gone(self):
        upstream = self.telling()
        g = self.instance(upstream, 1)
        self.assertEqual(self.call(g)[0], 200)
        self.spent_by(g, 0.01)
        cli = ["redis-cli", "-p", str(self.redis.port), "--raw"]
        keys = self.told_by(*cli, "KEYS", "*:budget:*")
        self.told_by(*cli, "DEL", *keys)
        for key in keys:
            self.told_by(*cli, "SET", key, "of another program")
        status, fields, _ = curl("-d", self.BODY, f"{g.url}/ai/v1/chat/completions")
        self.assertEqual((status, fields["x-canigo-error"]), (503, "store_unavailable"))
        self.told_by(*cli, "DEL", *keys)
        wait_until(lambda: self.call_only(g) == 200, "calls go again")
        self.spent_by(g, 0.02)

    def test_a_redis_that_lost_its_data_gets_the_sums_again(self):
        upstream = self.telling()
        a, b = (self.instance(upstream, "0.3") for _ in range(2))
        for g in (a, a, b, b, a, b):
            self.assertEqual(self.call(g)[0], 200)
        for g in (a, b):
            self.spent_by(g, 0.06)
        self.redis.kill()
        self.redis.start()
        wait_until(lambda: self.call_only(a) == 200, "calls go again")
        wait_until(lambda: self.call_only(b) == 200, "calls go again")
        for g in (a, b):
            self.spent_by(g, 0.08)

    def test_a_restart_of_redis_that_takes_a_second_refuses_no_call(self):
        upstream = self.telling()
        g = self.instance(upstream, 1)
        self.assertEqual(self.call(g)[0], 200)
        self.redis.kill()
        running = self.calls(g, 1)
        time.sleep(0.3)
        self.redis.start()
        self.assertEqual(running.statuses(), [200])

    def test_a_shared_state_needs_redis(self):
        file = self.dir / "gateway.toml"
        file.write_text('state = "redis"\n[[listen]]\naddress = "127.0.0.1:0"\n[[upstream]]\n' + self.ai(9))
        done = subprocess.run([GATEWAY, "--check", "--config", file], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("state needs redis, which is missing", done.stderr)


for name in OF_THE_FILE:
    setattr(SharedBudgets, name, None)

if __name__ == "__main__":
    main(SharedBudgets)
