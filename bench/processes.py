"""Gateways and upstreams as processes, for bench/gateway."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args[0]} has ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"{process.args[0]} does not listen")


def wait_for_text(path, process, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text())
        time.sleep(0.05)
    raise RuntimeError(f"{process.args[0]} tells no port")


class Running:
    """A gateway, or an upstream, as a process.

    With `told` it chooses its port itself, and writes it into that file."""

    def __init__(self, command, port=None, env=None, seconds=20, told=None):
        self.port = port
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=self.log,
                                        env={**os.environ, **(env or {})})
        try:
            if told:
                self.port = wait_for_text(told, self.process, seconds)
            wait_for(self.port, self.process, seconds)
        except RuntimeError as failed:
            self.log.seek(0)
            raise RuntimeError(f"{failed}: {self.log.read(2000).decode(errors='replace')}") from None
        self.pids = [self.process.pid]
        time.sleep(0.2)
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.pids += [int(c) for c in children]

    def resident(self):
        """Returns the resident bytes of this process."""
        total = 0
        for pid in self.pids:
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += 1024 * int(re.search(r"^Pss: +(\d+)", text, re.M)[1])
        return total

    def processor(self):
        """Returns the processor seconds of this process so far."""
        total = 0
        for pid in self.pids:
            with contextlib.suppress(OSError):
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return total

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
