#!/usr/bin/env python3
"""Where one message ends and the next one begins: boundaries.py CANIGO_GATEWAY [PART_OF_A_NAME …].

Each body here is made of bytes that read as requests. None may reach an upstream, and no client may get an answer that
it has not asked for. Ends with the totals that Catch2 prints.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

from rig import Doorway, GatewayCase, main, wait_until

MIB = 1 << 20
KIB = 1 << 10
STOLEN = b"GET /web/stolen HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = 299
SECURE = 'name = "web"\nprefix = "/web"\nurl = "https://localhost:{port}"\nprivate = true\n'
STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d)")


def stolen(size):
    """A body of this size that reads as a request in its last bytes."""
    return (STOLEN * (size // len(STOLEN) + 1))[-size:] if size else b""


def post(path, body, fields=b""):
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s" % (path, len(body), fields, body)


def certificate(folder):
    """Of localhost: the files of the certificate and of its key."""
    cert, key = (os.path.join(folder, name) for name in ("cert.pem", "key.pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key,
                    "-out", cert], check=True, capture_output=True)
    return cert, key


class Boundaries(GatewayCase):
    def web(self):
        """An upstream that notes the targets that reach it, and answers each."""
        targets = []

        def answer(client, stream, head):
            if (target := head.split(" ", 2)[1]) == "/last":
                client.sendall(b"HTTP/1.1 %d Last\r\nContent-Length: 0\r\n\r\n" % LAST)
                return
            targets.append(target)
            if length := re.search(r"\r\nContent-Length: (\d+)", head):
                stream.read(int(length[1]))
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nweb")

        return self.script(answer), targets

    def beside(self, port, settings):
        """Another upstream, /api, which is the one that refuses."""
        return f'name = "api"\nprefix = "/api"\nurl = "http://127.0.0.1:{port}"\n{settings}\n'

    def exchange(self, g, request, meanwhile=lambda: None, seconds=15):
        """Sends it, and returns the statuses of all answers. If the connection is kept, another request shows that
        nothing stands in between. A connection that neither answers nor ends is a TimeoutError."""
        with socket.create_connection(("127.0.0.1", g.port), seconds) as client:
            with contextlib.suppress(ConnectionError):  # it may be refused before it has been sent
                client.sendall(request)
            meanwhile()
            got = b""
            with contextlib.suppress(ConnectionError):
                got = self.read_answer(client)
                if b"Connection: close" not in got:
                    client.sendall(b"GET /web/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                while piece := client.recv(MIB):
                    got += piece
            return [int(s) for s in STATUS.findall(got) if int(s) != LAST]

    def read_answer(self, client):
        got = b""
        while b"\r\n\r\n" not in got:
            piece = client.recv(MIB)
            if not piece:
                return got
            got += piece
        head, _, body = got.partition(b"\r\n\r\n")
        length = int(re.search(rb"\r\nContent-Length: (\d+)", head)[1])
        while len(body) < length:
            piece = client.recv(MIB)
            if not piece:
                raise AssertionError("the answer is cut")
            body += piece
        return head + b"\r\n\r\n" + body

    def test_a_body_that_was_read_for_its_tokens_ends_with_its_request(self):
        web, targets = self.web()
        refusing = ('rates = [{ limit = "1/1h", burst = 1, unit = "tokens" }]\ntokens = { api = "openai" }\n'
                    'max_wait = { interactive = "1ms", normal = "1ms", batch = "1ms" }')
        g = self.gateway(self.upstream("", web.port), self.beside(web.port, refusing))
        got = {}
        for size in (0, 1, 120, 64 * KIB, MIB - 1, MIB, MIB + 1, MIB + 777, MIB + 32 * KIB, MIB + 64 * KIB - 1,
                     MIB + 64 * KIB, MIB + 64 * KIB + 1, 2 * MIB):
            got[size] = self.exchange(g, post(b"/api/v1/chat", stolen(size)))
        self.assertEqual(set(map(tuple, got.values())), {(429,)}, got)
        self.assertEqual(targets, [])

    def test_a_body_ends_with_its_request_where_no_more_are_kept(self):
        web, targets = self.web()
        refusing = ('rates = [{ limit = "1/1h", burst = 1, unit = "tokens" }]\ntokens = { api = "openai" }\n'
                    'max_wait = { interactive = "1ms", normal = "1ms", batch = "1ms" }')
        for bound in ("1KiB", "64KiB", "100KiB"):
            g = self.gateway(self.upstream("", web.port), self.beside(web.port, refusing),
                             head=f'[limits.size]\nbuffered = "{bound}"\n')
            for size in (1, 120, 40 * KIB, 64 * KIB):
                self.assertEqual(self.exchange(g, post(b"/api/v1/chat", stolen(size))), [429], (bound, size))
            chunked = (b"POST /api/v1/chat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
                       b"%x\r\n%s\r\n0\r\n\r\n" % (len(STOLEN), STOLEN))
            self.assertEqual(self.exchange(g, chunked), [429], bound)
        self.assertEqual(targets, [])

    def test_a_call_that_an_operator_ends_keeps_its_body(self):
        web, targets = self.web()
        waiting = ('rates = [{ limit = "1/1h", burst = 1, unit = "tokens" }]\ntokens = { api = "openai" }\n'
                   'max_wait = { interactive = "10h", normal = "10h", batch = "10h" }')
        g = self.gateway(self.upstream("", web.port), self.beside(web.port, waiting),
                         head='[limits.size]\nbuffered = "64KiB"\n')

        def end_it():
            wait_until(lambda: g.state(1)["waiting"] == 1, "the call waits")
            number = g.state(1)["waiters"][0]["id"]
            g.ask_admin(f"/api/requests/{number}", method="DELETE")

        self.assertEqual(self.exchange(g, post(b"/api/v1/chat", stolen(120)), end_it), [503])
        self.assertEqual(targets, [])

    def test_the_rest_of_a_body_that_an_upstream_does_not_take_is_no_request(self):
        def early(client, stream, head):
            """Answers when it has the head, and breaks the connection at once or when a part of the body has come."""
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")
            if "/slow" in head:
                time.sleep(0.02)
            if "/part" in head:
                stream.read(100)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return "close"

        web, targets = self.web()
        api = self.script(early)
        g = self.gateway(self.upstream("", web.port), self.beside(api.port, ""),
                         head='[limits.size]\nread_ahead = "0B"\n')
        for size in (1, 100, 30 * KIB, 64 * KIB, 65 * KIB, 300 * KIB, MIB):
            for path in (b"/api/fast", b"/api/slow"):
                for _ in range(5):
                    answers = self.exchange(g, post(path, stolen(size)))
                    self.assertEqual(len(answers), 1, (size, path, answers))
        # The last piece comes when nobody takes it any more.
        broken = 0
        for i in range(20):
            with socket.create_connection(("127.0.0.1", g.port), 15) as client:
                client.sendall(b"POST /api/part HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" %
                               (200 + len(STOLEN)) + b"x" * 200)
                if b"early" not in self.read_answer(client):  # the last connection broke as it was used again
                    continue
                broken += 1
                time.sleep(0.005 * (i % 5))
                client.sendall(STOLEN)
                got = b""
                with contextlib.suppress(OSError):
                    client.sendall(b"GET /web/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    while piece := client.recv(MIB):
                        got += piece
                self.assertIn(STATUS.findall(got), ([], [b"%d" % LAST]))
        self.assertGreater(broken, 0)
        self.assertEqual(targets, [])

    def test_a_connection_whose_body_was_read_serves_the_next_request(self):
        """A refusal costs no connection where nothing is left of the request."""
        web, targets = self.web()
        refusing = ('rates = [{ limit = "1/1h", burst = 1, unit = "tokens" }]\ntokens = { api = "openai" }\n'
                    'max_wait = { interactive = "1ms", normal = "1ms", batch = "1ms" }')
        g = self.gateway(self.upstream("", web.port), self.beside(web.port, refusing))
        one = post(b"/api/v1/chat", stolen(MIB - 7)) + b"GET /web/own HTTP/1.1\r\nHost: x\r\n\r\n"
        self.assertEqual(self.exchange(g, one), [429, 200])
        self.assertEqual(targets, ["/own"])

    def test_a_client_of_http_1_0_is_told_that_a_refusal_keeps_its_connection(self):
        g = self.gateway(self.upstream("", self.nginx.plain))
        with socket.create_connection(("127.0.0.1", g.port), 15) as client:
            for _ in range(2):
                client.sendall(b"GET /nowhere HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
                got = self.read_answer(client)
                self.assertEqual((STATUS.findall(got), b"Connection: keep-alive\r\n" in got), ([b"404"], True))
            client.sendall(b"GET /nowhere HTTP/1.0\r\nHost: x\r\n\r\n")
            self.assertIn(b"Connection: close\r\n", self.read_answer(client))

    def test_nothing_behind_a_refused_tunnel_or_websocket_is_a_request(self):
        web, targets = self.web()
        g = self.gateway(self.upstream("", web.port), listen='mode = "both"',
                         head='[forward]\nallow = ["allowed.test:443"]\n')
        upgrade = (b"GET /web/chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                   b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        self.assertEqual(self.exchange(g, upgrade + STOLEN), [501])
        tunnel = b"CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n"
        self.assertEqual(self.exchange(g, tunnel + STOLEN), [403])
        unresolved = b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n"
        self.assertEqual(self.exchange(g, unresolved + STOLEN), [502])
        self.assertEqual(targets, [])

    def secure_upstream(self, folder, answers):
        """An upstream over TLS: each request gets the records that `answers` has for its target, in one segment."""
        cert, key = certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        connections = []

        def take(client):
            connections.append(client)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context.wrap_bio(incoming, outgoing, server_side=True)
            got = b""
            is_secured = False
            with contextlib.suppress(OSError), client:
                while piece := client.recv(MIB):
                    incoming.write(piece)
                    with contextlib.suppress(ssl.SSLWantReadError):
                        if not is_secured:
                            tls.do_handshake()
                            is_secured = True
                        while piece := tls.read(MIB):
                            got += piece
                    while b"\r\n\r\n" in got:
                        head, _, got = got.partition(b"\r\n\r\n")
                        for record in answers(head.split(b" ", 2)[1]):
                            tls.write(record)
                    client.sendall(outgoing.read())

        server = Doorway(take)
        self.addCleanup(server.close)
        return server.port, {"SSL_CERT_FILE": cert}, connections

    def test_what_an_upstream_says_unasked_over_tls_is_nobodys_answer(self):
        def plain(target):
            text = b"of " + target
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)

        surplus = {
            b"/head": [b"HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n" +
                       b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"],
            b"/none": [b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"],
            b"/twice": [plain(b"/twice") + b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"],
            # The engine of TLS has the second record when the first one has been read.
            b"/records": [plain(b"/records"), b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"],
        }
        with tempfile.TemporaryDirectory() as folder:
            port, env, _ = self.secure_upstream(folder, lambda t: surplus.get(t, [plain(t)]))
            g = self.gateway(SECURE.format(port=port), env=env, threads=1)
            for i in range(8):
                for target in surplus:
                    method = b"HEAD" if target == b"/head" else b"GET"
                    with socket.create_connection(("127.0.0.1", g.port), 15) as client:
                        client.sendall(b"%s /web%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % (method, target))
                        got = b""
                        while piece := client.recv(MIB):
                            got += piece
                        self.assertNotIn(b"bad", got)
                    own = b"/own%d" % i
                    with socket.create_connection(("127.0.0.1", g.port), 15) as client:
                        client.sendall(b"GET /web%s HTTP/1.1\r\nHost: y\r\n\r\n" % own)
                        self.assertTrue(self.read_answer(client).endswith(b"of " + own), target)

    def test_a_connection_over_tls_is_kept(self):
        """The tickets and new keys of TLS 1.3 are nothing that an upstream has said."""
        with tempfile.TemporaryDirectory() as folder:
            port, env, connections = self.secure_upstream(
                folder, lambda t: [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
            g = self.gateway(SECURE.format(port=port), env=env, threads=1)
            with socket.create_connection(("127.0.0.1", g.port), 15) as client:
                for _ in range(5):
                    client.sendall(b"GET /web/x HTTP/1.1\r\nHost: x\r\n\r\n")
                    self.assertTrue(self.read_answer(client).endswith(b"ok"))
            self.assertEqual(len(connections), 1)

    def test_a_signal_late_in_a_drain_loses_nothing(self):
        """Whatever comes after the loops have ended, the last lines of the log are written, and the status is right."""
        for _ in range(10):
            web, _ = self.web()
            g = self.gateway(self.upstream("", web.port))
            for _ in range(20):
                self.exchange(g, b"GET /web/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            log = g.dir / "access.log"
            g.process.send_signal(signal.SIGTERM)
            while g.process.poll() is None:
                g.process.send_signal(signal.SIGHUP)
                time.sleep(0.002)
            self.assertEqual(g.process.returncode, 0)
            self.assertEqual(len(log.read_text().splitlines()), 20)

    def test_what_curl_go_and_nginx_read_is_read(self):
        answers = {
            "/coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "/blank": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0 \t\r\n\r\n",
            "/blanks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1  \r\no\r\n1   \r\nk\r\n0\r\n\r\n",
            "/reason": b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
            "/both": b"HTTP/1.1 200\r\nTransfer-Encoding: CHUNKED\r\n\r\n2\t\r\nok\r\n0 \r\n\r\n",
        }

        def answer(client, stream, head):
            target = head.split(" ", 2)[1]
            if target.startswith("/slow"):
                for byte in answers[target[5:]]:
                    client.sendall(bytes([byte]))
                    time.sleep(0.001)
            elif target.startswith("/cut"):  # in the middle of the line break
                client.sendall(answers[target[4:]][:13])
                time.sleep(0.05)
                client.sendall(answers[target[4:]][13:])
            else:
                client.sendall(answers[target])

        api = self.script(answer)
        api_client = self.gateway(self.upstream("", api.port))
        for target in [*answers, *("/slow" + t for t in answers), "/cut/reason", "/cut/both"]:
            with socket.create_connection(("127.0.0.1", api_client.port), 60) as client:
                client.sendall(b"GET /web%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % target.encode())
                got = b""
                while piece := client.recv(MIB):
                    got += piece
                self.assertEqual(STATUS.findall(got), [b"200"], target)
                body = got.partition(b"\r\n\r\n")[2]
                self.assertIn(body, (b"ok", b"2\r\nok\r\n0\r\n\r\n", b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n"), target)

    def test_honest_clients_get_one_answer_for_each_request(self):
        """Uploads of all sizes to an upstream that answers early, breaks connections, or does as it should."""
        web, targets = self.web()

        def answer(client, stream, head):
            length = int((re.search(r"\r\nContent-Length: (\d+)", head) or [0, "0"])[1])
            way = length % 4
            if way:
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            if way == 1:
                return "close"
            if way == 2:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return "close"
            stream.read(length)
            if not way:
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return None

        api = self.script(answer)
        g = self.gateway(self.upstream("", web.port), self.beside(api.port, ""))
        surplus = []

        def play(seed):
            sizes = [(seed * 7919 + i * 104729) % (MIB + 70 * KIB) + 1 for i in range(25)]
            at = 0
            while at < len(sizes):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", g.port), 30) as client:
                    while at < len(sizes):
                        at += 1
                        client.sendall(post(b"/api/x", stolen(sizes[at - 1])))
                        got = self.read_answer(client)
                        if not got:
                            break
                        client.setblocking(False)
                        with contextlib.suppress(BlockingIOError):
                            if unasked := client.recv(KIB):
                                surplus.append((sizes[at - 1], got, unasked))
                        client.settimeout(30)
                        if b"Connection: close" in got:
                            break

        threads = [threading.Thread(target=play, args=(seed,)) for seed in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(surplus, [])
        self.assertEqual([h for h in api.heads if "stolen" in h.split("\r\n")[0]], [])
        self.assertEqual(targets, [])


if shutil.which("openssl") is None:
    del Boundaries.test_what_an_upstream_says_unasked_over_tls_is_nobodys_answer
    del Boundaries.test_a_connection_over_tls_is_kept
main(Boundaries)
