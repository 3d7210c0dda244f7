"""docs/clients.md, from what the clients did."""

import datetime

HEAD = """\
# Client libraries behind canigo-gateway

While a call waits in the queue of [canigo-gateway](gateway.md), its client receives nothing. Each client
library has its own time limit for a connection without data, and its own rules for repeating calls. This page
shows the behaviour of {libraries} libraries with a real gateway on {date}. `tests/clients/run.py` writes this
page. `scripts/test --variant clients` tests all libraries again, and names each library whose behaviour has
changed.

## In short

- Set `max_wait` of a tenant to a little less than the time limit of its clients. With such a `max_wait`, the gateway
  refuses a call with a reason and a Retry-After before its client gives up.
- Or raise the client's time limit, so that the client waits for the call's turn.
- Libraries of model providers show the gateway's reason in the text of their errors. With a general HTTP client, read
  the member `message` of the answer's JSON body.
- Some libraries repeat a call although the answer has `X-Should-Retry: false`. The
  [last table](#what-they-do-when-the-upstream-fails) names these libraries. For calls that may not run twice, turn off
  the retries of the library.

## How long they wait

Calls of each client waited in the queue for 8, 20 and 70 seconds. Time limits of more than 70 seconds were not
measured; they are the library's own values. Each setting in the last column was tested with a wait of 70 seconds.
Some clients [send their time limit](gateway.md#priorities-and-waits). The gateway does not send a call that would end
after this limit.

| client | language | version | gives up after | what it does then | sends its time limit | setting to wait longer |
|---|---|---|---|---|---|---|
"""

REFUSALS = """
## What they do with a refusal

The gateway refused a call with 429 or 503, and with a wait of 20 or 130 s in `Retry-After` and `Retry-After-Ms`.
"Repeats after the wait" means that the client repeated the call after that time, and was answered. "Repeats too soon"
means that the client repeated the call before that time. For the last three columns the gateway refused every attempt.
The last three columns show how often the call was sent in total, the final error, and whether the error contains the
gateway's reason. Clients without an error return the answer with its status. The errors of requests, httpx, aiohttp and
reqwest are those of `raise_for_status` or `error_for_status`.

| client | after 429, 20 s | after 429, 130 s | after 503, 20 s | always refused | final error | reason in the error |
|---|---|---|---|---|---|---|
"""

FAILURES = """
## What they do when the upstream fails

The following table says how often each client sent its call in total. If the gateway could not connect, the upstream
has not received the call. After a lost connection or a timeout, the upstream may already have executed the call. The
gateway itself repeats calls that are safe to repeat. To other calls it answers with `X-Should-Retry: false`.

| client | call | 502, no connection | 502, connection lost | 504, timeout | final error | mark of a repeated call |
|---|---|---|---|---|---|---|
"""

SHOWN = {"text": "in the text", "field": "in a field", "": "no reason"}
PAUSES = {"as told": "repeats after the wait", "its own": "repeats too soon", "not sent again": "does not repeat"}


def row(*cells):
    return f"| {' | '.join(map(str, cells))} |\n"


def wait_row(client, facts):
    waits = [facts[case] for case in ("wait_8", "wait_20", "wait_70")]
    given_up = [wait for wait in waits if "gives up after" in wait]
    if given_up:
        after = f"{min(wait['gives up after'] for wait in given_up)} s"
        then = "repeats the call" if given_up[0]["again"] else f"`{given_up[0]['end']}`"
    else:
        after, then = f"{facts['limit']:g} s" if "limit" in facts else "more than 70 s", ""
    tells = "sends it" if facts["tells"] else "does not send it"
    return row(client.name, client.ecosystem.capitalize(), facts["version"], after, then, tells, client.setting)


def error_of(client, fact):
    return f"`{fact['end']}`" if client.raises else "no error"


def pause(fact):
    word = PAUSES[fact["pause"]]
    return word if fact["end"] == "answered" or fact["pause"] == "not sent again" else f"{word}, then fails"


def times_sent(fact):
    return "sent once" if fact["sends"] == 1 else f"sent {fact['sends']} times"


def refusal_row(client, facts):
    full = facts["full"]
    return row(client.name, pause(facts["told_20"]), pause(facts["told_130"]), pause(facts["open"]), times_sent(full),
               error_of(client, full), SHOWN[full["reason"]])


def failure_row(client, facts):
    cases = [facts[case] for case in ("unreachable", "lost", "slow")]
    errors = ", ".join(dict.fromkeys(error_of(client, case) for case in cases))
    marks = ", ".join(f"`{mark}`" for mark in facts.get("marks", []))
    return row(client.name, client.method, *[times_sent(case) for case in cases], errors, marks)


def write(clients, seen):
    of = [(client, seen[client.name]) for client in clients]
    libraries = len({client.package for client in clients})
    text = HEAD.format(libraries=libraries, date=datetime.date.today().isoformat())
    text += "".join(wait_row(*one) for one in of)
    text += REFUSALS + "".join(refusal_row(*one) for one in of)
    text += FAILURES + "".join(failure_row(*one) for one in of)
    return text
