#!/usr/bin/env python3
"""Targets whose limits instances of canigo-gateway share by Redis: CANIGO_GATEWAY [PART...].

Times have a lower bound only, except where a rate bounds them.
"""

import json
import os
import shutil
import signal
import sys
import threading
import time
import unittest

from limits import Redis
from rig import Curls, curl, main, wait_until
from targets import OK, Targets, refusal, target_of


class Counting:
    """A target that notes how many calls it serves at once, and when each came."""

    def __init__(self, case, hold=0.0):
        self.lock = threading.Lock()
        self.inside = self.most = 0
        self.times = []
        self.hold = hold
        self.port = case.script(self.answer).port

    def answer(self, client, _stream, _head):
        with self.lock:
            self.times.append(time.monotonic())
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(self.hold)
        # Before the answer: after it, the gateway may send the next call at once.
        with self.lock:
            self.inside -= 1
        client.sendall(OK)

    def most_in(self, seconds):
        times = sorted(self.times)
        return max(sum(t <= u < t + seconds for u in times) for t in times)


@unittest.skipIf(shutil.which("redis-server") is None, "redis-server is missing")
class SharedTargets(Targets):
    def setUp(self):
        super().setUp()
        self.redis = Redis()
        self.addCleanup(self.redis.close)
        os.environ["CANIGO_REDIS_URL"] = self.redis.url

    def two(self, *targets, more=""):
        """Two instances with the same file."""
        return [self.served(*targets, more="shared = true\n" + more, head='redis = "env:CANIGO_REDIS_URL"')
                for _ in range(2)]

    def test_two_instances_keep_the_cap_of_each_target(self):
        a, b = Counting(self, 0.02), Counting(self, 0.02)
        both = self.two(self.target("a", a.port, "concurrency = 3"), self.target("b", b.port, "concurrency = 2"))
        calls = [Curls([f"{g.url}/ai/{i}" for i in range(150)]) for g in both]
        for c in calls:
            self.assertEqual(c.statuses(), [200] * 150)
        print(f"  at once: {a.most} of 3 at a, {b.most} of 2 at b", file=sys.stderr)
        self.assertLessEqual(a.most, 3)
        self.assertLessEqual(b.most, 2)
        self.assertEqual(len(a.times) + len(b.times), 300)
        self.assertGreater(min(len(a.times), len(b.times)), 20)

    def test_two_instances_keep_the_rate_of_each_target(self):
        a, b = Counting(self), Counting(self)
        both = self.two(self.target("a", a.port, 'rates = [{ limit = "30/1s", burst = 3 }]'),
                        self.target("b", b.port, 'rates = [{ limit = "10/1s", burst = 2 }]'))
        calls = [Curls([f"{g.url}/ai/{i}" for i in range(80)]) for g in both]
        for c in calls:
            self.assertEqual(c.statuses(), [200] * 80)
        print(f"  in two seconds: {a.most_in(2)} at a, {b.most_in(2)} at b", file=sys.stderr)
        # A call that was stopped on its way comes later. Without sharing, there would be twice as many.
        self.assertLessEqual(a.most_in(2), 60 + 3 + 8)
        self.assertLessEqual(b.most_in(2), 20 + 2 + 8)
        self.assertEqual(len(a.times) + len(b.times), 160)

    def test_a_call_goes_to_the_target_that_has_room_in_all_instances(self):
        a, b = self.holding(), self.holding()
        one, other = self.two(self.target("a", a.port, "concurrency = 1"),
                              self.target("b", b.port, "concurrency = 1\nprefer = 2"))
        first = Curls([f"{one.url}/ai/1"])
        wait_until(lambda: a.heads, "the preferred target has the first")
        # This instance has used no target yet. It would choose the first one.
        second = Curls([f"{other.url}/ai/2"])
        wait_until(lambda: b.heads, "the other one has the second")
        state = self.states(other)
        self.assertEqual([state[n]["held"] for n in "ab"], [0, 1])
        self.assertEqual([state[n]["held_by_all"] for n in "ab"], [1, 1])
        third = Curls([f"{other.url}/ai/3"])
        wait_until(lambda: {w["waits_for"] for w in other.state()["waiters"]} == {"shared"}, "the third waits")
        a.go.set()
        self.assertEqual(first.statuses() + third.statuses(), [200] * 2)
        self.assertEqual([target_of(h) for h in a.heads], ["/1", "/3"])
        b.go.set()
        self.assertEqual(second.statuses(), [200])
        self.assertEqual([e["target"] for e in other.log()], ["a", "b"])

    def test_an_instance_that_is_killed_gives_its_places_back_with_its_lease(self):
        a, b = self.holding(), self.holding()
        one, other = self.two(self.target("a", a.port, "concurrency = 1"),
                              self.target("b", b.port, "concurrency = 1\nprefer = 2"))
        Curls([f"{one.url}/ai/1"])
        wait_until(lambda: a.heads, "the first target has its call")
        Curls([f"{one.url}/ai/2"])
        wait_until(lambda: b.heads, "the second target has its call")
        waits = Curls([f"{other.url}/ai/{i}" for i in (3, 4)])
        wait_until(lambda: other.waiting() == 2, "they wait")
        one.process.kill()
        one.process.wait()
        wait_until(lambda: len(a.heads) == 2 and len(b.heads) == 2, "both targets have the calls of the other", 60)
        a.go.set()
        b.go.set()
        self.assertEqual(waits.statuses(), [200] * 2)

    def test_a_target_that_refuses_rests_for_all_instances(self):
        a = self.answering(refusal(429, "Retry-After: 3600"))
        b = self.answering()
        one, other = self.two(self.target("a", a.port), self.target("b", b.port, "prefer = 2"))
        self.assertEqual(curl(f"{one.url}/ai/1")[0], 200)
        for i in range(5):
            self.assertEqual(curl(f"{other.url}/ai/{i}")[0], 200)
        self.assertEqual((len(a.heads), len(b.heads)), (1, 6))
        pauses = self.states(other)["a"]["pauses"]
        self.assertEqual([p["cause"] for p in pauses], ["upstream"])
        self.assertGreater(pauses[0]["until_ms"], 3_000_000)
        self.assertEqual(self.states(other)["b"]["pauses"], [])

    def test_a_target_that_an_operator_pauses_gets_no_call_of_this_instance(self):
        a, b = self.answering(), self.answering()
        one, other = self.two(self.target("a", a.port), self.target("b", b.port, "prefer = 2"))
        one.ask_admin("/api/upstreams/ai/targets/a/pause", method="POST")
        for g in (one, other):
            self.assertEqual(curl(f"{g.url}/ai/x")[0], 200)
        self.assertEqual((len(a.heads), len(b.heads)), (1, 1))

    def test_calls_of_a_key_stay_at_their_target_while_it_has_room_in_all_instances(self):
        a, b = self.answering(), self.answering()
        targets = [self.target(name, at.port, "concurrency = 1") for name, at in (("a", a), ("b", b))]
        one, other = self.two(*targets, more='sticky = "header:X-Session"')
        # At first, Redis grants nothing for the time of a lease, which is longer than such a call waits for its target.
        self.assertEqual(curl(f"{one.url}/ai/first")[0], 200)
        a.heads.clear()
        b.heads.clear()
        for i in range(6):
            g = (one, other)[i % 2]
            self.assertEqual(curl("-H", "X-Session: s", f"{g.url}/ai/{i}")[0], 200)
        self.assertEqual(sorted((len(a.heads), len(b.heads))), [0, 6])

    def test_while_redis_is_away_calls_wait_or_go_on_as_the_file_says(self):
        a, b = self.answering(), self.answering()
        targets = (self.target("a", a.port, 'rates = [{ limit = "1000/1s", burst = 50 }]'),
                   self.target("b", b.port, 'prefer = 2\nrates = [{ limit = "1000/1s", burst = 50 }]'))
        for how, ends in (("closed", (503, "store_unavailable")), ("open", (200, None)),
                          ("local:0.5", (200, None))):
            both = self.two(*targets, more=f'on_redis_failure = "{how}"')
            g = both[0]
            status, fields, _ = curl(f"{g.url}/ai/before")
            self.assertEqual((status, fields.get("x-canigo-error")), (200, None), how)
            self.redis.kill()
            status, fields, _ = curl(f"{g.url}/ai/during")
            self.assertEqual((status, fields.get("x-canigo-error")), ends, how)
            self.redis.start()
            wait_until(lambda: curl(f"{g.url}/ai/after")[0] == 200, "calls go on", 30)  # pylint: disable=W0640
            # Limits of another mode have another shape in Redis.
            for old in both:
                old.close()
            self.redis.kill()
            self.redis.start()

    def test_calls_that_waited_for_redis_keep_the_rate_of_the_instance_when_redis_hangs(self):
        a = Counting(self)
        both = self.two(self.target("a", a.port, 'rates = [{ limit = "10/1s", burst = 1 }]\nconcurrency = 8'),
                        more='on_redis_failure = "open"')
        calls = [Curls([f"{g.url}/ai/{i}" for i in range(60)]) for g in both]
        wait_until(lambda: all(sum(w["waits_for"] == "shared" for w in g.state()["waiters"]) > 4 for g in both),
                   "calls of both wait in Redis")
        self.redis.freeze()
        for c in calls:
            self.assertEqual(c.statuses(), [200] * 60)
        self.redis.thaw()
        print(f"  in a second: {a.most_in(1)}", file=sys.stderr)
        # Calls that a busy machine holds up come together. Without the rates, 16 more would come at once.
        self.assertLessEqual(a.most_in(1), 2 * (10 + 1) + 6)

    def test_an_instance_keeps_the_cap_of_a_target_although_redis_chooses_it(self):
        for how, most in (("open", 2), ("local:0.5", 1)):
            with self.subTest(how):
                a, b = Counting(self, 0.1), Counting(self, 0.1)
                g = self.served(self.target("a", a.port, 'concurrency = 2\nrates = [{ limit = "100/1s", burst = 20 }]'),
                                self.target("b", b.port, 'concurrency = 20\nrates = [{ limit = "2/1s", burst = 1 }]'),
                                more=f'shared = true\non_redis_failure = "{how}"',
                                head='redis = "env:CANIGO_REDIS_URL"')
                self.assertEqual(Curls([f"{g.url}/ai/{i}" for i in range(40)]).statuses(), [200] * 40)
                self.assertLessEqual(a.most, most)

    def test_an_instance_that_ends_leaves_redis_so_that_another_list_of_targets_is_served_at_once(self):
        a, b = self.answering(), self.answering()
        how = {"more": "shared = true\n", "head": 'redis = "env:CANIGO_REDIS_URL"'}
        old = self.served(self.target("a", a.port), **how)
        self.assertEqual(curl(f"{old.url}/ai/1")[0], 200)
        old.process.send_signal(signal.SIGTERM)
        self.assertEqual(old.process.wait(), 0)
        new = self.served(self.target("b", b.port), self.target("a", a.port), **how)
        self.assertEqual(curl(f"{new.url}/ai/2")[0], 200)

    def test_a_reload_changes_the_limits_of_a_target_for_all_instances(self):
        a = Counting(self)
        both = self.two(self.target("a", a.port, 'rates = [{ limit = "1/1h", burst = 1 }]\nconcurrency = 1'),
                        more='max_wait = { interactive = "10h", normal = "10h", batch = "10h" }')
        calls = Curls([f"{g.url}/ai/{i}" for g in both for i in range(3)])
        wait_until(lambda: sum(g.state()["waiting"] for g in both) == 6, "they wait, as a rate starts empty")
        for g in both:
            g.rewrite(('"1/1h"', '"1000/1s"'), ("burst = 1", "burst = 10"), ("concurrency = 1", "concurrency = 4"))
            self.assertEqual(json.loads(g.ask_admin("/api/reload", method="POST"))["ok"], True)
        self.assertEqual(calls.statuses(), [200] * 6)


def only_own(case):
    """Leaves out the tests of Targets, which have a suite of their own."""
    for name in dir(Targets):
        if name.startswith("test_"):
            setattr(case, name, None)
    return case


if __name__ == "__main__":
    main(only_own(SharedTargets))
