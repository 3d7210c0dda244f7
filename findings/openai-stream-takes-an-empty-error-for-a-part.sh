#!/usr/bin/env bash
# In a stream, the OpenAI library for Python takes an event whose error is empty for a part of the answer.
#
# A good guess: an event with a member "error" raises openai.APIError, whatever the error is, since no part of an answer
# has one; or at least a document that lacks "choices", and "object", fails as what is not a ChatCompletionChunk.
#
# Seen with openai 3.57.0 for Python: the error counts if Python takes it for true. null, {} and "" end up as a
# ChatCompletionChunk whose choices are None, so the failure shows later and elsewhere: as a TypeError where the program
# goes through the choices, or not at all. A gateway that passes on the JSON of a failed call as an event has to look
# into the error first. The first line shows that an error with words in it is raised.
#
#     {"message": "no"}   APIError: no
#     null                ChatCompletionChunk, choices None
#     {}                  ChatCompletionChunk, choices None
#     ""                  ChatCompletionChunk, choices None
#
# Needs python3-venv and PyPI. Prints the four, and fails if that is no longer so.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check openai==3.57.0
cat >"$dir/main.py" <<'PYTHON'
import http.server
import threading

import openai


class Server(http.server.BaseHTTPRequestHandler):
    error = ""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b'data: {"error": ' + self.error.encode() + b', "message": "bad"}\n\ndata: [DONE]\n\n')

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = openai.OpenAI(api_key="key", base_url=f"http://127.0.0.1:{server.server_port}/v1", max_retries=0)
for Server.error in ('{"message": "no"}', "null", "{}", '""'):
    try:
        parts = list(client.chat.completions.create(model="m", messages=[], stream=True))
        seen = ", ".join(f"{type(p).__name__}, choices {p.choices}" for p in parts)
    except openai.OpenAIError as error:
        seen = f"{type(error).__name__}: {error}"
    print(f"{Server.error:<19} {seen}")
PYTHON
found=$("$dir/venv/bin/python" "$dir/main.py")
echo "$found"
[ "$found" = '{"message": "no"}   APIError: no
null                ChatCompletionChunk, choices None
{}                  ChatCompletionChunk, choices None
""                  ChatCompletionChunk, choices None' ]
