#!/usr/bin/env python3
"""What scripts/gateway-demo runs: demo.py CANIGO_GATEWAY. Prints what happens, and a verdict; 0 if that is good."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

from rig import TOKEN, Gateway, Nginx, Script, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENTS = pathlib.Path(__file__).parent / "clients"
RATE = 4  # calls a second
EACH = 12  # calls of each client


def clients(folder):
    """{name: the command that sends calls}; each gets the gateway's address, a class, and a number of calls."""
    found = {}
    urls = [f"/web/{{}}/{i}" for i in range(EACH)]

    def with_paths(name, *command):
        paths = [part for u in urls for part in ("GET", u.format(name))]
        return lambda url, priority: [*command, url, os.devnull, *paths]

    found["curl"] = lambda url, priority: ["curl", "-sS", "-o", os.devnull, "-w", "%{http_code}\\n", "--parallel",
                                           "-H", f"X-Canigo-Priority: {priority}",
                                           *[part for u in urls for part in (url + u.format("curl"), "-o", os.devnull)]]
    found["python"] = with_paths("python", sys.executable, CLIENTS / "client.py", "urllib")
    if shutil.which("node"):
        found["node"] = with_paths("node", "node", CLIENTS / "client.mjs")
    if shutil.which("go"):
        built = subprocess.run(["go", "build", "-o", folder / "client", CLIENTS / "client.go"],
                               env={**os.environ, "GO111MODULE": "off"}, capture_output=True)
        if built.returncode == 0:
            found["go"] = with_paths("go", folder / "client")
    return found


def show_queue(g):
    state = g.state()
    by_class = ", ".join(f"{c['waiting']} {c['name']}" for c in state["classes"])
    print(f"\nThe queue now: {state['waiting']} wait ({by_class}). What binds: {state['binds']}.")
    print(f"{'class':>12} {'waited':>8} {'still':>8}  for")
    for w in state["waiters"][:8]:
        print(f"{w['class']:>12} {w['waited_ms'] / 1e3:>6.1f} s {w['estimate_ms'] / 1e3:>6.1f} s  {w['waits_for']}")


def picture(g):
    if shutil.which("chromedriver") is None:
        print("\nNo Chromium with its driver here, so no picture of the page.")
        return
    to = ROOT / "build" / "gateway-demo.png"
    sys.path.insert(0, str(ROOT / "docs/site"))
    from look import Browser
    browser = Browser(1280)
    try:
        browser.ask("POST", "/url", {"url": f"http://127.0.0.1:{g.admin}/"})
        browser.ask("POST", f"/element/{browser.element('#token')}/value", {"text": TOKEN})
        browser.run("document.querySelector('#form button').click()")
        wait_until(lambda: browser.run("return document.querySelectorAll('#upstreams h2').length") == 2, "it is shown")
        browser.picture(to)
        print(f"\nA picture of the admin page: {to.relative_to(ROOT)}")
    finally:
        browser.close()


def judge(calls, entries):
    """What nginx saw, against what was promised."""
    times = sorted(float(c[0]) for c in calls)
    most = max(sum(t <= u < t + 1 for u in times) for t in times)
    mean = (len(times) - 1) / (times[-1] - times[0])
    print(f"\nnginx got {len(calls)} calls: {mean:.2f} a second, {most} in the fullest second. The quota is {RATE} a "
          "second.")
    waits = {}
    for e in entries:
        if e["status"] == 200 and e["upstream"] == "web":
            waits.setdefault(e["class"], []).append(e["wait_ms"] / 1e3)
    for name in ("interactive", "normal", "batch"):
        if name in waits:
            w = sorted(waits[name])
            print(f"{name:>12}: {len(w)} calls, median wait {w[len(w) // 2]:.1f} s, longest {w[-1]:.1f} s")
    # nginx notes the end of a call, so a busy machine may move one or two into another second.
    kept = most <= RATE + 3 and mean <= RATE * 1.05
    first = "interactive" not in waits or "batch" not in waits or \
        sorted(waits["interactive"])[len(waits["interactive"]) // 2] < sorted(waits["batch"])[len(waits["batch"]) // 2]
    refused = [e for e in entries if e["status"] != 200]
    good = kept and first and not refused
    print(f"The quota was {'kept' if kept else 'BROKEN'}. Important calls "
          f"{'went first' if first else 'DID NOT GO FIRST'}. Nobody was refused." if not refused else
          f"REFUSED: {refused[:3]}")
    print("verdict: good" if good else "verdict: BAD")
    return good


def main():
    began = time.monotonic()
    nginx = Nginx()
    events = Script(lambda client, _s, _h: client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nscript\n"))
    g = Gateway(f'name = "web"\nurl = "http://127.0.0.1:{nginx.plain}"\nprefix = "/web"\n'
                f'rates = [{{ limit = "{RATE}/1s", burst = 1 }}]\n',
                f'name = "script"\nurl = "http://127.0.0.1:{events.port}"\nprefix = "/script"\nconcurrency = 2\n',
                head='ageing = "never"')
    try:
        found = clients(g.dir)
        print(f"canigo-gateway on {g.url}: /web leads to nginx, {RATE} calls a second; /script to a script, 2 at once.")
        print(f"Clients: {', '.join(found)}, {EACH} calls each.")
        classes = dict(zip(found, ("batch", "interactive", "normal", "batch")))
        running = []
        for name, command in found.items():
            print(f"  {name}: {classes[name]}")
            env = {**os.environ, "NO_PROXY": "*", "CANIGO_PRIORITY": classes[name]}
            running.append(subprocess.Popen([str(p) for p in command(g.url, classes[name])], env=env,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        running.append(subprocess.Popen(["curl", "-sS", f"{g.url}/script/hello"], stdout=subprocess.PIPE, text=True))
        with contextlib.suppress(AssertionError):  # the last of them may start late, on a busy machine
            wait_until(lambda: g.waiting() > len(found) * EACH * 2 / 3, "calls wait", 5)
        show_queue(g)
        pictured = threading.Thread(target=picture, args=(g,))
        pictured.start()
        for process in running:
            process.communicate(timeout=60)
        pictured.join()
        wait_until(lambda: len(g.log()) == len(found) * EACH + 1, "all are in the log")
        good = judge(nginx.calls(), g.log())
        print(f"after {time.monotonic() - began:.0f} s")
        return 0 if good and all(p.returncode == 0 for p in running) else 1
    finally:
        g.close()
        events.close()
        nginx.close()


if __name__ == "__main__":
    sys.exit(main())
