#!/usr/bin/env python3
"""Jobs in PostgreSQL behind a real PgBouncer, in each mode: do they all run, and what does the proxy's pool keep?

pgbouncer.py WORKER [--pgbouncer PROGRAM] [--programs FOLDER] [--keep FOLDER]

WORKER is that of tests/jobs/chaos.py. PROGRAM is PgBouncer, and FOLDER has the programs of PostgreSQL. A program may
have its arguments before it, as in "/roots/trixie/enter --userspec=nobody /usr/sbin/pgbouncer".

By session everything is as without the proxy. By transaction the connections to the server are lent to one program
after the other. So none may keep a setting that another program did not ask for. Notifications do not arrive, and the
store has to say so.
"""

import argparse
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time

JOBS = 40
WORKERS = 2
DEFAULTS = {"lock_timeout": "0", "statement_timeout": "0", "jit": "on", "synchronous_commit": "on",
            "transaction_isolation": "read committed"}
LENT = "a proxy lends connections by transaction"


class Proxy:
    """A server of our own, and PgBouncer before it."""

    def __init__(self, options, mode):
        self.options, self.mode, self.processes = options, mode, []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="canigo-pgbouncer-", dir=options.keep))
        self.user = pwd.getpwnam("postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
        os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self.folder.chmod(0o755)
        self.log = open(self.folder / "log", "ab")
        self.call(self.postgres("initdb"), "-D", self.folder / "data", "-U", "tester", "--auth=trust", "--no-sync",
                  "-E", "UTF8", "--locale=C").wait()
        self.processes.append(self.call(self.postgres("postgres"), "-D", self.folder / "data", "-k", self.folder,
                                        "-h", "", "-c", "jit=on"))
        self.wait_for(self.url(5432))
        version = re.search(r"PgBouncer (\d+)\.(\d+)", subprocess.run(
            [*options.pgbouncer.split(), "--version"], capture_output=True, text=True, check=True).stdout)
        self.version = int(version[1]), int(version[2])
        settings = self.folder / "pgbouncer.ini"
        # By session each of the workers has two connections, and those who look have one.
        settings.write_text(f"""[databases]
postgres = host={self.folder} port=5432 user=tester
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {self.folder}
auth_type = any
pool_mode = {mode}
default_pool_size = {20 if mode == "session" else 3}
{"max_prepared_statements = 100" if self.version >= (1, 21) else ""}
""")
        self.processes.append(self.call(options.pgbouncer.split(), settings))
        self.wait_for(self.url())

    def postgres(self, name):
        return [*self.options.programs.split()[:-1], f"{self.options.programs.split()[-1]}/{name}"]

    def call(self, program, *arguments):
        more = {}
        # A program in a root of its own changes the user there.
        if os.geteuid() == 0 and len(program) == 1:
            more.update(user=self.user.pw_uid, group=self.user.pw_gid, extra_groups=[])
        return subprocess.Popen([*program, *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                stdout=self.log, stderr=self.log, **more)

    def url(self, port=6432):
        return f"postgresql://tester@/postgres?host={self.folder}&port={port}"

    def psql(self, *statements, port=6432):
        """What another program gets: each statement is a transaction, and has a line."""
        commands = [part for s in statements for part in ("-c", s)]
        done = subprocess.run(["psql", "-X", "-A", "-t", "-q", "-d", self.url(port), *commands],
                              capture_output=True, text=True)
        # Until a worker knows that it is of no use, its LISTEN is that of a connection which others get.
        lines = [line for line in done.stdout.split("\n")[:-1] if not line.startswith("Asynchronous notification")]
        return lines if done.returncode == 0 else [done.stderr]

    def wait_for(self, url):
        until = time.monotonic() + 120
        while subprocess.run(["psql", "-X", "-q", "-d", url, "-c", "SELECT"], capture_output=True).returncode != 0:
            if time.monotonic() > until or any(p.poll() is not None for p in self.processes):
                raise SystemExit("no answer: " + (self.folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def end(self):
        for p in reversed(self.processes):
            p.terminate()
        for p in reversed(self.processes):
            p.wait()
        self.log.close()
        if not self.options.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def check(proxy, options):
    """What is wrong, as lines."""
    wrong = []
    logs = [proxy.folder / f"worker-{i}.log" for i in range(WORKERS)]
    workers = []
    for i, path in enumerate(logs):
        with open(path, "wb") as log:
            workers.append(subprocess.Popen([options.worker, proxy.url(), str(JOBS), str(i * JOBS), "--tell-trouble"],
                                            stdout=log, stderr=log))
    looks = 0
    names = list(DEFAULTS)
    while any(w.poll() is None for w in workers):
        shown = proxy.psql(*(f"SHOW {name}" for name in names))
        looks += 1
        for name, value in zip(names, shown):
            if value != DEFAULTS[name]:
                wrong.append(f"another program's {name} is {value}")
        time.sleep(0.02)
    texts = [path.read_text() for path in logs]
    for w, text in zip(workers, texts):
        if w.returncode != 0:
            wrong.append(f"a worker ended with {w.returncode}: {text[-1000:]}")
    begun = [line for text in texts for line in text.splitlines() if line.startswith("accepted")]
    if len(begun) != JOBS * WORKERS:
        wrong.append(f"{len(begun)} of {JOBS * WORKERS} jobs have ended")
    lent = [LENT in text for text in texts]
    if proxy.mode == "session" and any(lent):
        wrong.append("a worker says that its connection is lent by transaction")
    if proxy.mode == "transaction" and not any(lent):
        wrong.append("no worker says that its connection is lent by transaction")
    if looks < 3:
        wrong.append(f"the neighbour looked {looks} times only")
    return sorted(set(wrong)), looks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker")
    parser.add_argument("--pgbouncer", default=shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin"))
    parser.add_argument("--programs", default=str(max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), default="")))
    parser.add_argument("--keep", help="a folder that gets the logs")
    options = parser.parse_args()
    if not options.pgbouncer:
        raise SystemExit("pgbouncer is not installed")
    failed = False
    for mode in "session", "transaction":
        proxy = Proxy(options, mode)
        try:
            wrong, looks = check(proxy, options)
        finally:
            proxy.end()
        print(f"PgBouncer {'.'.join(map(str, proxy.version))} by {mode}: {JOBS * WORKERS} jobs, {looks} looks: "
              f"{'; '.join(wrong) or 'all is well'}")
        failed = failed or bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
