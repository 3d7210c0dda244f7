#!/usr/bin/env bash
# A download of huggingface_hub sends its first request again at once, whatever Retry-After says.
#
# A good guess says: huggingface_hub obeys a 429, as it logs ("Rate limited. Waiting 4.0s before retry [Retry 1/5]")
# and as its list_models does. hf_hub_download first asks by HEAD, without a retry. After an error of any kind it asks
# by HEAD again, and only this second one waits. So each file that is refused costs a quota two requests at once.
#
# Seen with huggingface_hub 2.4.0; the server refuses each call twice, with Retry-After: 3:
#
#     list_models      refused at 0 s, 4 s; answered at 8 s
#     hf_hub_download  refused at 0 s, 0 s; answered at 4 s
#
# Needs python3 with venv, and PyPI. Prints the whole seconds, and fails if the behaviour has changed.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install huggingface_hub==2.4.0
cat >"$dir/times.py" <<'PYTHON'
import http.server, logging, sys, tempfile, threading, time

import huggingface_hub

logging.disable()
times = []


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        times.append(time.monotonic())
        body = b'[{"id": "a/b"}]' if self.path.startswith("/api") else b"hello"
        if len(times) <= 2:
            self.send_response(429)
            self.send_header("Retry-After", "3")
            body = b""
        else:
            self.send_response(200)
            self.send_header("ETag", '"1"')
            self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
hub = huggingface_hub.HfApi(endpoint=f"http://127.0.0.1:{server.server_port}")


def show(name, call):
    times.clear()
    call()
    first, second, third = [round(t - times[0]) for t in times[:3]]
    print(f"{name:16} refused at {first} s, {second} s; answered at {third} s")
    return second


listed = show("list_models", lambda: next(iter(hub.list_models(limit=1))))
with tempfile.TemporaryDirectory() as cache:
    loaded = show("hf_hub_download", lambda: hub.hf_hub_download("a/b", "file.txt", cache_dir=cache))
sys.exit(0 if listed >= 3 and loaded < 3 else 1)
PYTHON
if ! "$dir/venv/bin/python" "$dir/times.py"; then
  echo "the behaviour has changed" >&2
  exit 1
fi
