#!/usr/bin/env python3
"""Runs canigo-gateway as a forward proxy between programs: forward.py CANIGO_GATEWAY [PART_OF_A_NAME …].

curl, Python requests, Go and Node are clients. It all happens in a network namespace of its own, so that names lead to
the addresses that the test wants. Ends with the totals that Catch2 prints.
"""

import base64
import contextlib
import hashlib
import os
import pathlib
import random
import re
import select
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import private_net
from rig import Curls, Doorway, Gateway, Script, curl, free_ports, main, wait_until

GO_CLIENT = """
package main

import ("fmt"; "io"; "net/http"; "os")

func main() {
  for _, url := range os.Args[1:] {
    answer, err := http.Get(url)
    if err != nil { fmt.Println(err); os.Exit(1) }
    body, _ := io.ReadAll(answer.Body)
    fmt.Print(string(body))
  }
}
"""

NODE_CLIENT = """
const http = require('http'), https = require('https'), { URL } = require('url');
const proxy = new URL(process.env.HTTP_PROXY);
function take(answer) { answer.pipe(process.stdout); }
for (const text of process.argv.slice(2)) {
  const url = new URL(text);
  if (url.protocol === 'http:') {
    http.get({ host: proxy.hostname, port: proxy.port, path: text, headers: { Host: url.host }, agent: false }, take);
  } else {
    http.request({ host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: url.host,
                   headers: { Host: url.host } })
      .on('connect', (_, socket) => https.get(text, { socket, agent: false }, take)).end();
  }
}
"""

PYTHON_CLIENT = """
import requests, sys
for url in sys.argv[1:]:
    print(requests.get(url).text, end="")
"""


def answer_hello(client, _stream, _head):
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")


class Server(Doorway):
    """Listens at every address, and gives each connection to `serve`."""

    def __init__(self, serve, tls=None):
        self.serve = serve
        self.tls = tls
        self.came_to = []  # the address of this machine that each connection was made to
        super().__init__(address="::")

    def take(self, client):
        self.came_to.append(client.getsockname()[0].removeprefix("::ffff:"))
        with contextlib.suppress(OSError):
            if self.tls:
                client = self.tls.wrap_socket(client, server_side=True)
            with client:
                self.serve(client)


def read_head(client):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        if not byte:
            break
        head += byte
    return head


def read_all(client):
    """What comes until the end; a reset is one."""
    text = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(1 << 16):
            text += piece
    return text


def serve_hello(client):
    """One answer, and the end of the connection."""
    read_head(client)
    client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nhello\n")


