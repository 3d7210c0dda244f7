"""Calls URL paths through the gateway: client.py urllib|requests|httpx BASE BODY_FILE METHOD PATH [METHOD PATH]…

POST and PUT send the file, in chunks if it is by requests or httpx. Prints of each call: status, and the SHA-256 of the
response's body. With CANIGO_PRIORITY in the environment all calls go at once, in that class.
"""

import concurrent.futures
import hashlib
import os
import sys
import urllib.request

HEADERS = {"X-Canigo-Priority": os.environ["CANIGO_PRIORITY"]} if "CANIGO_PRIORITY" in os.environ else {}


def pieces(path):
    with open(path, "rb") as file:
        while piece := file.read(50_000):
            yield piece


def by_urllib():
    def call(method, url, body):
        data = b"".join(body) if body else None
        with urllib.request.urlopen(urllib.request.Request(url, data, HEADERS, method=method)) as answer:
            return answer.status, answer.read()
    return call


def by_requests():
    import requests
    session = requests.Session()

    def call(method, url, body):
        answer = session.request(method, url, data=body, headers=HEADERS)
        return answer.status_code, answer.content
    return call


def by_httpx():
    import httpx
    session = httpx.Client(timeout=60)

    def call(method, url, body):
        answer = session.request(method, url, content=body, headers=HEADERS)
        return answer.status_code, answer.content
    return call


def main():
    library, base, path, *calls = sys.argv[1:]
    call = {"urllib": by_urllib, "requests": by_requests, "httpx": by_httpx}[library]()

    def one(method, target):
        status, text = call(method, base + target, pieces(path) if method in ("POST", "PUT") else None)
        print(status, hashlib.sha256(text).hexdigest())

    with concurrent.futures.ThreadPoolExecutor(len(calls) if HEADERS else 1) as pool:
        for done in [pool.submit(one, method, target) for method, target in zip(calls[::2], calls[1::2])]:
            done.result()


main()
