"""docs/clients.md, from what the clients did."""

import datetime

HEAD = """\
# Client libraries behind canigo-gateway

While a call waits in the queue of [canigo-gateway](gateway.md), the call's client receives no data, unless the gateway
sends comments (`keep_alive`) or interim responses. Each client library has its own time limit for a connection without
data, and its own rules for repeating calls. This page shows the behaviour of {libraries} client libraries with a \
real gateway on
{date}. `tests/clients/run.py` writes this page. `scripts/test --variant clients` tests all client libraries again,
and names each library whose behaviour has changed.

## In short

- Set `max_wait` of a tenant to a little less than the time limit of the tenant's clients. If `max_wait` is shorter than
  the client's time limit, the gateway refuses a call, with a reason and a Retry-After, before the call's client gives
  up.
- Instead of setting `max_wait`, you can raise the client's time limit, so that the client waits until the gateway sends
  the call.
- If the gateway refuses a call, libraries of model providers show the gateway's reason in the text of their errors.
  With a general HTTP client, read the gateway's reason from the member `message` of the refusal's JSON body.
- Some client libraries repeat a call although the answer has `X-Should-Retry: false`; see the
  [last table](#what-they-do-when-the-upstream-fails). For calls that the upstream must not execute twice, turn off the
  repeats of the client library.

## How long they wait

For the following table, calls of each client waited in the gateway's queue for 8, 20 and 70 seconds. Time limits above
70 seconds were not measured. For a time limit above 70 seconds, the following table shows the value that the client
library itself reports, or "more than 70 s" if the library reports none. Each setting for a longer time limit in the
following table was tested with a wait of 70 seconds. Some client libraries send the gateway
[their time limit](gateway.md#priorities-and-waits). The gateway does not send a call to the upstream if the call would
end after the client's time limit.

| client library | language or runtime | version | time limit of the client for a waiting call | \
client's behaviour at this time limit | client sends its time limit to the gateway | setting for a longer time limit |
|---|---|---|---|---|---|---|
"""

REFUSALS = """
## What they do with a refusal

For the following table, the gateway refused a call with 429 or 503; `Retry-After` and `Retry-After-Ms` named a wait of
20 or 130 seconds. "Repeats after the wait" means that the client repeated the call after the wait that `Retry-After`
names, and got an answer. "Repeats too soon" means that the client repeated the call before the end of the wait that
`Retry-After` names. For the last three columns of the following table, the gateway refused every attempt of a call.
The last three columns of the following table show how often the client sent the call in total, the client's final
error, and where the client finds the gateway's reason. In the tables of this page, "none: returns the answer" means
that the client library returned the gateway's answer with its status, without an error. The libraries requests, httpx,
aiohttp and reqwest report an error only in `raise_for_status` or `error_for_status`; the tables of this page show this
error.

| client library | after a 429 with a Retry-After of 20 s, the client | \
after a 429 with a Retry-After of 130 s, the client | after a 503 with a Retry-After of 20 s, the client | \
if every attempt is refused, the call is | client's final error if every attempt is refused | \
place of the gateway's reason |
|---|---|---|---|---|---|---|
"""

FAILURES = """
## What they do when the upstream fails

The following table shows how often each client sent its call in total, if the upstream failed at every attempt. If the
gateway could not connect to the upstream, the upstream has not received the call. If the connection to the upstream was
lost, or the upstream did not answer in time, the upstream may already have executed the call. If the upstream fails,
the gateway itself repeats calls that are safe to repeat. If a failed call is not safe to repeat, and the upstream may
have executed this call, the gateway answers with `X-Should-Retry: false`.

| client library | method of the call | if the gateway can't connect to the upstream (502), the client's call is | \
if the gateway's connection to the upstream is lost (502), the client's call is | \
if the upstream does not answer in time (504), the client's call is | client's final error | \
header field that marks a repeated call |
|---|---|---|---|---|---|---|
"""

SHOWN = {"text": "in the error's text", "field": "in a field of the error", "": "not in the error"}
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
        after, then = f"{facts['limit']:g} s" if "limit" in facts else "more than 70 s", "not measured"
    tells = "yes" if facts["tells"] else "no"
    setting = client.setting or "none tested"
    return row(client.name, client.ecosystem.capitalize(), facts["version"], after, then, tells, setting)


def error_of(client, fact):
    return f"`{fact['end']}`" if client.raises else "none: returns the answer"


def pause(fact):
    word = PAUSES[fact["pause"]]
    return word if fact["end"] == "answered" or fact["pause"] == "not sent again" else f"{word}, then fails"


def times_sent(fact):
    return "sent once" if fact["sends"] == 1 else f"sent {fact['sends']} times"


def refusal_row(client, facts):
    full = facts["full"]
    return row(client.name, pause(facts["told_20"]), pause(facts["told_130"]), pause(facts["open"]), times_sent(full),
               error_of(client, full), SHOWN[full["reason"]] if client.raises else "in the answer's body")


def failure_row(client, facts):
    cases = [facts[case] for case in ("unreachable", "lost", "slow")]
    *early, late = [error_of(client, case) for case in cases]
    errors = ", ".join(dict.fromkeys(early)) + ("" if late in early else f" (502) or {late} (504)")
    marks = ", ".join(f"`{mark}`" for mark in facts.get("marks", [])) or ("none" if "marks" in facts else "not tested")
    return row(client.name, client.method, *[times_sent(case) for case in cases], errors, marks)


def write(clients, seen):
    of = [(client, seen[client.name]) for client in clients]
    libraries = len({client.package for client in clients})
    text = HEAD.format(libraries=libraries, date=datetime.date.today().isoformat())
    text += "".join(wait_row(*one) for one in of)
    text += REFUSALS + "".join(refusal_row(*one) for one in of)
    text += FAILURES + "".join(failure_row(*one) for one in of)
    return text