def reset(client):
    """Lets the end of the socket be a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def memory_of(g):
    """The resident bytes of the gateway."""
    text = pathlib.Path(f"/proc/{g.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) << 10


class Forward(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = private_net.Names()
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="canigo-forward"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-keyout", cls.dir / "key.pem", "-out", cls.dir / "cert.pem", "-days", "2",
                        "-subj", "/CN=test", "-addext", "subjectAltName=DNS:secure.example.test"],
                       check=True, capture_output=True)
        cls.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        cls.tls.load_cert_chain(cls.dir / "cert.pem", cls.dir / "key.pem")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir, ignore_errors=True)

    def setUp(self):
        public = [private_net.PUBLIC]
        self.names.table = {f"{name}.example.test": public for name in ("a", "b", "c", "secure")}

    def gateway(self, allow, more="", *upstreams, mode="forward", head="", **options):
        allowed = ", ".join(f'"{host}"' for host in allow)
        # "max_wait = 2s" is that of each class.
        more = re.sub(r"max_wait = (\w+)", r'max_wait = { interactive = "\1", normal = "\1", batch = "\1" }', more)
        g = Gateway(*upstreams, head=f"{head}\n[forward]\nallow = [{allowed}]\n{more}\n",
                    listen=f'mode = "{mode}"', **options)
        self.addCleanup(g.close)
        return g

    def server(self, serve, tls=None):
        s = Server(serve, tls)
        self.addCleanup(s.close)
        return s

    def script(self, answer=answer_hello):
        s = Script(answer, "::")
        self.addCleanup(s.close)
        return s

    def proxied(self, g, *args):
        return curl("-x", g.url, *args)

    def send(self, g, text):
        """Sends this, which closes the connection; returns the answer."""
        with socket.create_connection(("127.0.0.1", g.port)) as client:
            client.sendall(text.encode())
            return read_all(client).decode()

    def ask_tunnel(self, g, target, fields=""):
        """Asks for a tunnel; the answer is not read yet."""
        client = socket.create_connection(("127.0.0.1", g.port))
        self.addCleanup(client.close)
        client.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{fields}\r\n".encode())
        return client

    def status_of_tunnel(self, client):
        return int(read_head(client).split()[1])

    def open_tunnel(self, g, target):
        client = self.ask_tunnel(g, target)
        self.assertEqual(self.status_of_tunnel(client), 200)
        return client

    def ends(self, g, n=1):
        wait_until(lambda: len(g.log()) >= n, f"{n} ends are in the log")
        return g.log()

    def host(self, g, n=0):
        return g.whole_state()["forwarded"][n]

    def test_programs_send_their_calls_by_http_proxy(self):  # G20
        plain = self.server(serve_hello)
        secure = self.server(serve_hello, self.tls)
        g = self.gateway([f"*.example.test:{plain.port}", f"secure.example.test:{secure.port}"])
        for name, text in (("client.go", GO_CLIENT), ("client.js", NODE_CLIENT), ("client.py", PYTHON_CLIENT)):
            (g.dir / name).write_text(text)
        urls = [f"http://a.example.test:{plain.port}/x", f"https://secure.example.test:{secure.port}/y"]
        cert = str(self.dir / "cert.pem")
        env = {**os.environ, "HTTP_PROXY": g.url, "http_proxy": g.url, "HTTPS_PROXY": g.url, "https_proxy": g.url,
               "SSL_CERT_FILE": cert, "CURL_CA_BUNDLE": cert, "REQUESTS_CA_BUNDLE": cert, "NODE_EXTRA_CA_CERTS": cert}
        have_requests = subprocess.run([sys.executable, "-c", "import requests"], capture_output=True).returncode == 0
        clients = [("curl", ["curl", "-sS", *urls]),
                   ("go", ["go", "run", g.dir / "client.go", *urls]),
                   ("node", ["node", g.dir / "client.js", *urls]),
                   ("requests", [sys.executable, g.dir / "client.py", *urls])]
        seen = 0
        for name, command in clients:
            if not (have_requests if name == "requests" else shutil.which(name)):
                print(f"  {name} is not there", file=sys.stderr)
                continue
            with self.subTest(name):
                done = subprocess.run(command, env=env, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (0, "hello\nhello\n"), done.stderr)
                new = self.ends(g, seen + 2)[seen:]
                seen += 2
                rules = [f"secure.example.test:{secure.port}", f"*.example.test:{plain.port}"]
                self.assertEqual(sorted((e["method"], e["host"], e["upstream"], e["status"]) for e in new),
                                 [("CONNECT", f"secure.example.test:{secure.port}", rules[0], 200),
                                  ("GET", f"a.example.test:{plain.port}", rules[1], 200)])
                tunnel = next(e for e in new if e["method"] == "CONNECT")
                self.assertGreater(tunnel["bytes_in"], 200)  # a TLS handshake, each way
                self.assertGreater(tunnel["bytes_out"], 500)
        metrics = g.ask_admin("/metrics")
        for rule in rules:
            # If the server closes its socket with bytes of TLS unread, it resets the tunnel. Then the call has failed.
            counted = re.findall('requests_total\\{upstream="' + re.escape(rule) + '",tenant="local",class="\\w+",'
                                 'code="200",error="(?:upstream_failed)?"\\} (\\d+)', metrics)
            self.assertEqual(sum(map(int, counted)), seen // 2)
        self.assertIn("canigo_gateway_tunnels 0\n", metrics)
        self.assertIn("canigo_gateway_forwarded_hosts 2\n", metrics)

    def test_calls_wait_at_their_own_host(self):  # G20
        upstream = self.script()
        g = self.gateway([f"*.example.test:{upstream.port}"],
                         'rates = [{ limit = "5/1s", burst = 1, per = "host" }]\nmax_wait = 10m')
        time.sleep(0.5)  # each host has its first token
        start = time.monotonic()
        many = Curls([f"http://a.example.test:{upstream.port}/{i}" for i in range(25)], "-x", g.url)
        wait_until(lambda: any(h["waiting"] >= 10 for h in g.whole_state()["forwarded"]), "calls wait for a")
        status, fields, _ = self.proxied(g, f"http://B.Example.test.:{upstream.port}/other")
        self.assertEqual((status, fields["x-canigo-wait-ms"]), (200, "0"))
        self.assertEqual(many.statuses(), [200] * 25)
        self.assertGreater(time.monotonic() - start, 24 / 5 - 0.1)
        self.assertEqual({h["name"] for h in g.whole_state()["forwarded"]},
                         {f"{n}.example.test:{upstream.port}" for n in "ab"})

    def test_a_request_is_that_of_the_target_and_without_secrets(self):
        upstream = self.script()
        key = "a-key-of-the-test"
        digest = hashlib.sha256(key.encode()).hexdigest()
        g = self.gateway([f"a.example.test:{upstream.port}"], "", f"""
