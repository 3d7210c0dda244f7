#!/usr/bin/env python3
"""An upstream with a quota, for bench/gateway: a model that answers at once, and 429 above the quota.

quota_upstream.py PORT '{"calls": 20, "window": 1, "tokens": 0, "taken": 0}'

Windows are fixed: each begins at a multiple of its length. A call counts when all of it has come, and one that gets 429
takes nothing. `taken` calls of each window are those of others. With `tokens` a window has so many, and `calls` are not
counted. The usage of a call stands in its text: "usage=INPUT,OUTPUT". Answers tell the quota as OpenAI does.
GET /log is all that has come: [time, status, tokens], with the time of the monotonic clock.
"""

import asyncio
import json
import re
import sys
import time


class Quota:
    def __init__(self, calls=0, tokens=0, window=1, taken=0):
        self.limit, self.unit = tokens or calls, "tokens" if tokens else "requests"
        self.window, self.taken = window, taken
        self.number = None
        self.left = 0
        self.log = []

    def ask(self, tokens):
        """Returns whether a call may go, and the fields that report the quota."""
        now = time.monotonic()
        if self.number != (number := now // self.window):
            self.number, self.left = number, self.limit - self.taken
        cost = tokens if self.unit == "tokens" else 1
        is_granted = cost <= self.left
        if is_granted:
            self.left -= cost
        self.log.append((now, 200 if is_granted else 429, tokens))
        reset = (number + 1) * self.window - now
        fields = (f"x-ratelimit-limit-{self.unit}: {self.limit}\r\nx-ratelimit-remaining-{self.unit}: {self.left}\r\n"
                  f"x-ratelimit-reset-{self.unit}: {1000 * reset:.0f}ms\r\n")
        if not is_granted:
            fields += f"retry-after: {int(reset) + 1}\r\nretry-after-ms: {1000 * reset:.0f}\r\n"
        return is_granted, fields


def used_by(body):
    """Returns the input and output tokens of a call."""
    found = re.search(rb"usage=(\d+),(\d+)", body)
    return (int(found[1]), int(found[2])) if found else (10, 10)


def answer(quota, body):
    given, made = used_by(body)
    is_granted, fields = quota.ask(given + made)
    if is_granted:
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello you."}}
        told = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice],
                "usage": {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}}
        return "200 OK", fields, told
    return "429 Too Many Requests", fields, {"error": {"message": "Rate limit reached.", "type": quota.unit,
                                                       "param": None, "code": "rate_limit_exceeded"}}


async def read_body(reader, head):
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    if b"chunked" not in fields.get(b"transfer-encoding", b""):
        return await reader.readexactly(int(fields.get(b"content-length", 0)))
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return body


async def serve(quota, reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await read_body(reader, head)
            if head.startswith(b"GET /log "):
                status, fields, told = "200 OK", "", quota.log
            else:
                status, fields, told = answer(quota, body)
            text = json.dumps(told).encode()
            writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{fields}"
                         f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main(port, quota):
    server = await asyncio.start_server(lambda r, w: serve(quota, r, w), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Quota(**json.loads(sys.argv[2]))))
