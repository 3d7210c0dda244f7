#!/usr/bin/env python3
"""The example for Boost.MySQL with a real server: mysql.py PROGRAM

It compares what the program prints with examples/adapters/expected/mysql.txt. The server is MariaDB's, with an empty
data folder, and without a check of users.
"""

import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
EXPECTED = pathlib.Path(__file__).resolve().parents[2] / "examples/adapters/expected/mysql.txt"


def answers(path):
    """Whether the server has accepted a connection and has greeted it."""
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(path)
            return len(s.recv(1)) == 1
        except OSError:
            return False


def main():
    server = shutil.which("mariadbd", path="/usr/sbin:/usr/bin")
    if server is None:
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        data, path = f"{folder}/data", f"{folder}/socket"
        pathlib.Path(data).mkdir()
        process = subprocess.Popen([server, "--no-defaults", f"--datadir={data}", f"--socket={path}",
                                    "--skip-networking", "--skip-grant-tables", "--user=root"],
                                   stderr=subprocess.DEVNULL)
        try:
            while not answers(path):
                assert process.poll() is None, "the server has ended"
                time.sleep(0.05)
            ran = subprocess.run([sys.argv[1], path, "root"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        finally:
            process.kill()
            process.wait()
    print(ran.stdout, ran.stderr, sep="\n")
    assert ran.returncode == 0, ran.returncode
    assert ran.stdout == EXPECTED.read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
