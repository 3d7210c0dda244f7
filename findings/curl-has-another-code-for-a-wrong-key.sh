#!/usr/bin/env bash
# libcurl 8.19 and newer, and a client's key that does not fit its certificate.
#
# A good guess: CURLE_SSL_CERTPROBLEM (58, "Problem with the local SSL certificate"), as libcurl-errors(3) describes it
# and as all versions up to 8.12 said. So a program that tells a fault of its own files from one of the server by 58 is
# right by the manual.
#
# Seen: 8.19 to 8.23 end the transfer with CURLE_BAD_FUNCTION_ARGUMENT (43, "A function was called with a bad
# parameter"), though no function was: the options are valid strings, and both files are readable. The words of the
# error buffer are the same.
#
# Prints what each version said, and fails if that is no longer so. Needs python3 with venv, openssl, and PyPI.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/play.py" <<'PLAY'
import pycurl, socket, ssl, subprocess, sys, threading

folder = sys.argv[1]


def certificate(name):
    paths = f"{folder}/{name}.crt", f"{folder}/{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", paths[1], "-out", paths[0],
                    "-subj", "/CN=localhost", "-days", "2"], check=True, capture_output=True)
    return paths


server, other = certificate("server"), certificate("other")
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(*server)
listener = socket.create_server(("127.0.0.1", 0))


def accept():
    while True:
        raw, _ = listener.accept()
        try:
            tls.wrap_socket(raw, server_side=True)
        except OSError:
            pass


threading.Thread(target=accept, daemon=True).start()
curl = pycurl.Curl()
curl.setopt(pycurl.URL, f"https://localhost:{listener.getsockname()[1]}/")
curl.setopt(pycurl.CAINFO, server[0])
curl.setopt(pycurl.SSLCERT, server[0])
curl.setopt(pycurl.SSLKEY, other[1])
try:
    curl.perform()
except pycurl.error as e:
    print(pycurl.version.split()[1], e.args[0], e.args[1].split(":")[0])
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
[ "$old" = "libcurl/8.12.1-DEV 58 unable to set private key file" ] || { echo "8.12 said otherwise" >&2; exit 1; }
[ "$new" = "libcurl/8.23.0 43 unable to set private key file" ] || { echo "8.23 says otherwise now" >&2; exit 1; }
echo "as described"
