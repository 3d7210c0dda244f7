"""A network namespace of its own for a test: public addresses on the loopback, and a scripted DNS server.

enter() starts the program again in that namespace. Its resolver then asks the Names of the test, and nothing that it
sends leaves the machine.
"""

import ipaddress
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading

INSIDE = "CANIGO_PRIVATE_NET"
SKIPPED = 77
PUBLIC = "93.184.216.34"
PUBLIC_V6 = "2606:2800:220:1::34"
# Of networks that no stranger's name may lead to; here they all lead to this machine.
ADDRESSES = [PUBLIC, "10.0.0.1", "100.64.0.1", "169.254.169.254", "192.168.7.7"]
ADDRESSES_V6 = [PUBLIC_V6, "64:ff9b::a00:1", "2002:a00:1::1", "fd00::1"]


def enter():
    """Returns inside of the namespace; ends the program as skipped if the kernel allows none."""
    if os.environ.get(INSIDE):
        furnish()
        return
    for flags in ("-mn", "-rmn"):
        if subprocess.run(["unshare", flags, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp("unshare", ["unshare", flags, sys.executable, *sys.argv])
    print("no network namespace may be made here")
    sys.exit(SKIPPED)


def furnish():
    def run(*command):
        subprocess.run(command, check=True)

    run("ip", "link", "set", "lo", "up")
    for address in ADDRESSES:
        run("ip", "address", "add", f"{address}/32", "dev", "lo")
    for address in ADDRESSES_V6:
        run("ip", "-6", "address", "add", f"{address}/128", "dev", "lo", "nodad")
    with tempfile.TemporaryDirectory() as place:
        for name, text in (("resolv.conf", "nameserver 127.0.0.1\noptions timeout:2 attempts:2\n"),
                           ("nsswitch.conf", "hosts: files dns\n")):
            file = pathlib.Path(place) / name
            file.write_text(text)
            file.chmod(0o644)
            run("mount", "--bind", file, f"/etc/{name}")


class Names:
    """A DNS server on port 53. `table` has the addresses of each name, or a function that returns them each time.

    A name whose function returns None gets no answer.
    """

    def __init__(self):
        self.table = {}
        self.asked = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            query, client = self.socket.recvfrom(4096)
            if answer := self.answer(query):
                self.socket.sendto(answer, client)

    def answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        kind = struct.unpack(">H", query[at + 1:at + 3])[0]
        name = ".".join(labels).lower()
        family = {1: 4, 28: 6}.get(kind)
        addresses = self.table.get(name)
        known = addresses is not None
        if callable(addresses):
            addresses = addresses(family)
            if addresses is None:
                return None
        self.asked.append((name, family))
        found = [a for a in map(ipaddress.ip_address, addresses or []) if a.version == family]
        records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(a.packed)) + a.packed for a in found)
        flags = 0x8180 if known else 0x8183
        return query[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0) + query[12:at + 5] + records
