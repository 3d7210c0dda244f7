#!/usr/bin/env python3
"""Runs canigo-gateway between programs that others wrote: reverse.py CANIGO_GATEWAY [PART_OF_A_NAME …].

nginx is the upstream and curl the client; where an upstream has to fail, or to send slowly, a few lines here are it.
Ends with the totals that Catch2 prints.
"""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import random
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error

from rig import GATEWAY, TOKEN, Curls, Doorway, GatewayCase, curl, free_ports, main, wait_until


class Reverse(GatewayCase):
    def test_targets_and_bodies_arrive_as_they_were_sent(self):  # G1
        g = self.gateway(self.upstream())
        body = random.Random(7).randbytes(1 << 20)
        sent = g.dir / "body"
        sent.write_bytes(body)
        calls = [("GET", "/a"), ("POST", "/b"), ("PUT", "/c"), ("DELETE", "/d"), ("GET", "/e?q=1&r=%20x"),
                 ("GET", "/a/b%2F..//f/./g")]
        for method, target in calls:
            args = ["--data-binary", f"@{sent}"] if method in ("POST", "PUT") else []
            status, fields, text = curl("-X", method, "--path-as-is", *args, f"{g.url}/web{target}")
            self.assertEqual((status, text), (200, b"taken\n"))
            self.assertEqual(fields["x-canigo-attempts"], "1")
            self.assertIn("x-request-id", fields)
        status, fields, text = curl("-I", f"{g.url}/web/head")
        self.assertEqual((status, text, fields["content-length"]), (200, b"", "6"))
        chunked, _, _ = curl("-H", "Transfer-Encoding: chunked", "--data-binary", f"@{sent}", f"{g.url}/web/chunked")
        self.assertEqual(chunked, 200)
        wait_until(lambda: len(self.nginx.calls()) == len(calls) + 2, "nginx logs the calls")
        logged = self.nginx.calls()
        self.assertEqual([(c[1], c[2]) for c in logged], [*calls, ("HEAD", "/head"), ("POST", "/chunked")])
        for call in logged:
            if call[1] in ("POST", "PUT"):
                self.assertEqual(pathlib.Path(call[4]).read_bytes(), body, call)

    def test_a_rate_is_kept_and_used(self):  # G2
        calls = int(os.environ.get("CANIGO_CALLS", "120"))
        g = self.gateway(self.upstream('rates = [{ limit = "10/1s", burst = 1 }]\nmax_wait = 10m',
                                       self.nginx.plain))
        clients = [Curls([f"{g.url}/web/{i}" for i in range(calls // 3)]) for _ in range(3)]
        for c in clients:
            self.assertEqual(c.statuses(), [200] * (calls // 3))
        times = sorted(float(c[0]) for c in self.nginx.calls())
        self.assertEqual(len(times), calls)
        # nginx logs in milliseconds when an answer has gone, so a call that was stopped meanwhile looks later.
        self.assertLessEqual(max(sum(t <= u < t + 1 for u in times) for t in times), 13)
        self.assertGreaterEqual((calls - 1) / (times[-1] - times[0]), 9.9 * 0.98)

    def test_an_important_call_is_the_next_one(self):  # G3
        g = self.gateway(self.upstream('rates = [{ limit = "2/1s", burst = 1 }]\nmax_wait = 10m', self.nginx.plain))
        batch = Curls([f"{g.url}/web/batch{i}" for i in range(100)], "-H", "X-Canigo-Priority: batch")
        self.addCleanup(batch.kill)
        wait_until(lambda: g.waiting() >= 95, "batch calls wait")
        before = len(self.nginx.calls())
        status, fields, _ = curl("-H", "X-Canigo-Priority: interactive", f"{g.url}/web/urgent")
        self.assertEqual(status, 200)
        after = [c[2] for c in self.nginx.calls()[before:]]
        # One batch call may have gone between our look and the arrival of the important one.
        self.assertIn("/urgent", after[:2])
        self.assertLess(int(fields["x-canigo-wait-ms"]), 5000)

    def test_a_call_waits_for_its_turn_when_its_body_is_there(self):
        for framing, begin, end in ((b"Content-Length: 300000", b"x" * 100_000, b"x" * 200_000),
                                    (b"Transfer-Encoding: chunked", b"3\r\nabc\r\n", b"0\r\n\r\n")):
            g = self.gateway(self.upstream("concurrency = 1", self.nginx.port))
            with socket.create_connection(("127.0.0.1", g.port)) as client:
                client.sendall(b"POST /web/slow HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s" % (framing, begin))
                wait_until(lambda: g.state()["running_in_all"] == 1, "the head has come")
                self.assertEqual(curl(f"{g.url}/web/other")[0], 200)
                client.sendall(end)
                self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 200"))

    def test_a_client_that_leaves_a_long_body_is_out_of_the_queue(self):
        g = self.gateway(self.upstream('rates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 10h', self.nginx.plain))
        size = 12 << 20  # more than the sockets hold
        with socket.create_connection(("127.0.0.1", g.port)) as client:
            client.sendall(b"POST /web/left HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
            wait_until(lambda: g.waiting() == 1, "the call waits")
            client.close()
            wait_until(lambda: g.waiting() == 0, "it is out of the queue")

    def test_a_client_that_leaves_is_out_of_the_queue(self):  # G4
        g = self.gateway(self.upstream('rates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 10h'),
                         head='[limits.size]\nread_ahead = "0B"\n')
        if g.state()["levels"][0] >= 1:
            curl(f"{g.url}/web/first")
        before = len(self.nginx.calls())
        for leave in ("close", "half-close"):
            with socket.create_connection(("127.0.0.1", g.port)) as client:
                client.sendall(b"POST /web/left HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n" + b"x" * 30_000)
                wait_until(lambda: g.waiting() == 1, "the call waits")
                levels = g.state()["levels"]
                if leave == "close":
                    client.close()
                else:
                    client.shutdown(socket.SHUT_WR)
                start = time.monotonic()
                wait_until(lambda: g.waiting() == 0, "it is out of the queue")
                print(f"  {leave}: out after {1000 * (time.monotonic() - start):.0f} ms", file=sys.stderr)
                self.assertEqual(g.state()["levels"], levels)
        self.assertEqual(len(self.nginx.calls()), before)
        wait_until(lambda: sum(e["status"] == 0 for e in g.log()) == 2, "both are in the log")

    def model(self, usage):
        """An upstream that answers with this usage, or without one, and keeps the bodies that it gets."""
        bodies = []

        def answer(client, stream, head):
            length = int(re.search(r"\r\nContent-Length: (\d+)", head)[1])
            bodies.append(json.loads(stream.read(length)))
            text = json.dumps({"text": "x" * 5000, **usage}).encode()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(text))
            for at in range(0, len(text), 777):
                client.sendall(text[at:at + 777])

        script = self.script(answer)
        return script, bodies

    def test_tokens_are_settled_by_the_usage(self):  # G9
        limit = ('rates = [{ limit = "1000/1s", burst = 1000, unit = "tokens" }]\nmax_wait = 10m\n'
                 'tokens = { api = "openai", learn = false }')
        request = json.dumps({"model": "m", "max_tokens": 900, "messages": [{"role": "user", "content": "y" * 400}]})
        took = {}
        for name, usage in (("told", {"usage": {"prompt_tokens": 6, "completion_tokens": 4}}), ("not told", {})):
            script, bodies = self.model(usage)
            g = self.gateway(self.upstream(limit, script.port))
            start = time.monotonic()
            for _ in range(12):
                status, _, text = curl("-H", "Accept-Encoding: gzip", "-d", request, f"{g.url}/web/v1/chat")
                self.assertEqual((status, len(json.loads(text)["text"])), (200, 5000))
            took[name] = time.monotonic() - start
            self.assertEqual(bodies, [json.loads(request)] * 12)
            for head in script.heads:
                self.assertEqual(re.findall(r"\r\nAccept-Encoding: (.*?)\r\n", head), ["identity"])
            wait_until(lambda: len(g.log()) == 12, "all are in the log")
            tokens = [(e["tokens_asked"], e["tokens_used"]) for e in g.log()]
            self.assertEqual(tokens, [(1000, 10 if name == "told" else None)] * 12)
            missing = "canigo_gateway_usage_missing_total " + ("0" if name == "told" else "12") + "\n"
            self.assertIn(missing, g.ask_admin("/metrics"))
            if name == "told":  # never more than the burst, and at most 10 of it are missing
                wait_until(lambda: g.state()["levels"][0] == 1000, "the level is the burst again")
        print(f"  12 calls: {took}", file=sys.stderr)
        # Each asks for 1,001 and so for the whole burst: a second between two. Settled, ten milliseconds.
        self.assertGreater(took["not told"], 10.5)

    def test_a_file_that_is_wrong_is_refused_in_words(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[listen]]\naddress = "127.0.0.1:0"\nmode = "both"\n[forward]\nallow = ["example.com:80"]\n'
                       "[[upstream]]\n" + self.upstream('queue = 0'))
            file.flush()
            check = [GATEWAY, "--check", "--config", file.name]
            done = subprocess.run(check, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr),
                             (2, f"{file.name}:10:9: upstream[0].queue is 0; allowed: 1 to 10000000\n"))
            pathlib.Path(file.name).write_text(pathlib.Path(file.name).read_text().replace("queue = 0", ""))
            done = subprocess.run(check, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{file.name}: ok\n", ""))

    def test_a_stream_asks_for_its_usage(self):
        script, bodies = self.model({})
        g = self.gateway(self.upstream('tokens = { api = "openai", add_usage = true }', script.port))
        request = {"stream": True, "seed": 12345678901234567890, "messages": []}
        for args in ([], ["-H", "Transfer-Encoding: chunked"], ["-H", "Expect: 100-continue"]):
            status, _, _ = curl(*args, "-d", json.dumps(request), f"{g.url}/web/v1/chat")
            self.assertEqual(status, 200)
        self.assertEqual(bodies, [{**request, "stream_options": {"include_usage": True}}] * 3)

    def test_a_large_body_is_read_ahead_in_part_and_arrives(self):
        g = self.gateway(self.upstream('tokens = { api = "openai" }'))
        body = random.Random(9).randbytes(5 << 20)
        sent = g.dir / "body"
        sent.write_bytes(body)
        for args in ([], ["-H", "Transfer-Encoding: chunked"]):
            status, _, _ = curl(*args, "--data-binary", f"@{sent}", f"{g.url}/web/large")
            self.assertEqual(status, 200)
        wait_until(lambda: len(self.nginx.calls()) == 2, "nginx logs the calls")
        for call in self.nginx.calls():
            self.assertEqual(pathlib.Path(call[4]).read_bytes(), body)

    def test_a_slow_upload_is_no_late_first_byte(self):
        def answer(client, stream, head):
            stream.read(int(re.search(r"(?i)content-length: (\d+)", head)[1]))
            if "/silent" in head:
                client.recv(1)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        g = self.gateway(self.upstream('timeout = { first_byte = "1s" }\nretry = { attempts = 1 }',
                                       self.script(answer).port))
        for path, wanted in (("x", b"HTTP/1.1 200"), ("silent", b"HTTP/1.1 504")):
            with socket.create_connection(("127.0.0.1", g.port)) as s:
                s.sendall(f"POST /web/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n".encode())
                for _ in range(10):
                    time.sleep(0.25)
                    s.sendall(b"x")
                self.assertTrue(s.recv(100).startswith(wanted), path)

    def test_an_upload_goes_on_after_an_early_answer_that_is_no_error(self):
        got = []

        def answer(client, stream, head):
            size = int(re.search(r"(?i)content-length: (\d+)", head)[1])
            status = "202 Accepted" if "/early" in head else "413 No"
            client.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok".encode())
            if "/cut" in head:
                raise ConnectionError
            got.append(len(stream.read(size)) if "/early" in head else 0)

        g = self.gateway(self.upstream(port=self.script(answer).port), head='[limits.size]\nread_ahead = "0B"\n')
        size = 8 << 20
        for path, status in (("early", b"202"), ("early", b"202"), ("early/cut", b"202"), ("error", b"413")):
            with socket.create_connection(("127.0.0.1", g.port)) as s:
                s.sendall(f"POST /web/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + b"x")
                head = b""
                while b"\r\n\r\nok" not in head:
                    self.assertTrue(part := s.recv(65536), head)
                    head += part
                self.assertIn(status, head.split(b"\r\n")[0])
                self.assertEqual(b"Connection: close" in head, status == b"413")
                try:
                    s.sendall(b"x" * (size - 1))
                    if path == "early":  # the connection serves another request
                        s.sendall(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
                        self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 404"))
                except ConnectionError:
                    self.assertNotEqual(path, "early")
        wait_until(lambda: got.count(size) == 2, "the upstream has all bytes")
        wait_until(lambda: sum(line["path"] == "/web/early/cut" for line in g.log()) == 1, "it is in the log")
        ends = {line["path"]: line["error"] for line in g.log()}
        self.assertEqual(ends["/web/early/cut"], "upstream_failed")
        self.assertFalse(ends["/web/early"])
        with socket.create_connection(("127.0.0.1", g.port)) as s:
            s.sendall(f"POST /web/early/left HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\nx".encode())
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 202"))
            wait_until(lambda: g.state()["held"] == 1, "its place is held for the rest")
        wait_until(lambda: g.state()["held"] == 0, "the client has left in the middle, and the place is free")
        wait_until(lambda: [(line["status"], line["error"]) for line in g.log() if line["path"].endswith("left")]
                   == [(202, "bad_request")], "the log says that a part is missing")

    def test_answers_of_all_sizes_arrive_whole(self):
        def answer(client, _stream, head):
            fields, body = (int(n) for n in re.search(r"/size/(\d+)/(\d+)", head).groups())
            client.sendall(b"HTTP/1.1 200 OK\r\nX-Long: " + b"f" * fields + b"\r\n"
                           + f"Content-Length: {body}\r\n\r\n".encode() + b"b" * body)

        g = self.gateway(self.upstream(port=self.script(answer).port))
        # Around the sizes of the buffers, 8 and 64 KiB. A head may have 64 KiB.
        for fields in (1, 8_000, 8_192, 20_000, 65_000, 66_000):
            for body in (0, 1, 8_000, 8_192, 66_000, 300_000):
                status, _, got = curl(f"{g.url}/web/size/{fields}/{body}")
                if fields > 65_536:
                    self.assertEqual(status, 502)
                else:
                    self.assertEqual((status, got), (200, b"b" * body))

    def test_a_status_below_100_is_no_answer(self):
        script = self.script(lambda client, _s, _h: client.sendall(b"HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n"))
        g = self.gateway(self.upstream(port=script.port))
        self.assertEqual(curl("-d", "x", f"{g.url}/web/x")[0], 502)

    def test_interim_answers_without_end_are_no_answer(self):
        def answer(client, _stream, _head):
            with contextlib.suppress(OSError):
                while True:
                    client.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100)

        g = self.gateway(self.upstream('timeout = { first_byte = "10m" }', self.script(answer).port))
        self.assertEqual(curl("-d", "x", f"{g.url}/web/x")[0], 502)

    def test_the_id_of_the_upstream_goes_on_under_a_name_of_its_own(self):
        script = self.script(lambda c, _s, _h: c.sendall(
            b"HTTP/1.1 200 OK\r\nX-Request-Id: req_7\r\nContent-Length: 0\r\n\r\n"))
        g = self.gateway(self.upstream(port=script.port))
        _, fields, _ = curl(f"{g.url}/web/x")
        self.assertEqual(fields["x-upstream-request-id"], "req_7")
        _, own, _ = curl(f"{g.url}/nowhere")
        ends = g.log()
        self.assertEqual([(e["id"], e["upstream_id"]) for e in ends],
                         [(fields["x-request-id"], "req_7"), (own["x-request-id"], None)])

    def test_a_client_that_leaves_while_it_is_answered_is_told_of_in_the_log(self):
        held = threading.Event()
        self.addCleanup(held.set)

        def answer(client, _stream, _head):
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf.")
            held.wait()

        g = self.gateway(self.upstream(port=self.script(answer).port))
        with socket.create_connection(("127.0.0.1", g.port)) as client:
            client.sendall(b"GET /web/x HTTP/1.1\r\nHost: x\r\n\r\n")
            seen = b""
            while not seen.endswith(b"half."):
                seen += client.recv(1000)
        wait_until(g.log, "it has ended")
        self.assertEqual([(e["status"], e["error"], e["bytes_out"]) for e in g.log()], [(200, "left", 5)])

    def test_the_log_counts_the_bytes_of_the_gateways_own_answers(self):
        g = self.gateway(self.upstream())
        _, _, body = curl(f"{g.url}/nowhere")
        curl("-I", f"{g.url}/nowhere")
        self.assertEqual([e["bytes_out"] for e in g.log()], [len(body), 0])

    def test_a_client_learns_why_there_is_no_connection(self):
        with tempfile.TemporaryDirectory() as folder:
            def serve_tls(alternative):
                """Of localhost by its common name, which counts for nothing. Returns the port, and the certificate."""
                cert, key = f"{folder}/{len(os.listdir(folder))}.pem", f"{folder}/{len(os.listdir(folder))}.key"
                subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                                "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                                f"subjectAltName={alternative}", "-keyout", key, "-out", cert],
                               check=True, capture_output=True)
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(cert, key)

                def take(client):
                    with contextlib.suppress(OSError), context.wrap_socket(client, server_side=True) as s:
                        s.recv(1000)
                        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

                server = Doorway(take)
                self.addCleanup(server.close)
                return server.port, pathlib.Path(cert).read_text()

            port, own = serve_tls("DNS:localhost")
            nameless, of_nameless = serve_tls("IP:192.0.2.1")
            trust = pathlib.Path(folder) / "trust.pem"
            trust.write_text(own + of_nameless)
            closed, = free_ports(1)
            upstreams = "".join(
                f'[[upstream]]\nname = "{n}"\nprefix = "/{n}"\nurl = "{url}"\nprivate = true\n'
                'retry = { attempts = 1 }\n'
                for n, url in (("untrusted", f"https://localhost:{port}"), ("closed", f"http://127.0.0.1:{closed}"),
                               ("unknown", "http://nobody.invalid"), ("other", f"https://127.0.0.1:{port}"),
                               ("nameless", f"https://localhost:{nameless}")))
            for trusted, name, why in ((False, "untrusted", "TLS: self-signed certificate"),
                                       (False, "closed", "Connection refused"), (False, "unknown", "its name: "),
                                       (True, "other", "TLS: IP address mismatch"),
                                       (True, "nameless", "TLS: hostname mismatch"), (True, "untrusted", None)):
                env = {"SSL_CERT_FILE": str(trust)} if trusted else {}
                g = self.gateway(self.upstream() + upstreams, env=env)
                status, _, body = curl(f"{g.url}/{name}/x")
                self.assertEqual(status, 502 if why else 200, body)
                if why:
                    detail = json.loads(body)["detail"]
                    self.assertTrue(detail.startswith(f"no connection to the upstream: {why}"), detail)
                    wait_until(lambda: [e["detail"] for e in g.log()] == [detail], "it is in the log")
                    self.assertEqual([e["detail"] for e in g.whole_state()["errors"]], [detail])
                g.stop()

    def test_a_client_that_still_sends_gets_its_answer(self):
        g = self.gateway(self.upstream(), head='limits.size = { body = "16MiB" }')
        for path, size, status in (("nowhere", 12, 404), ("web/large", 30, 413)):
            caller = http.client.HTTPConnection("127.0.0.1", g.port)
            caller.request("POST", f"/{path}", body=b"x" * (size << 20))  # all of it, before it looks for an answer
            self.assertEqual(caller.getresponse().status, status)
            caller.close()

    def test_a_connection_that_is_signed_in_serves_nobody_else(self):
        def answer(client, _stream, head):
            self.served.append((client.getpeername()[1], "NTLM" in head))
            asks = "WWW-Authenticate: Basic realm=a, Negotiate\r\n" if "/asks" in head else ""
            client.sendall(f"HTTP/1.1 200 OK\r\n{asks}Content-Length: 2\r\n\r\nok".encode())

        self.served = []
        g = self.gateway(self.upstream('credential = "pass"', self.script(answer).port))
        client = http.client.HTTPConnection("127.0.0.1", g.port)  # of one thread, which has connections of its own
        self.addCleanup(client.close)
        signs_in = {"Authorization": "NTLM abc"}
        for path, fields in (("x", {}), ("x", signs_in), ("x", {}), ("asks", {}), ("x", {}), ("x", {})):
            client.request("GET", f"/web/{path}", headers={"Host": "localhost", **fields})
            self.assertEqual(client.getresponse().read(), b"ok")
        of = [connection for connection, _ in self.served]
        self.assertEqual(self.served[1][1], True)
        self.assertEqual([a == b for a, b in zip(of, of[1:])], [True, False, True, False, True])

    def test_an_upstream_that_wants_it_is_told_of_the_client(self):
        def answer(client, _stream, _head):
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        script = self.script(answer)
        g = self.gateway(self.upstream("forwarded = true", script.port))
        claim = ["-H", "X-Forwarded-For: 6.6.6.6", "-H", "Forwarded: for=6.6.6.6", "-H", "Host: front:81"]
        self.assertEqual(curl(*claim, f"{g.url}/web/")[0], 200)
        self.assertEqual(re.findall(r"((?:X-)?Forwarded.*?): (.*?)\r\n", script.heads[0]),
                         [("Forwarded", 'for=127.0.0.1;host="front:81";proto=http'),
                          ("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-Host", "front:81"),
                          ("X-Forwarded-Proto", "http")])

    def test_a_date_to_come_back_is_obeyed(self):
        def answer(client, _stream, _head):
            now = time.time()
            if len(script.heads) == 1:
                times = [time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(t)) for t in (now, now + 2)]
                client.sendall("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nDate: {}\r\nRetry-After: {}\r\n\r\n"
                               .format(*times).encode())
            else:
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        script = self.script(answer)
        g = self.gateway(self.upstream("", script.port))
        start = time.monotonic()
        status, fields, _ = curl("-d", "x", f"{g.url}/web/")
        self.assertEqual((status, fields["x-canigo-attempts"]), (200, "2"))
        self.assertGreaterEqual(time.monotonic() - start, 2)

    def test_a_full_queue_refuses_or_evicts(self):  # G5
        g = self.gateway(self.upstream('rates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 10h\nqueue = 2'))
        if g.state()["levels"][0] >= 1:
            curl(f"{g.url}/web/first")
        batch = Curls([f"{g.url}/web/1", f"{g.url}/web/2"], "-H", "X-Canigo-Priority: batch")
        wait_until(lambda: g.waiting() == 2, "two wait")
        status, fields, body = curl("-H", "X-Canigo-Priority: batch", f"{g.url}/web/3")
        self.assertEqual((status, fields["x-canigo-error"]), (429, "queue_full"))
        self.assertGreater(int(fields["retry-after"]), 3000)
        self.assertEqual(json.loads(body)["error"]["code"], "queue_full")
        urgent = Curls([f"{g.url}/web/4"], "-H", "X-Canigo-Priority: interactive")
        self.addCleanup(urgent.kill)
        wait_until(lambda: any(e["error"] == "evicted" for e in g.log()), "one is evicted")
        self.assertEqual(g.waiting(), 2)
        batch.kill()

    def test_a_wait_that_would_be_too_long_is_refused_at_once(self):  # G6
        g = self.gateway(self.upstream('rates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 2s'))
        if g.state()["levels"][0] >= 1:
            curl(f"{g.url}/web/first")
        status, fields, _ = curl(f"{g.url}/web/late")
        self.assertEqual((status, fields["x-canigo-error"]), (429, "wait_too_long"))
        self.assertIn("retry-after", fields)
        wait_until(lambda: g.log() and g.log()[-1]["path"] == "/web/late", "it is in the log")
        print(f"  refused after {g.log()[-1]['total_ms']} ms", file=sys.stderr)

    def test_a_refusal_is_read_by_clients_of_providers(self):
        rates = '[{ limit = "1/1h", burst = 1 }, { limit = "90/1m", burst = 9, unit = "tokens" }]'
        g = self.gateway(self.upstream(f'rates = {rates}\nmax_wait = 2s\ntokens = {{ api = "openai" }}',
                                       self.nginx.plain))
        status, fields, body = curl(f"{g.url}/web/late")
        self.assertEqual((status, fields["content-type"]), (429, "application/json"))
        told = json.loads(body)
        self.assertEqual(told["error"], {"message": told["message"], "type": "wait_too_long", "code": "wait_too_long"})
        self.assertEqual(told["message"], "canigo-gateway: " + told["detail"])
        self.assertEqual((told["status"], told["title"], told["type"]), (429, "Too Many Requests", "about:blank"))
        wait = int(fields["retry-after-ms"])
        self.assertEqual(int(fields["retry-after"]), -(-wait // 1000))
        self.assertEqual(fields["ratelimit-policy"], '"requests/1h";q=1;w=3600, "tokens/1m";q=90;w=60;qu="tokens"')
        self.assertNotIn("x-should-retry", fields)
        _, fields, _ = curl("-H", "Accept: text/html, application/problem+json", f"{g.url}/web/late")
        self.assertEqual(fields["content-type"], "application/problem+json")

    def test_a_call_that_may_be_done_is_not_to_be_sent_again(self):
        def answer(client, _stream, _head):
            client.shutdown(socket.SHUT_RDWR)

        g = self.gateway(self.upstream("retry = { attempts = 1 }", self.script(answer).port))
        for method, is_final in (("POST", True), ("PUT", False)):
            status, fields, _ = curl("-X", method, "-d", "x", f"{g.url}/web/a")
            self.assertEqual((status, fields.get("x-should-retry")), (502, "false" if is_final else None))
        status, fields, _ = curl("-X", "POST", "-H", "Idempotency-Key: 1", "-d", "x", f"{g.url}/web/a")
        self.assertEqual((status, fields.get("x-should-retry")), (502, None))

    def test_those_who_are_refused_are_told_different_times(self):
        g = self.gateway(self.upstream('rates = [{ limit = "10/1m", burst = 1 }]\nmax_wait = 2s', self.nginx.plain))
        start = time.monotonic()
        refused = []
        while len(refused) < 12:
            status, fields, _ = curl(f"{g.url}/web/late")
            if status == 429:
                refused.append(time.monotonic() + int(fields["retry-after-ms"]) / 1000)
        # Six seconds lie between two calls that the limit lets go, and the row begins anew after a minute.
        gaps = [b - a for a, b in zip(refused, refused[1:])]
        late = time.monotonic() - start
        self.assertGreater(sum(gap > 6 - 1 - late for gap in gaps), 9, gaps)

    def test_a_call_is_not_begun_after_its_client_gives_up(self):
        g = self.gateway(self.upstream('rates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 10h', self.nginx.plain))
        status, fields, body = curl("-H", "X-Stainless-Read-Timeout: 20", f"{g.url}/web/late")
        self.assertEqual((status, fields["x-canigo-error"]), (429, "wait_too_long"))
        self.assertIn("its client gives up 20s after it has sent the request", json.loads(body)["detail"])
        patient = Curls([f"{g.url}/web/waits"], "-H", "X-Stainless-Read-Timeout: 36000")
        self.addCleanup(patient.kill)
        wait_until(lambda: g.waiting() == 1, "one with more patience waits")

    def test_a_full_queue_is_no_matter_of_a_clients_patience(self):
        silent = self.script(lambda client, *_: client.recv(1) and None)
        g = self.gateway(self.upstream("concurrency = 1\nqueue = 1\noverflow = \"reject_new\"", silent.port))
        held = Curls([f"{g.url}/web/{i}" for i in range(2)])
        self.addCleanup(held.kill)
        wait_until(lambda: g.waiting() == 1, "the queue is full")
        status, fields, body = curl("-H", "X-Stainless-Read-Timeout: 20", f"{g.url}/web/late")
        self.assertEqual((status, fields["x-canigo-error"]), (429, "queue_full"))
        self.assertNotIn("gives up", json.loads(body)["detail"])

    def test_clients_of_a_queue_that_calls_fill_come_back_after_a_second_or_more(self):
        # SDKs of OpenAI, Anthropic and Cohere obey the milliseconds, and had sent three times within 0.1 s.
        silent = self.script(lambda client, *_: client.recv(1) and None)
        g = self.gateway(self.upstream("concurrency = 1\nqueue = 1\noverflow = \"reject_new\"", silent.port))
        held = Curls([f"{g.url}/web/{i}" for i in range(2)])
        self.addCleanup(held.kill)
        wait_until(lambda: g.waiting() == 1, "the queue is full")
        status, fields, _ = curl(f"{g.url}/web/late")
        self.assertEqual((status, fields["x-canigo-error"]), (429, "queue_full"))
        self.assertEqual((fields["retry-after"], fields["retry-after-ms"]), ("1", "1000"))
        fields = curl("-H", "X-Canigo-Max-Wait: 1ms", f"{g.url}/web/late")[1]
        self.assertGreaterEqual(int(fields["retry-after-ms"]), 1000)

    def test_a_tenant_has_a_longest_wait_of_its_own(self):
        g = self.gateway(self.upstream('rates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 10h', self.nginx.plain) +
                         '[[tenant]]\nname = "local"\nclass = "normal"\nmax_wait = "2s"\n')
        status, fields, _ = curl(f"{g.url}/web/late")
        self.assertEqual((status, fields["x-canigo-error"]), (429, "wait_too_long"))

    def test_a_call_that_is_sent_again_keeps_its_place(self):
        served = []
        g_open = threading.Event()
        self.addCleanup(g_open.set)

        def answer(client, _stream, head):
            served.append(head.split()[1])
            g_open.wait()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        g = self.gateway(self.upstream("concurrency = 1\nmax_wait = 1h", self.script(answer).port))
        running = Curls([f"{g.url}/web/running"])
        self.addCleanup(running.kill)
        wait_until(lambda: served == ["/running"], "one runs")
        again = Curls([f"{g.url}/web/again"])
        wait_until(lambda: g.waiting() == 1, "the first one waits")
        others = Curls([f"{g.url}/web/other{i}" for i in range(3)])
        self.addCleanup(others.kill)
        wait_until(lambda: g.waiting() == 4, "more wait behind it")
        again.kill()
        wait_until(lambda: g.waiting() == 3, "its client has left")
        again = Curls([f"{g.url}/web/again"])
        self.addCleanup(again.kill)
        wait_until(lambda: g.waiting() == 4, "it is sent again")
        g_open.set()
        self.assertEqual((again.statuses(), others.statuses()), ([200], [200] * 3))
        self.assertEqual(served[1], "/again")
        self.assertIn("canigo_gateway_resends_total 1\n", g.ask_admin("/metrics"))

    def test_the_refusals_of_a_tenant_put_off_nobody_else(self):
        keys = {name: f"the-key-of-{name}" for name in ("a", "b")}
        tenants = "".join(f'[[tenant]]\nname = "{name}"\nclass = "normal"\n'
                          f'keys = ["sha256:{hashlib.sha256(key.encode()).hexdigest()}"]\n'
                          for name, key in keys.items())
        g = self.gateway(self.upstream('rates = [{ limit = "3/1m", burst = 1 }]\nmax_wait = 2s\n', self.nginx.plain) +
                         tenants)

        def told(name):
            status, fields, _ = curl("-H", f"X-Canigo-Key: {keys[name]}", f"{g.url}/web/late")
            self.assertEqual(status, 429)
            return int(fields["retry-after-ms"])

        first = told("a")
        self.assertGreater(told("a"), first)
        self.assertLessEqual(told("b"), first)

    def test_a_wait_ends_at_its_longest(self):  # G6
        held = threading.Event()
        self.addCleanup(held.set)

        def answer(client, _stream, _head):
            held.wait()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        script = self.script(answer)
        g = self.gateway(self.upstream('concurrency = 1\nmax_wait = 1h', script.port))
        first = Curls([f"{g.url}/web/first"])
        self.addCleanup(first.kill)
        wait_until(lambda: g.state()["held"] == 1, "the first one runs")
        self.assertEqual(curl("-H", "X-Canigo-Max-Wait: 0s", f"{g.url}/web/now")[1]["x-canigo-error"], "wait_too_long")
        status, fields, _ = curl("-H", "X-Canigo-Max-Wait: 2s", f"{g.url}/web/second")
        self.assertEqual((status, fields["x-canigo-error"]), (429, "wait_timed_out"))
        self.assertGreaterEqual(int(fields["x-canigo-wait-ms"]), 1950)  # reading the head comes before
        self.assertLess(int(fields["x-canigo-wait-ms"]), 4000)
        held.set()
        wait_until(lambda: g.state()["held"] == 0, "its place is free")
        self.assertEqual(curl("-H", "X-Canigo-Max-Wait: 0s", f"{g.url}/web/now")[0], 200)

    def test_events_are_passed_on_one_by_one(self):  # G10
        def answer(client, _stream, _head):
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            for _ in range(20):
                client.sendall(b"data: %.6f\n\n" % time.monotonic())
                time.sleep(0.1)
            return "close"

        script = self.script(answer)
        g = self.gateway(self.upstream(port=script.port))
        reader = subprocess.Popen(["curl", "-sSN", f"{g.url}/web/events"], stdout=subprocess.PIPE)
        late = []
        while piece := os.read(reader.stdout.fileno(), 65536):
            now = time.monotonic()
            self.assertEqual(piece.count(b"data:"), 1, piece)
            late.append(now - float(piece.split()[1]))
        reader.stdout.close()
        self.assertEqual(reader.wait(), 0)
        self.assertEqual(len(late), 20)
        late.sort()
        print(f"  median {1000 * late[10]:.1f} ms, latest {1000 * late[-1]:.1f} ms", file=sys.stderr)
        self.assertLess(late[10], 0.02)

    def test_a_body_is_not_read_while_its_call_waits(self):  # G12
        g = self.gateway(self.upstream('rates = [{ limit = "1/3s", burst = 1 }]\nmax_wait = 10m'))
        curl(f"{g.url}/web/first")
        with socket.create_connection(("127.0.0.1", g.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
            client.sendall(b"POST /web/large HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                           b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
            client.settimeout(1)
            with self.assertRaises(TimeoutError):
                client.recv(1)
            self.assertEqual(g.waiting(), 1)
            client.settimeout(None)
            stream = client.makefile("rb")
            self.assertEqual(stream.readline(), b"HTTP/1.1 100 Continue\r\n")
            stream.readline()
            piece = b"%x\r\n" % 65536 + b"y" * 65536 + b"\r\n"
            for _ in range(160):
                client.sendall(piece)
            client.sendall(b"0\r\n\r\n")
            self.assertEqual(stream.readline(), b"HTTP/1.1 200 OK\r\n")
            stream.read()
        wait_until(lambda: len(self.nginx.calls()) == 2, "nginx logs the call")
        call = self.nginx.calls()[1]
        self.assertEqual(pathlib.Path(call[4]).stat().st_size, 160 * 65536)
        self.assertNotIn("100-continue", call[5])

    def test_an_upstream_that_dies_gets_a_post_once_and_a_get_again(self):  # G13
        died = []

        def answer(client, stream, head):
            method = head.split()[0]
            if method == "POST" or method not in died:
                died.append(method)
                return "close"
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return None

        script = self.script(answer)
        g = self.gateway(self.upstream(port=script.port))
        status, fields, _ = curl("-d", "x=1", f"{g.url}/web/post")
        self.assertEqual((status, fields["x-canigo-error"], fields["x-canigo-attempts"]), (502, "upstream_failed", "1"))
        self.assertEqual(died, ["POST"])
        status, fields, _ = curl(f"{g.url}/web/get")
        self.assertEqual((status, fields["x-canigo-attempts"]), (200, "2"))
        status, fields, _ = curl("-d", "x=1", "-H", "Idempotency-Key: k", f"{g.url}/web/again")
        self.assertEqual((status, fields["x-canigo-attempts"]), (502, "3"))

    def test_a_refusal_of_the_upstream_is_waited_for(self):  # G7, of one instance
        refused = []

        def answer(client, _stream, head):
            if not refused:
                refused.append(time.monotonic())
                client.sendall(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n")
            else:
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        script = self.script(answer)
        g = self.gateway(self.upstream(port=script.port))
        status, fields, body = curl(f"{g.url}/web/a", "-d", "kept")
        self.assertEqual((status, body, fields["x-canigo-attempts"]), (200, b"ok", "2"))
        self.assertGreaterEqual(time.monotonic() - refused[0], 1.95)

    def test_the_rest_of_a_response_is_no_answer_to_another_request(self):
        """Neither that of a refusal which is not passed on, nor that of a client which has left."""
        smuggled = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        seen, go = [], threading.Event()

        def answer(client, _stream, head):
            seen.append(head.split()[1])
            if seen == ["/again"]:
                client.sendall(b"HTTP/1.1 429 No\r\nRetry-After: 0\r\nContent-Length: %d\r\n\r\n%b"
                               % (len(smuggled), smuggled))
            elif head.split()[1] == "/left":
                go.wait(30)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(smuggled), smuggled))
            else:
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine")

        script = self.script(answer)
        g = self.gateway(self.upstream("concurrency = 1", port=script.port))
        status, fields, body = curl(f"{g.url}/web/again")
        self.assertEqual((status, body, fields["x-canigo-attempts"]), (200, b"mine", "2"))
        for _ in range(5):
            go.clear()
            with socket.create_connection(("127.0.0.1", g.port)) as client:
                client.sendall(b"GET /web/left HTTP/1.1\r\nHost: x\r\n\r\n")
                wait_until(lambda: g.state()["held"] == 1, "it runs")
                go.set()
            status, _, body = curl(f"{g.url}/web/next")
            self.assertEqual((status, body), (200, b"mine"))

    def test_what_is_no_request_is_refused(self):
        g = self.gateway(self.upstream())
        host = b"Host: x\r\n"
        cases = [
            (b"GET /web/ HTTP/1.1\r\n\r\n", 400),
            (b"GET /web/ HTTP/1.1\r\n" + host + host + b"\r\n", 400),
            (b"GET /web/ HTTP/1.1\r\n" + host + b"Transfer-Encoding: gzip\r\n\r\n", 400),
            (b"POST /web/ HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc", 400),
            (b"POST /web/ HTTP/1.1\r\n" + host + b"Content-Length: 03\r\n\r\nabc", 400),
            (b"GET http://web/ HTTP/1.1\r\n" + host + b"\r\n", 400),
            (b"GET /web/\x80 HTTP/1.1\r\n" + host + b"\r\n", 400),
            (b"GARBAGE\r\n\r\n", 400),
            (b"GET /web/" + b"a" * 9000 + b" HTTP/1.1\r\n" + host + b"\r\n", 414),
            (b"GET /web/" + b"a" * 20000, 414),
            (b"GET /web/ HTTP/1.1\r\n" + host + b"X: " + b"a" * 20000, 431),
            (b"GET /web/ HTTP/1.1\r\n" + host + b"".join(b"X%d: %s\r\n" % (i, b"a" * 900) for i in range(20)), 431),
            (b"GET /web/ HTTP/1.1\r\n" + host + b"".join(b"X%d: 1\r\n" % i for i in range(100)) + b"\r\n", 431),
            (b"POST /web/ HTTP/1.1\r\n" + host + b"Content-Length: 99999999999\r\n\r\n", 413),
        ]
        for request, wanted in cases:
            with self.subTest(request[:80]), socket.create_connection(("127.0.0.1", g.port)) as client:
                client.sendall(request)
                answer = client.makefile("rb").read()  # to the end: the connection is closed
                self.assertEqual(int(answer.split()[1]), wanted, answer)
                self.assertIn(b"X-Canigo-Error: bad_request", answer)
        self.assertEqual(self.nginx.calls(), [])

    def test_requests_behind_each_other_are_answered_in_turn(self):
        g = self.gateway(self.upstream(port=self.nginx.plain))
        with socket.create_connection(("127.0.0.1", g.port)) as client:
            client.sendall(b"".join(b"GET /web/%d HTTP/1.1\r\nHost: x\r\n\r\n" % i for i in range(9)) +
                           b"GET /web/9 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = client.makefile("rb").read()
        self.assertEqual(answer.count(b"HTTP/1.1 200 OK"), 10)
        self.assertEqual([c[2] for c in self.nginx.calls()], [f"/{i}" for i in range(10)])

    def test_it_drains_when_it_is_told_to_end(self):
        g = self.gateway(self.upstream('rates = [{ limit = "5/1s", burst = 1 }]\nmax_wait = 10m', self.nginx.plain),
                         self.upstream('rates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 10h')
                         .replace('"web"', '"slow"').replace('"/web"', '"/slow"'))
        soon = Curls([f"{g.url}/web/{i}" for i in range(20)])
        if g.state(1)["levels"][0] >= 1:
            curl(f"{g.url}/slow/first")
        late = Curls([f"{g.url}/slow/{i}" for i in range(5)])
        wait_until(lambda: g.state(0)["waiting"] > 5 and g.state(1)["waiting"] == 5, "they wait")
        code, rest = g.stop()
        self.assertEqual(soon.statuses(), [200] * 20)
        self.assertEqual(late.statuses(), [503] * 5)
        self.assertEqual(code, 0, rest)
        self.assertRegex(rest, r"\Acanigo-gateway: drains: \d+ wait, \d+ run, and all have 25s\n\Z")

    def test_the_admin_page_wants_a_token(self):
        g = self.gateway(self.upstream())
        curl(f"{g.url}/web/x")
        self.assertEqual(g.ask_admin("/healthz", token=None), "ok\n")
        self.assertEqual(g.ask_admin("/readyz", token=None), "ready\n")
        for path, token, host, wanted in (("/api/state", None, None, 401), ("/metrics", "x" * len(TOKEN), None, 401),
                                          ("/api/state", TOKEN, "evil.example", 421), ("/no", TOKEN, None, 404)):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                g.ask_admin(path, token, host)
            self.assertEqual(refused.exception.code, wanted)
            refused.exception.close()
        self.assertRegex(g.ask_admin("/metrics"),
                         r'canigo_gateway_requests_total\{upstream="web",tenant="local",.*code="200",error=""\} 1')


if __name__ == "__main__":
    main(Reverse)
