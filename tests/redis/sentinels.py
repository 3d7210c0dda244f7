"""A master with two replicas and three sentinels, all real, and a sentinel that is not."""

import socket
import socketserver
import subprocess
import threading
import time


class Behind(socketserver.ThreadingTCPServer):
    """A sentinel that names the first master for ever. So does one that led a failover if the new master dies before
    all follow it, and the old one takes over again."""

    daemon_threads = True

    def __init__(self, port):
        text = f"*2\r\n$9\r\n127.0.0.1\r\n${len(port)}\r\n{port}\r\n".encode()

        class Answer(socketserver.BaseRequestHandler):
            def handle(self):
                try:
                    while self.request.recv(4096):
                        self.request.sendall(text)
                except OSError:
                    pass

        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Sentinels:
    """Which of them is the master is what most of the sentinels say."""

    def __init__(self, folder):
        self.folder = folder
        sockets = [socket.socket() for _ in range(6)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        self.ports = [str(s.getsockname()[1]) for s in sockets]
        for s in sockets:
            s.close()
        self.nodes = {}
        for port in self.ports[:3]:
            self.start(port, None if port == self.ports[0] else self.ports[0])
        self.watchers = [self.watch(port) for port in self.ports[3:]]
        self.behind = Behind(self.ports[0])
        self.wait(lambda: all(self.ask(port, "SENTINEL", "CKQUORUM", "main").startswith("OK 3") and
                              self.ask(port, "SENTINEL", "REPLICAS", "main").count("master-link-status\nok") == 2
                              for port in self.ports[3:]))

    def url(self):
        ports = [str(self.behind.server_address[1]), *self.ports[3:]]
        return "redis+sentinel://" + ",".join("127.0.0.1:" + port for port in ports) + "/main"

    def start(self, port, master):
        (self.folder / port).mkdir(exist_ok=True)
        follows = ["--replicaof", "127.0.0.1", master] if master else []
        self.nodes[port] = subprocess.Popen(
            ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", str(self.folder / port), "--save", "",
             "--repl-diskless-sync-delay", "0", *follows], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait(lambda: self.ask(port, "PING") == "PONG")

    def watch(self, port):
        file = self.folder / f"sentinel{port}"
        file.write_text(f"port {port}\nbind 127.0.0.1\ndir {self.folder}\n"
                        f"sentinel monitor main 127.0.0.1 {self.ports[0]} 2\n"
                        "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n")
        return subprocess.Popen(["redis-server", str(file), "--sentinel"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def ask(self, port, *command):
        return subprocess.run(["redis-cli", "-p", port, *command], capture_output=True, text=True,
                              check=False).stdout.strip()

    def wait(self, good, seconds=120):
        give_up = time.monotonic() + seconds
        while not good():
            if time.monotonic() > give_up:
                raise RuntimeError("the sentinels do not get there")
            time.sleep(0.05)

    def master(self):
        named = [self.ask(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main").split()[-1:] for port in self.ports[3:]]
        return max((n[0] for n in named if n), key=[n[0] for n in named if n].count, default="")

    def kill_master(self):
        """Until there is another, which has a replica."""
        dead = self.master()
        self.nodes[dead].kill()
        self.nodes[dead].wait()
        # The sentinels would make a replica of any other Redis that got the port.
        self.reserved = socket.socket()
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.reserved.bind(("127.0.0.1", int(dead)))
        self.wait(lambda: self.master() not in ("", dead) and self.ask(self.master(), "ROLE").startswith("master"))
        return dead

    def told(self):
        """What each of them says of the others."""
        said = [f"sentinel {port}: {self.ask(port, 'SENTINEL', 'MASTER', 'main').split()}" for port in self.ports[3:]]
        said += [f"node {port}: {self.ask(port, 'ROLE').split()}" for port in self.ports[:3]]
        return "\n  ".join(said)

    def bring_back(self, port):
        self.reserved.close()
        self.start(port, self.master())
        self.wait(lambda: "connected" in self.ask(port, "ROLE"))

    def close(self):
        self.behind.shutdown()
        self.behind.server_close()
        for process in [*self.watchers, *self.nodes.values()]:
            process.kill()
            process.wait()
