#!/usr/bin/env python3
"""Seeded defects for the fuzzers: each is in a copy of a source, and the fuzzer of a target must find it.

canaries.py --list                    prints TARGET/NAME=SOURCE for each
canaries.py --check                   fails if one changes a text that its source does not hold exactly once
canaries.py NAME SOURCE OUTPUT        copies SOURCE to OUTPUT with the defect NAME in it
canaries.py --hunt CORPORA PROGRAM... fuzzes each fuzz_TARGET_NAME for a minute at most; fails if one finds nothing
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import time

# name: the target, the source, what stands in it exactly once, and what stands there instead.
CANARIES = {
    "limit_of_a_period_forgotten": ("rate", "rate.cpp",
                                    'if (count > duration::max() / length) complain', "if (count < 0) complain"),
    "unit_of_one_left_out": ("rate", "rate.cpp", "if (period[0] == '1' && !is_digit(period[1]))",
                             "if (period[0] == '1')"),
    "evicts_its_equals": ("operations", "detail/queue/wait_queue.cpp", "least->priority <= priority",
                          "least->priority < priority"),
    "release_unseen": ("operations", "detail/admission/admission.cpp", "if (queue_.empty()) [[likely]] {",
                       "if (true) {"),
    "body_one_too_long": ("http_response", "http/easy_handle.cpp",
                          "if (size > h.most_body_ - t.response_.body_size) {",
                          "if (size > h.most_body_ + 1 - t.response_.body_size) {"),
    "heads_not_added_up": ("http_response", "http/response_head.cpp", "bytes_ += line.size();",
                           "bytes_ = line.size();"),
    "seconds_wrap": ("told_limits", "detail/told/told_limits.cpp", "if (seconds >= bound) return most;", ""),
    "elements_cost_nothing": ("redis_reply", "redis/detail/reply_reader.cpp",
                              "spent += sizeof(reply) + bytes;", "spent += bytes;"),
    "unread_not_counted": ("redis_reply", "redis/detail/reply_reader.cpp",
                           "if (state_->unread > state_->max_reply) ec = errc::too_large;", ""),
    "port_0": ("redis_endpoint", "redis/endpoint.cpp", "if (!n || *n == 0)", "if (!n)"),
    "stray_at_shown": ("redis_endpoint", "redis/endpoint.cpp",
                       "  take_credentials(rest, e);\n  refuse_stray_at(rest);", "  take_credentials(rest, e);"),
    "day_that_never_comes": ("jobs_schedule", "jobs/schedule.cpp",
                             "if (s.next_after(instant{}) == instant::max()) throw", "if (false) throw"),
}

# What these change stands in a header that the source includes. The copy has the header's text in its place.
IN_HEADERS = {"seconds_wrap": "canigo/detail/time/decimal_seconds.hpp"}

ROOT = pathlib.Path(__file__).resolve().parents[2]


def spoiled(name, source):
    """The text of the source with the defect."""
    _, path, there, instead = CANARIES[name]
    text = pathlib.Path(source).read_text(encoding="utf-8")
    if name in IN_HEADERS:
        include = f'#include "{IN_HEADERS[name]}"\n'
        if text.count(include) != 1:
            sys.exit(f"canaries.py: {name}: lib/{path} does not include {IN_HEADERS[name]}")
        header = (ROOT / "include" / IN_HEADERS[name]).read_text(encoding="utf-8")
        text = text.replace(include, header.replace("#pragma once\n", ""))
    if not source.endswith(path) or text.count(there) != 1:
        where = IN_HEADERS.get(name, "lib/" + path)
        sys.exit(f"canaries.py: {name}: {where} does not hold exactly once: {there}")
    return text.replace(there, instead)


def spoil(name, source, output):
    text = spoiled(name, source)
    # What the source includes from beside it.
    beside = pathlib.Path(source).parent
    text = re.sub(r'#include "((?:\.\./)*[\w/]+\.hpp)"', lambda m: absolute(m, beside), text)
    pathlib.Path(output).write_text(text, encoding="utf-8")


def absolute(include, beside):
    path = beside / include.group(1)
    return f'#include "{path.resolve()}"' if path.exists() else include.group(0)


def hunt(corpora, programs):
    missed = []
    for program in programs:
        name = pathlib.Path(program).name.removeprefix("fuzz_")
        target = next(t for t, *_ in CANARIES.values() if name.startswith(t + "_"))
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            run = subprocess.run([program, "-max_total_time=60", "-seed=1", "-timeout=20",
                                  "-max_len=1024", "-len_control=0",
                                  f"-artifact_prefix={scratch}/", scratch, str(pathlib.Path(corpora) / target)],
                                 capture_output=True, text=True, errors="replace")
            found = run.returncode != 0 and any(pathlib.Path(scratch).glob("crash-*"))
        said = re.search(r"^(broken: .*|.*ERROR: .*|.*runtime error: .*)$", run.stderr, re.M)
        print(f"{'found ' if found else 'MISSED'} {time.monotonic() - start:6.2f} s  {name}: "
              f"{said.group(1) if said else 'says nothing'}", flush=True)
        if not found:
            missed.append(name)
    print(f"{len(programs) - len(missed)} of {len(programs)} found")
    return 1 if missed or not programs else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for canary, (target, where, *_) in CANARIES.items():
            print(f"{target}/{canary}={where}")
    elif sys.argv[1:] == ["--check"]:
        for canary, (_, where, *_) in CANARIES.items():
            spoiled(canary, str(ROOT / "lib" / where))
    elif sys.argv[1:2] == ["--hunt"] and len(sys.argv) > 3:
        sys.exit(hunt(sys.argv[2], sys.argv[3:]))
    elif len(sys.argv) == 4:
        spoil(*sys.argv[1:])
    else:
        sys.exit(__doc__)
