#!/usr/bin/env python3
"""Websockets through canigo-gateway: CANIGO_GATEWAY [PART...]. Times have a lower bound only."""

import base64
import hashlib
import re
import signal
import socket
import struct
import threading
import time

from rig import Doorway, GatewayCase, TOKEN, curl, main, wait_until

KEY = base64.b64encode(b"0123456789abcdef").decode()
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
HELLO = b"\x81\x05Hello"


def handshake(path="/web/chat", more="", key=KEY):
    return (f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{more}\r\n").encode()


def frame(payload, opcode=TEXT, last=True):
    mask = b"\x01\x02\x03\x04"
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + struct.pack("!H", len(payload))
    body = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
    return bytes([(0x80 if last else 0) | opcode]) + size + mask + body


def read_head(stream):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline()
        if not line:
            return None
        head += line
    return head.decode()


def read_frame(stream):
    """The opcode and the payload of a frame, unmasked; None at the end."""
    head = stream.read(2)
    if len(head) < 2:
        return None
    size = head[1] & 127
    if size == 126:
        size = struct.unpack("!H", stream.read(2))[0]
    mask = stream.read(4) if head[1] & 128 else b"\0" * 4
    return head[0] & 15, bytes(b ^ mask[i % 4] for i, b in enumerate(stream.read(size)))


class Echo(Doorway):
    """A server of websockets that sends each message back, and notes when it came."""

    def __init__(self):
        self.heads, self.got = [], []
        super().__init__()

    def take(self, client):
        with client:
            stream = client.makefile("rb")
            while head := read_head(stream):
                self.heads.append(head)
                if "Upgrade: websocket" not in head:
                    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    continue
                key = re.search(r"Sec-WebSocket-Key: (\S+)", head, re.I)[1]
                digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
                client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                               b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n" + HELLO)
                while message := read_frame(stream):
                    self.got.append((time.monotonic(), *message))
                    if message[0] == CLOSE:
                        client.sendall(b"\x88\x00")
                        return
                    client.sendall(bytes([0x80 | (PONG if message[0] == PING else TEXT), len(message[1])]) + message[1])
                return


class Client:
    """A client that has sent its handshake."""

    def __init__(self, g, path="/web/chat", more=""):
        self.socket = socket.create_connection(("127.0.0.1", g.port), 120)  # a test that fails does not hang
        self.stream = self.socket.makefile("rb")
        self.socket.sendall(handshake(path, more))

    def head(self):
        return read_head(self.stream)

    def open(self):
        head = self.head()
        assert head and head.startswith("HTTP/1.1 101 "), head
        assert read_frame(self.stream) == (TEXT, b"Hello")
        return head

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def read(self):
        return read_frame(self.stream)

    def close(self):
        self.stream.close()
        self.socket.close()


class Websockets(GatewayCase):
    def echo(self):
        e = Echo()
        self.addCleanup(e.close)
        return e

    def client(self, g, *args, **more):
        c = Client(g, *args, **more)
        self.addCleanup(c.close)
        return c

    def served(self, echo, options="", more="", **others):
        return self.gateway(self.upstream(f"websocket = {{ {options} }}\nmax_wait = 10m\n{more}", echo.port), **others)

    def test_messages_pass_both_ways(self):
        echo = self.echo()
        g = self.served(echo, more='credential = { header = "Authorization", value = "env:CANIGO_ADMIN_TOKEN" }')
        c = self.client(g, more="Sec-WebSocket-Protocol: realtime\r\nX-Canigo-Priority: batch\r\n")
        head = c.open()
        for field in ("Upgrade: websocket", "Connection: Upgrade", "X-Canigo-Attempts: 1"):
            self.assertIn(f"\r\n{field}\r\n", head)
        self.assertRegex(head, r"\r\nSec-WebSocket-Accept: \S+\r\n")
        self.assertNotIn("Content-Length", head)
        sent, = echo.heads
        self.assertTrue(sent.startswith("GET /chat HTTP/1.1\r\n"))
        for field in ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Protocol: realtime",
                      f"Sec-WebSocket-Key: {KEY}", f"Authorization: {TOKEN}"):
            self.assertIn(f"\r\n{field}\r\n", sent)
        self.assertNotIn("keep-alive", sent)
        for payload in (b"one", b"x" * 120, b""):
            c.send(frame(payload))
            self.assertEqual(c.read(), (TEXT, payload))
        self.assertEqual(g.state()["running_in_all"], 1)
        c.send(frame(b"", CLOSE))
        self.assertEqual(c.read(), (CLOSE, b""))
        self.assertIsNone(c.read())
        wait_until(lambda: len(g.log()) == 1, "it has ended")
        end, = g.log()
        self.assertEqual((end["status"], end["error"], end["path"]), (101, None, "/web/chat"))
        self.assertGreater(min(end["bytes_in"], end["bytes_out"]), 120)

    def test_a_websocket_waits_in_the_queue_and_holds_a_place_while_it_is_open(self):
        echo = self.echo()
        g = self.served(echo, more="concurrency = 1")
        first = self.client(g)
        first.open()
        second = self.client(g)
        wait_until(lambda: g.waiting() == 1, "the second waits")
        first.send(frame(b"", CLOSE))
        second.open()
        self.assertEqual(len(echo.heads), 2)

    def test_an_upstream_without_websockets_has_none(self):
        echo = self.echo()
        g = self.gateway(self.upstream("", echo.port))
        self.assertTrue(self.client(g).head().startswith("HTTP/1.1 501 "))
        self.assertEqual(echo.heads, [])

    def test_only_a_whole_handshake_asks_for_a_websocket(self):
        echo = self.echo()
        g = self.served(echo)
        right = handshake().decode()
        for old, new in (("GET", "POST"), ("HTTP/1.1", "HTTP/1.0"), ("Connection: keep-alive, Upgrade\r\n", ""),
                         ("Upgrade: websocket", "Upgrade: websocket, h2c"), ("Sec-WebSocket-Version: 13\r\n", ""),
                         (f"Sec-WebSocket-Key: {KEY}\r\n", ""), ("Host: x\r\n", "Host: x\r\nContent-Length: 1\r\n"),
                         ("Host: x\r\n", "Host: x\r\nUpgrade: websocket\r\n")):
            with self.subTest(new or old):
                self.assertIn(old, right)
                with socket.create_connection(("127.0.0.1", g.port)) as s:
                    s.sendall(right.replace(old, new, 1).encode())
                    self.assertRegex(s.makefile("rb").readline(), rb"^HTTP/1.1 (501|400) ")
        self.assertEqual(echo.heads, [])

    def test_another_answer_than_101_is_passed_on_and_no_byte_follows_it(self):
        later = []

        def answer(client, stream, _head):
            client.sendall(b"HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 8\r\nContent-Length: 3\r\n\r\nold")
            later.append(stream.read(1))

        script = self.script(answer)
        g = self.served(script)
        c = self.client(g)
        c.send(frame(b"early"))
        head = c.head()
        self.assertTrue(head.startswith("HTTP/1.1 426 "), head)
        self.assertIn("Connection: close", head)
        self.assertEqual(c.stream.read(), b"old")
        g.close()
        wait_until(lambda: later, "the upstream sees the end")
        self.assertEqual(later, [b""])

    def test_a_101_that_opens_no_websocket_is_a_bad_answer(self):
        for field in ("", "Upgrade: h2c\r\n"):
            with self.subTest(field):
                script = self.script(lambda client, *_: client.sendall(
                    f"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\n{field}\r\n".encode()))
                g = self.served(script, more="retry = { attempts = 1 }")
                self.assertTrue(self.client(g).head().startswith("HTTP/1.1 502 "))
        asked_for_none = self.script(lambda client, *_: client.sendall(
            b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
        g = self.served(asked_for_none, more="retry = { attempts = 1 }")
        self.assertEqual(curl(f"{g.url}/web/")[0], 502)

    def test_each_message_of_clients_takes_a_token(self):
        echo = self.echo()
        g = self.served(echo, 'messages = "5/1s"')
        one, two = self.client(g), self.client(g)
        one.open()
        two.open()
        for c in (one, two):
            # One message in three frames, with a ping between, and three of one frame each.
            c.send(frame(b"a", last=False), frame(b"p", PING), frame(b"b", 0, last=False), frame(b"c", 0))
            c.send(*[frame(b"m%d" % i) for i in range(3)])
        for c in (one, two):
            self.assertEqual([c.read() for _ in range(7)],
                             [(TEXT, b"a"), (PONG, b"p"), (TEXT, b"b"), (TEXT, b"c"),
                              (TEXT, b"m0"), (TEXT, b"m1"), (TEXT, b"m2")])
        starts = sorted(t for t, opcode, _ in echo.got if opcode == TEXT)
        self.assertEqual(len(starts), 8)
        self.assertGreaterEqual(starts[-1] - starts[0], 7 / 5 - 0.05)

    def test_a_client_that_waits_for_a_token_still_gets_messages_and_is_not_idle(self):
        echo = self.echo()
        g = self.served(echo, 'messages = "1/6s", idle = "2s"')
        c = self.client(g)
        c.open()
        c.send(frame(b"1"), frame(b"2"))
        self.assertEqual([c.read(), c.read()], [(TEXT, b"1"), (TEXT, b"2")])
        first, second = (t for t, _, _ in echo.got)
        self.assertGreater(second - first, 2)
        # Nothing moves now, and nothing waits.
        self.assertIsNone(c.read())
        wait_until(lambda: len(g.log()) == 1, "it has ended")
        self.assertEqual(g.log()[0]["error"], "idle")

    def test_a_client_that_leaves_while_its_messages_wait_frees_its_place(self):
        echo = self.echo()
        g = self.served(echo, 'messages = "1/1h", idle = "1h"', more="concurrency = 1")
        for is_reset in (False, True):
            c = self.client(g)
            c.open()
            c.send(*[frame(b"%d" % i) for i in range(50)])
            wait_until(lambda: g.state()["messages"]["waiting"] == 1, "a message waits")
            if is_reset:
                c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            c.close()
            wait_until(lambda: g.state()["held"] == 0, "its place is free")
        self.assertEqual(g.state()["messages"]["waiting"], 0)
        self.client(g).open()

    def test_a_reset_while_the_upstream_takes_nothing_frees_the_place(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def answer(client, _stream, _head):
            client.sendall(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + HELLO)
            go.wait()
            return "close"

        g = self.served(self.script(answer), 'idle = "1h"', more="concurrency = 1")
        c = self.client(g)
        c.open()
        c.socket.settimeout(1)
        try:
            while True:
                c.send(frame(b"x" * 60_000, 2) * 16)
        except TimeoutError:
            pass
        # An end would come behind all that it has sent.
        c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
        wait_until(lambda: g.state()["held"] == 0, "its place is free")

    def test_an_operator_and_a_drain_end_websockets(self):
        echo = self.echo()
        g = self.served(echo, 'messages = "1/1h"', head='grace = "300ms"')
        first, second = self.client(g), self.client(g)
        first.open()
        first.send(frame(b"waits"))
        second.open()
        of = g.state()["running"][0]["id"]
        g.ask_admin(f"/api/requests/{of}", method="DELETE")
        wait_until(lambda: g.state()["running_in_all"] == 1, "one has ended")
        g.process.send_signal(signal.SIGTERM)
        self.assertEqual(g.process.wait(), 1)  # it has cut one
        self.assertIsNone(first.read())
        self.assertIsNone(second.read())

    def test_a_page_of_another_site_needs_a_key(self):
        echo = self.echo()
        g = self.served(echo)
        for more in ("Origin: https://elsewhere.test\r\nSec-Fetch-Site: cross-site\r\n",
                     "Origin: https://elsewhere.test\r\n"):
            self.assertTrue(self.client(g, more=more).head().startswith("HTTP/1.1 401 "))
        self.assertEqual(echo.heads, [])

    def test_a_side_that_vanishes_ends_the_other(self):
        echo = self.echo()
        g = self.served(echo)
        c = self.client(g)
        c.open()
        c.close()
        wait_until(lambda: g.state()["running_in_all"] == 0, "the upstream's side has ended")
        gone = threading.Event()

        def answer(client, _stream, _head):
            client.sendall(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + HELLO)
            gone.wait()
            return "close"

        other = self.script(answer)
        g = self.served(other)
        c = self.client(g)
        c.open()
        gone.set()
        self.assertIsNone(c.read())
        wait_until(lambda: g.state()["running_in_all"] == 0, "it has ended")


main(Websockets)
