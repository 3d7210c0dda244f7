#!/usr/bin/env python3
"""Presets of providers through canigo-gateway, and the tokens that its calls are charged: CANIGO_GATEWAY [PART...]."""

import json
import pathlib
import re
import subprocess
import tempfile
import tomllib

from rig import GATEWAY, GatewayCase, curl, main, wait_until

NAMES = ["anthropic", "azure", "bedrock", "cohere", "discord", "gemini", "generic", "github", "huggingface", "mistral",
         "openai", "shopify"]
OWN = 'credential = { header = "Authorization", value = "env:CANIGO_ADMIN_TOKEN" }\n'
# A limit starts empty: for an hour there is no token.
NO_TOKENS = 'rates = [{ limit = "1000/1s", burst = 1000 }, { limit = "1/1h", burst = 1, unit = "tokens" }]\n'


def answer_of(body, status=200, kind="application/json"):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


def printed(name):
    return subprocess.run([GATEWAY, "--print-preset", name], capture_output=True, text=True)


class Presets(GatewayCase):
    def provider(self, answers):
        """An upstream that answers by the end of the path, and keeps the bodies that it got."""
        def answer(client, stream, head):
            length = re.search(r"(?i)content-length: (\d+)", head)
            script.bodies.append(stream.read(int(length[1]) if length else 0))
            path = head.split()[1]
            client.sendall(next(text for end, text in answers.items() if path.endswith(end)))

        script = self.script(answer)
        script.bodies = []
        return script

    def several(self, port, more):
        """Upstreams of these providers, each with its lines; all lead to the same port."""
        return self.gateway(*[f'name = "{name}"\nurl = "http://127.0.0.1:{port}"\nprefix = "/{name}"\n'
                              f'provider = "{name}"\n{OWN}{text}\n' for name, text in more.items()])

    def test_a_preset_is_printed_and_can_be_written_into_a_file(self):
        for name in NAMES:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                done = printed(name)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, r"\A# .*20\d\d-\d\d-\d\d")
                self.assertTrue(tomllib.loads(done.stdout))
                file = pathlib.Path(folder) / "gateway.toml"
                file.write_text('[[listen]]\naddress = "127.0.0.1:0"\n[[upstream]]\n' + self.upstream() + done.stdout)
                check = subprocess.run([GATEWAY, "--check", "--config", file], capture_output=True, text=True)
                self.assertEqual((check.returncode, check.stderr), (0, ""))
                file.write_text(file.read_text().replace(done.stdout, f'provider = "{name}"\n'))
                check = subprocess.run([GATEWAY, "--check", "--config", file], capture_output=True, text=True)
                self.assertEqual((check.returncode, check.stderr), (0, ""))

    def test_a_preset_that_there_is_not_is_refused_with_the_names_of_those_that_there_are(self):
        done = printed("openia")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        for name in NAMES:
            self.assertIn(name, done.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[listen]]\naddress = "127.0.0.1:0"\n[[upstream]]\n' + self.upstream('provider = "openia"'))
            file.flush()
            check = subprocess.run([GATEWAY, "--check", "--config", file.name], capture_output=True, text=True)
        self.assertEqual(check.returncode, 2)
        self.assertIn(f':7:12: upstream[0].provider is "openia"; allowed: {", ".join(NAMES)}\n', check.stderr)

    def test_calls_that_use_no_tokens_need_none_and_are_charged_none(self):
        script = self.provider({"": answer_of({"usage": {"input_tokens": 900, "output_tokens": 90}})})
        g = self.several(script.port, {"openai": NO_TOKENS + "max_wait.batch = '10m'"})
        file = g.dir / "file"
        file.write_bytes(b"x" * (3 << 20))
        for args in (["/v1/responses/r-1"], ["-X", "DELETE", "/v1/responses/r-1"],
                     ["--data-binary", f"@{file}", "/v1/files?a=b"], ["-d", "{}", "/v1/batches"]):
            status, _, body = curl(*args[:-1], f"{g.url}/openai{args[-1]}")
            self.assertEqual((status, json.loads(body)["usage"]["input_tokens"]), (200, 900), args)
        # A call that uses some would have to wait for them, and a path is no other one by its end.
        for path in ("/v1/responses", "/v1/files/..%2fresponses", "/v1/responses?x=/files"):
            status, fields, _ = curl("-d", "{}", f"{g.url}/openai{path}")
            self.assertEqual((status, fields.get("x-canigo-error")), (429, "wait_too_long"), path)
        self.assertGreaterEqual(g.state()["levels"][1], 0)
        self.assertEqual([(e["tokens_asked"], e["tokens_used"]) for e in g.log()[:4]], [(0, None)] * 4)
        self.assertIn("canigo_gateway_usage_missing_total 0\n", g.ask_admin("/metrics"))

    def test_a_refused_call_gets_its_estimate_back(self):
        script = self.provider({"/400": answer_of({"error": {}}, 400), "/404": answer_of(b"no", 404, "text/plain"),
                                "/500": answer_of({"error": {}}, 500)})
        rates = 'rates = [{ limit = "1000/1s", burst = 1000, unit = "tokens" }]\n'
        g = self.several(script.port, {"openai": rates + "tokens.learn = false\nmax_wait.batch = '10m'"})
        for status in (400, 404, 500):
            self.assertEqual(curl("-d", '{"max_tokens": 900}', f"{g.url}/openai/{status}")[0], status)
        self.assertEqual([(e["tokens_asked"], e["tokens_used"]) for e in g.log()], [(900, 0), (900, 0), (900, None)])
        self.assertIn("canigo_gateway_usage_missing_total 1\n", g.ask_admin("/metrics"))

    def test_the_usage_of_each_provider_is_charged(self):
        names = b'{"contentBlockIndex":0,"delta":{"text":"x"}}\0\0\1\2:event-type\7\0\10metadata'
        frames = b"\0\0\0\x9f" + names + b'{"metrics":{},"usage":{"inputTokens":9,"outputTokens":12}}\xff\0'
        end = {"type": "message-end", "delta": {"usage": {"billed_units": {"input_tokens": 1},
                                                          "tokens": {"input_tokens": 9, "output_tokens": 12}}}}
        events = f'event: message-end\ndata: {json.dumps(end)}\n\n'.encode()
        script = self.provider({
            "/chat/completions": answer_of({"usage": {"prompt_tokens": 9, "completion_tokens": 12}}),
            "/messages": answer_of({"usage": {"input_tokens": 6, "cache_creation_input_tokens": 3, "output_tokens": 12,
                                              "cache_read_input_tokens": 50}}),
            ":generateContent": answer_of({"usageMetadata": {"promptTokenCount": 5, "toolUsePromptTokenCount": 4,
                                                             "candidatesTokenCount": 10, "thoughtsTokenCount": 2}}),
            "/v2/chat": answer_of(events, kind="text/event-stream"),
            "/converse": answer_of({"usage": {"inputTokens": 9, "outputTokens": 12, "totalTokens": 21}}),
            "/converse-stream": answer_of(frames, kind="application/vnd.amazon.eventstream"),
        })
        calls = [("openai", "/v1/chat/completions"), ("azure", "/openai/deployments/d/chat/completions"),
                 ("anthropic", "/v1/messages"), ("gemini", "/v1beta/models/g:generateContent"),
                 ("mistral", "/v1/chat/completions"), ("cohere", "/v2/chat"), ("bedrock", "/model/m/converse"),
                 ("bedrock", "/model/m/converse-stream"), ("huggingface", "/v1/chat/completions")]
        g = self.several(script.port, {name: "" for name, _ in calls})
        for name, path in calls:
            self.assertEqual(curl("-d", '{"messages": []}', f"{g.url}/{name}{path}")[0], 200)
        used = [(e["upstream"], e["tokens_used"]) for e in g.log()]
        self.assertEqual(used, [(name, 21) for name, _ in calls])

    def test_a_call_for_embeddings_reserves_its_input_alone(self):
        script = self.provider({"": answer_of({"data": [], "usage": {"prompt_tokens": 3, "total_tokens": 3}})})
        # Of output there is none for an hour.
        rates = ('rates = [{ limit = "1000/1s", burst = 1000, unit = "tokens" }, '
                 '{ limit = "1/1h", burst = 1, unit = "output_tokens" }]\n')
        g = self.several(script.port, {"openai": rates + "tokens.learn = false\nmax_wait.batch = '10m'"})
        for path in ("/v1/embeddings", "/v1/embeddings?x=y"):
            body = '{"model": "m", "input": "abcdefg"}'
            self.assertEqual(curl("-d", body, f"{g.url}/openai{path}")[0], 200, path)
        status, fields, _ = curl("-d", '{"model": "m", "input": "abcdefg"}', f"{g.url}/openai/v1/responses")
        self.assertEqual((status, fields.get("x-canigo-error")), (429, "wait_too_long"))
        self.assertEqual([(e["tokens_asked"], e["tokens_used"]) for e in g.log()[:2]], [(2, 3)] * 2)

    def test_an_output_token_may_count_for_several_when_the_usage_is_known(self):
        used = {"inputTokens": 9, "outputTokens": 12_000_000, "totalTokens": 12_000_009, "cacheReadInputTokens": 50}
        script = self.provider({"": answer_of({"usage": used})})
        rates = 'rates = [{ limit = "1000/1s", burst = 1000 }, { limit = "100/1s", burst = 100, unit = "tokens" }]\n'
        more = rates + "tokens.learn = false\nmax_wait.batch = '10m'\n"
        g = self.several(script.port, {"bedrock": more + "tokens.output_weight = 5\n"})
        body = '{"messages": [], "inferenceConfig": {"maxTokens": 20}}'
        self.assertEqual(curl("-d", body, f"{g.url}/bedrock/model/m/converse")[0], 200)
        self.assertEqual([(e["tokens_asked"], e["tokens_used"]) for e in g.log()], [(20, 12_000_009)])
        # It takes a week until that is there again; with a weight of 1 a day and a half.
        self.assertLess(g.state()["levels"][1], -50_000_000)

    def test_only_a_stream_that_tells_no_usage_unasked_is_asked_for_it(self):
        script = self.provider({"": answer_of({})})
        g = self.several(script.port, {"openai": "tokens.add_usage = true"})
        chat, response = {"stream": True, "messages": []}, {"stream": True, "input": "x"}
        for body in (chat, response):
            self.assertEqual(curl("-d", json.dumps(body), f"{g.url}/openai/")[0], 200)
        self.assertEqual([json.loads(b) for b in script.bodies],
                         [{**chat, "stream_options": {"include_usage": True}}, response])

    def test_the_body_of_a_refusal_is_read_where_the_preset_or_the_file_says_so(self):
        used_up = answer_of({"error": {"type": "billing", "code": "project_spend_limit_exceeded"}}, 429)
        script = self.provider({"": used_up})
        more = "max_wait.batch = '10m'\nretry.attempts = 2\n"
        g = self.several(script.port, {"openai": more, "mistral": more, "azure": more + "refusal_body = false"})
        attempts = {name: curl("-d", "{}", f"{g.url}/{name}/")[1]["x-canigo-attempts"]
                    for name in ("openai", "mistral", "azure")}
        self.assertEqual(attempts, {"openai": "1", "mistral": "2", "azure": "2"})

    def test_the_values_of_a_preset_are_shown_and_a_reload_takes_others(self):
        g = self.several(self.nginx.port, {"openai": 'rates = [{ limit = "60/1m" }]\ntimeout.total = "20m"'})
        def look():
            return json.loads(g.ask_admin("/api/state"))["config"]["upstreams"][0]

        shown = look()
        self.assertEqual((shown["provider"], shown["tokens"], shown["rates"][0]["window"]),
                         ("openai", "openai", "strict"))
        self.assertEqual((shown["timeout"]["first_byte"], shown["timeout"]["total"]), ("10m", "20m"))
        g.rewrite(('provider = "openai"', 'provider = "anthropic"'))
        g.process.send_signal(1)
        wait_until(lambda: look()["provider"] == "anthropic", "the other preset counts")


if __name__ == "__main__":
    main(Presets)
