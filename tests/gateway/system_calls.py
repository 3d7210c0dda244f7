#!/usr/bin/env python3
"""The system calls of one call over kept connections: system_calls.py CANIGO_GATEWAY [PART_OF_A_NAME …].

They are counted by strace, so no clock is read. Ends with the totals that Catch2 prints.
"""

import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from rig import GatewayCase, main, wait_until

CALLS = 300
MOST = 9


def traced(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return "TracerPid:\t0" not in status.read()


def count(output):
    """The whole of strace's table."""
    return int(re.search(r"^100\.00 +\S+ +\S+ +(\d+)", output, re.M)[1])


class SystemCalls(GatewayCase):
    def per_call(self, method, body, more=""):
        def answer(client, stream, head):
            if length := re.search(r"\r\nContent-Length: (\d+)", head):
                stream.read(int(length[1]))
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 250\r\n\r\n" + b"x" * 250)
        g = self.gateway(self.upstream(more, port=self.script(answer).port), threads=1)
        client = socket.create_connection(("127.0.0.1", g.port))
        self.addCleanup(client.close)
        responses = client.makefile("rb")
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        request = method.encode() + b" /web/a HTTP/1.1\r\nHost: x\r\n" + length + b"\r\n" + body

        def call():
            client.sendall(request)  # head and body in one segment, as most clients send them
            self.assertIn(b" 200 ", responses.readline())
            while responses.readline() != b"\r\n":
                pass
            responses.read(250)
        for _ in range(20):
            call()
        with tempfile.NamedTemporaryFile("r") as table:
            tracer = subprocess.Popen(["strace", "-f", "-c", "-o", table.name, "-p", str(g.process.pid)],
                                      stderr=subprocess.DEVNULL)
            self.addCleanup(tracer.wait)
            wait_until(lambda: tracer.poll() is not None or traced(g.process.pid), "strace")
            if tracer.poll() is not None:
                self.skipTest("this machine lets no process trace another one")
            for _ in range(CALLS):
                call()
            tracer.terminate()
            tracer.wait()
            found = count(table.read()) / CALLS
        print(f"  {method}: {found:.1f} system calls", flush=True)
        return found

    def setUp(self):
        super().setUp()
        if not shutil.which("strace"):
            self.skipTest("there is no strace")

    def test_a_post_takes_few(self):
        self.assertLessEqual(self.per_call("POST", b"y" * 112), MOST + 0.5)

    def test_a_get_takes_as_few(self):
        self.assertLessEqual(self.per_call("GET", b""), MOST + 0.5)

    def test_a_post_whose_tokens_are_counted_takes_as_few(self):
        body = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'
        counted = 'rates = [{ limit = "10000000/1s", unit = "tokens" }]\ntokens = { api = "openai" }\n'
        self.assertLessEqual(self.per_call("POST", body, counted), MOST + 0.5)


if __name__ == "__main__":
    main(SystemCalls)