name = "web"
url = "http://127.0.0.1:{upstream.port}"
prefix = "/web"
[[tenant]]
name = "search"
keys = ["sha256:{digest}"]
""", mode="both", anonymous="")
        host = f"a.example.test:{upstream.port}"
        for args in ([], ["--proxy-user", "x:wrong"]):
            for tunnel in ([], ["-p"]):
                done = subprocess.run(["curl", "-sS", "-i", "-x", g.url, *args, *tunnel, f"http://{host}/x"],
                                      capture_output=True, text=True)
                lines = done.stdout.splitlines()
                self.assertEqual(lines[0], "HTTP/1.1 407 Proxy Authentication Required")
                self.assertIn('Proxy-Authenticate: Basic realm="canigo-gateway"', lines)
        self.assertEqual(curl(f"{g.url}/web/x")[0], 401)
        self.assertEqual(upstream.heads, [])
        status, fields, body = self.proxied(
            g, "--proxy-user", f"x:{key}", "-H", "X-Canigo-Priority: batch", "--path-as-is",
            "-H", "Forwarded: for=1.2.3.4", "-u", "me:mine", f"http://{host}/a/b%2F..//c?d=%20")
        self.assertEqual((status, body), (200, b"hello\n"))
        self.assertIn("x-request-id", fields)
        lines = upstream.heads[0].split("\r\n")
        self.assertEqual(lines[:2], ["GET /a/b%2F..//c?d=%20 HTTP/1.1", f"Host: {host}"])
        names = [line.split(":")[0].lower() for line in lines[1:] if line]
        self.assertIn("authorization", names)  # the client's own, for the server
        self.assertEqual([n for n in names if n.startswith(("proxy-", "x-canigo", "forwarded"))], [])
        self.assertRegex(upstream.heads[0], r"\r\nVia: 1\.1 canigo-[0-9a-f]{8}\r\n")
        for start, wanted in ((f"GET http://{host}?q", "GET /?q"), (f"OPTIONS http://{host}", "OPTIONS *"),
                              ("GET /web/x", "GET /x")):
            self.send(g, f"{start} HTTP/1.1\r\nHost: {host}\r\nX-Canigo-Key: {key}\r\nConnection: close\r\n\r\n")
            self.assertEqual(upstream.heads[-1].split(" HTTP/1.1\r\n")[0], wanted)
        self.assertNotIn(key, (g.dir / "access.log").read_text())

    def test_an_absolute_https_target_is_secured_by_the_gateway(self):
        secure = self.server(serve_hello, self.tls)
        g = self.gateway([f"*.example.test:{secure.port}"], env={"SSL_CERT_FILE": str(self.dir / "cert.pem")})
        for name, wanted in (("secure", "200"), ("a", "502")):  # the certificate is that of one name
            host = f"{name}.example.test:{secure.port}"
            answer = self.send(g, f"GET https://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            self.assertEqual(answer.split()[1], wanted)

    def test_no_name_leads_to_a_private_address(self):  # G18
        server = self.server(serve_hello)
        names = {"loop": "127.0.0.1", "ten": "10.0.0.1", "meta": "169.254.169.254", "six": "::1", "ula": "fd00::1",
                 "mapped": "::ffff:10.0.0.1", "nat64": "64:ff9b::a00:1", "cgnat": "100.64.0.1", "zero": "0.0.0.0",
                 "lan": "192.168.7.7", "sixtofour": "2002:a00:1::1"}
        self.names.table.update({f"{n}.example.test": [a] for n, a in names.items()})
        self.names.table["all.example.test"] = list(names.values())
        self.names.table["mixed.example.test"] = ["127.0.0.1", "10.0.0.1", private_net.PUBLIC]
        g = self.gateway([f"*.example.test:{server.port}"], 'rates = [{ limit = "1/4s" }]')
        time.sleep(4.2)  # a host has the token of the first four seconds
        literals = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]",
                    "100.64.0.1", "0.0.0.0", "[example.com]", "EXAMPLE.com.", "0x7f.1", "2130706433", "127.1",
                    "0177.0.0.1", "localhost", "example.test", "xexample.test", "loop.example.test%00.example.test",
                    private_net.PUBLIC]
        for host in [f"{n}.example.test" for n in [*names, "all"]] + ["LOOP.EXAMPLE.test.", *literals]:
            target = f"{host}:{server.port}"
            for line in (f"GET http://{target}/", f"CONNECT {target}"):
                with self.subTest(line), socket.create_connection(("127.0.0.1", g.port)) as client:
                    client.sendall(f"{line} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n".encode())
                    answer = read_head(client).decode()
                    self.assertEqual(answer.split()[1], "403", answer)
                    self.assertIn("X-Canigo-Error: destination_forbidden\r\n", answer)
                    # The one before has used nothing up.
                    self.assertIn("X-Canigo-Wait-Ms: 0\r\n", answer)
        for target in ("a.example.test:1", f"a.example.test:{server.port + 1}"):
            self.assertEqual(self.status_of_tunnel(self.ask_tunnel(g, target)), 403)
        self.assertEqual(server.came_to, [])
        self.assertEqual(self.proxied(g, f"http://mixed.example.test:{server.port}/")[0], 200)
        self.assertEqual(server.came_to, [private_net.PUBLIC])

    def test_a_name_that_changes_its_address_is_judged_each_time(self):  # G18
        server = self.server(serve_hello)
        answers = []

        def rebind(family):
            if family == 6:
                return []
            answers.append("127.0.0.1" if len(answers) % 2 else private_net.PUBLIC)
            return [answers[-1]]

        self.names.table["rebind.example.test"] = rebind
        target = f"rebind.example.test:{server.port}"
        g = self.gateway([target])
        for line in (f"GET http://{target}/", f"CONNECT {target}"):
            for wanted in ("200", "403", "200", "403"):
                with self.subTest(f"{line} {wanted}"), socket.create_connection(("127.0.0.1", g.port)) as client:
                    client.sendall(f"{line} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n".encode())
                    self.assertEqual(read_head(client).decode().split()[1], wanted)
        # A tunnel is open before its server has accepted it.
        wait_until(lambda: len(server.came_to) >= 4, "the last tunnel is accepted")
        self.assertEqual(server.came_to, [private_net.PUBLIC] * 4)
        # One look-up for each connection: no second one can tell another thing.
        self.assertEqual(len(answers), 8)

    def test_private_addresses_are_reached_where_the_operator_says_so(self):
        server = self.server(serve_hello)
        self.names.table["lan.example.test"] = ["10.0.0.1"]
        g = self.gateway([f"lan.example.test:{server.port}"], "private = true")
        self.assertEqual(self.proxied(g, f"http://lan.example.test:{server.port}/")[0], 200)
        g = self.gateway([f"10.0.0.1:{server.port}", f"[::1]:{server.port}"])  # an address that is written out
        self.assertEqual(self.proxied(g, f"http://10.0.0.1:{server.port}/")[0], 200)
        self.assertEqual(self.proxied(g, f"http://[::1]:{server.port}/")[0], 200)

    def test_the_gateway_is_no_destination_of_its_own(self):  # G19
        port = free_ports(1)[0]
        self.names.table.update({"self.example.test": ["127.0.0.1"], "here.example.test": [private_net.PUBLIC]})
        everywhere = f'[[listen]]\naddress = "[::]:{port}"\nmode = "both"\nanonymous = ""\n'
        g = self.gateway([f"*.example.test:{port}"], f"private = true\n{everywhere}", f"""
