#!/usr/bin/env python3
"""The example for Boost.Redis with a real server: redis.py PROGRAM

It compares what the program prints with examples/adapters/expected/redis.txt.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
EXPECTED = pathlib.Path(__file__).resolve().parents[2] / "examples/adapters/expected/redis.txt"


def main():
    if shutil.which("redis-server") is None:
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        socket = pathlib.Path(folder) / "socket"
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir",
                                   folder], stdout=subprocess.DEVNULL)
        try:
            while not socket.exists():
                assert server.poll() is None, "redis-server has ended"
                time.sleep(0.01)
            ran = subprocess.run([sys.argv[1], str(socket)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        finally:
            server.kill()
            server.wait()
    print(ran.stdout, ran.stderr, sep="\n")
    assert ran.returncode == 0, ran.returncode
    assert ran.stdout == EXPECTED.read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
