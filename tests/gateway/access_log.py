#!/usr/bin/env python3
"""The access log of canigo-gateway where it can't be written: access_log.py CANIGO_GATEWAY [PART_OF_A_NAME …].

Ends with the totals that Catch2 prints.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile

from rig import GatewayCase, main, wait_until


def is_json(line):
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


class AccessLog(GatewayCase):
    def gateway_with_pipe(self, is_blocking):
        """A gateway whose standard output is a small pipe, and the other end of the pipe."""
        ours, its = os.pipe()
        fcntl.fcntl(its, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(its, is_blocking)
        g = self.gateway(self.upstream(port=self.nginx.plain), log="stdout", stdout=its)
        os.close(its)
        reader = os.fdopen(ours, "rb")
        self.addCleanup(reader.close)
        return g, reader

    def ask(self, g, n, path="x"):
        """n calls, one after the other."""
        urls = "".join(f'url = "{g.url}/web/{path}{i}"\noutput = /dev/null\n' for i in range(n))
        subprocess.run(["curl", "-sS", "-K", "-"], input=urls, text=True, check=True)

    def dropped(self, g):
        return int(re.search(r"^canigo_gateway_log_lines_dropped_total (\d+)$", g.ask_admin("/metrics"), re.M)[1])

    def test_a_pipe_that_does_not_block_gets_each_line_as_soon_as_it_has_room(self):
        g, reader = self.gateway_with_pipe(is_blocking=False)
        self.ask(g, 100)  # and nobody reads
        self.ask(g, 1, "long" + "g" * 5000)  # longer than what a pipe takes in one piece
        g.process.terminate()
        lines = reader.read().splitlines()
        self.assertEqual(g.process.wait(), 0)
        self.assertEqual([line for line in lines if not is_json(line)], [])
        self.assertEqual([json.loads(line)["path"] for line in lines],
                         [f"/web/x{i}" for i in range(100)] + ["/web/long" + "g" * 5000 + "0"])

    def test_a_reader_that_stands_still_does_not_keep_the_process(self):
        for is_blocking in (True, False):
            g, _ = self.gateway_with_pipe(is_blocking)
            self.ask(g, 30)
            g.process.terminate()
            self.assertEqual(g.process.wait(60), 0)

    def test_a_reload_leaves_a_pipe_that_nobody_reads(self):
        g, _ = self.gateway_with_pipe(is_blocking=True)
        self.ask(g, 100)
        g.rewrite(('access_log = "stdout"', f'access_log = "file:{g.dir}/access.log"'))
        g.process.send_signal(signal.SIGHUP)
        wait_until((g.dir / "access.log").exists, "the new file is there")
        self.ask(g, 1, "new")
        wait_until(lambda: "/web/new0" in (g.dir / "access.log").read_text(), "its line is there")

    def test_a_named_pipe_waits_for_no_reader_and_loses_nothing_between_two(self):
        g = self.gateway(self.upstream(port=self.nginx.plain))
        pipe = g.dir / "pipe"
        os.mkfifo(pipe)
        g.rewrite((f'access_log = "file:{g.dir}/access.log"', f'access_log = "file:{pipe}"'))
        g.process.send_signal(signal.SIGHUP)
        wait_until(lambda: 'canigo_gateway_reloads_total{result="done"} 1' in g.ask_admin("/metrics"), "it is reloaded")
        for n in range(3):
            self.ask(g, 1, f"round{n}_")
            with open(pipe) as reader:
                self.assertEqual(json.loads(reader.readline())["path"], f"/web/round{n}_0")
        self.assertEqual(self.dropped(g), 0)

    def test_a_standard_error_that_has_gone_or_stands_still_ends_nothing(self):
        for reader_goes in (True, False):
            g = self.gateway(self.upstream(port=self.nginx.plain), log="file:/dev/full")
            if reader_goes:
                g.process.stderr.close()
            else:
                its = os.open(f"/proc/{g.process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        os.write(its, b"x" * 4096)
                os.close(its)
            self.ask(g, 3)
            wait_until(lambda: self.dropped(g) == 3, "the lines are dropped")
            g.process.send_signal(signal.SIGHUP)
            wait_until(lambda: 'canigo_gateway_reloads_total{result="done"} 1' in g.ask_admin("/metrics"), "a reload")
            self.ask(g, 1)
            g.process.send_signal(signal.SIGTERM)
            self.assertEqual(g.process.wait(60), 0)

    def test_lines_that_a_full_device_does_not_take_are_counted(self):
        g = self.gateway(self.upstream(port=self.nginx.plain), log="file:/dev/full")
        self.ask(g, 20)
        wait_until(lambda: self.dropped(g) == 20, "all are counted")
        # And told of, where nobody asks for metrics.
        self.assertRegex(g.process.stderr.readline(), r"\d+ lines of the access log could not be written")

    def test_a_line_that_breaks_off_spoils_no_other_one(self):
        # Python ignores the signal that a file has become too large, and so does what it starts.
        g = self.gateway(self.upstream(port=self.nginx.plain), restore_signals=False)
        log = g.dir / "access.log"
        self.ask(g, 2)
        wait_until(lambda: len(log.read_bytes().splitlines()) == 2, "two lines are written")
        resource.prlimit(g.process.pid, resource.RLIMIT_FSIZE, (log.stat().st_size + 100, resource.RLIM_INFINITY))
        self.ask(g, 5)
        wait_until(lambda: self.dropped(g) == 5, "all are counted")
        resource.prlimit(g.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.ask(g, 3)
        wait_until(lambda: len(log.read_bytes().splitlines()) == 6, "the others are written")
        self.assertEqual([is_json(line) for line in log.read_bytes().splitlines()], [True] * 2 + [False] + [True] * 3)
        self.assertEqual(self.dropped(g), 5)

    def test_a_line_that_was_cut_off_before_the_start_spoils_no_other_one(self):
        log = pathlib.Path(tempfile.mkdtemp(prefix="canigo-log")) / "access.log"
        self.addCleanup(shutil.rmtree, log.parent)
        log.write_text('{"whole": 1}\n{"cut')
        g = self.gateway(self.upstream(port=self.nginx.plain), log=f"file:{log}")
        self.ask(g, 2)
        wait_until(lambda: len(log.read_bytes().splitlines()) == 4, "two more lines are written")
        g.process.terminate()
        self.assertEqual(g.process.wait(), 0)
        g = self.gateway(self.upstream(port=self.nginx.plain), log=f"file:{log}")
        self.ask(g, 1)
        wait_until(lambda: len(log.read_bytes().splitlines()) == 5, "one more line is written")
        self.assertEqual([is_json(line) for line in log.read_bytes().splitlines()], [True, False, True, True, True])


if __name__ == "__main__":
    main(AccessLog)
