#!/usr/bin/env python3
"""compile_errors.py COMPILER...: what does not compile says at once what to write.

COMPILER is the command with all of its arguments. Of each mistake the first line with an error is looked at; what is
right compiles.
"""

import re
import subprocess
import sys

START = "#include <canigo/rate.hpp>\n#include <canigo/request.hpp>\nusing namespace std::chrono_literals;\n"
IN_WHAT_TIME = "rate: tokens in what time? rate::per_second(5), or rate{10, 3s}"
WHAT_UNIT = "rate: a period of what unit? rate{10, 3s}, with std::chrono_literals"
NO_SPAN = "deadline: a point in time is wanted, not a span: time_source::of(executor).now() + 2s"

# What is written, and what the first error says; empty: it compiles.
CASES = [
    ("canigo::request r{.deadline = 2s};", NO_SPAN),
    ("#include <canigo/scheduler.hpp>\ncanigo::scheduler_options o{.rate = 5};", IN_WHAT_TIME),
    ("struct { canigo::rate rate; } o{.rate = 2.5};", IN_WHAT_TIME),
    ("struct { canigo::rate rate; } o{.rate = {10, 3}};", WHAT_UNIT),
    ("const auto r = canigo::rate{10, 3};", WHAT_UNIT),
    ("canigo::request r{.deadline = std::chrono::steady_clock::now() + 2s};\n"
     "canigo::request never{.deadline = canigo::time_point::max()};\n"
     "struct { canigo::rate rate; } o{.rate = {10, 3s}}, p{.rate = canigo::rate::per_second(5)};\n", ""),
]


def first_error(compiler, code):
    done = subprocess.run([*compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"], input=START + code, text=True,
                          capture_output=True)
    found = re.search(r"error: (.*)", done.stderr)
    return found.group(1) if found else ""


def main(compiler):
    wrong = 0
    for code, expected in CASES:
        said = first_error(compiler, code)
        # clang says before its text which condition was not met.
        if said != expected and not (expected and said.endswith(": " + expected)):
            print(f"{code}\n  says: {said}\n  not:  {expected}")
            wrong += 1
    print(f"{len(CASES) - wrong} of {len(CASES)} as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
