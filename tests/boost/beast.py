#!/usr/bin/env python3
"""The examples for Beast with real clients: beast.py SERVER CLIENT

curl asks the server faster than a client may, and gets 429 with a Retry-After. Then the Beast client calls through its
policy, below that rate, and gets every answer.
"""

import re
import shutil
import signal
import subprocess
import sys

SKIPPED = 77


def curl(port, client, path="/rate"):
    """(status, headers and body) of one request."""
    said = subprocess.run(["curl", "-sS", "-i", "--noproxy", "*", "-H", f"X-Client: {client}",
                           f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True).stdout
    return int(said.split()[1]), said


def main():
    if shutil.which("curl") is None:
        sys.exit(SKIPPED)
    server = subprocess.Popen([sys.argv[1]], stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline())
        assert curl(port, "other", "/nothing")[0] == 404

        # All requests of one curl go over one connection, so a slow machine is fast enough to be refused.
        urls = [f"http://127.0.0.1:{port}/rate"] * 200
        said = subprocess.run(["curl", "-sS", "-i", "--noproxy", "*", "-H", "X-Client: hasty"] + urls,
                              capture_output=True, text=True, check=True).stdout
        statuses = re.findall(r"^HTTP/1.1 (\d+)", said, re.M)
        assert len(statuses) == 200 and set(statuses) == {"200", "429"}, statuses
        assert statuses[:3] == ["200"] * 3, statuses  # its burst
        assert "Retry-After: 1" in said, said
        assert "1 EUR" in said, said

        # Another client has a rate of its own.
        status, said = curl(port, "patient")
        assert status == 200 and "1 EUR" in said, said

        said = subprocess.run([sys.argv[2], str(port), "beast", "8"], capture_output=True, text=True, check=True,
                              timeout=120).stdout
        assert re.fullmatch(r"8 answers to 8 calls, \d+ attempts\n", said), said

        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
