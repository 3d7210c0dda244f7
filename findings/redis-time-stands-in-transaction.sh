#!/usr/bin/env bash
# TIME stands still in a whole transaction of Redis 8 and Valkey, however long its commands take.
#
# A good guess says: each TIME between MULTI and EXEC asks the clock, as it does in Redis 7.0, so the difference of two
# says how long the commands between them took. In Redis 8 and Valkey all of them give the time at which EXEC began. The
# same holds of TIME inside of a script; two scripts in one write still see different times.
#
# Seen with redis-server 5:8.0.2-3+deb13u3 and valkey-server 8.1.1+dfsg1-3+deb13u3 of Debian 13, with a script that runs
# for at least 50 ms between two TIME, in us:
#
#     redis   in MULTI 0   in a script 0   in a pipeline 50000 or more
#     valkey  in MULTI 0   in a script 0   in a pipeline 50000 or more
#
# Needs Debian with its archive's keys, and a mirror that has these versions. Fails if the behaviour has changed.
set -euo pipefail

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$tree/scripts/debian-root" trixie "$dir/root" redis-server=5:8.0.2-3+deb13u3 valkey-server=8.1.1+dfsg1-3+deb13u3

# seen KIND: how much time passes between two TIME with a slow script between them, in each of these ways.
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


def read():
    head = answers.readline().decode().strip()
    if head == "$-1":
        return None
    if head[0] == "$":
        return answers.read(int(head[1:]) + 2)[:-2].decode()
    return [read() for _ in range(int(head[1:]))] if head[0] == "*" else head


def ask(*commands):
    line.sendall(b"".join(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)
                          for words in commands))
    return [read() for _ in commands]


def us(first, last):
    passed = (int(last[0]) - int(first[0])) * 1000000 + int(last[1]) - int(first[1])
    return "50000 or more" if passed >= 50000 else str(passed)


busy = "local began = os.clock() while os.clock() < began + 0.05 do end "
slow = ("EVAL", busy, "0")
transaction = ask(("MULTI",), ("TIME",), slow, ("TIME",), ("EXEC",))[-1]
script = ask(("EVAL", f"local t = redis.call('TIME') {busy} return {{t, redis.call('TIME')}}", "0"))[0]
pipeline = ask(("TIME",), slow, ("TIME",))
print(f"in MULTI {us(transaction[0], transaction[2])}   in a script {us(*script)}   "
      f"in a pipeline {us(pipeline[0], pipeline[2])}")
PYTHON
  kill -9 "$server"
  wait "$server" 2>/dev/null || true
}

found=$(printf 'redis   %s\nvalkey  %s' "$(seen redis)" "$(seen valkey)")
echo "$found"
[ "$found" = 'redis   in MULTI 0   in a script 0   in a pipeline 50000 or more
valkey  in MULTI 0   in a script 0   in a pipeline 50000 or more' ]
