#!/usr/bin/env python3
"""What canigo-gateway does so that a client stays connected: kept_clients.py CANIGO_GATEWAY [PART_OF_A_NAME …].

It tells how long a connection may be idle, and keeps a client that waits for its turn, by interim responses or events.
"""

import http.client
import re
import socket
import time

from rig import GatewayCase, curl, main, wait_until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=5, max=7\r\nConnection: Keep-Alive\r\n\r\nok"


class Idle(GatewayCase):
    """The field Keep-Alive."""

    def answers(self, keep_alive):
        """The fields of an answer of the upstream and of one of the gateway."""
        script = self.script(lambda client, _stream, _head: client.sendall(OK))
        g = self.gateway(self.upstream(port=script.port), head=f'limits.time = {{ keep_alive = "{keep_alive}" }}\n')
        return [(path, g) for path in ("/web/", "/nowhere")]

    def test_an_answer_tells_how_long_its_connection_may_be_idle(self):
        for keep_alive, told in (("75s", "timeout=74"), ("2500ms", "timeout=1"), ("1s", None)):
            for path, g in self.answers(keep_alive):
                with self.subTest(keep_alive=keep_alive, path=path):
                    _, fields, _ = curl(g.url + path)
                    self.assertEqual(fields.get("keep-alive"), told)
                    self.assertNotIn("connection", fields)

    def test_an_answer_after_which_the_connection_ends_tells_nothing(self):
        for path, g in self.answers("75s"):
            for more in (["-H", "Connection: close"], ["--http1.0"]):
                with self.subTest(path=path, more=more):
                    _, fields, _ = curl(*more, g.url + path)
                    self.assertNotIn("keep-alive", fields)
            with self.subTest(path=path, more="HTTP/1.0 that goes on"):
                _, fields, _ = curl("--http1.0", "-H", "Connection: keep-alive", g.url + path)
                self.assertEqual((fields["keep-alive"], fields["connection"]), ("timeout=74", "keep-alive"))

    def test_a_reload_changes_what_a_kept_connection_is_told(self):
        (_, g), _ = self.answers("75s")
        client = http.client.HTTPConnection("127.0.0.1", g.port)
        self.addCleanup(client.close)
        told = []
        for keep_alive in ("75s", "31s"):
            g.rewrite(('keep_alive = "75s"', f'keep_alive = "{keep_alive}"'))
            g.ask_admin("/api/reload", method="POST")
            client.request("GET", "/web/")
            answer = client.getresponse()
            answer.read()
            told.append(answer.headers["Keep-Alive"])
        self.assertEqual(told, ["timeout=74", "timeout=30"])


class Client:
    """A client that sends these bytes, and keeps all that it gets."""

    def __init__(self, case, gateway, *lines, body=b""):
        self.socket = socket.create_connection(("127.0.0.1", gateway.port))
        case.addCleanup(self.socket.close)
        self.got = b""
        self.send(*lines, body=body)

    def send(self, *lines, body=b""):
        length = [f"Content-Length: {len(body)}"] if body else []
        self.socket.sendall("\r\n".join([lines[0], "Host: localhost", *lines[1:], *length, "", ""]).encode() + body)

    def read_until(self, what):
        """All up to the first place where this expression matches; the rest stays."""
        while not (found := re.search(what, self.got, re.DOTALL)):
            piece = self.socket.recv(65536)
            if not piece:
                raise AssertionError(f"it ended before {what}: {self.got}")
            self.got += piece
        text, self.got = self.got[:found.end()], self.got[found.end():]
        return text

    def read_end(self):
        while piece := self.socket.recv(65536):
            self.got += piece
        return self.got


class Waits(GatewayCase):
    """Calls that wait for another one, which has the only place."""

    def hold(self, more="", answer=None, **of_gateway):
        """A gateway whose only place is taken until the call that is returned is let go."""
        waiting = []

        def serve(client, stream, head):
            if head.split()[1] == "/held":
                waiting.append(client)
                stream.read(1)
                return "close"
            return (answer or (lambda c, _s, _h: c.sendall(OK)))(client, stream, head)

        script = self.script(serve)
        g = self.gateway(self.upstream(f"concurrency = 1\nmax_wait = 10m\n{more}", script.port), **of_gateway)
        holder = Client(self, g, "GET /web/held HTTP/1.1")
        wait_until(lambda: waiting, "the first call has the place")
        return g, holder, script

    def metric(self, g, name):
        return int(re.search(rf"^canigo_gateway_{re.escape(name)} (\d+)$", g.ask_admin("/metrics"), re.M)[1])


