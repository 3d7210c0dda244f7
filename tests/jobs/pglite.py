#!/usr/bin/env python3
"""Jobs in PGlite, whose clients share one session: do they all run?

pglite.py WORKER SERVER

WORKER is that of tests/jobs/chaos.py. SERVER is the program pglite-server of the npm package
@electric-sql/pglite-socket, perhaps with an interpreter before it, as in "node node_modules/.bin/pglite-server".

Two processes hand jobs in, and run them. They have prepared statements of the same names, which one session has once.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

JOBS = 30
WORKERS = 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker")
    parser.add_argument("server")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="canigo-pglite-"))
    socket = folder / ".s.PGSQL.5432"
    server = subprocess.Popen([*options.server.split(), f"--path={socket}", "--max-connections=20"],
                              stdin=subprocess.DEVNULL, stdout=open(folder / "log", "wb"), stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 120
        while not socket.exists():
            if server.poll() is not None or time.monotonic() > until:
                raise SystemExit("PGlite does not start: " + (folder / "log").read_text())
            time.sleep(0.05)
        url = f"host={folder} user=postgres dbname=postgres sslmode=disable gssencmode=disable"
        workers = [subprocess.Popen([options.worker, url, str(JOBS), str(i * JOBS)], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True) for i in range(WORKERS)]
        texts = [w.communicate()[0] for w in workers]
        ended = sum(line.startswith("accepted") for text in texts for line in text.splitlines())
        status = [w.returncode for w in workers]
        print(f"PGlite: {ended} of {JOBS * WORKERS} jobs have ended; the workers ended with {status}")
        if ended == JOBS * WORKERS and not any(status):
            return 0
        print(*(text[-500:] for text in texts), sep="\n")
        return 1
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
