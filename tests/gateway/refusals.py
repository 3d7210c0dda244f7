#!/usr/bin/env python3
"""Refusals of upstreams through canigo-gateway, in the forms of several providers: CANIGO_GATEWAY [PART...].

Times have a lower bound only. Whatever is said to come at once is told from a long pause by the answer.
"""

import concurrent.futures
import datetime
import json
import re
import time

from rig import Curls, GatewayCase, curl, main, wait_until

OWN = 'credential = { header = "Authorization", value = "env:CANIGO_ADMIN_TOKEN" }\n'
EARLY = 0.05  # of a second: the two clocks are read at different times
KEYS = {"a": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "b": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def refusal(status, *fields, body=b""):
    head = f"HTTP/1.1 {status} No\r\n" + "".join(f + "\r\n" for f in fields)
    return head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def of_gemini(*details):
    error = {"code": 429, "message": "Please wait \u2026", "status": "RESOURCE_EXHAUSTED", "details": details}
    return json.dumps({"error": error}, indent=2).encode()


def retry_info(delay):
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def quota_failure(quota):
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}


class Refusals(GatewayCase):
    def sequence(self, *answers):
        """An upstream that gives these answers in turn, and then OK. Its `times` are those of the calls."""
        times = []

        def answer(client, _stream, _head):
            times.append(time.monotonic())
            client.sendall(answers[len(times) - 1] if len(times) <= len(answers) else OK)

        script = self.script(answer)
        script.times = times
        return script

    def check_waits(self, refused, least, more=""):
        """The call is sent again after the refusal, no sooner than `least` seconds later."""
        script = self.sequence(refused)
        g = self.gateway(self.upstream(OWN + more, script.port))
        status, fields, body = curl("-d", "{}", f"{g.url}/web/")
        self.assertEqual((status, body, fields["x-canigo-attempts"]), (200, b"ok", "2"))
        self.assertGreaterEqual(script.times[1] - script.times[0], least - EARLY)

    def check_passed_on(self, refused, status, body=b"", more=""):
        """The client gets the refusal of its one attempt, and the next call goes at once."""
        script = self.sequence(refused)
        g = self.gateway(self.upstream(OWN + "max_wait = 1s\n" + more, script.port))
        answer = curl("-d", "{}", f"{g.url}/web/")
        self.assertEqual((answer[0], answer[2], answer[1]["x-canigo-attempts"]), (status, body, "1"))
        self.assertNotIn("x-canigo-error", answer[1])
        self.assertEqual(g.state()["pauses"], [])
        self.assertEqual(curl(f"{g.url}/web/")[0], 200)

    def test_a_refusal_without_a_wait_pauses_the_upstream_longer_each_time(self):
        script = self.sequence(refusal(429), refusal(429))
        g = self.gateway(self.upstream(OWN + "concurrency = 1\nmax_wait = 10m", script.port))
        first = Curls([f"{g.url}/web/first"])
        wait_until(lambda: script.times, "it is sent")
        others = Curls([f"{g.url}/web/{i}" for i in range(5)])
        self.assertEqual(first.statuses() + others.statuses(), [200] * 6)
        refused, second, third = script.times[:3]
        self.assertGreaterEqual(second - refused, 1 - EARLY)
        self.assertGreaterEqual(third - second, 2 - EARLY)
        self.assertEqual(len(script.times), 8)

    def test_refusals_that_name_a_wait_of_zero_pause_the_upstream_longer_each_time(self):
        """Otherwise clients that come back at once send thousands of calls in vain."""
        for zero in ("Retry-After: 0", "retry-after-ms: 0", "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"):
            with self.subTest(zero):
                refusals = 8
                script = self.sequence(*[refusal(429, zero)] * refusals)
                g = self.gateway(self.upstream(OWN + "max_wait = 10m\nretry = { attempts = 1 }", script.port))
                for _ in range(refusals):
                    self.assertEqual(curl(f"{g.url}/web/")[0], 429)
                self.assertEqual(curl(f"{g.url}/web/")[0], 200)
                for i in range(refusals):
                    self.assertGreaterEqual(script.times[i + 1] - script.times[i], 0.01 * 2**i - EARLY)

    def test_a_refusal_without_a_wait_ends_the_waits_that_it_makes_too_long(self):
        script = self.sequence(*[refusal(429)] * 2)
        g = self.gateway(self.upstream(OWN + "max_wait = 10m\nretry = { attempts = 1 }", script.port))
        for _ in range(2):
            self.assertEqual(curl(f"{g.url}/web/")[0], 429)
        status, fields, _ = curl("-H", "X-Canigo-Max-Wait: 1ms", f"{g.url}/web/")
        # The second pause is 2 s, so that it is still on unless this machine stood still.
        if g.state()["pauses"]:
            self.assertEqual((status, fields.get("x-canigo-error")), (429, "wait_too_long"))
        self.assertEqual(curl(f"{g.url}/web/")[0], 200)
        self.assertGreaterEqual(script.times[2] - script.times[1], 2 - EARLY)

    def test_a_refusal_without_a_wait_pauses_a_tenant_with_its_own_credential_alone(self):
        def answer(client, _stream, head):
            client.sendall(refusal(429) if "/limited" in head.split()[1] else OK)

        tenants = "".join(f'[[tenant]]\nname = "{n}"\nkeys = ["sha256:{k}"]\n' for n, k in KEYS.items())
        g = self.gateway(self.upstream("max_wait = 10m\nretry = { attempts = 1 }", self.script(answer).port) + tenants)
        a, b = (["-H", f"X-Canigo-Key: {key}"] for key in ("test", "test2"))
        for _ in range(4):  # 1, 2 and 4 s
            self.assertEqual(curl(*a, f"{g.url}/web/limited")[0], 429)
        self.assertEqual([(p["cause"], p["tenant"]) for p in g.state()["pauses"]], [("upstream", "a")])
        self.assertEqual(curl(*b, f"{g.url}/web/")[0], 200)

    def test_a_wait_in_milliseconds_counts_before_one_in_seconds(self):  # Azure
        self.check_waits(refusal(429, "retry-after: 3000", "retry-after-ms: 1500"), 1.5)

    def test_a_wait_may_have_a_fraction_and_come_twice(self):  # Shopify
        self.check_waits(refusal(429, "Retry-After: 1.0", "Retry-After: 1.5"), 1.5)

    def test_without_a_wait_the_reset_of_the_quota_that_is_used_up_counts(self):
        epoch = str(int(time.time()) + 3)  # a clock with whole seconds
        for name, fields in {
                "OpenAI": ("x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-tokens: 1s500ms",
                           "x-ratelimit-remaining-requests: 9", "x-ratelimit-reset-requests: 6m0s"),
                "Discord": ("X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 1.5", f"X-RateLimit-Reset: {epoch}"),
                "the draft": ('RateLimit: "minute";r=0;t=2, "day";r=7;t=9999',)}.items():
            with self.subTest(name):
                self.check_waits(refusal(429, *fields), 1.5)

    def test_a_403_that_tells_of_a_limit_is_waited_for_and_another_one_is_not(self):  # GitHub
        self.check_waits(refusal(403, "retry-after: 2", "x-ratelimit-remaining: 4000"), 2)
        now = time.time()
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(now))
        self.check_waits(refusal(403, f"Date: {date}", "x-ratelimit-remaining: 0",
                                 f"x-ratelimit-reset: {int(now) + 2}"), 2)
        self.check_waits(refusal(403, "x-ratelimit-remaining: 0"), 1)  # a reset that is not told
        self.check_passed_on(refusal(403, "x-ratelimit-remaining: 4000", body=b"private"), 403, b"private")
        self.check_passed_on(refusal(403, body=b'{"message": "Must have admin rights"}'), 403,
                             b'{"message": "Must have admin rights"}', 'provider = "github"\n')

    def test_a_403_of_the_second_limit_of_github_pauses_for_a_minute(self):
        body = b'{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}'
        script = self.sequence(refusal(403, "x-ratelimit-remaining: 4000", body=body))
        g = self.gateway(self.upstream(OWN + 'provider = "github"\nmax_wait = 20s\n', script.port))
        before = time.monotonic()
        status, _, got = curl("-H", "Accept-Encoding: gzip", f"{g.url}/web/")
        self.assertEqual((status, got), (403, body))
        self.assertIn("Accept-Encoding: identity", script.heads[0])
        status, fields, _ = curl(f"{g.url}/web/")
        passed = time.monotonic() - before
        if passed < 40:  # else this machine stood still
            self.assertEqual((status, fields["x-canigo-error"]), (429, "wait_too_long"))
            self.assertGreaterEqual(int(fields["retry-after"]), 60 - passed)
            self.assertLessEqual(int(fields["retry-after"]), 60)

    def test_a_529_is_waited_for_and_the_breaker_counts_it(self):  # Anthropic
        self.check_waits(refusal(529, "retry-after: 2"), 2)
        self.check_waits(refusal(529), 1)
        script = self.sequence(refusal(529))
        g = self.gateway(self.upstream(OWN + 'retry = { attempts = 1 }\n'
                                       'breaker = { of = 1, open = "10m", most = "10m" }', script.port))
        self.assertEqual(curl(f"{g.url}/web/")[0], 529)
        self.assertEqual(g.state()["breaker"]["state"], "open")

    def test_the_upstream_forbids_another_attempt(self):
        self.check_passed_on(refusal(429, "x-should-retry: false", body=b"no"), 429, b"no")
        self.check_passed_on(refusal(503, "x-should-retry: false"), 503)
        script = self.sequence(refusal(502, "X-Should-Retry: False"))
        g = self.gateway(self.upstream(OWN, script.port))
        self.assertEqual(curl(f"{g.url}/web/")[0], 502)
        self.assertEqual(len(script.times), 1)

    def test_a_wait_in_the_body_counts_where_the_api_has_it_there(self):  # Gemini
        body = of_gemini(quota_failure("GenerateRequestsPerMinutePerProjectPerModel"), retry_info("2.5s"))
        refused = refusal(429, "Content-Type: application/json", body=body)
        self.check_waits(refused, 2.5, 'tokens = { api = "gemini" }\n')
        self.check_waits(refused, 1)  # of another api it says nothing

    def test_a_wait_in_the_body_counts_where_the_preset_has_it_there(self):  # Discord
        body = b'{"message": "You are being rate limited.", "retry_after": 2.5, "global": false}'
        self.check_waits(refusal(429, "Content-Type: application/json", body=body), 2.5, 'provider = "discord"\n')
        self.check_waits(refusal(429, "Content-Type: application/json", body=body), 1)  # elsewhere it says nothing
        self.check_waits(refusal(429, "Retry-After: 3", body=body), 3, 'provider = "discord"\n')

    def test_the_body_that_tells_a_wait_is_passed_on_as_it_is(self):
        text = of_gemini(retry_info("1s"))
        half = len(text) // 2
        chunked = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (text[:half], text[half:])) + b"0\r\n\r\n"
        large = b'{"error": {"details": [' + b" " * 300_000 + b"]}}"
        head = b"HTTP/1.1 429 No\r\nContent-Type: application/json\r\n"
        for name, start, rest, wanted in (
                ("whole", head + b"Content-Length: %d\r\n\r\n" % len(text) + text, b"", text),
                ("in two parts", head + b"Content-Length: %d\r\n\r\n" % len(text) + text[:half], text[half:], text),
                ("in chunks", head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked[:half], chunked[half:], text),
                ("to the end", head + b"Connection: close\r\n\r\n" + text[:half], text[half:], text),
                ("too large", head + b"Content-Length: %d\r\n\r\n" % len(large) + large, b"", large),
                ("too large, in chunks", head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(large) + large,
                 b"\r\n0\r\n\r\n", large),
                ("compressed", head + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\ngzip", b"", b"gzip"),
                ("empty", head + b"Content-Length: 0\r\n\r\n", b"", b"")):
            with self.subTest(name):
                def answer(client, _stream, _head, start=start, rest=rest, name=name):
                    client.sendall(start)
                    if rest:
                        time.sleep(0.2)
                        client.sendall(rest)
                    return "close" if name == "to the end" else None

                g = self.gateway(self.upstream(OWN + 'tokens = { api = "gemini" }\nretry = { attempts = 1 }',
                                               self.script(answer).port))
                status, _, body = curl("-d", "{}", f"{g.url}/web/")
                self.assertEqual((status, body), (429, wanted))

    def test_the_connection_of_a_refusal_whose_body_was_read_serves_the_next_call_and_no_surplus_does(self):
        """Bytes behind the body are no answer to another call."""
        smuggled = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        for surplus in (b"", smuggled):
            with self.subTest(surplus):
                peers = []

                def answer(client, _stream, _head, peers=peers, surplus=surplus):
                    peers.append(client.getpeername())
                    refused = refusal(429, "Retry-After: 0", body=b'{"error": {}}')
                    client.sendall(refused + surplus if len(peers) == 1 else OK)

                g = self.gateway(self.upstream(OWN + 'concurrency = 1\ntokens = { api = "openai" }\n'
                                               'retry = { attempts = 1 }', self.script(answer).port),
                                 threads=1)  # each loop has connections of its own
                self.assertEqual(curl("-d", "{}", f"{g.url}/web/")[0], 429)
                # The client has its answer before the connection is back.
                wait_until(lambda: g.state()["held"] == 0, "the first call has ended")
                status, _, body = curl("-d", "{}", f"{g.url}/web/")
                self.assertEqual((status, body), (200, b"ok"))
                self.assertEqual(len(set(peers)), 2 if surplus else 1)

    def test_a_refusal_whose_body_breaks_off_gives_its_place_back(self):
        def answer(client, _stream, _head):
            client.sendall(b"HTTP/1.1 429 No\r\nRetry-After: 0\r\nContent-Length: 1000\r\n\r\n{")
            return "close"

        g = self.gateway(self.upstream(OWN + 'tokens = { api = "openai" }\nretry = { attempts = 1 }\n'
                                       'timeout = { idle = "1h", total = "2h" }', self.script(answer).port))
        call = Curls([f"{g.url}/web/"], "-d", "{}")
        self.addCleanup(call.kill)
        wait_until(lambda: g.log(), "the call has ended")
        self.assertEqual((g.log()[0]["status"], g.log()[0]["error"], g.state()["held"]), (429, "upstream_failed", 0))

    def test_a_body_that_stays_away_holds_the_head_up_for_a_while_only(self):
        def answer(client, stream, _head):
            client.sendall(b"HTTP/1.1 429 No\r\nContent-Length: 10\r\n\r\n{")
            stream.read(1)  # until the gateway leaves

        g = self.gateway(self.upstream(OWN + 'tokens = { api = "openai" }\nretry = { attempts = 1 }\n'
                                       'timeout = { idle = "3s" }', self.script(answer).port))
        with self.assertRaisesRegex(AssertionError, "transfer closed|left to read|18"):
            curl("-d", "{}", f"{g.url}/web/")
        self.assertEqual([(line["status"], line["error"]) for line in g.log()], [(429, "upstream_failed")])

    def test_a_quota_of_a_day_is_not_waited_for(self):
        for name, api, body in (
                ("Gemini", "gemini", of_gemini(quota_failure("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
                                               retry_info("37025s"))),
                ("OpenAI", "openai", b'{"error": {"message": "m", "type": "insufficient_quota", "code": null}}'),
                ("Anthropic", "anthropic", b'{"type": "error", "error": {"type": "rate_limit_error", "details": '
                                           b'{"error_code": "enforced_spend_limit_reached"}}}')):
            with self.subTest(name):
                self.check_passed_on(refusal(429, "Content-Type: application/json", body=body), 429, body,
                                     f'tokens = {{ api = "{api}" }}\n')

    def of_day(self, quota, more="", **of_gateway):
        """A gateway of Gemini, and its upstream, which refuses the first call for the model "pro" by this quota."""
        body = of_gemini(quota_failure(quota), retry_info("17s"))
        refused = []

        def answer(client, stream, head):
            length = re.search(r"(?i)content-length: (\d+)", head)
            stream.read(int(length[1]) if length else 0)
            is_first = "/pro:generate" in head and not refused
            if is_first:
                refused.append(head)
                if self.before_refusal:
                    self.before_refusal()
            client.sendall(refusal(429, "Content-Type: application/json", body=body) if is_first else OK)

        script = self.script(answer)
        g = self.gateway(self.upstream(f'provider = "gemini"\n{more}', script.port), **of_gateway)
        return g, script, body

    before_refusal = None

    @staticmethod
    def call(g, model, *args, what="generateContent"):
        return curl(*args, "-d", "{}", f"{g.url}/web/v1beta/models/{model}:{what}")

    def check_quota_refuses(self, answer, says=""):
        status, fields, body = answer
        self.assertEqual((status, fields.get("x-canigo-error"), fields.get("x-should-retry")),
                         (429, "quota_used_up", "false"))
        self.assertIn(says, json.loads(body)["error"]["message"])
        self.assertLessEqual(int(fields["retry-after"]), 25 * 3600)

    def test_a_quota_of_a_day_refuses_the_calls_for_its_model_until_its_reset(self):
        g, script, body = self.of_day("GenerateRequestsPerDayPerProjectPerModel-FreeTier", OWN)
        first = self.call(g, "pro")
        self.assertEqual((first[0], first[2], first[1].get("x-canigo-error")), (429, body, None))
        before = time.time()
        second = self.call(g, "pro")
        after = time.time()
        told = ("canigo-gateway: paused until 00:00 PT: the day's quota for pro is used up, as the upstream has told "
                f"request {first[1]['x-request-id']} (GenerateRequestsPerDayPerProjectPerModel-FreeTier)")
        self.check_quota_refuses(second, told)
        self.assertEqual(len(script.heads), 1)
        self.assertEqual((g.log()[1]["status"], g.log()[1]["error"], "canigo-gateway: " + g.log()[1]["detail"]),
                         (429, "quota_used_up", told))
        (pause,) = g.state()["pauses"]
        reset = datetime.datetime.fromisoformat(pause["until"])
        self.assertIn((reset.hour, reset.minute, reset.second), ((7, 0, 0), (8, 0, 0)))
        self.assertLessEqual(int(second[1]["retry-after"]), reset.timestamp() - before + 1)
        self.assertGreaterEqual(int(second[1]["retry-after"]), reset.timestamp() - after - 1)
        self.assertGreater(pause["until_ms"], 0)
        self.assertEqual({name: pause[name] for name in ("cause", "model", "request", "resets", "quota")},
                         {"cause": "quota", "model": "pro", "request": first[1]["x-request-id"], "resets": "00:00 PT",
                          "quota": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"})
        self.assertEqual(g.state()["last_refusal"]["request"], first[1]["x-request-id"])
        self.assertIn('canigo_gateway_paused{upstream="web",cause="quota"} 1\n', g.ask_admin("/metrics"))
        # Other models have quotas of their own, and calls that use no tokens have none.
        self.assertEqual(self.call(g, "flash")[0], 200)
        self.assertEqual(self.call(g, "pro", what="countTokens")[0], 200)
        self.assertEqual(curl(f"{g.url}/web/v1beta/models/pro")[0], 200)
        g.ask_admin("/api/reload", method="POST")
        self.check_quota_refuses(self.call(g, "pro"))
        g.ask_admin("/api/upstreams/web/resume", method="POST")
        self.assertEqual(self.call(g, "pro")[0], 200)
        self.assertEqual(g.state()["pauses"], [])
        self.assertIn('canigo_gateway_paused{upstream="web",cause="quota"} 0\n', g.ask_admin("/metrics"))

    def test_a_wait_of_hours_refuses_the_calls_for_its_model_alone(self):
        told = (b"Retry-After: 25920", b"x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 7h12m0s")
        for fields in told:
            with self.subTest(fields):
                refused = []

                def answer(client, stream, head, fields=fields, refused=refused):
                    length = re.search(r"(?i)content-length: (\d+)", head)
                    body = stream.read(int(length[1]) if length else 0)
                    is_first = b'"large"' in body and not refused
                    refused.extend([1] if is_first else [])
                    client.sendall(refusal(429, *fields.decode().split("\r\n"), body=b"{}") if is_first else OK)

                script = self.script(answer)
                g = self.gateway(self.upstream(f'provider = "openai"\nretry = {{ attempts = 3 }}\n{OWN}', script.port))

                def call(model):
                    return curl("-d", json.dumps({"model": model}), f"{g.url}/web/v1/chat/completions")

                first = call("large")
                self.assertEqual((first[0], first[1].get("x-canigo-error")), (429, None))
                status, said, body = call("large")
                self.assertEqual((status, said["x-canigo-error"], said["x-should-retry"]),
                                 (429, "quota_used_up", "false"))
                self.assertRegex(json.loads(body)["error"]["message"],
                                 r"paused until 20\d\d-\d\d-\d\d \d\d:\d\d UTC: the quota for large is used up, .*"
                                 r"\(a wait of \S+\)")
                self.assertGreater(int(said["retry-after"]), 3600)
                self.assertEqual(len(script.heads), 1)
                self.assertEqual(call("small")[0], 200)
                self.assertEqual(curl(f"{g.url}/web/v1/models")[0], 200)
                self.assertEqual([p["cause"] for p in g.state()["pauses"]], ["quota"])
                g.ask_admin("/api/upstreams/web/resume", method="POST")
                self.assertEqual(call("large")[0], 200)

    def test_a_quota_of_a_day_that_is_of_no_model_refuses_the_calls_for_all(self):
        g, _, _ = self.of_day("GenerateRequestsPerDayPerProject", OWN)
        self.call(g, "pro")
        self.check_quota_refuses(self.call(g, "flash"), "the day's quota is used up")
        self.assertIsNone(g.state()["pauses"][0]["model"])
        self.assertEqual(curl(f"{g.url}/web/v1beta/models/pro")[0], 200)

    def test_a_quota_of_a_day_ends_the_waits_of_the_calls_that_need_it(self):
        g, _, _ = self.of_day("GenerateRequestsPerDayPerProjectPerModel", OWN + "concurrency = 1\nmax_wait = 10m\n")
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            others = []

            def let_others_wait():
                others.extend(pool.submit(self.call, g, model) for model in ("pro", "flash"))
                wait_until(lambda: g.waiting() == 2, "they wait")

            self.before_refusal = let_others_wait
            self.assertEqual(pool.submit(self.call, g, "pro").result()[0], 429)
            self.check_quota_refuses(others[0].result())
            self.assertEqual(others[1].result()[0], 200)

    def test_a_quota_of_a_day_is_that_of_a_tenant_with_its_own_credential(self):
        tenants = "".join(f'[[tenant]]\nname = "{n}"\nkeys = ["sha256:{k}"]\n' for n, k in KEYS.items())
        g, _, _ = self.of_day("GenerateRequestsPerDayPerProjectPerModel", "" + tenants)
        a, b = (["-H", f"X-Canigo-Key: {key}"] for key in ("test", "test2"))
        self.assertEqual(self.call(g, "pro", *a)[0], 429)
        self.check_quota_refuses(self.call(g, "pro", *a))
        self.assertEqual(self.call(g, "pro", *b)[0], 200)
        self.assertEqual([p["tenant"] for p in g.state()["pauses"]], ["a"])

    def test_without_a_known_reset_a_quota_of_a_day_refuses_nothing(self):
        g, _, _ = self.of_day("GenerateRequestsPerDayPerProjectPerModel", OWN + 'quota_resets = "unknown"\n')
        self.assertEqual([self.call(g, "pro")[0] for _ in range(2)], [429, 200])

    def test_only_a_quota_that_the_rate_stands_for_lowers_its_level(self):
        fields = []
        script = self.script(lambda client, _stream, _head: client.sendall(
            b"HTTP/1.1 200 OK\r\n" + "".join(f + "\r\n" for f in fields).encode() + b"Content-Length: 0\r\n\r\n"))
        g = self.gateway(self.upstream(OWN + 'rates = [{ limit = "1000/1m", burst = 50 }]\n', script.port))

        def level_after_call(*told):
            fields[:] = told
            self.assertEqual(curl(f"{g.url}/web/")[0], 200)
            return g.state()["levels"][0]

        for told in (["x-ratelimit-limit: 30", "x-ratelimit-remaining: 3", "x-ratelimit-resource: search"],
                     ["X-RateLimit-Limit: 5", "X-RateLimit-Remaining: 4", "X-RateLimit-Bucket: abcd"],
                     ["X-Shopify-Shop-Api-Call-Limit: 37/40"]):
            with self.subTest(told):
                wait_until(lambda: g.state()["levels"] == [50], "the bucket is full")
                self.assertGreaterEqual(level_after_call(*told), 49)
        for told in (["x-ratelimit-limit: 1000", "x-ratelimit-remaining: 3", "x-ratelimit-resource: core"],
                     ["x-ratelimit-remaining: 3.0"], ["X-Shopify-Shop-Api-Call-Limit: 997/1000"],
                     ["X-Rate-Limit-Limit: 900", "X-Rate-Limit-Remaining: 3"],
                     ["X-HubSpot-RateLimit-Max: 170", "X-HubSpot-RateLimit-Remaining: 3",
                      "X-HubSpot-RateLimit-Interval-Milliseconds: 10000"],
                     ["x-ratelimit-limit-req-minute: 1000", "x-ratelimit-remaining-req-minute: 3"]):
            with self.subTest(told):
                wait_until(lambda: g.state()["levels"] == [50], "the bucket is full again")
                wait_until(lambda told=told: level_after_call(*told) < 45, "the level is lowered")


if __name__ == "__main__":
    main(Refusals)
