"""The servers of B22, which wait for the disk: PostgreSQL and Redis on Unix domain sockets in a folder of their own."""

import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import time


class Servers:
    """Names the servers in the environment of the benchmark's programs. Leaves out servers that are not installed."""

    def __init__(self, skipped):
        # The usual temporary folder may be in memory, where no write waits for a disk.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="canigo-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.processes = []
        os.environ["BENCH_FOLDER"] = str(self.folder)
        try:
            self.start_postgres(skipped)
            self.start_redis(skipped)
        except BaseException:
            self.stop()
            raise

    def start(self, command, answers, **options):
        with open(self.folder / "log", "a") as log:
            process = subprocess.Popen([str(c) for c in command], stdout=log, stderr=log, **options)
        self.processes.append(process)
        until = time.monotonic() + 60
        while not answers():
            if process.poll() is not None or time.monotonic() > until:
                text = (self.folder / "log").read_text()[-1000:]
                raise SystemExit(f"bench/run: {command[0]} does not start:\n{text}")
            time.sleep(0.1)

    def start_postgres(self, skipped):
        places = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: float(p.parent.name))
        path = os.pathsep.join([*map(str, reversed(places)), os.environ.get("PATH", "")])
        initdb, postgres = (shutil.which(name, path=path) for name in ("initdb", "postgres"))
        if not (initdb and postgres):
            return skipped.append(("B22, PostgreSQL", "postgresql is not installed"))
        data = self.folder / "postgres"
        data.mkdir()
        options = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                return skipped.append(("B22, PostgreSQL", "root can't start it, and there is no user postgres"))
            os.chown(data, user.pw_uid, user.pw_gid)
            options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        made = subprocess.run([initdb, "-D", data / "data", "-U", "bench", "--auth=trust", "-E", "UTF8", "--locale=C"],
                              capture_output=True, text=True, cwd="/", **options)
        if made.returncode != 0:
            raise SystemExit("bench/run: initdb: " + made.stderr[-1000:])
        # By default the server waits for the disk: fsync and synchronous_commit are on.
        url = f"host={data} user=bench dbname=postgres"
        ready = shutil.which("pg_isready", path=path) or "pg_isready"
        self.start([postgres, "-D", data / "data", "-k", data, "-h", ""],
                   lambda: subprocess.run([ready, "-q", "-h", data]).returncode == 0, cwd="/", **options)
        os.environ["BENCH_POSTGRES"] = url

    def start_redis(self, skipped):
        if not shutil.which("redis-server"):
            return skipped.append(("B22, Redis", "redis-server is not installed"))
        socket = self.folder / "redis.sock"
        self.start(["redis-server", "--port", "0", "--unixsocket", socket, "--dir", self.folder, "--save", "",
                    "--appendonly", "yes", "--appendfsync", "always"], socket.exists)
        os.environ["BENCH_REDIS"] = str(socket)

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
