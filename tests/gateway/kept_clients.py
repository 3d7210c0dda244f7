#!/usr/bin/env python3
"""What canigo-gateway does so that a client stays connected: kept_clients.py CANIGO_GATEWAY [PART_OF_A_NAME …].

It tells how long a connection may be idle, and keeps a client that waits for its turn, by interim responses or events.
"""

import contextlib
import http.client
import os
import re
import socket
import subprocess
import time

from rig import GATEWAY, TOKEN, Curls, GatewayCase, curl, main, wait_until

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
        wait_until(g.log, "the call has ended")
        self.assertEqual([(line["status"], line["kept"]) for line in g.log()], [(0, "interim")])


KEEP = 'keep_alive = { after = "200ms", every = "200ms" }\n'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Upstream: 1\r\n"
EVENTS = b"data: {\"n\": 1}\n\ndata: [DONE]\n\n"
ASKS = "Accept: text/event-stream"
COMMENT = rb": waiting, position 1(, at least \d+ s)?\n\n"


def whole(events):
    return STREAM + b"Content-Length: %d\r\n\r\n" % len(events) + events


def chunked(events):
    pieces = [events[i:i + 5] for i in range(0, len(events), 5)]
    return STREAM + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(
        b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def dechunked(data):
    """The text of whole chunks up to the last one, and what comes behind that."""
    text = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        n = int(size, 16)
        if data[n:n + 2] != b"\r\n":
            raise AssertionError(f"no chunk: {data[:60]}")
        text, data = text + data[:n], data[n + 2:]
        if n == 0:
            return text, data


class Events(Waits):
    """The key keep_alive of an upstream."""

    def kept(self, g, *lines, body=b""):
        """A client that has the head and two comments while it waits, and those bytes."""
        client = Client(self, g, *(lines or ("GET /web/a HTTP/1.1", ASKS)), body=body)
        head = client.read_until(rb"\r\n\r\n")
        start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
        self.assertEqual(head[:len(start)], start)
        return client, head, client.read_until(b"(" + COMMENT + rb"\r\n.*){2}")

    def rest_of(self, client, begun):
        """The events behind the comments; the client has all of its response."""
        text, surplus = dechunked(begun + client.read_until(rb"\r\n0\r\n\r\n"))
        self.assertEqual(surplus, b"")
        return re.fullmatch(rb"(" + COMMENT + rb")+(.*)", text, re.DOTALL)[3]

    def log_of(self, g, path="/web/a"):
        found = []

        def has_ended():
            found[:] = [line for line in g.log() if line["path"] == path]
            return found

        wait_until(has_ended, "the call has ended")
        return found[0]

    def test_the_events_of_the_upstream_follow_the_comments(self):
        for name, answer in (("a length", whole(EVENTS)), ("chunks", chunked(EVENTS))):
            with self.subTest(name):
                def serve(client, _stream, head, answer=answer):
                    client.sendall(OK if "/b " in head else answer)

                g, holder, script = self.hold(KEEP, serve)
                client, head, begun = self.kept(g, "GET /web/a HTTP/1.1", ASKS, "Accept-Encoding: gzip")
                self.assertIn(b"\r\nKeep-Alive: timeout=74\r\n", head)
                holder.socket.close()
                self.assertEqual(self.rest_of(client, begun), EVENTS)
                line = self.log_of(g)
                self.assertEqual((line["status"], line["error"], line["kept"]), (200, None, "events"))
                self.assertIn("Accept-Encoding: identity", script.heads[-1])
                self.assertNotIn("gzip", script.heads[-1])
                # The connection goes on.
                client.send("GET /web/b HTTP/1.1")
                self.assertIn(b" 200 OK", client.read_until(rb"\r\n\r\nok"))
                self.assertEqual((self.metric(g, 'kept_total{by="events"}'), self.metric(g, "kept_failed_total")),
                                 (1, 0))

    def test_a_body_that_asks_for_a_stream_is_enough(self):
        g, holder, script = self.hold(KEEP, lambda c, s, h: c.sendall(whole(EVENTS)) if s.read(16) else None)
        client, _, begun = self.kept(g, "POST /web/a HTTP/1.1", body=b'{"stream": true}')
        holder.socket.close()
        self.assertEqual(self.rest_of(client, begun), EVENTS)

    def test_other_calls_are_not_kept(self):
        g, _, _ = self.hold(KEEP)
        for name, lines, body in (("no stream", ("POST /web/a HTTP/1.1",), b'{"stream": false}'),
                                  ("HEAD", ("HEAD /web/a HTTP/1.1", ASKS), b""),
                                  ("HTTP/1.0", ("GET /web/a HTTP/1.0", ASKS), b"")):
            with self.subTest(name):
                client = Client(self, g, *lines, "X-Canigo-Max-Wait: 1500ms", body=body)
                self.assertTrue(client.read_until(rb"\r\n\r\n").startswith(b"HTTP/1.1 429 "))
        g, _, _ = self.hold()
        client = Client(self, g, "GET /web/a HTTP/1.1", ASKS, "X-Canigo-Max-Wait: 1500ms")
        self.assertTrue(client.read_until(rb"\r\n\r\n").startswith(b"HTTP/1.1 429 "))

    def test_a_call_that_need_not_wait_so_long_has_the_head_of_the_upstream(self):
        g, holder, _ = self.hold('keep_alive = { after = "1h" }\n', lambda c, _s, _h: c.sendall(whole(EVENTS)))
        client = Client(self, g, "GET /web/a HTTP/1.1", ASKS)
        wait_until(lambda: g.waiting() == 1, "it waits")
        holder.socket.close()
        self.assertIn(b"\r\nX-Upstream: 1\r\n", client.read_until(rb"DONE\]\n\n"))
        self.assertIsNone(self.log_of(g)["kept"])

    def test_a_refusal_is_an_event(self):
        forms = {"openai": rb'data: (\{"error":\{"code":"WORD","message":"canigo-gateway: .*",'
                           rb'"type":"WORD"\}\})\n\n',
                 "anthropic": rb'event: error\ndata: (\{"error":\{"message":"canigo-gateway: .*","type":"WORD"\},'
                              rb'"type":"error"\})\n\n',
                 "none": rb'event: error\ndata: (\{"error":\{"code":"WORD","message":"canigo-gateway: .*",'
                         rb'"type":"WORD"\}\})\n\n'}
        for api, form in forms.items():
            for word in ("wait_timed_out", "cancelled"):
                with self.subTest(api=api, word=word):
                    g, _, _ = self.hold(KEEP + f'tokens = {{ api = "{api}" }}\n')
                    wait = "5s" if word == "wait_timed_out" else "10m"
                    client, head, begun = self.kept(g, "GET /web/a HTTP/1.1", ASKS, f"X-Canigo-Max-Wait: {wait}")
                    if word == "cancelled":
                        number = re.search(rb"X-Request-Id: (\S+)", head)[1].decode()
                        g.ask_admin(f"/api/requests/{number}", method="DELETE")
                    self.assertRegex(self.rest_of(client, begun), form.replace(b"WORD", word.encode()))
                    line = self.log_of(g)
                    self.assertEqual((line["status"], line["error"], line["kept"]), (200, word, "events"))
                    self.assertEqual(self.metric(g, "kept_failed_total"), 1)

    def test_a_drain_ends_a_stream_with_an_event(self):
        g, _, _ = self.hold(KEEP, head='grace = "1s"\n')
        client, _, begun = self.kept(g)
        g.process.terminate()
        self.assertIn(b'"code":"draining"', self.rest_of(client, begun))
        self.assertEqual(client.read_end(), b"")

    def test_an_answer_that_is_no_stream_is_an_event(self):
        error = b'{\n  "error": {"message": "too many", "type": "tokens"}\n}\n'
        wide = error.replace(b"\n", b" " * 9_000)
        long = b"HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n" % len(wide) + wide
        problem = b'{"type": "about:blank", "title": "Too many", "status": 429, "detail": "Wait a bit"}'
        of_problem = (b"HTTP/1.1 429 No\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n"
                   % len(problem) + problem)
        plain = b"HTTP/1.1 500 No\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\noops"
        for name, answer, event in (
                ("an error of the API", b"HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n" % len(error) + error,
                 b'^data: {  "error": {"message": "too many", "type": "tokens"}}\n\n$'),
                ("a long error of the API", long, b'^data: {"error":{"code":"no_events",'),
                ("a problem", of_problem, b'"message":"canigo-gateway: the upstream\'s answer is no stream of events: '
                                       b'its status is 429: Too many: Wait a bit"'),
                ("another text", plain, b'^data: {"error":{"code":"no_events","message":'
                 b'"canigo-gateway: the upstream\'s '
                                        b'answer is no stream of events: its status is 500","type":"no_events"}}\n\n$'),
                ("nothing", b"", b'"code":"upstream_failed"')):
            with self.subTest(name):
                def serve(client, _stream, _head, answer=answer):
                    client.sendall(answer)
                    return None if answer else "close"

                g, holder, _ = self.hold(KEEP + 'tokens = { api = "openai" }\nretry = { attempts = 1 }\n', serve)
                client, _, begun = self.kept(g)
                holder.socket.close()
                self.assertRegex(self.rest_of(client, begun), event)
                line = self.log_of(g)
                self.assertEqual((line["status"], line["error"], line["kept"]),
                                 (200, "no_events" if answer else "upstream_failed", "events"))
                wait_until(lambda: g.state()["held"] == 0, "the place is free")

    def test_a_call_is_still_sent_again(self):
        answers = iter([b"HTTP/1.1 503 No\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n", whole(EVENTS)])
        g, holder, _ = self.hold(KEEP, lambda c, _s, _h: c.sendall(next(answers)))
        client, _, begun = self.kept(g)
        holder.socket.close()
        self.assertEqual(self.rest_of(client, begun), EVENTS)
        self.assertEqual(self.log_of(g)["attempts"], 2)

    def test_a_stream_that_breaks_off_has_no_end(self):
        def serve(client, _stream, _head):
            client.sendall(STREAM + b"Content-Length: 100\r\n\r\ndata: 1\n\n")
            return "close"

        g, holder, _ = self.hold(KEEP, serve)
        client, _, begun = self.kept(g)
        holder.socket.close()
        self.assertTrue((begun + client.read_end()).endswith(b"data: 1\n\n\r\n"))
        self.assertEqual(self.log_of(g)["error"], "upstream_failed")

    def test_a_client_that_leaves_is_seen(self):
        g, _, _ = self.hold(KEEP)
        client, _, _ = self.kept(g)
        client.socket.close()
        wait_until(lambda: g.waiting() == 0, "the call has left the queue")
        line = self.log_of(g)
        self.assertEqual((line["status"], line["error"], line["kept"]), (200, "left", "events"))

    def test_a_time_limit_of_the_client_that_each_comment_begins_anew_does_not_end_the_wait(self):
        limit = ["GET /web/a HTTP/1.1", ASKS, "X-Stainless-Read-Timeout: 1"]
        g, holder, _ = self.hold(KEEP, lambda c, _s, _h: c.sendall(whole(EVENTS)))
        start = time.monotonic()
        client, _, begun = self.kept(g, *limit)
        while time.monotonic() < start + 1.5:
            begun += client.read_until(COMMENT)
        holder.socket.close()
        self.assertEqual(self.rest_of(client, begun), EVENTS)
        self.assertGreaterEqual(self.log_of(g)["wait_ms"], 1400)
        g, _, _ = self.hold('keep_alive = { after = "1h", every = "200ms" }\n')
        client = Client(self, g, *limit)
        self.assertTrue(client.read_until(rb"\r\n\r\n").startswith(b"HTTP/1.1 429 "))

    def test_what_the_upstream_usually_takes_is_no_part_of_what_such_a_limit_leaves(self):
        def serve(client, stream, head):
            if head.split()[1] == "/slow":
                time.sleep(1.5)
            elif head.split()[1] == "/held":
                stream.read(1)
                return "close"
            return client.sendall(OK)

        places = 20  # from so many calls on it is known what is usual
        limit = ["GET /web/a HTTP/1.1", ASKS, "X-Stainless-Read-Timeout: 2"]
        for is_known, kept in ((False, b"HTTP/1.1 200 "), (True, b"HTTP/1.1 429 ")):
            with self.subTest(is_known=is_known):
                g = self.gateway(self.upstream(f'concurrency = {places}\nmax_wait = 10m\n'
                                               'keep_alive = { after = "1s", every = "1s" }\n',
                                               self.script(serve).port))
                if is_known:
                    self.assertEqual(Curls([g.url + "/web/slow"] * places).statuses(), [200] * places)
                for _ in range(places):
                    Client(self, g, "GET /web/held HTTP/1.1")
                wait_until(lambda g=g: g.state()["held"] == places, "the places are taken")
                client = Client(self, g, *limit)
                # A comment each second keeps a client that waits for 2 s, but none that waits for half a second.
                self.assertTrue(client.read_until(rb"\r\n\r\n").startswith(kept))

    def test_the_clients_that_are_kept_ask_for_the_line_once_in_a_second(self):
        # One loop writes each comment as soon as it has looked at the line.
        g, _, _ = self.hold('keep_alive = { after = "100ms", every = "100ms" }\n', threads=1)
        client = Client(self, g, "GET /web/a HTTP/1.1", ASKS)
        client.read_until(rb": waiting, position 1\b")

        def still_says_two():
            """Whether the client is told the position that it had, after the one before it has left."""
            first = Client(self, g, "GET /web/b HTTP/1.1", "X-Canigo-Priority: interactive")
            client.read_until(rb": waiting, position 2\b")
            first.socket.close()
            wait_until(lambda: g.waiting() == 1, "the first one has left")
            client.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while client.socket.recv(65536):
                    pass
            client.socket.setblocking(True)
            client.got = b""
            said = client.read_until(rb"position \d+")
            client.read_until(rb": waiting, position 1\b")
            return said.endswith(b"2")

        # A slow machine may take longer than that second.
        self.assertTrue(any(still_says_two() for _ in range(20)))

    def test_a_reload_changes_it_and_a_mistake_is_refused(self):
        g, _, _ = self.hold()
        g.rewrite(('name = "web"\n', 'name = "web"\n' + KEEP))
        g.ask_admin("/api/reload", method="POST")
        self.kept(g)
        self.assertEqual(g.whole_state()["config"]["upstreams"][0]["keep_alive"], {"after": "200ms", "every": "200ms"})
        g.rewrite(("after = \"200ms\"", "after = \"2h\""))
        checked = subprocess.run([GATEWAY, "--check", "--config", g.dir / "gateway.toml"], capture_output=True,
                                 text=True, env={**os.environ, "CANIGO_ADMIN_TOKEN": TOKEN})
        self.assertEqual(checked.returncode, 2)
        self.assertIn('upstream[0].keep_alive.after is "2h"; allowed: 100ms to 1h', checked.stdout + checked.stderr)


if __name__ == "__main__":
    main(Idle, Interim, Events)