name = "itself"
url = "http://127.0.0.1:{port}/itself"
prefix = "/itself"
[[tenant]]
name = "other"
keys = ["sha256:{'0' * 64}"]
""", mode="both", announced=3)
        for name in ("self", "here"):
            target = f"{name}.example.test:{port}"
            status, fields, _ = self.proxied(g, f"http://{target}/itself/x")
            self.assertEqual((status, fields["x-canigo-error"]), (508, "loop"))
            self.assertEqual(self.status_of_tunnel(self.ask_tunnel(g, target)), 508)
        status, fields, _ = curl(f"{g.url}/itself/x")
        self.assertEqual((status, fields["x-canigo-error"], fields["x-canigo-attempts"]), (508, "loop", "1"))
        self.assertEqual(len(self.ends(g, 5)), 5)  # and none of them came back

    def test_a_request_that_comes_back_is_told_by_its_via(self):  # G19
        upstream = self.script()
        target = f"a.example.test:{upstream.port}"
        g = self.gateway([target])
        self.assertEqual(self.proxied(g, f"http://{target}/")[0], 200)
        via = re.search(r"\r\nVia: (.*?)\r\n", upstream.heads[0])[1]
        status, fields, _ = self.proxied(g, "-H", f"Via: 1.1 other, {via}", f"http://{target}/")
        self.assertEqual((status, fields["x-canigo-error"]), (508, "loop"))
        self.assertEqual(self.status_of_tunnel(self.ask_tunnel(g, target, f"Via: {via}\r\n")), 508)
        self.assertEqual(len(upstream.heads), 1)

    def test_a_proxy_in_its_environment_has_no_effect(self):  # G19
        upstream = self.script()
        trap = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(trap.close)
        proxy = f"http://127.0.0.1:{trap.getsockname()[1]}"
        names = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
        g = self.gateway([f"a.example.test:{upstream.port}"], "", f"""
