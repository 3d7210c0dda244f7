"""Rows 13 to 18 of bench/gateway: an upstream's quota, and what callers get of it."""

import asyncio
import contextlib
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time
import urllib.request

import gateway_peers
from processes import Running, free_port

HERE = pathlib.Path(__file__).resolve().parent
OURS = "canigo-gateway"
CALLS, IMPORTANT = 200, 25
PATIENCE = 240  # the max time that a client waits, in seconds; it does not retry
MINUTE = 60_000  # the quota of tokens in row 14, per minute

PER_SECOND = 'provider = "openai"\nrates = [{ limit = "20/1s" }]'
PER_MINUTE = f'provider = "openai"\nrates = [{{ limit = "{MINUTE}/1m", unit = "tokens" }}]'


class Upstream(Running):
    def __init__(self, **quota):
        port = free_port()
        super().__init__([sys.executable, HERE / "quota_upstream.py", port, json.dumps(quota)], port)

    def calls(self):
        """Returns the time of arrival, the status and the tokens of each call."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/log") as told:
            return json.load(told)


class Answer:
    def __init__(self, status, seconds, is_important):
        self.status, self.seconds, self.is_important = status, seconds, is_important


class Usage:
    """The tokens of a call: those of its text, those of the answer, and how many tokens the answer may have."""

    def __init__(self, given, made, allowed):
        self.given, self.made, self.allowed = given, made, allowed

    def total(self):
        return self.given + self.made


def usages(count, given=150, allowed=400):
    """Returns the usage of this many calls: some use all tokens that they allow, and some a quarter."""
    numbers = random.Random(36)
    return [Usage(given, numbers.randint(allowed // 4, allowed), allowed) for _ in range(count)]


def model_call(usage, model):
    """Returns a body that tells the upstream its usage. A token has four bytes of text, as most gateways guess."""
    text = f"usage={usage.given},{usage.made} ".ljust(4 * usage.given - 110, ".")
    return json.dumps({"model": model, "max_tokens": usage.allowed,
                       "messages": [{"role": "user", "content": text}]}).encode()


async def send(port, path, fields, body, is_important=False, late=0, began=None):
    """Sends one call on its own connection. The body comes `late` seconds after the head."""
    began = began or time.monotonic()
    status = 0
    with contextlib.suppress(OSError, ValueError, IndexError, asyncio.TimeoutError):
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                priority = "interactive" if is_important else "batch"
                lines = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": len(body),
                         "Connection": "close", "X-Canigo-Priority": priority, **fields}
                head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
                writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode())
                await asyncio.sleep(late)
                writer.write(body)
                status = int((await reader.readline()).split()[1])
                await reader.read(-1)
            finally:
                writer.close()
    return Answer(status, time.monotonic() - began, is_important)


async def send_all(peer, port, up, wanted, late=0):
    """Sends all calls at once, the important calls last."""
    began = time.monotonic()
    important = len(wanted) - IMPORTANT
    return await asyncio.gather(*(
        send(port, peer.path, peer.fields(up), model_call(usage, peer.model), i >= important, late, began)
        for i, usage in enumerate(wanted)))


def seconds(values):
    """Formats the median of some seconds."""
    return f"{statistics.median(values):.1f} s" if values else "–"


async def job(peer, quota, wanted, idle):
    """Gives the job to one gateway, which is warm and has been idle for `idle` seconds."""
    window = 60 if quota.tokens else 1
    up = await asyncio.to_thread(lambda: Upstream(calls=quota.calls, tokens=quota.tokens, window=window))
    running = None
    try:
        running = await asyncio.to_thread(peer.start, up.port, quota)
        first = await send(running.port, peer.path, peer.fields(up.port), model_call(wanted[0], peer.model))
        if first.status != 200:
            raise RuntimeError(f"{peer.name} answers {first.status} to its first call")
        await asyncio.sleep(idle)
        if quota.tokens:  # every gateway begins at the same position in the upstream's minute
            await asyncio.sleep(60 - (time.monotonic() - 5) % 60)
        known, cpu = len(up.calls()), running.processor()
        answers = await send_all(peer, running.port, up.port, wanted)
        return answers, up.calls()[known:], (running.processor() - cpu) / CALLS
    finally:
        if running:
            running.close()
        up.close()


def peers_of(bench, options, out, limits):
    if not hasattr(out, "peers"):
        out.peers = gateway_peers.installed(bench.base, peers_folder(bench, options), out.left_out)
        out.peer_versions |= {p.name: p.version for p in out.peers}
    return [gateway_peers.Peer(OURS, "", gateway_peers.canigo(bench.program, bench.base, limits)), *out.peers]


def peers_folder(bench, options):
    folder = options.peers or bench.base / "peers"
    folder.mkdir(exist_ok=True)
    return folder.resolve()


def show(out, number, name, found):
    answers, log, cpu = found
    good = [a for a in answers if a.status == 200]
    waits = [[a.seconds for a in good if a.is_important == kind] for kind in (True, False)]
    refused = [entry for entry in log if entry[1] == 429]
    shown = {"succeed": f"{len(good)} of {len(answers)}", "last": max(a.seconds for a in answers), "waits": waits,
             "refused": len(refused), "tokens": sum(entry[2] for entry in refused), "cpu": 1e3 * cpu}
    print(f"== {number}: {table_row(number, name, shown)}", file=sys.stderr, flush=True)
    out.job.append((number, name, shown))


def judge_job(out, number, what, best):
    found = {name: shown for n, name, shown in out.job if n == number}
    ours = found[OURS]
    all_of_them = f"{CALLS} of {CALLS}"
    out.row(number, f"calls that succeed with a quota of {what}", ours["succeed"], all_of_them,
            ours["succeed"] == all_of_them)
    out.row(number, "answers 429 from the upstream", ours["refused"], "0", ours["refused"] == 0)
    out.row(number, f"time of the last answer; the earliest time that the quota allows is {best:.1f} s",
            f"{ours['last']:.1f} s", f"≤ {1.1 * best:.1f} s", ours["last"] <= 1.1 * best)
    important, batch = map(statistics.median, ours["waits"])
    out.row(number, f"median wait of the important calls; the median wait of batch calls is {batch:.1f} s",
            f"{important:.1f} s", "≤ half of the batch calls'", important <= batch / 2)


def row_13(bench, options, out):
    quota = gateway_peers.Quota(calls=20)
    for peer in peers_of(bench, options, out, PER_SECOND):
        try:
            show(out, 13, peer.name, asyncio.run(job(peer, quota, usages(CALLS), 2)))
        except RuntimeError as failed:
            out.left_out.append(f"row 13, {peer.name}: {failed}")
    judge_job(out, 13, "20 calls a second", (CALLS - 1) / 20)


def row_14(bench, options, out):
    """Measures row 14. A minute without calls precedes. All gateways run at the same time."""
    wanted = usages(CALLS, 200, 800)
    total = sum(usage.total() for usage in wanted)
    mean = total // CALLS
    quota = gateway_peers.Quota(tokens=MINUTE, mean=mean)

    async def all_of_them():
        peers = peers_of(bench, options, out, PER_MINUTE)
        return peers, await asyncio.gather(*(job(p, quota, wanted, 61) for p in peers), return_exceptions=True)

    for peer, found in zip(*asyncio.run(all_of_them())):
        if isinstance(found, Exception):
            out.left_out.append(f"row 14, {peer.name}: {found}")
        else:
            show(out, 14, peer.name, found)
    # The first minute's tokens are used at once. The other calls are sent at the rate of the quota after that minute.
    judge_job(out, 14, f"{MINUTE:,} tokens a minute; the calls need {total:,} tokens", total / MINUTE * 60)


def most_within(log, seconds, weight=lambda entry: 1):
    """Returns the largest sum in any closed window of this many seconds."""
    most = total = first = 0
    for entry in log:
        total += weight(entry)
        while entry[0] - log[first][0] > seconds:
            total -= weight(log[first])
            first += 1
        most = max(most, total)
    return most


def refusals_in(path):
    """Returns the number of 429s in an access log of canigo-gateway."""
    return sum(json.loads(line)["status"] == 429 for line in path.read_text().splitlines())


def with_upstream(peer, quota, do, **more):
    """Returns the result of `do` with the gateway, and the log of the upstream."""
    up = Upstream(calls=quota.calls, tokens=quota.tokens, **more)
    running = None
    try:
        running = peer.start(up.port, quota)
        time.sleep(1.5)
        return do(running, up.port), up.calls()
    finally:
        if running:
            running.close()
        up.close()


def openai_python(bench, options, out, number):
    """Returns a Python that has the openai SDK, or None."""
    try:
        python = gateway_peers.openai_python(peers_folder(bench, options))
    except RuntimeError as failed:
        return out.skip(number, f"openai cannot be installed: {failed}")
    out.peer_versions["openai"] = gateway_peers.pinned("tensorzero.txt", "openai")
    return python


def openai_calls(python, port):
    """Sends 200 calls of the openai SDK at once. Returns [succeeded, seconds] of each."""
    done = subprocess.run([python, gateway_peers.PINS / "openai_calls.py", f"http://127.0.0.1:{port}/v1", str(CALLS)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError("openai: " + done.stderr[-300:])
    return json.loads(done.stdout)


def row_15(bench, options, out):
    quota = gateway_peers.Quota(calls=20)
    peers = peers_of(bench, options, out, PER_SECOND)
    found = {}
    for peer in peers:
        if peer.name not in (OURS, "nginx limit_req", "HAProxy"):
            continue
        answers, log = with_upstream(peer, quota,
                                     lambda g, up: asyncio.run(send_all(peer, g.port, up, usages(40), 3)))
        found[peer.name] = (sum(a.status == 200 for a in answers), sum(e[1] == 429 for e in log), most_within(log, 1))
        print(f"== 15: {peer.name}: {found[peer.name]}", file=sys.stderr, flush=True)
    good, refused, most = found.pop(OURS)
    others = "; ".join(f"{name}: {g} succeed, {r} × 429" for name, (g, r, _) in found.items())
    out.row(15, f"40 calls whose bodies arrive 3 s late, with a quota of 20 calls a second; "
                f"{OURS}: {good} succeed; {others}",
            f"{refused} × 429", "0", refused == 0)
    out.row(15, "max number of calls at the upstream in any second; the quota is 20", most, "≤ 21", most <= 21)
    if not (python := openai_python(bench, options, out, 15)):
        return
    calls, log = with_upstream(peers[0], quota, lambda g, _: openai_calls(python, g.port))
    refused, most = sum(e[1] == 429 for e in log), most_within(log, 1)
    print(f"== 15: openai: {refused} × 429, {most} in a second", file=sys.stderr, flush=True)
    out.row(15, f"{CALLS} calls of the openai SDK, sent at the same time: {sum(c[0] for c in calls)} succeed",
            f"{refused} × 429", "0", refused == 0)
    out.row(15, "max number of calls at the upstream in any second; the quota is 20", most, "≤ 21", most <= 21)


def row_16(bench, options, out):
    """Measures a strict window while calls wait, after a window in which nothing was sent.

    A window of 6 s holds the same calls as one of a minute, and more windows are seen."""

    async def run(tokens, seconds, windows):
        limits = f'provider = "openai"\nrates = [{{ limit = "{tokens}/{seconds}s", unit = "tokens" }}]'
        peer = gateway_peers.Peer(OURS, "", gateway_peers.canigo(bench.program, bench.base, limits))
        up = await asyncio.to_thread(lambda: Upstream(tokens=10**9, window=10**6))
        g = await asyncio.to_thread(peer.start, up.port, None)
        try:
            await asyncio.sleep(1.1 * seconds)
            wanted, total = [], 0
            for usage in usages(10_000):
                if total > (windows + 1) * tokens:
                    break
                wanted.append(usage)
                total += usage.total()
            sending = asyncio.create_task(send_all(peer, g.port, up.port, wanted))
            await asyncio.sleep(windows * seconds + 2)
            log = up.calls()
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending
            used = sum(e[2] for e in log if e[0] < log[0][0] + windows * seconds) / (windows * tokens)
            return most_within(log, seconds, lambda e: e[2]) / tokens, used, refusals_in(g.access_log)
        finally:
            g.close()
            up.close()

    async def both():
        return await asyncio.gather(run(MINUTE, 60, 2), run(MINUTE, 6, 10))

    for (worst, used, refused), length in zip(asyncio.run(both()), ("60 s", "6 s")):
        print(f"== 16: {length}: {worst:.4f}, {used:.4f}, {refused}", file=sys.stderr, flush=True)
        out.row(16, f"strict windows of {length}: tokens in the fullest window, in percent of its quota; {refused} "
                "calls refused", f"{100 * worst:.1f} %", "≤ 100 %, 0 refused", worst <= 1 and refused == 0)
        out.row(16, f"strict windows of {length}: share of the quota that is used while calls wait",
                f"{100 * used:.1f} %", "≥ 95 %", used >= 0.95)


def row_17(bench, options, out):
    if not (python := openai_python(bench, options, out, 17)):
        return
    start = gateway_peers.canigo(bench.program, bench.base, PER_SECOND, 'max_wait = "2s"')

    def do(g, _):
        return openai_calls(python, g.port), refusals_in(g.access_log)

    (calls, refused), log = with_upstream(gateway_peers.Peer(OURS, "", start), gateway_peers.Quota(calls=20), do)
    good = sum(c[0] for c in calls)
    print(f"== 17: {good}, {refused} refusals, {sum(e[1] == 429 for e in log)} × 429", file=sys.stderr, flush=True)
    out.row(17, f"share of {CALLS} calls of the openai SDK that succeed, with `max_wait` of 2 s and 20 calls a second",
            f"{100 * good / CALLS:.1f} %", "≥ 95 %", good >= 0.95 * CALLS)
    out.row(17, "refusals by canigo-gateway for each call of the openai SDK", f"{refused / CALLS:.2f}", "≤ 1",
            refused <= CALLS)


def row_18(bench, options, out):
    found = {}
    for peer in peers_of(bench, options, out, PER_SECOND):
        if peer.name not in (OURS, "nginx limit_req"):
            continue
        answers, log = with_upstream(peer, gateway_peers.Quota(calls=20),
                                     lambda g, up: asyncio.run(send_all(peer, g.port, up, usages(CALLS))), taken=10)
        good = sum(a.status == 200 for a in answers)
        found[peer.name] = good, max(a.seconds for a in answers), sum(e[1] == 429 for e in log)
        print(f"== 18: {peer.name}: {found[peer.name]}", file=sys.stderr, flush=True)
    good, last, refused = found.pop(OURS)
    others = "".join(f"; {name}: {g} of {CALLS} in {t:.1f} s" for name, (g, t, _) in found.items())
    out.row(18, f"calls that succeed while other programs use half of the quota of 20 calls a second{others}",
            f"{good} of {CALLS}", f"{CALLS} of {CALLS}", good == CALLS)
    out.row(18, f"time of the last answer, with {refused} × 429 from the upstream; the earliest time that the quota "
            "allows is 19 s", f"{last:.1f} s", "≤ 22 s", last <= 22)


def table_row(number, name, s):
    important, batch = map(seconds, s["waits"])
    return (f"| {number} | {name} | {s['succeed']} | {s['last']:.1f} s | {important} | {batch} | {s['refused']} "
            f"| {s['tokens']:,} | {s['cpu']:.2f} ms |")


def table(job):
    """Returns the table with each program's results in the same job."""
    lines = ["| row | gateway | calls that succeed | time of the last answer | median wait of important calls "
             "| median wait of batch calls | answers 429 from the upstream | tokens of the calls with answer 429 "
             "| processor time for a call |",
             "|---|---|---|---|---|---|---|---|---|"]
    return "\n".join(lines + [table_row(*entry) for entry in job])


ROWS = {13: row_13, 14: row_14, 15: row_15, 16: row_16, 17: row_17, 18: row_18}
