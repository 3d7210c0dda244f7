#!/usr/bin/env python3
"""Runs client libraries through canigo-gateway: run.py GATEWAY DIR [--record] [--page FILE] [ECOSYSTEM|CLIENT...].

DIR keeps the installed libraries. Each client has a gateway of its own, and each case an upstream of its own there. All
clients run at once. What each did is compared with expected.json, and a client that did something else is named.

--record writes what was seen into expected.json. --page writes docs/clients.md, unless something was unexpected; it
takes all clients. Ends with totals in the form of Catch2.
"""

import argparse
import json
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gateway"))

import ecosystems
import page
from rig import Gateway, free_ports
from stub import INPUT, MARKS, OUTPUT, PATIENCE, Stub

WAITS = {"wait_8": 8, "wait_20": 20, "wait_70": 70, "patient": 70}
TOLD = {"told_20": 20, "told_130": 130, "open": 20}
CASES = ["ok", "stream", *TOLD, *WAITS, "full", "unreachable", "lost", "slow"]
TOLD_BY_FULL = 1  # by a queue whose end is not known
STARTS = threading.Lock()  # held while a case begins
EARLY = 0.1  # of a second: the clocks of two processes are read

LONG = 'max_wait = { interactive = "10m", normal = "10m", batch = "10m" }\n'
SHORT = 'max_wait = { interactive = "1s", normal = "1s", batch = "1s" }\n'
SETTINGS = {
    **dict.fromkeys(WAITS, f"concurrency = 1\n{LONG}"),
    "told_20": f"{SHORT}retry = {{ attempts = 1 }}\n", "told_130": f"{SHORT}retry = {{ attempts = 1 }}\n",
    "open": f'{SHORT}breaker = {{ failures = "50%", of = 2, within = "1m", open = "20s", most = "20s" }}\n',
    "full": f"concurrency = 1\nqueue = 1\noverflow = \"reject_new\"\n{LONG}",
    "slow": 'timeout = { first_byte = "1s" }\nbreaker = { of = 10_000 }\n',
    "lost": "breaker = { of = 10_000 }\n", "unreachable": "breaker = { of = 10_000 }\n",
}


def post(url):
    """Returns the status, and whether the gateway itself has answered."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, b"{}", method="POST")) as answer:
            return answer.status, False
    except urllib.error.HTTPError as e:
        return e.code, "x-canigo-error" in e.headers


class Driver:
    """A process that makes a client's calls: of each case once."""

    def __init__(self, command, client, directory):
        self.process = subprocess.Popen([*command, client], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=(directory / f"{slug(client)}.log").open("w"))
        self.queues = {case: queue.Queue() for case in [None, *CASES]}
        self.lock = threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            told = json.loads(line)
            self.queues[told.get("case")].put(told)
        for waiting in self.queues.values():
            waiting.put({"error": "the driver has ended", "text": "", "seconds": 0})

    def start(self, case, url):
        with self.lock:
            self.process.stdin.write(f"{case} {url}\n")
            self.process.stdin.flush()

    def next(self, case):
        return self.queues[case].get()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def slug(client):
    return re.sub(r"[^\w]+", "-", client).strip("-")