name = "web"
url = "http://127.0.0.1:{upstream.port}"
prefix = "/web"
""", mode="both", env={name: proxy for name in names})
        self.assertEqual(self.proxied(g, f"http://a.example.test:{upstream.port}/x")[0], 200)
        self.assertEqual(curl("--noproxy", "*", f"{g.url}/web/y")[0], 200)
        self.assertEqual([h.split()[1] for h in upstream.heads], ["/x", "/y"])
        trap.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            trap.accept()

    def test_what_a_forward_proxy_does_not_do_is_refused(self):
        server = self.server(serve_hello)
        host = f"a.example.test:{server.port}"
        g = self.gateway([host])
        field = f"Host: {host}\r\nConnection: close\r\n"
        for line, fields, wanted in (
                ("GET /x", field, "400"),
                (f"GET ftp://{host}/", field, "400"),
                (f"GET http://b.example.test:{server.port}/", field, "403"),  # the Host is one that is allowed
                (f"GET http://{host}/", field.replace("close", "close, Upgrade") + "Upgrade: websocket\r\n", "501"),
                (f"GET http://me:secret@{host}/", field, "400"),
                ("CONNECT a.example.test", field, "400"),
                (f"CONNECT {host}", field + "Content-Length: 3\r\n", "400"),
                (f"CONNECT {host}", field + "Transfer-Encoding: chunked\r\n", "400"),
                (f"CONNECT http://{host}/", field, "400")):
            with self.subTest(line):
                answer = self.send(g, f"{line} HTTP/1.1\r\n{fields}\r\n")
                self.assertEqual(answer.split()[1], wanted, answer)
        self.assertEqual(server.came_to, [])

    def test_a_destination_that_is_not_there_is_a_502_after_some_attempts(self):
        port = free_ports(1)[0]
        g = self.gateway([f"*.example.test:{port}"], 'rates = [{ limit = "1/4s" }]\nretry = { budget = "100%" }')
        time.sleep(4.2)
        for target in (f"a.example.test:{port}", f"nobody.example.test:{port}"):
            status, fields, _ = self.proxied(g, f"http://{target}/")
            # Three times the same token: no connection costs none.
            self.assertEqual((status, fields["x-canigo-error"], fields["x-canigo-attempts"],
                              fields["x-canigo-wait-ms"]), (502, "upstream_failed", "3", "0"))
            self.assertEqual(self.status_of_tunnel(self.ask_tunnel(g, target)), 502)
        self.assertEqual([h["held"] for h in g.whole_state()["forwarded"]], [0, 0])

    def test_a_name_without_an_answer_holds_up_no_other(self):
        server = self.server(serve_hello)
        asked = []
        self.names.table["silent.example.test"] = asked.append  # and so no answer
        g = self.gateway([f"*.example.test:{server.port}"], 'timeout = { connect = "1s" }\nretry = { attempts = 1 }')
        silent = Curls([f"http://silent.example.test:{server.port}/"] * 4, "-x", g.url)
        wait_until(lambda: asked, "the name is asked for")
        for name in "abc":
            self.assertEqual(self.proxied(g, f"http://{name}.example.test:{server.port}/")[0], 200)
        self.assertEqual(silent.statuses(), [504] * 4)

    def test_a_zone_without_answers_holds_up_no_other(self):
        server = self.server(serve_hello)
        asked = []
        slow = [f"{name}.silent.test" for name in "abcdefghijkl"]
        for name in slow:
            self.names.table[name] = lambda family, name=name: asked.append((name, family))  # and so no answer
        up = f'name = "web"\nurl = "http://a.example.test:{server.port}"\nprefix = "/web"\n'
        g = self.gateway([f"*.test:{server.port}"], 'timeout = { connect = "3s" }\nretry = { attempts = 1 }', up,
                         mode="both")
        # Each of them twice: those who want to know the same name wait for one answer.
        silent = Curls([f"http://{name}:{server.port}/" for name in 2 * slow], "-x", g.url)
        wait_until(lambda: len({name for name, _ in asked}) >= 4, "names are asked for")
        for name in "abc":
            self.assertEqual(self.proxied(g, f"http://{name}.example.test:{server.port}/")[0], 200)
        self.assertEqual(curl(f"{g.url}/web/x")[0], 200)
        self.assertEqual(silent.statuses(), [504] * 24)
        # A name in time is asked for by one thread: one question of each kind, before it is repeated.
        self.assertLessEqual(max(map(asked.count, asked)), 2)

    def test_a_name_that_many_want_is_asked_for_once(self):
        server = self.server(serve_hello)
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def answer(family):
            go_on.wait()
            return [private_net.PUBLIC]

        self.names.table["late.example.test"] = answer
        g = self.gateway([f"*.example.test:{server.port}"], 'timeout = { connect = "1m" }')
        callers = Curls([f"http://late.example.test:{server.port}/"] * 20, "-x", g.url)
        wait_until(lambda: len(g.whole_state()["forwarded"]) == 1 and g.whole_state()["forwarded"][0]["held"] == 20,
                   "all want to know it")
        go_on.set()
        self.assertEqual(callers.statuses(), [200] * 20)
        # A resolver that gets no answer in time repeats its question.
        self.assertLess(self.names.asked.count(("late.example.test", 4)), 10)

    def test_ten_megabytes_go_both_ways_at_once(self):
        data = random.Random(3).randbytes(10 << 20)
        got = {}

        def send(s):
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)

        def exchange(s, name):
            sender = threading.Thread(target=send, args=(s,))
            sender.start()
            seen = hashlib.sha256()
            while piece := s.recv(1 << 16):
                seen.update(piece)
            sender.join()
            got[name] = seen.hexdigest()

        server = self.server(lambda client: exchange(client, "server"))
        g = self.gateway([f"a.example.test:{server.port}"])
        client = self.open_tunnel(g, f"a.example.test:{server.port}")
        exchange(client, "client")
        wait_until(lambda: len(got) == 2, "both have it all")
        self.assertEqual(set(got.values()), {hashlib.sha256(data).hexdigest()})
        end = self.ends(g)[0]
        self.assertEqual((end["method"], end["status"], end["error"], end["bytes_in"], end["bytes_out"]),
                         ("CONNECT", 200, None, len(data), len(data)))
        self.assertIn(f'bytes_total{{direction="in"}} {len(data)}\n', g.ask_admin("/metrics"))

    def test_either_side_of_a_tunnel_may_end_first(self):
        late = []

        def answer_after_the_end(client):
            client.sendall(b"got " + read_all(client))

        def end_and_read_on(client):
            client.sendall(b"banner")
            client.shutdown(socket.SHUT_WR)
            late.append(read_all(client))

        first, second = self.server(answer_after_the_end), self.server(end_and_read_on)
        g = self.gateway([f"a.example.test:{s.port}" for s in (first, second)])
        client = self.open_tunnel(g, f"a.example.test:{first.port}")
        client.sendall(b"all")
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(read_all(client), b"got all")
        client = self.open_tunnel(g, f"a.example.test:{second.port}")
        self.assertEqual(read_all(client), b"banner")
        client.sendall(b"still here")
        client.shutdown(socket.SHUT_WR)
        wait_until(lambda: late == [b"still here"], "the server has read on")
        ends = {e["host"]: (e["status"], e["error"], e["bytes_in"], e["bytes_out"]) for e in self.ends(g, 2)}
        self.assertEqual(ends, {f"a.example.test:{first.port}": (200, None, 3, 7),
                                f"a.example.test:{second.port}": (200, None, 10, 6)})

    def test_bytes_behind_the_head_are_passed_on(self):
        server = self.server(lambda client: client.sendall(client.recv(5, socket.MSG_WAITALL).upper()))
        target = f"a.example.test:{server.port}"
        g = self.gateway([target])
        with socket.create_connection(("127.0.0.1", g.port)) as client:
            client.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\nearly".encode())
            self.assertTrue(read_all(client).endswith(b"\r\n\r\nEARLY"))

    def test_a_client_that_reads_nothing_stops_the_server_and_is_cut(self):
        sent = []

        def pour(client):
            try:
                while True:
                    sent.append(client.send(b"z" * (1 << 16)))
            finally:
                sent.append(0)

        def stands_still():
            before = len(sent)
            time.sleep(0.5)
            return sent and len(sent) == before

        server = self.server(pour)
        target = f"a.example.test:{server.port}"
        g = self.gateway([target], head='limits.time = { write_stall = "5s" }')
        before = memory_of(g)
        client = self.open_tunnel(g, target)
        wait_until(stands_still, "the server waits")
        grown = memory_of(g) - before
        print(f"  {sum(sent) >> 10} KiB are on their way, the gateway has grown by {grown >> 10} KiB", file=sys.stderr)
        self.assertLess(grown, 4 << 20)
        wait_until(lambda: sent[-1] == 0, "the server is told")
        wait_until(lambda: g.whole_state()["tunnels"] == 0 and self.host(g)["held"] == 0, "its places are free")
        self.assertEqual(self.ends(g)[0]["status"], 200)
        client.close()

    def test_a_server_that_reads_nothing_stops_the_client(self):
        stop = threading.Event()
        self.addCleanup(stop.set)
        server = self.server(lambda client: stop.wait())
        g = self.gateway([f"a.example.test:{server.port}"], 'timeout = { idle = "3s" }')
        before = memory_of(g)
        client = self.open_tunnel(g, f"a.example.test:{server.port}")
        sent = 0
        with self.assertRaises(ConnectionError):
            while True:
                sent += client.send(b"z" * (1 << 16))
        print(f"  {sent >> 10} KiB went", file=sys.stderr)
        self.assertLess(memory_of(g) - before, 4 << 20)
        self.assertEqual(self.ends(g)[0]["status"], 200)

    def test_a_destination_that_dies_ends_the_tunnel(self):
        def die(client):
            client.recv(1)
            reset(client)

        server = self.server(die)
        g = self.gateway([f"a.example.test:{server.port}"])
        client = self.open_tunnel(g, f"a.example.test:{server.port}")
        client.sendall(b"x")
        self.assertEqual(read_all(client), b"")
        end = self.ends(g)[0]
        self.assertEqual((end["status"], end["error"], end["bytes_in"]), (200, "upstream_failed", 1))
        self.assertEqual((g.whole_state()["tunnels"], self.host(g)["held"]), (0, 0))

    def test_a_client_that_dies_ends_the_tunnel(self):
        seen = []
        server = self.server(lambda client: seen.append(read_all(client)))
        g = self.gateway([f"a.example.test:{server.port}"])
        client = self.open_tunnel(g, f"a.example.test:{server.port}")
        reset(client)
        client.close()
        self.assertEqual(self.ends(g)[0]["status"], 200)
        wait_until(lambda: g.whole_state()["tunnels"] == 0 and self.host(g)["held"] == 0, "its places are free")
        wait_until(lambda: seen == [b""], "the server is told")

    def test_a_tunnel_that_is_idle_ends(self):
        stop = threading.Event()
        self.addCleanup(stop.set)

        def tick(client):
            for _ in range(10):  # while bytes move one way, the other may be silent
                time.sleep(0.4)
                client.sendall(b".")
            stop.wait()

        server = self.server(tick)
        g = self.gateway([f"a.example.test:{server.port}"], 'timeout = { idle = "2s" }')
        client = self.open_tunnel(g, f"a.example.test:{server.port}")
        self.assertEqual(read_all(client), b"." * 10)
        end = self.ends(g)[0]
        self.assertEqual((end["status"], end["error"], end["bytes_out"]), (200, "idle", 10))

    def test_tunnels_wait_for_each_other(self):
        server = self.server(lambda client: client.sendall(client.recv(10)))
        g = self.gateway([f"*.example.test:{server.port}"], "tunnels = 1\nmax_wait = 10m")
        first = self.open_tunnel(g, f"a.example.test:{server.port}")
        second = self.ask_tunnel(g, f"b.example.test:{server.port}")
        third = self.ask_tunnel(g, f"c.example.test:{server.port}", "X-Canigo-Max-Wait: 1s\r\n")
        self.assertEqual(self.status_of_tunnel(third), 429)
        # Nobody holds a place of a host while it waits for a tunnel.
        state = g.whole_state()
        self.assertEqual({h["name"][0]: (h["held"], h["waiting"]) for h in state["forwarded"]},
                         {"a": (1, 0), "b": (0, 1), "c": (0, 0)})
        self.assertEqual([w["waits_for"] for w in state["forwarded_waiters"]], ["tunnels"])
        self.assertIn("canigo_gateway_forwarded_waiting 1\n", g.ask_admin("/metrics"))
        second.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            second.recv(1)
        second.settimeout(None)
        first.sendall(b"bye")
        self.assertEqual(read_all(first), b"bye")
        first.close()
        self.assertEqual(self.status_of_tunnel(second), 200)
        second.sendall(b"next")
        self.assertEqual(read_all(second), b"next")
        second.close()
        waited = next(e for e in self.ends(g, 3) if e["host"].startswith("b"))["wait_ms"]
        self.assertGreater(waited, 1000)

    def test_a_client_that_leaves_while_it_waits_takes_no_tunnel(self):
        server = self.server(read_all)
        target = f"a.example.test:{server.port}"
        for limit in ("concurrency = 1", "tunnels = 1"):
            server.came_to.clear()
            g = self.gateway([target], f"{limit}\nmax_wait = 10h")
            first = self.open_tunnel(g, target)
            for n, leave in enumerate((lambda s: s.close(), lambda s: s.shutdown(socket.SHUT_WR)), 1):
                waiting = self.ask_tunnel(g, target)
                with self.subTest(f"{limit} {n}"):
                    time.sleep(0.2)
                    leave(waiting)
                    self.assertEqual(self.ends(g, n)[n - 1]["status"], 0)
            self.assertEqual(len(server.came_to), 1)
            self.assertEqual((self.host(g)["waiting"], self.host(g)["held"]), (0, 1))
            first.close()
            self.assertEqual(self.ends(g, 3)[2]["status"], 200)

    def test_there_are_only_so_many_hosts(self):
        server = self.script()
        for limit, wanted in (("1000/1s", [200, 200, 200, 200]), ("1/10s", [200, 200, 503, 200])):
            g = self.gateway([f"*.example.test:{server.port}"],
                             f'hosts = 2\nrates = [{{ limit = "{limit}" }}]\nmax_wait = 1m')
            if limit == "1/10s":
                time.sleep(10.2)
            found = []
            for name in "abca":
                status, fields, _ = self.proxied(g, f"http://{name}.example.test:{server.port}/")
                found.append(status)
                if status == 503:
                    self.assertEqual((fields["x-canigo-error"], fields["retry-after"]), ("queue_full", "1"))
                time.sleep(0.1)  # the rate of 1,000 a second is full again
            # A host whose rate is used up is not forgotten.
            self.assertEqual(found, wanted)
            self.assertEqual(g.whole_state()["forwarded_hosts"], 2)

    def test_a_host_that_nobody_uses_is_forgotten_after_a_minute(self):
        server = self.script()
        g = self.gateway([f"*.example.test:{server.port}"])

        def hosts_after(name):
            self.assertEqual(self.proxied(g, f"http://{name}.example.test:{server.port}/")[0], 200)
            return {h["name"][0] for h in g.whole_state()["forwarded"]}

        self.assertEqual(hosts_after("a"), {"a"})
        self.assertEqual(hosts_after("b"), {"a", "b"})
        time.sleep(61)
        self.assertEqual(hosts_after("a"), {"a", "b"})  # one that is known already makes nobody look
        self.assertEqual(hosts_after("c"), {"a", "c"})

    def reload(self, g, *changes):
        g.rewrite(*changes)
        g.ask_admin("/api/reload", method="POST")

    def test_a_reload_changes_the_rate_of_those_who_wait_at_a_host(self):
        server = self.script()
        g = self.gateway([f"*.example.test:{server.port}"],
                         'rates = [{ limit = "1/1h", burst = 1 }]\nqueue = 5_000\nmax_wait = 7d')
        calls = [Curls([f"http://{name}.example.test:{server.port}/{i}" for i in range(100)], "-x", g.url)
                 for name in "ab"]
        for c in calls:
            self.addCleanup(c.kill)
        wait_until(lambda: sum(h["waiting"] for h in g.whole_state()["forwarded"]) == 200, "they wait")
        self.reload(g, ('"1/1h"', '"1000/1s"'))
        for c in calls:
            self.assertEqual(c.statuses(), [200] * 100)

    def test_a_reload_that_forbids_a_host_ends_the_waits_there_and_no_others(self):
        server = self.script()
        allowed = [f"{name}.example.test:{server.port}" for name in "ab"]
        g = self.gateway(allowed, 'rates = [{ limit = "1/1h", burst = 1 }]\nmax_wait = 7d')
        gone, stays = (Curls([f"http://{name}/{i}" for i in range(10)], "-x", g.url) for name in allowed)
        self.addCleanup(stays.kill)
        self.addCleanup(gone.kill)
        wait_until(lambda: sum(h["waiting"] for h in g.whole_state()["forwarded"]) == 20, "they wait")
        self.reload(g, (f'"{allowed[0]}", ', ""))
        self.assertEqual(gone.statuses(), [503] * 10)
        self.assertEqual({e["error"] for e in self.ends(g, 10)}, {"no_route"})
        self.assertEqual(self.proxied(g, f"http://{allowed[0]}/")[0], 403)
        self.assertEqual([(h["name"], h["waiting"]) for h in g.whole_state()["forwarded"]], [(allowed[1], 10)])
        self.reload(g, ('"1/1h"', '"1000/1s"'))
        self.assertEqual(stays.statuses(), [200] * 10)

    def test_a_reload_changes_the_number_of_tunnels(self):
        server = self.server(read_all)
        target = f"a.example.test:{server.port}"
        g = self.gateway([target], "tunnels = 1\nmax_wait = 10m")
        first = self.open_tunnel(g, target)
        second = self.ask_tunnel(g, target)
        time.sleep(0.5)
        self.assertEqual(len(server.came_to), 1)
        self.reload(g, ("tunnels = 1", "tunnels = 2"))
        self.assertEqual(self.status_of_tunnel(second), 200)
        self.reload(g, ("tunnels = 2", "tunnels = 1"))
        third = self.ask_tunnel(g, target)
        first.close()
        time.sleep(0.5)
        self.assertEqual(len(server.came_to), 2)
        second.close()
        self.assertEqual(self.status_of_tunnel(third), 200)

    def test_hosts_take_turns_at_the_tunnels(self):
        server = self.server(read_all)
        crowd, other = (f"{name}.example.test:{server.port}" for name in "ab")
        g = self.gateway([crowd, other], "tunnels = 1\nqueue = 3\nmax_wait = 10m")

        open_one = self.open_tunnel(g, crowd)
        crowded = []
        for i in range(3):
            crowded.append(self.ask_tunnel(g, crowd))
            self.waits(g, i + 1)
        self.assertEqual(self.status_of_tunnel(self.ask_tunnel(g, crowd)), 429)  # that host has no room for more
        late = self.ask_tunnel(g, other)
        self.waits(g, 4)
        open_one.close()
        self.assertEqual(self.status_of_tunnel(crowded[0]), 200)
        self.reload(g)  # keeps the lines
        crowded[0].close()
        self.assertEqual(self.status_of_tunnel(late), 200)
        self.waits(g, 2)
        late.close()
        self.assertEqual(self.status_of_tunnel(crowded[1]), 200)
        crowded[1].close()
        self.assertEqual(self.status_of_tunnel(crowded[2]), 200)

    def with_tenants(self, names, more):
        """A gateway with those tenants and one host, and what asks it for a tunnel to that host as one of them."""
        keys = {name: f"the-key-of-{name}" for name in names}
        tenants = "".join(f'[[tenant]]\nname = "{name}"\nkeys = ["sha256:{hashlib.sha256(key.encode()).hexdigest()}"]\n'
                          for name, key in keys.items())
        host = f"a.example.test:{self.server(read_all).port}"
        g = self.gateway([host], f"{more}\n{tenants}", anonymous="")

        def ask(name):
            shown = base64.b64encode(f"x:{keys[name]}".encode()).decode()
            return self.ask_tunnel(g, host, f"Proxy-Authorization: Basic {shown}\r\n")

        return g, ask

    def waits(self, g, n):
        wait_until(lambda: len(g.whole_state()["forwarded_waiters"]) == n, f"{n} wait")

    def test_tenants_take_turns_at_the_tunnels_of_a_host(self):
        g, ask = self.with_tenants("ab", "tunnels = 1\nqueue = 3\nmax_wait = 10m")
        open_one = ask("a")
        self.assertEqual(self.status_of_tunnel(open_one), 200)
        crowded = []
        for i in range(3):
            crowded.append(ask("a"))
            self.waits(g, i + 1)
        self.assertEqual(self.status_of_tunnel(ask("a")), 429)  # there is no room for more of this tenant
        late = ask("b")
        self.waits(g, 4)
        open_one.close()
        self.assertEqual(self.status_of_tunnel(crowded[0]), 200)
        self.reload(g, ('name = "b"', 'name = "b"\nweight = 2'))  # keeps the lines
        last = ask("b")
        self.waits(g, 4)
        crowded.append(ask("a"))
        self.waits(g, 5)
        self.assertEqual(self.status_of_tunnel(ask("a")), 429)  # the line goes on, and is full
        crowded[0].close()
        self.assertEqual(self.status_of_tunnel(late), 200)
        late.close()
        self.assertEqual(self.status_of_tunnel(last), 200)
        last.close()
        for one in crowded[1:]:
            self.assertEqual(self.status_of_tunnel(one), 200)
            one.close()

    def test_a_reload_that_allows_no_tunnels_ends_those_who_wait(self):
        server = self.server(read_all)
        target = f"a.example.test:{server.port}"
        for limit in ("concurrency = 1", "concurrency = 5"):
            g = self.gateway([target], f"{limit}\ntunnels = 1\nmax_wait = 10m")
            first = self.open_tunnel(g, target)
            waiting = [self.ask_tunnel(g, target) for _ in range(3)]
            self.waits(g, 3)
            self.reload(g, ("tunnels = 1", "tunnels = 0"))
            self.assertEqual([self.status_of_tunnel(w) for w in waiting], [403] * 3)
            first.sendall(b"goes on")
            self.reload(g, ("tunnels = 0", "tunnels = 2"))
            if "5" in limit:
                self.assertEqual(self.status_of_tunnel(self.ask_tunnel(g, target)), 200)

    def test_a_reload_gives_a_tenant_more_of_the_tunnels_of_those_who_wait(self):
        g, ask = self.with_tenants("ab", "tunnels = 1\nqueue = 8\nmax_wait = 10m")
        served = ask("a")
        self.assertEqual(self.status_of_tunnel(served), 200)
        waiting = {}
        for name in "abababbbb":
            waiting[ask(name)] = name
            self.waits(g, len(waiting))
        self.reload(g, ('name = "b"', 'name = "b"\nweight = 5'))
        order = ""
        while waiting:
            served.close()
            [served], _, _ = select.select(list(waiting), [], [])
            self.assertEqual(self.status_of_tunnel(served), 200)
            order += waiting.pop(served)
        self.assertGreaterEqual(order[:6].count("b"), 4, order)  # half of them with equal weights

    def test_a_host_in_use_since_before_a_reload_is_not_forgotten(self):
        server = self.server(read_all)
        targets = [f"{name}.example.test:{server.port}" for name in "ab"]
        g = self.gateway(targets, "concurrency = 1\nhosts = 1\nmax_wait = 10m")
        first = self.open_tunnel(g, targets[0])
        self.reload(g)
        self.assertEqual(self.status_of_tunnel(self.ask_tunnel(g, targets[1])), 503)  # there is no room for it
        second = self.ask_tunnel(g, targets[0])
        wait_until(lambda: (self.host(g)["held"], self.host(g)["waiting"]) == (1, 1), "the second waits")
        first.close()
        self.assertEqual(self.status_of_tunnel(second), 200)

    def test_reloads_harm_no_host_that_comes_and_goes(self):
        server = self.script()
        g = self.gateway([f"*.example.test:{server.port}"], "hosts = 2\nmax_wait = 10m")
        ends = threading.Event()

        def reload_on():
            while not ends.is_set():
                g.ask_admin("/api/reload", method="POST")

        reloading = threading.Thread(target=reload_on)
        reloading.start()
        try:
            names = "abcabcabcabc" * 10
            # Past two hosts there is no room now and then, and nothing else ever goes wrong.
            found = Curls([f"http://{n}.example.test:{server.port}/" for n in names], "-x", g.url).statuses()
        finally:
            ends.set()
            reloading.join()
        self.assertIn(200, found)
        self.assertLessEqual({(e["status"], e["error"]) for e in self.ends(g, len(names))},
                             {(200, None), (503, "queue_full")})

    def test_a_host_has_as_many_connections_as_run_at_once(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        arrived = []

        def answer(client, stream, head):
            arrived.append(1)
            if head.startswith("GET /slow"):
                gate.wait()
            answer_hello(client, stream, head)

        upstream = self.script(answer)
        g = self.gateway([f"a.example.test:{upstream.port}"], "concurrency = 20\nmax_wait = 10m")
        slow = Curls([f"http://a.example.test:{upstream.port}/slow{i}" for i in range(30)], "-x", g.url)
        wait_until(lambda: len(arrived) == 20, "twenty run at once")
        wait_until(lambda: self.host(g)["waiting"] == 10, "ten wait")
        self.assertEqual(self.host(g)["held"], 20)
        gate.set()
        self.assertEqual(slow.statuses(), [200] * 30)

    def test_open_tunnels_end_with_the_process(self):
        server = self.server(read_all)
        target = f"a.example.test:{server.port}"
        g = self.gateway([target], head='grace = "500ms"')
        client = self.open_tunnel(g, target)
        code, told = g.stop()
        self.assertEqual(code, 1)
        self.assertIn("1 run, and all have 500ms\n", told)
        self.assertTrue(told.endswith("canigo-gateway: has ended, and cut some requests\n"), told)
        self.assertEqual(read_all(client), b"")


if __name__ == "__main__":
    private_net.enter()
    main(Forward)
