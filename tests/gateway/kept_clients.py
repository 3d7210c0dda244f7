#!/usr/bin/env python3
"""What canigo-gateway does so that a client stays connected: kept_clients.py CANIGO_GATEWAY [PART_OF_A_NAME …].

It tells how long a connection may be idle, and keeps a client that waits for its turn, by interim responses or events.
"""

import http.client

from rig import GatewayCase, curl, main

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


if __name__ == "__main__":
    main(Idle)
