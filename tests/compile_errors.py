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

TWICE = ("This compiler destroys the captures of a lambda that is written inside a co_await expression twice. "
         "Give the lambda a name first: auto f = [...] {...}; co_await pool.run(f); "
         "or the operation: asio::awaitable<T> op = pool.run([...] {...}); co_await std::move(op); "
         "or wait for a task: auto t = pool.submit([...] {...}); co_await t.result();")
CAPTURING = ("#include <canigo/circuit_breaker.hpp>\n#include <canigo/hedge.hpp>\n#include <canigo/policy.hpp>\n"
             "#include <canigo/retry.hpp>\n#include <canigo/strand_pool.hpp>\n#include <string>\n"
             "asio::awaitable<int> get(std::string);\n"
             "asio::awaitable<void> f(canigo::policy& p, canigo::strand_pool& pool, canigo::circuit_breaker& b,\n"
             "                        canigo::retry_budget& budget, std::string url) {\n")
# Each hands over a lambda with a capture that needs a destructor.
CALLS = ["canigo::retry([url] { return get(url); })",
         "canigo::hedge([url] { return get(url); }, {.budget = &budget})",
         "p.run([url] { return get(url); })",
         "pool.run([url] { return url.size(); })",
         "canigo::with_breaker(get(url), b, [url](int n) { return n > 0; })"]

# What is written, and what the first error says; empty: it compiles. g++ 12 alone says what is TWICE.
CASES = [
    ("canigo::request r{.deadline = 2s};", NO_SPAN),
    ("#include <canigo/scheduler.hpp>\ncanigo::scheduler_options o{.rate = 5};", IN_WHAT_TIME),
    ("struct { canigo::rate rate; } o{.rate = 2.5};", IN_WHAT_TIME),
    ("struct { canigo::rate rate; } o{.rate = {10, 3}};", WHAT_UNIT),
    ("const auto r = canigo::rate{10, 3};", WHAT_UNIT),
    ("canigo::request r{.deadline = std::chrono::steady_clock::now() + 2s};\n"
     "canigo::request never{.deadline = canigo::time_point::max()};\n"
     "struct { canigo::rate rate; } o{.rate = {10, 3s}}, p{.rate = canigo::rate::per_second(5)};\n", ""),
    *((f"{CAPTURING}  co_await {call};\n}}\n", TWICE) for call in CALLS),
    (CAPTURING + "".join(f"  auto op{i} = {call};\n" for i, call in enumerate(CALLS)) + "co_return; }\n", ""),
    (CAPTURING + "  const auto make = [url] { return get(url); };\n  co_await canigo::retry(make);\n"
     "  co_await p.run(make);\n  co_await canigo::hedge(make, {.budget = &budget});\n}\n", ""),
]


def first_error(compiler, code):
    done = subprocess.run([*compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"], input=START + code, text=True,
                          capture_output=True)
    found = re.search(r"error: (.*)", done.stderr)
    return found.group(1) if found else ""


def destroys_captures_twice(compiler):
    macros = "#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13\n#error yes\n#endif\n"
    return first_error(compiler, macros) != ""


def main(compiler):
    wrong = 0
    is_right = not destroys_captures_twice(compiler)
    for code, expected in CASES:
        if expected == TWICE and is_right:
            expected = ""
        said = first_error(compiler, code)
        # clang says before its text which condition was not met.
        if said != expected and not (expected and said.endswith(": " + expected)):
            print(f"{code}\n  says: {said}\n  not:  {expected}")
            wrong += 1
    print(f"{len(CASES) - wrong} of {len(CASES)} as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