class Interim(Waits):
    """The field X-Canigo-Interim."""

    def test_a_client_that_asks_hears_of_its_call_while_it_waits(self):
        g, holder, script = self.hold()
        for status, line in ((103, b"HTTP/1.1 103 Early Hints\r\n\r\n"), (102, b"HTTP/1.1 102 Processing\r\n\r\n")):
            with self.subTest(status):
                start = time.monotonic()
                client = Client(self, g, "GET /web/a HTTP/1.1", f"X-Canigo-Interim: {status}; every=1s")
                self.assertEqual(client.read_until(rb"\r\n\r\n"), line)
                self.assertGreaterEqual(time.monotonic() - start, 1)
                self.assertEqual(client.read_until(rb"\r\n\r\n"), line)
                self.assertGreaterEqual(time.monotonic() - start, 2)
                holder.socket.close()
                rest = client.read_until(rb"\r\n\r\nok")
                self.assertTrue(re.fullmatch(rb"(%b)*HTTP/1.1 200 OK\r\n.*" % re.escape(line), rest, re.DOTALL), rest)
                # The connection goes on.
                client.send("GET /web/b HTTP/1.1")
                self.assertIn(b" 200 OK", client.read_until(rb"\r\n\r\nok"))
                holder = Client(self, g, "GET /web/held HTTP/1.1")
                wait_until(lambda: g.state()["running_in_all"] == 1, "the place is taken again")
        self.assertNotIn("canigo-interim", "".join(script.heads).lower())
        kept = [line["kept"] for line in g.log() if line["path"] == "/web/a"]
        self.assertEqual((kept, self.metric(g, 'kept_total{by="interim"}')), (["interim", "interim"], 2))

    def test_there_are_eight_at_most(self):
        g, holder, _ = self.hold()
        client = Client(self, g, "GET /web/a HTTP/1.1", "X-Canigo-Interim: 103; every=1s")
        for _ in range(8):
            client.read_until(rb"HTTP/1.1 103 Early Hints\r\n\r\n")
        time.sleep(2.5)  # in which a ninth and a tenth would come
        holder.socket.close()
        self.assertTrue(client.read_until(rb"ok").startswith(b"HTTP/1.1 200 OK"))

    def test_a_refusal_comes_behind_them(self):
        g, _, _ = self.hold()
        client = Client(self, g, "GET /web/a HTTP/1.1", "X-Canigo-Interim: 103; every=1s", "X-Canigo-Max-Wait: 5s")
        client.read_until(rb"HTTP/1.1 103 Early Hints\r\n\r\n")
        client.read_until(rb"HTTP/1.1 429 ")

    def test_nobody_gets_one_unasked(self):
        g, _, _ = self.hold()
        for name, lines in (("no field", ("GET /web/a HTTP/1.1", "X-Canigo-Max-Wait: 2500ms")),
                            ("HTTP/1.0", ("GET /web/a HTTP/1.0", "X-Canigo-Max-Wait: 2500ms",
                                          "X-Canigo-Interim: 103; every=1s"))):
            with self.subTest(name):
                client = Client(self, g, *lines)
                self.assertTrue(client.read_until(rb"\r\n\r\n").startswith(b"HTTP/1.1 429 "))
        self.assertEqual(self.metric(g, 'kept_total{by="interim"}'), 0)

    def test_a_wish_that_can_not_be_read_is_refused(self):
        g, _, _ = self.hold()
        status, _, body = curl("-H", "X-Canigo-Interim: 100", f"{g.url}/web/a")
        self.assertEqual(status, 400)
        self.assertIn(b"X-Canigo-Interim can't be read; allowed: 102 or 103", body)

    def test_a_client_that_leaves_is_seen(self):
        g, _, _ = self.hold()
        client = Client(self, g, "GET /web/a HTTP/1.1", "X-Canigo-Interim: 103; every=1s")
        client.read_until(rb"HTTP/1.1 103 Early Hints\r\n\r\n")
        client.socket.close()
        wait_until(lambda: g.waiting() == 0, "the call has left the queue")
        self.assertEqual([(line["status"], line["kept"]) for line in g.log()], [(0, "interim")])


if __name__ == "__main__":
    main(Idle, Interim)
