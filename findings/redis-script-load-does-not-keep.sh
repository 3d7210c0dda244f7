#!/usr/bin/env bash
# SCRIPT LOAD does not keep a script that Redis 8 has got by EVAL before.
#
# Redis 7.4 and later evict scripts that came by EVAL after 500 others; those that came by SCRIPT LOAD stay. A good
# guess says: after SCRIPT LOAD a script stays. So it does, unless EVAL ran the same text at any time before. Then
# SCRIPT LOAD answers with the digest, and changes nothing: the script goes with the other ones, and EVALSHA ends with
# NOSCRIPT. The other order, SCRIPT LOAD and then EVAL, keeps it. Valkey 8 keeps it in both orders.
#
# Seen with redis-server 5:8.0.2-3+deb13u3 and valkey-server 8.1.1+dfsg1-3+deb13u3 of Debian 13:
#
#     redis   LOAD: kept   LOAD, EVAL: kept   EVAL, LOAD: NOSCRIPT
#     valkey  LOAD: kept   LOAD, EVAL: kept   EVAL, LOAD: kept
#
# Needs Debian with its archive's keys, and a mirror that has these versions. Fails if the behaviour has changed.
set -euo pipefail

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$tree/scripts/debian-root" trixie "$dir/root" redis-server=5:8.0.2-3+deb13u3 valkey-server=8.1.1+dfsg1-3+deb13u3

# seen KIND: how long a script is known that was made known in each of these ways, once 600 others came by EVAL.
seen() {
  "$dir/root/start" "$1-server" --port 0 --unixsocket "$dir/$1" --save '' --dir "$dir" >/dev/null 2>&1 &
  local server=$!
  python3 - "$dir/$1" <<'PYTHON'
import socket, sys, time

for _ in range(1000):
    try:
        line = socket.socket(socket.AF_UNIX)
        line.connect(sys.argv[1])
        break
    except OSError:
        time.sleep(0.02)
answers = line.makefile("rb")


def ask(*words):
    line.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
    answer = answers.readline().decode().strip()
    return answers.readline().decode().strip() if answer[0] == "$" else answer


found = []
for way in ("LOAD",), ("LOAD", "EVAL"), ("EVAL", "LOAD"):
    ask("SCRIPT", "FLUSH")
    for step in way:
        if step == "LOAD":
            digest = ask("SCRIPT", "LOAD", "return 'mine'")
        else:
            ask("EVAL", "return 'mine'", "0")
    for other in range(600):
        ask("EVAL", f"return {other}", "0")
    answer = ask("EVALSHA", digest, "0")
    found.append(f"{', '.join(way)}: {'kept' if answer == 'mine' else answer.lstrip('-').split()[0]}")
print("   ".join(found))
PYTHON
  kill -9 "$server"
  wait "$server" 2>/dev/null || true
}

found=$(printf 'redis   %s\nvalkey  %s' "$(seen redis)" "$(seen valkey)")
echo "$found"
[ "$found" = 'redis   LOAD: kept   LOAD, EVAL: kept   EVAL, LOAD: NOSCRIPT
valkey  LOAD: kept   LOAD, EVAL: kept   EVAL, LOAD: kept' ]