class Trial:
    """One client in all of its cases."""

    def __init__(self, client, stub, command, directory):
        self.client = client
        self.name = slug(client.name)
        self.stub = stub
        self.results = {}
        self.cases = [case for case in CASES if client.has(case)]
        closed = free_ports(1)[0]
        upstreams = []
        for case in self.cases:
            port = closed if case == "unreachable" else stub.port
            tokens = f'tokens = {{ api = "{client.api}" }}\n' if client.api and case in ("ok", "stream") else ""
            upstreams.append(f'name = "{case}"\nurl = "http://127.0.0.1:{port}/{self.name}/{case}"\n'
                             f'prefix = "/{case}"\n{SETTINGS.get(case, "")}{tokens}')
        self.gateway = Gateway(*upstreams, threads=1)
        self.driver = Driver(command, client.name, directory)

    def state(self, case):
        return next(u for u in self.gateway.whole_state()["upstreams"] if u["name"] == case)

    def prime(self, case, *words):
        return post(f"{self.gateway.url}/{case}/prime/{'/'.join(map(str, words))}")

    def block(self, case):
        threading.Thread(target=self.prime, args=(case, "block"), daemon=True).start()

    def wait_for_waiting(self, case):
        # Seldom: all clients do so at once.
        while self.state(case)["waiting"] == 0:
            time.sleep(0.25)

    def run_case(self, case):
        seen = self.stub.case(self.name, case)
        if case in WAITS or case == "full":
            self.block(case)
            seen.blocked.wait()
        if case == "full":
            self.block(case)
            self.wait_for_waiting(case)
        with STARTS:  # one after the other, or those that give up early do so before the machine has come to them
            time.sleep(0.1)
            if case.startswith("told"):
                status, is_own = self.prime(case, 429, TOLD[case])
                assert (status, is_own) == (429, False), (self.client.name, case, status, is_own)
            if case == "open":
                for _ in range(2):
                    self.prime(case, 500)
            self.driver.start(case, f"{self.gateway.url}/{case}")
        if case in WAITS:
            self.wait_for_waiting(case)
            time.sleep(WAITS[case])
            seen.released.set()
        end = self.driver.next(case)
        if end.get("event") == "first":
            seen.released.set()
            end = {**self.driver.next(case), "first": True}
        seen.released.set()
        self.results[case] = end

    def begin(self):
        ready = self.driver.next(None)
        assert "ready" in ready, f"{self.client.name}: its driver does not start"
        self.limit = ready.get("limit")

    def run(self):
        self.run_case("ok")  # before the others: the library has then loaded all of its parts
        threads = [threading.Thread(target=self.run_case, args=(case,)) for case in self.cases if case != "ok"]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.driver.close()
        self.lines = [line for line in self.gateway.log() if "/prime/" not in line["path"]]
        self.gateway.close()

    def sends(self, case):
        """The lines of the access log, in the order in which the requests came, with their times in seconds."""
        lines = sorted((line for line in self.lines if line["upstream"] == case), key=lambda line: line["time"])
        for line in lines:
            clock, fraction = line["time"].rstrip("Z").split(".")
            whole = time.strptime(clock, "%Y-%m-%dT%H:%M:%S")
            line["at"] = time.mktime(whole) - time.timezone + float(f"0.{fraction}")
        return lines

    def facts(self):
        """What this client did, as texts and numbers that are the same in each run."""
        limit = {"limit": self.limit} if self.limit else {}
        return limit | {case: getattr(self, f"of_{kind(case)}")(case) for case in self.cases} | self.marks()

    def usual(self):
        return len(self.sends("ok"))

    def end_of(self, case):
        end = self.results[case]
        return "answered" if "value" in end else end["error"]

    def of_ok(self, case):
        end = self.results[case]
        # The usage of a stream is unknown if its client leaves at the last event, before the stream's end.
        lines = [e for e in self.sends(case) if case != "stream" or e["error"] != "left" or e["tokens_used"]]
        used = {line["tokens_used"] for line in lines}
        if self.client.api and used != {INPUT + OUTPUT} and (case != "stream" or lines):
            return f"{self.end_of(case)}, used {used}"
        if case == "stream" and "first" not in end:
            return f"{self.end_of(case)}, held back"
        return self.end_of(case)

    def of_wait(self, case):
        lines = self.sends(case)
        given_up = [(line["total_ms"] + 500) // 1000 for line in lines if line["status"] == 0]
        fact = {"end": self.end_of(case), "again": len(lines) > self.usual()}
        if given_up:
            fact["gives up after"] = given_up[0]
        return fact

    def of_told(self, case):
        lines = self.sends(case)
        end = self.results[case]
        fact = {"status": lines[0]["status"], "error": lines[0]["error"], "end": self.end_of(case)}
        if len(lines) == 1:
            fact["pause"] = "not sent again"
        elif lines[1]["at"] >= self.stub.case(self.name, case).refused_at + TOLD[case] - EARLY:
            fact["pause"] = "as told"
        else:
            fact["pause"] = "its own"
        if "value" not in end:
            fact["reason"] = reason_of(end)
        return fact

    def of_refused(self, case):
        lines = self.sends(case)
        end = self.results[case]
        fact = {"status": lines[0]["status"], "error": lines[0]["error"], "end": self.end_of(case),
                "sends": len(lines), "reason": reason_of(end)}
        if case == "full" and self.of_told("told_20")["pause"] == "as told":  # others may come so late by chance
            pauses = [b["at"] - a["at"] for a, b in zip(lines, lines[1:])]
            fact["pause"] = "as told" if min(pauses) >= TOLD_BY_FULL - EARLY else "its own"
        return fact

    def marks(self):
        """By which fields of its requests a server knows that one comes again."""
        heads = [dict(re.findall(r"([^\r\n:]+): *([^\r\n]*)", h.lower())) for h in
                 self.stub.case(self.name, "lost").heads]
        values = {mark: {head.get(mark) for head in heads} for mark in MARKS}
        marks = [mark for mark, seen in values.items() if seen != {None} and (len(seen) == 1 or "count" in mark)]
        told = self.stub.case(self.name, "ok").heads[0].lower()
        return {"tells": [name for name in PATIENCE if f"\n{name}:" in told],
                **({"marks": marks} if len(self.sends("lost")) > 1 else {})}


def reason_of(end):
    """Where the error has the gateway's reason: in its text, in a field of it, or in neither."""
    return next((place for place in ("text", "field") if "canigo-gateway: " in end.get(place, "")), "")


def kind(case):
    if case in WAITS:
        return "wait"
    if case in TOLD:
        return "told"
    return "ok" if case in ("ok", "stream") else "refused"


def lines_of(table):
    """JSON with a line for each fact."""
    clients = []
    for name, facts in table.items():
        rows = ",\n".join(f"    {json.dumps(fact)}: {json.dumps(what)}" for fact, what in facts.items())
        clients.append(f"  {json.dumps(name)}: {{\n{rows}\n  }}")
    return "{\n" + ",\n".join(clients) + "\n}\n"


def differences(expected, seen, where=""):
    """Each fact that is another one. A time may be later by a fifth and 2 s, on a busy machine."""
    for name in sorted({*expected, *seen}):
        old, new = expected.get(name), seen.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from differences(old, new, f"{where}{name}: ")
        elif name == "gives up after" and old is not None and new is not None:
            if not old <= new <= 1.2 * old + 2:
                yield f"{where}{name}: {new}, not {old}"
        elif old != new:
            yield f"{where}{name}: {new}, not {old}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gateway")
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    if options.page and options.names:
        parser.error("--page is for all clients")
    clients = [c for c in ecosystems.CLIENTS if not options.names or {c.name, c.ecosystem} & {*options.names}]
    if not clients:
        parser.error(f"no client has one of these names; there are: {', '.join(c.name for c in ecosystems.CLIENTS)}")
    options.dir.mkdir(parents=True, exist_ok=True)
    commands = {e: ecosystems.install(e, options.dir) for e in dict.fromkeys(c.ecosystem for c in clients)}
    logs = options.dir / "logs"
    logs.mkdir(exist_ok=True)
    stub = Stub()
    trials = [Trial(c, stub, commands[c.ecosystem], logs) for c in clients]
    for trial in trials:
        trial.begin()
    threads = [threading.Thread(target=trial.run) for trial in trials]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    stub.close()
    seen = {trial.client.name: {"version": trial.client.version(), **trial.facts()} for trial in trials}
    (logs / "results.json").write_text(json.dumps({t.client.name: t.results for t in trials}, indent=1))

    table = HERE / "expected.json"
    expected = json.loads(table.read_text()) if table.exists() else {}
    if options.record:
        expected = {c.name: {**expected, **seen}[c.name] for c in ecosystems.CLIENTS if c.name in {**expected, **seen}}
        table.write_text(lines_of(expected))
    failed = 0
    for name, facts in seen.items():
        wrong = list(differences(expected.get(name, {}), facts))
        failed += bool(wrong)
        print(f"FAIL: {name} {facts['version']}: {'; '.join(wrong)}" if wrong else f"{name} {facts['version']}: passed")
    if options.page and not failed:
        options.page.write_text(page.write(clients, seen))
    print(f"test cases: {len(seen)} | {len(seen) - failed} passed | {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
