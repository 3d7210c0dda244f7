#!/usr/bin/env bash
# libcurl 8.23 and an answer that nobody asked for, on a kept TLS connection.
#
# A server answers a request, and sends a second, whole answer right behind it. RFC 9112, 9.2: the client must not take
# that for the answer to a later request. A good guess: curl looks at a connection before it uses it again, and discards
# one that has input pending, as it does over plain TCP and did over TLS up to 8.12.
#
# Seen: 8.19 to 8.23 take the surplus answer for that of the next request, which goes over the same connection. From
# then on each answer there is that of the request before. These versions let OpenSSL read ahead, so the surplus record
# lies inside of OpenSSL, and the socket has nothing to read.
#
# What helps a program: SSL_has_pending() of CURLINFO_TLS_SSL_PTR in the prereq callback of a connection that is reused.
#
# Prints what each version did, and fails if that is no longer so. Needs python3 with venv, openssl, and PyPI.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/play.py" <<'PLAY'
import io, pycurl, socket, ssl, subprocess, sys, threading, time

folder = sys.argv[1]
key, certificate = folder + "/key", folder + "/certificate"
subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                "-subj", "/CN=localhost", "-days", "2"], check=True, capture_output=True)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(certificate, key)
listener = socket.create_server(("127.0.0.1", 0))
seen = []  # the number of the connection of each request


def answer(text):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


def serve(number, connection):
    text = b""
    while part := connection.recv(4096):
        text += part
        if not text.endswith(b"\r\n\r\n"):
            continue
        text = b""
        seen.append(number)
        connection.sendall(answer(b"mine"))
        if number == 1:
            connection.sendall(answer(b"unasked"))


def accept():
    number = 0
    while True:
        raw, _ = listener.accept()
        number += 1
        threading.Thread(target=serve, args=(number, tls.wrap_socket(raw, server_side=True)), daemon=True).start()


threading.Thread(target=accept, daemon=True).start()
curl = pycurl.Curl()
bodies = []
for _ in range(2):
    body = io.BytesIO()
    curl.setopt(pycurl.URL, f"https://localhost:{listener.getsockname()[1]}/")
    curl.setopt(pycurl.CAINFO, certificate)
    curl.setopt(pycurl.WRITEDATA, body)
    curl.perform()
    bodies.append(body.getvalue().decode())
    time.sleep(0.3)
print(pycurl.version.split()[1], *bodies, "connections", *seen)
PLAY

# A wheel of pycurl has a libcurl of its own.
play() {
  python3 -m venv "$folder/$1"
  "$folder/$1/bin/pip" -q --disable-pip-version-check install --only-binary :all: "pycurl==$1"
  "$folder/$1/bin/python" "$folder/play.py" "$folder"
}

old=$(play 7.45.6)
new=$(play 7.49.0)
printf '%s\n%s\n' "$old" "$new"
[ "$old" = "libcurl/8.12.1-DEV mine mine connections 1 2" ] || { echo "8.12 no longer discards it" >&2; exit 1; }
[ "$new" = "libcurl/8.23.0 mine unasked connections 1 1" ] || { echo "8.23 behaves otherwise now" >&2; exit 1; }
echo "as described"
