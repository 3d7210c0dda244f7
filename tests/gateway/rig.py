"""What the tests of canigo-gateway share: nginx and small upstreams, the gateway itself, curl, and a runner.

The first argument of the program that imports this is CANIGO_GATEWAY; the others are parts of the names of tests.
part=K/N runs the K-th of N shares of them.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

GATEWAY = sys.argv[1]
TOKEN = "an-admin-of-the-test"
SKIPPED = 77
# Said by a sanitizer, or by the gateway of a connection.
DEFECT = re.compile(r"Sanitizer|: runtime error: |: a connection ended: ")

NGINX = """
{user} daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log; worker_processes 1;
events {{ worker_connections 4096; }}
http {{
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  log_format calls '$msec $request_method $request_uri $status $request_body_file [$http_x_canigo_key] $http_expect';
  access_log {dir}/calls.log calls;
  client_max_body_size 2g; client_body_in_file_only on; keepalive_requests 100000;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{sink}; }} }}
  server {{ listen 127.0.0.1:{plain}; location / {{ return 200 "hello\\n"; }} }}
  server {{ listen 127.0.0.1:{sink}; access_log off; location / {{ return 200 "taken\\n"; }} }}
}}
"""


def free_ports(n):
    """Ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def connects(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Nginx:
    """nginx, which logs each call and keeps each body in a file."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="canigo-nginx"))
        self.port, self.plain, sink = free_ports(3)
        (self.dir / "nginx.conf").write_text(NGINX.format(
            user="user root;" if os.geteuid() == 0 else "", dir=self.dir, port=self.port, plain=self.plain, sink=sink))
        self.process = subprocess.Popen(["nginx", "-p", self.dir, "-c", self.dir / "nginx.conf"],
                                        stderr=subprocess.DEVNULL)
        wait_until(lambda: connects(self.port) and connects(self.plain), "nginx listens")

    def calls(self):
        """Of each call: time, method, target, status, the file of its body, and the rest."""
        return [line.split(" ", 5) for line in (self.dir / "calls.log").read_text().splitlines()]

    def forget(self):
        (self.dir / "calls.log").write_text("")

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Gateway:
    """canigo-gateway with these upstreams, each a text of TOML; the client's port is `port`.

    `start` has what subprocess.Popen is to do otherwise.
    """

    def __init__(self, *upstreams, head="", listen="", anonymous="local", env=None, announced=2, log=None, threads=2,
                 **start):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="canigo-gateway"))
        self.port, self.admin = free_ports(2)
        text = f"""
threads = {threads}
access_log = "{log or f'file:{self.dir}/access.log'}"
admin = {{ listen = "127.0.0.1:{self.admin}", token = "env:CANIGO_ADMIN_TOKEN" }}
{head}
[[listen]]
address = "127.0.0.1:{self.port}"
anonymous = "{anonymous}"
{listen}
"""
        (self.dir / "gateway.toml").write_text(text + "".join("[[upstream]]\n" + u for u in upstreams))
        self.process = subprocess.Popen([GATEWAY, "--config", self.dir / "gateway.toml"], stderr=subprocess.PIPE,
                                        text=True, **start,
                                        env={**os.environ, "CANIGO_ADMIN_TOKEN": TOKEN, **(env or {})})
        for _ in range(announced):  # a line for each place where it listens
            line = self.process.stderr.readline()
            if "RLIMIT_NOFILE" in line:  # there are few on this machine
                line = self.process.stderr.readline()
            assert "listening on" in line, line
        self.url = f"http://127.0.0.1:{self.port}"

    def ask_admin(self, path, token=TOKEN, host=None, method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin}{path}", method=method)
        if method != "GET":
            request.add_header("X-Canigo-Admin", "1")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        if host:
            request.add_header("Host", host)
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()

    def sockets(self, state):
        """This process' rows of /proc/net/tcp at its port in that state."""
        sockets = set()
        for fd in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(fd))
        rows = [row.split() for row in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return [row for row in rows if f"socket:[{row[9]}]" in sockets
                and row[3] == state and int(row[1].split(":")[1], 16) == self.port]

    def listens(self):
        return bool(self.sockets("0A"))

    def whole_state(self):
        return json.loads(self.ask_admin("/api/state"))

    def state(self, upstream=0):
        return self.whole_state()["upstreams"][upstream]

    def waiting(self):
        return self.state()["waiting"]

    def memory(self):
        """The bytes that it has in memory."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])

    def processor_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log(self):
        """The lines of its access log: of all requests that have ended by now, unless the file was moved meanwhile."""
        def lines():
            return (self.dir / "access.log").read_text().splitlines()

        ended = 0
        with contextlib.suppress(OSError):  # it may have ended itself
            metrics = self.ask_admin("/metrics")
            ended = sum(int(n) for n in re.findall(r"^canigo_gateway_requests_total{.*} (\d+)$", metrics, re.M))
        end = time.monotonic() + 5
        while len(lines()) < ended and time.monotonic() < end:
            time.sleep(0.01)
        return [json.loads(line) for line in lines()]

    def rewrite(self, *changes):
        """Puts other texts into its file."""
        if not changes:
            return
        path = self.dir / "gateway.toml"
        text = path.read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        (self.dir / "next.toml").write_text(text)
        (self.dir / "next.toml").rename(path)  # nobody reads one half of it

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait()
        rest = self.read_end()
        return code, rest

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
        if not self.process.stderr.closed:
            self.read_end()

    def read_end(self):
        """What it wrote before it ended; of a defect it tells there, whatever its clients have seen."""
        rest = self.process.stderr.read()
        self.process.stderr.close()
        assert not DEFECT.search(rest), rest
        return rest


def curl(*args):
    """Runs curl; returns its status, its fields in lower case, and its body."""
    done = subprocess.run(["curl", "-sS", "-i", *args], capture_output=True)
    if done.returncode != 0:
        raise AssertionError(f"curl {args}: {done.returncode}: {done.stderr.decode()}")
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 100"):
        head, _, body = body.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
    return int(lines[0].split()[1]), fields, body


class Curls:
    """Many calls at once by one curl, each of which prints its status."""

    def __init__(self, urls, *args):
        config = "".join(f'url = "{u}"\noutput = /dev/null\n' for u in urls)
        self.process = subprocess.Popen(
            ["curl", "-sS", "--parallel", "--parallel-immediate", "--parallel-max", str(len(urls)),
             "-w", "%{http_code}\n", *args, "-K", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.process.stdin.write(config)
        self.process.stdin.close()

    def statuses(self):
        text = self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait()
        return [int(line) for line in text.split()]

    def kill(self):
        self.process.kill()
        self.process.stdout.close()
        self.process.wait()


class Doorway:
    """A socket that listens, and a thread that gives each connection to `take`. Who inherits has `take` as a method."""

    def __init__(self, take=None, address="127.0.0.1"):
        if take:
            self.take = take
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.create_server((address, 0), family=family, dualstack_ipv6=address == "::", backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.take, args=(self.listener.accept()[0],), daemon=True).start()

    def close(self):
        # To close the socket wakes nobody in accept(). Once stopped and continued, the kernel would call it again for
        # that number of a descriptor, which may be the next test's by then.
        with contextlib.suppress(OSError):  # a test may have closed it
            self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


class Script(Doorway):
    """An upstream of a few lines: `answer` gets each connection and the head of each of its requests."""

    def __init__(self, answer, address="127.0.0.1"):
        self.answer = answer
        self.heads = []
        super().__init__(address=address)

    def take(self, client):
        with client, contextlib.suppress(OSError):
            stream = client.makefile("rb")
            while True:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = stream.readline()
                    if not line:
                        return
                    head += line
                self.heads.append(head.decode())
                if self.answer(client, stream, head.decode()) == "close":
                    return


class GatewayCase(unittest.TestCase):
    """Tests with an nginx of their class, and gateways that end with each test."""

    @classmethod
    def setUpClass(cls):
        cls.nginx = Nginx()

    @classmethod
    def tearDownClass(cls):
        cls.nginx.close()

    def setUp(self):
        self.nginx.forget()

    def gateway(self, *upstreams, **more):
        g = Gateway(*upstreams, **more)
        self.addCleanup(g.close)
        return g

    def upstream(self, more="", port=None):
        # "max_wait = 2s" is that of each class.
        more = re.sub(r"max_wait = (\w+)", r'max_wait = { interactive = "\1", normal = "\1", batch = "\1" }', more)
        return f'name = "web"\nurl = "http://127.0.0.1:{port or self.nginx.port}"\nprefix = "/web"\n{more}\n'

    def script(self, answer):
        s = Script(answer)
        self.addCleanup(s.close)
        return s


def main(*cases):
    """Runs the tests of these classes whose names were asked for. Ends with the totals that Catch2 prints."""
    for program in ("nginx", "curl"):
        if shutil.which(program) is None:
            print(f"{program} is missing")
            sys.exit(SKIPPED)
    names = [a for a in sys.argv[2:] if not a.startswith("part=")]
    wanted = [case(name) for case in cases for name in unittest.TestLoader().getTestCaseNames(case)
              if not names or any(part in name for part in names)]
    for share in sys.argv[2:]:
        if share.startswith("part="):
            part, parts = map(int, share[5:].split("/"))
            wanted = wanted[part - 1::parts]
    # Tests of one class stand together: the runner sets the class up once.
    ends_at_first = "CANIGO_MUTANT" in os.environ  # one failure is enough for scripts/mutate
    result = unittest.TextTestRunner(verbosity=2, failfast=ends_at_first).run(unittest.TestSuite(wanted))
    bad = len({getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors})  # not its parts
    skipped = len(result.skipped)
    good = len(wanted) - bad - skipped
    print(f"test cases: {len(wanted)} | {good} passed | {bad} failed" if bad or not wanted else
          f"All tests passed (1 assertion in {good} test cases)")
    sys.exit(1 if bad or not wanted else 0 if good else SKIPPED)
