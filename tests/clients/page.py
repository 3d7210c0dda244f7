"""docs/clients.md, from what the clients did."""

import datetime

HEAD = """\
# Client libraries behind canigo-gateway

To a client a call that waits in the queue of [canigo-gateway](gateway.md) is silence. Each library has its own time
limit for silence, and its own rule for what it sends again. This page shows what {libraries} libraries did with a real
gateway on {date}. `tests/clients/run.py` has written it. `scripts/test --variant clients` runs all of them
again, and names each one that has changed.

## In short

- Let `max_wait` of a tenant be a little less than the time limit of its clients. Then a call is refused, with a reason
  and a time. Else the client gives it up, and perhaps sends it again.
- Or raise the client's time limit. A wait then costs nothing.
- Libraries of model providers show the gateway's reason in the text of their errors. With a general HTTP client read
  the body of the answer: its member `message` has the reason.
- Some libraries send a call again although the answer says `X-Should-Retry: false`. The
  [last table](#what-they-do-when-the-upstream-fails) names them. Turn their retries off for calls that may not run
  twice.

## How long they wait

Each client waited for 8, 20 and 70 seconds in the queue. A time limit of more than 70 seconds is the one that the
library tells. Each setting for a shorter limit was tried with a wait of 70 seconds. Some clients
[tell their limit](gateway.md#priorities-and-waits), and the gateway begins no call of theirs that would come too late.

| client | for | version | gives up after | and then | tells its limit | to wait longer |
|---|---|---|---|---|---|---|
"""

REFUSALS = """
## What they do with a refusal

The gateway refused a call by 429 or 503, and told in `Retry-After` and `Retry-After-Ms` when to come back. "As told"
means that the client sent the call again after that time, and was answered. "Sooner" means that it did not wait so
long. The other columns are of a refusal at each try. They tell how often the call was sent in all, the error in the
end, and whether its text has the gateway's reason. Clients without an error return the answer with its status. The
errors of requests, httpx, aiohttp and reqwest are those of `raise_for_status` or `error_for_status`.

| client | 429, 20 s | 429, 130 s | 503, 20 s | sent in all | error | has the reason |
|---|---|---|---|---|---|---|
"""

FAILURES = """
## What they do when the upstream fails

The numbers say how often the client sent its call in all. If the gateway had no connection, the upstream has never seen
the call. After a lost connection or a timeout it may have done the call already. The gateway itself repeats calls that
are safe to repeat. For others it answers with `X-Should-Retry: false`.

| client | call | 502, no connection | 502, connection lost | 504 | error | a resend is known by |
|---|---|---|---|---|---|---|
"""

SHOWN = {"text": "yes", "field": "in a field", "": "no"}


def row(*cells):
    return f"| {' | '.join(map(str, cells))} |\n"


def wait_row(client, facts):
    waits = [facts[case] for case in ("wait_8", "wait_20", "wait_70")]
    given_up = [wait for wait in waits if "gives up after" in wait]
    if given_up:
        after = f"{min(wait['gives up after'] for wait in given_up)} s"
        then = "sends it again" if given_up[0]["again"] else f"`{given_up[0]['end']}`"
    else:
        after, then = f"{facts['limit']:g} s" if "limit" in facts else "more than 70 s", ""
    tells = "yes" if facts["tells"] else "no"
    return row(client.name, client.ecosystem.capitalize(), facts["version"], after, then, tells, client.setting)


def error_of(client, fact):
    return f"`{fact['end']}`" if client.raises else "none"


def pause(fact):
    word = {"as told": "as told", "its own": "sooner", "not sent again": "not again"}[fact["pause"]]
    return word if fact["end"] == "answered" or fact["pause"] == "not sent again" else f"{word}, then the error"


def refusal_row(client, facts):
    full = facts["full"]
    return row(client.name, pause(facts["told_20"]), pause(facts["told_130"]), pause(facts["open"]), full["sends"],
               error_of(client, full), SHOWN[full["reason"]])


def failure_row(client, facts):
    cases = [facts[case] for case in ("unreachable", "lost", "slow")]
    errors = ", ".join(dict.fromkeys(error_of(client, case) for case in cases))
    marks = ", ".join(f"`{mark}`" for mark in facts.get("marks", []))
    return row(client.name, client.method, *[case["sends"] for case in cases], errors, marks)


def write(clients, seen):
    of = [(client, seen[client.name]) for client in clients]
    libraries = len({client.package for client in clients})
    text = HEAD.format(libraries=libraries, date=datetime.date.today().isoformat())
    text += "".join(wait_row(*one) for one in of)
    text += REFUSALS + "".join(refusal_row(*one) for one in of)
    text += FAILURES + "".join(failure_row(*one) for one in of)
    return text
