"""The upstream of the clients' calls: it answers as their APIs do, or fails as the case in the path says.

A target is /CLIENT/CASE/REST: REST is what the library asks for, or prime/…, by which the runner makes the case.
"""

import json
import re
import threading
import time

from rig import Script

INPUT, OUTPUT = 7, 5  # tokens of each answer of a model
# Fields by which a server may know that a request comes again, and those that tell a client's patience.
MARKS = ("idempotency-key", "amz-sdk-invocation-id", "x-stainless-retry-count")
PATIENCE = ("x-stainless-read-timeout", "x-stainless-timeout", "x-server-timeout")


def of_openai(text, finish, usage):
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def openai_events(usage):
    for text in ("Hello", " you"):
        delta = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
        yield {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [delta]}
    last = {"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}
    yield {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [last], "usage": usage}
    yield "[DONE]"


def anthropic_message(content, usage):
    return {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": None, "stop_sequence": None, "usage": usage}


def anthropic_events():
    yield {"type": "message_start", "message": anthropic_message([], {"input_tokens": INPUT, "output_tokens": 1})}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for text in ("Hello", " you"):
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
           "usage": {"output_tokens": OUTPUT}}
    yield {"type": "message_stop"}


def gemini_answer(text):
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": INPUT, "candidatesTokenCount": OUTPUT,
                              "totalTokenCount": INPUT + OUTPUT}}


def cohere_events():
    yield {"type": "message-start", "id": "m", "delta": {"message": {"role": "assistant", "content": []}}}
    for text in ("Hello", " you"):
        yield {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": text}}}}
    yield {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}


def answer_of(rest, body):
    """The fields and the body of an answer; the body of a stream is a list of its pieces."""
    is_stream = bool(re.search(rb'"stream": ?true', body)) or "stream" in rest.lower()
    usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
    events = None
    if "chat/completions" in rest:
        answer = of_openai("Hello you", "stop", usage)
        events = list(openai_events(usage))
    elif rest.startswith("/v1/messages"):
        answer = anthropic_message([{"type": "text", "text": "Hello you"}],
                                   {"input_tokens": INPUT, "output_tokens": OUTPUT})
        events = list(anthropic_events())
    elif "enerateContent" in rest:
        answer = gemini_answer("Hello you")
        events = [gemini_answer("Hello"), gemini_answer(" you")]
    elif rest.startswith("/v2/chat"):
        answer = {"id": "m", "finish_reason": "COMPLETE",
                  "message": {"role": "assistant", "content": [{"type": "text", "text": "Hello you"}]}}
        events = list(cohere_events())
    elif rest.startswith("/v1/customers"):
        answer = {"id": "cus_1", "object": "customer"}
    elif rest.endswith("/converse"):
        answer = {"output": {"message": {"role": "assistant", "content": [{"text": "Hello you"}]}},
                  "stopReason": "end_turn", "usage": {"inputTokens": INPUT, "outputTokens": OUTPUT,
                                                      "totalTokens": INPUT + OUTPUT}, "metrics": {"latencyMs": 1}}
    elif rest.startswith("/repos/"):
        answer = {"id": 1, "name": "b", "full_name": "a/b", "url": rest}
    elif rest.startswith("/api/models/"):
        answer = {"id": "a/b", "modelId": "a/b"}
    elif rest.startswith("/api/models"):
        answer = [{"id": "a/b", "modelId": "a/b"}]
    elif "/resolve/" in rest:
        return "ETag: \"0123\"\r\nX-Repo-Commit: 0123456789012345678901234567890123456789\r\n", b"hello"
    else:
        return "Content-Type: text/plain\r\n", b"Hello you\n"
    if not is_stream or events is None:
        return "Content-Type: application/json\r\n", json.dumps(answer).encode()
    pieces = []
    for event in events:
        name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
        text = event if isinstance(event, str) else json.dumps(event)
        pieces.append(f"{name}data: {text}\n\n".encode())
    return "Content-Type: text/event-stream\r\n", pieces


class Case:
    """What the stub has seen of one client in one case, and what it waits for."""

    def __init__(self):
        self.heads = []  # of the library's requests
        self.blocked = threading.Event()  # prime/block has come
        self.released = threading.Event()  # those that prime/block holds, or the rest of a stream
        self.refused_at = None


class Stub(Script):
    def __init__(self):
        self.cases = {}
        self.lock = threading.Lock()
        super().__init__(self.answer_call)

    def case(self, client, case):
        with self.lock:
            return self.cases.setdefault((client, case), Case())

    def answer_call(self, connection, stream, head):
        method, target, _ = head.split(" ", 2)
        _, client, case, rest = target.split("/", 3)
        rest = "/" + rest
        known = self.case(client, case)
        body = read_body(stream, head)
        if rest.startswith("/prime/"):
            return self.prime(connection, known, rest.split("/")[2:])
        with self.lock:
            known.heads.append(head)
        if case == "lost":
            return "close"
        if case == "slow":
            connection.recv(1)  # until the gateway leaves
            return "close"
        fields, answer = answer_of(rest, body)
        if case == "stream" and isinstance(answer, bytes):
            answer = [answer] * 3
        if isinstance(answer, list):
            send_stream(connection, known, fields, answer, case == "stream")
        else:
            text = f"HTTP/1.1 200 OK\r\n{fields}Content-Length: {len(answer)}\r\n\r\n".encode()
            connection.sendall(text + (b"" if method == "HEAD" else answer))
        return None

    def prime(self, connection, known, words):
        if words[0] == "block":
            known.blocked.set()
            known.released.wait()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        elif words[0] == "429":
            known.refused_at = time.time()
            connection.sendall(f"HTTP/1.1 429 No\r\nRetry-After: {words[1]}\r\nContent-Length: 0\r\n\r\n".encode())
        else:
            known.refused_at = time.time()
            connection.sendall(f"HTTP/1.1 {words[0]} No\r\nContent-Length: 0\r\n\r\n".encode())


def send_stream(connection, known, fields, pieces, is_held):
    """The first piece that has text, and the rest when the client has told of it."""
    connection.sendall(f"HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n".encode())
    has_text = False
    for number, piece in enumerate(pieces, 1):
        # The end comes with the last piece: a client that leaves after [DONE] then leaves no sooner than that.
        end = b"0\r\n\r\n" if number == len(pieces) else b""
        connection.sendall(b"%x\r\n%b\r\n%b" % (len(piece), piece, end))
        if is_held and not has_text and b"Hello" in piece:
            has_text = True
            known.released.wait()


def read_body(stream, head):
    length = re.search(r"\r\ncontent-length: *(\d+)", head, re.I)
    if length:
        return stream.read(int(length[1]))
    body = b""
    if re.search(r"\r\ntransfer-encoding: *chunked", head, re.I):
        while size := int(stream.readline().split(b";")[0], 16):
            body += stream.read(size)
            stream.readline()
        stream.readline()
    return body
