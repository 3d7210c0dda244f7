#!/usr/bin/env python3
"""compile_errors.py COMPILER...: what does not compile says at once what to write.

COMPILER is the command with all of its arguments. Of each mistake the first line with an error is looked at; what is
right compiles. Each mistake stands here because a newcomer makes it: it is how another library is used, what the name
of a field suggests, or what the same line means for another class of canigo.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

START = """#include <canigo/channel.hpp>
#include <canigo/hedge.hpp>
#include <canigo/limiter.hpp>
#include <canigo/policy.hpp>
#include <canigo/resource_pool.hpp>
#include <canigo/scheduler.hpp>
#include <canigo/semaphore.hpp>
#include <canigo/strand_pool.hpp>
#include <canigo/task_group.hpp>
#include <canigo/with_limit.hpp>

#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>

#include <memory>
#include <string>
"""
AROUND = """void permit_of(canigo::permit);
using namespace std::chrono_literals;
asio::awaitable<int> call();
asio::awaitable<int> get(std::string);
struct unsafe { unsafe(); unsafe(unsafe&&); };
asio::awaitable<void> f(asio::io_context& io, canigo::scheduler& quota, canigo::semaphore& db, canigo::limiter& api,
                        canigo::policy& p, canigo::strand_pool& pool, canigo::resource_pool<std::string>& connections,
                        canigo::task_group& group, canigo::flow& tenant, canigo::retry_budget& budget,
                        const canigo::semaphore& fixed, std::string url, canigo::channel<std::unique_ptr<int>>& boxes,
                        canigo::channel<std::string>& words, std::unique_ptr<int> box) {
"""
END = "\nco_return; }\n"

ANOTHER = ": a field is another class's, or has another type: "
POOL = "strand_pool" + ANOTHER + ".timeout is a span such as 2s, .concurrency a whole number"
RESOURCE_POOL = "resource_pool" + ANOTHER + ".make returns R or an awaitable of it, .timeout is a span such as 2s"
SEMAPHORE = "semaphore" + ANOTHER + ".permits is a whole number, .ageing a span such as 2s"
SCHEDULER = "scheduler" + ANOTHER + ".rate is a rate, .burst a whole number, .ageing a span such as 2s"
LIMITER = ("limiter" + ANOTHER + ".rates = {rate::per_second(5)}, or .rates = {{.rate = {10, 3s}, .burst = 5}}, "
           ".concurrency is a whole number")
NAME_OF_SCHEDULER = "scheduler: name the field: scheduler{io, {.rate = rate::per_second(5)}}"
NAME_OF_LIMITER = "limiter: name the field: limiter{io, {.rates = {rate::per_second(5)}, .concurrency = 4}}"
NAME_OF_SEMAPHORE = "semaphore: name the field: semaphore{io, {.permits = 4}}"
CHANNEL = ("channel" + ANOTHER + ".capacity and .bytes are whole numbers, .size_of is a function of a const T&, "
           ".shared a channel_capacity")
NAME_OF_CHANNEL = "channel: name the field: channel<T>{io, {.capacity = 100}}"
THROWING_MOVE = ("channel<T>: moving a T must not throw: declare its move constructor noexcept, or send a "
                 "std::unique_ptr<T>")
NO_OBJECT = "channel<T>: T is a type of objects, such as std::string, without const or &"
MOVE_IT, TRY_MOVE_IT = ("channel.send: this T can't be copied: send(std::move(value))",
                        "channel.try_send: this T can't be copied: try_send(std::move(value))")
DROPPED_VALUE = "async_receive: detached drops the value: take it with a handler"
SENT, WAS_THERE = "was it sent?", "was there one?"
NAME_OF_POOL = "strand_pool: name the field: strand_pool{io, {.concurrency = 4}}"
IN_WHAT_TIME = "rate: tokens in what time? rate::per_second(5), or rate{10, 3s}"
WHAT_UNIT = "rate: a period of what unit? rate{10, 3s}, with std::chrono_literals"
NO_RATE = "rate: it is missing: .rate = rate::per_second(5), or .rate = {10, 3s}"
NO_SPAN = "deadline: a point in time is wanted, not a span: time_source::of(executor).now() + 2s"
FIELD = ("acquire: a field has another type: .priority and .tokens are whole numbers, .deadline is an instant of "
         "steady_clock, .flow a pointer")
SAY_WHAT = "acquire: say what it is: acquire({.priority = 1, .tokens = 3})"
CONST = "acquire: this limit is const, and asking changes it: take it by reference"
DROPPED = "async_acquire: detached drops the permit at once, so nothing is limited: take it with a handler"
RUNS_ONCE = "an awaitable runs once: hand over what makes one at each call: [&] { return call(); }"
NO_AWAITABLE = "the function must return an awaitable: [&] { return call(); }, with net::awaitable<T> call()"
NO_CAPTURES = "retry_if: a lambda without captures is wanted: [](const std::exception_ptr& e) { return true; }"
NOT_AS_AWAITABLE = ("with_limit: the operation is wanted as an awaitable: with_limit(call(), limit), and neither its "
                    "function nor a lambda")
TEMPORARY = "with_limit: a limit that is made here limits nothing: make it once, and name it here"
CONST_LIMIT = "with_limit: a limit that is not const is wanted, such as a scheduler, a semaphore or a limiter"
TIE = "with_limits: name the limits in a std::tie: with_limits(call(), std::tie(slots, quota), request)"
SPAN = ("with_timeout: a span in whole units is wanted: 500ms, with std::chrono_literals; for an instant there is "
        "with_deadline")
INSTANT = "with_deadline: an instant of steady_clock is wanted; for a span there is with_timeout"
SLEEP_SPAN = "sleep_for: a span in whole units is wanted: 500ms, with std::chrono_literals"
RUN_FUNCTION = "a pool runs a function, when a worker is free: pool.run([&] { return call(); }), and not run(call())"
TAKES_RESOURCE = ("an operation of a resource_pool takes the resource by reference, and then maybe a "
                  "canigo::task_context&: [](connection& c) { … }")
TWICE = ("This compiler destroys the captures of a lambda that is written inside a co_await expression twice. "
         "Give the lambda a name first: auto f = [...] {...}; co_await pool.run(f); "
         "or the operation: asio::awaitable<T> op = pool.run([...] {...}); co_await std::move(op); "
         "or wait for a task: auto t = pool.submit([...] {...}); co_await t.result();")
LOST_HANDLERS = "take Asio 1.28 or later, or epoll"
# What a compiler says of a result that is dropped ends with one of these. Clang has a text only if the type has none.
CO_AWAIT, GRANTED = "co_await it", "was it granted?"
CO_AWAIT_OF_CLANG = "ignoring return value of function declared with 'nodiscard' attribute"
# The compilers' own words for a name that no options have, which no overload can see: docs/troubleshooting.md.
NO_MATCH, NO_MATCH_OF_CLANG = "no matching function for call to", "no matching constructor for initialization of"
NO_FIELD, NO_FIELD_OF_CLANG = "has no non-static data member named", "does not refer to any field in type"
OF_CLANG = {CO_AWAIT: CO_AWAIT_OF_CLANG, NO_MATCH: NO_MATCH_OF_CLANG, NO_FIELD: NO_FIELD_OF_CLANG}

# Each hands over a lambda with a capture that needs a destructor.
CALLS = ["canigo::retry([url] { return get(url); })",
         "canigo::hedge([url] { return get(url); }, {.budget = &budget})",
         "p.run([url] { return get(url); })",
         "pool.run([url] { return url.size(); })"]

# What is written, and what the first error says; empty: it compiles. g++ 12 alone says what is TWICE.
CASES = [
    # The unit, the value or the field is another one.
    ("canigo::request r{.deadline = 2s};", NO_SPAN),
    ("co_await quota.acquire({.deadline = 2s});", NO_SPAN),
    ("canigo::scheduler_options o{.rate = 5};", IN_WHAT_TIME),
    ("canigo::scheduler q{io, {.rate = 2.5}};", IN_WHAT_TIME),
    ("canigo::scheduler q{io, {.rate = {10, 3}}};", WHAT_UNIT),
    ("const auto r = canigo::rate{10, 3};", WHAT_UNIT),
    ("canigo::scheduler q{io, {.burst = 5}};", NO_RATE),
    ("canigo::limiter q{io, {.rates = {{.burst = 5}}}};", NO_RATE),
    ('co_await quota.acquire({.priority = "high"});', FIELD),
    ("auto held = co_await db.acquire({.deadline = std::chrono::system_clock::now() + 2s});", FIELD),
    ("co_await quota.acquire({.flow = tenant});", FIELD),
    ('co_await quota.acquire("high");', SAY_WHAT),
    ("enum class level { high }; co_await quota.acquire(level::high);", SAY_WHAT),
    ("auto held = co_await db.acquire(3);", SAY_WHAT),
    ("co_await canigo::with_timeout(call(), 5);", SPAN),
    ("co_await canigo::with_timeout(call(), 0.5s);", SPAN),
    ("co_await canigo::with_timeout(call(), std::chrono::steady_clock::now() + 2s);", SPAN),
    ("co_await canigo::with_deadline(call(), 2s);", INSTANT),
    ("co_await canigo::sleep_for(100);", SLEEP_SPAN),
    ("canigo::strand_pool q{io, {.concurrency = 4, .timeout = 5}};", POOL),
    ("canigo::strand_pool q{io, {.permits = 4}};", POOL),
    ("canigo::resource_pool<std::string> q{io, {.concurrency = 4, .make = url}};", RESOURCE_POOL),
    ("canigo::semaphore q{io, {.permits = 4, .ageing = 5}};", SEMAPHORE),
    ("canigo::semaphore q{io, {.concurrency = 4}};", SEMAPHORE),
    ("canigo::scheduler q{io, {.rate = canigo::rate::per_second(5), .ageing = 5}};", SCHEDULER),
    ('canigo::scheduler q{io, {.rate = "10/3s"}};', SCHEDULER),
    ("canigo::limiter q{io, {.rate = canigo::rate::per_second(5)}};", LIMITER),
    ("canigo::limiter q{io, {.rate = {10, 3s}, .burst = 5, .concurrency = 4}};", LIMITER),
    ("canigo::limiter q{io, {.rates = canigo::rate::per_second(5)}};", LIMITER),
    ("canigo::limiter q{io, {.permits = 4}};", LIMITER),
    ("canigo::channel<int> q{io, {.permits = 4}};", CHANNEL),
    ('canigo::channel<std::string> q{io, {.bytes = 4, .size_of = "size"}};', CHANNEL),
    ("canigo::channel<int> q{io, {.capacity = 4, .shared = db}};", CHANNEL),
    ("canigo::channel<unsafe> q{io, {.capacity = 4}};", THROWING_MOVE),
    ("canigo::channel<const int> q{io, {.capacity = 4}};", NO_OBJECT),
    ("co_await boxes.send(box);", MOVE_IT),
    ("bool sent = boxes.try_send(box);", TRY_MOVE_IT),
    # The field is not named at all, or its name is misspelt.
    ("canigo::channel<int> q{io, 100};", NAME_OF_CHANNEL),
    ("canigo::channel<int> q{io, {.capcity = 100}};", NO_MATCH),
    ("canigo::scheduler q{io, canigo::rate::per_second(5)};", NAME_OF_SCHEDULER),
    ("canigo::scheduler q{io, 5};", NAME_OF_SCHEDULER),
    ("canigo::limiter q{io, canigo::rate::per_second(5)};", NAME_OF_LIMITER),
    ("canigo::semaphore q{io, 4};", NAME_OF_SEMAPHORE),
    ("canigo::strand_pool q{io, 4};", NAME_OF_POOL),
    ("canigo::scheduler q{io, {.raet = canigo::rate::per_second(5)}};", NO_MATCH),
    ("canigo::scheduler_options o{.raet = canigo::rate::per_second(5)};", NO_FIELD),
    ("canigo::limiter_options o{.rate = canigo::rate::per_second(5)};", NO_FIELD),
    ("canigo::policy q{io, {.timout = 2s}};", NO_MATCH),
    ("canigo::policy_options o{.timout = 2s};", NO_FIELD),
    # Nothing waits for the result, or takes it.
    ("quota.acquire();", CO_AWAIT),
    ("api.acquire(1);", CO_AWAIT),
    ("canigo::with_limit(call(), db);", CO_AWAIT),
    ("canigo::sleep_for(2s);", CO_AWAIT),
    ("p.run([] { return call(); });", CO_AWAIT),
    ("pool.run([] {});", CO_AWAIT),
    ("group.join();", CO_AWAIT),
    ("words.send(url);", CO_AWAIT),
    ("words.receive();", CO_AWAIT),
    ("words.try_send(url);", SENT),
    ("words.try_receive();", WAS_THERE),
    ("words.async_receive(asio::detached);", DROPPED_VALUE),
    ("quota.try_acquire();", GRANTED),
    ("db.async_acquire({}, asio::detached);", DROPPED),
    # A permit is of one owner, and a limit is asked by many.
    ("canigo::permit a; canigo::permit b = a;", "canigo::permit"),
    ("auto held = co_await fixed.acquire();", CONST),
    ("co_await canigo::with_limit(call(), fixed);", CONST_LIMIT),
    ("co_await canigo::with_limit(call(), canigo::semaphore{io, {.permits = 2}});", TEMPORARY),
    ("co_await canigo::with_limits(call(), db, quota);", TIE),
    ("co_await canigo::with_limits(call(), std::tuple{std::ref(db), std::ref(quota)}, {.priority = 1});", TIE),
    # The operation is none, or is already under way.
    ("co_await canigo::with_limit([] { return call(); }, db);", NOT_AS_AWAITABLE),
    ("co_await canigo::retry(call());", RUNS_ONCE),
    ("co_await p.run(call());", RUNS_ONCE),
    ("co_await canigo::hedge(call(), {.budget = &budget});", RUNS_ONCE),
    ("co_await canigo::retry([] { return 5; });", NO_AWAITABLE),
    ("co_await p.run([] { return 5; });", NO_AWAITABLE),
    ("auto op = canigo::retry(call, {.retry_if = [&](const std::exception_ptr&) { return url.empty(); }});",
     NO_CAPTURES),
    ("co_await pool.run(call());", RUN_FUNCTION),
    ("co_await connections.run([] {});", TAKES_RESOURCE),
    *((f"co_await {call};", TWICE) for call in CALLS),
    # What is right.
    ("".join(f"auto op{i} = {call};\n" for i, call in enumerate(CALLS))
     + "const auto make = [url] { return get(url); };\n  co_await canigo::retry(make);\n"
       "co_await p.run(make);\n  co_await canigo::hedge(make, {.budget = &budget});\n"
       "canigo::request r{.deadline = std::chrono::steady_clock::now() + 2s};\n"
       "canigo::request never{.deadline = canigo::time_point::max()};\n"
       "canigo::scheduler a{io, {.rate = {10, 3s}}}, b{io, {.rate = canigo::rate::per_second(5)}};\n"
       "co_await a.acquire(); co_await a.acquire(3u); co_await a.acquire({}); co_await a.acquire({.tokens = 2});\n"
       "co_await a.acquire({1, 2}); co_await a.acquire(r); \n"
       "co_await canigo::with_limits(call(), std::tie(db, a), {1});\n"
       "canigo::scheduler c{io.get_executor(), {.rate = {10, 3s}, .priorities = 2}}; canigo::semaphore d{io, {}};\n"
       "canigo::semaphore e{io, {.permits = 4}}, g{io.get_executor(), {.permits = 4}}; asio::thread_pool threads;\n"
       "canigo::limiter h{io, {.rates = {canigo::rate::per_second(5), {.rate = {10, 3s}, .burst = 5}}}};\n"
       "canigo::limiter i{io, {}}, j{io, {.rates = {{canigo::rate::per_second(5), 5}}, .concurrency = 4}};\n"
       "canigo::strand_pool one_pool{io, {.concurrency = 4, .timeout = 5s, .retry = {.attempts = 3}}};\n"
       "canigo::strand_pool two_pool{threads, {.concurrency = 4}}, three{asio::make_strand(io), {.concurrency = 4}};\n"
       "canigo::resource_pool<std::string> four{io, {.concurrency = 4, .make = [] { return std::string{}; }}};\n"
       "(void)a.try_acquire(1); canigo::permit one = co_await db.acquire({.priority = 1});\n"
       "permit_of(co_await api.acquire(2));\n"
       "a.async_acquire({}, asio::detached); co_await canigo::with_timeout(call(), 5s);\n"
       "co_await canigo::sleep_for(1min);\n"
       "auto again = canigo::retry(call, {.retry_if = [](const std::exception_ptr&) { return true; }});\n"
       "auto always = canigo::retry(call, {.retry_if = nullptr}); canigo::retry_policy none{.retry_if = {}};\n", ""),
    ("canigo::channel_capacity memory{io, {.bytes = 100}};\n"
       "const auto size = [](const std::string& s) { return s.size(); };\n"
       "canigo::channel<std::string> k{io, {.size_of = size, .shared = memory, .reserved_bytes = 10}};\n"
       "asio::thread_pool threads;\n"
       "canigo::channel<int> l{io.get_executor(), {.capacity = 4, .priorities = 2}}, m{threads, {.capacity = 4}};\n"
       "co_await words.send(url); co_await words.send(std::move(url), 1);\n"
       "co_await l.send(5); co_await l.send(5, 1); const int five = co_await l.receive(); co_await l.send(five);\n"
       "std::error_code how; co_await words.send(url, 0, how); auto word = co_await words.receive(how);\n"
       "co_await boxes.send(std::move(box)); co_await boxes.send(box, 0, how); (void)boxes.try_send(std::move(box));\n"
       "(void)words.try_send(url, 1); (void)words.try_send(\"text\"); auto got = words.try_receive();\n"
       "words.async_send(url, asio::detached); words.async_send(url, 1, asio::detached);\n"
       "co_await words.async_send(url); co_await words.async_send(url, 1); co_await words.async_receive();\n"
       "words.async_receive([](std::error_code, std::optional<std::string>) {});\n", ""),
]


def kind_of(compiler):
    """Whether it is clang, and the version of g++ that it is or pretends to be."""
    macros = subprocess.run([*compiler, "-dM", "-E", "-x", "c++", os.devnull], capture_output=True, text=True).stdout
    return "__clang__" in macros, int(re.search(r"define __GNUC__ (\d+)", macros).group(1))


class Compiler:
    """A compiler with all headers compiled already."""

    def __init__(self, command, folder):
        self.command = [*command, "-std=c++20", "-Werror=unused-result"]
        self.clang, version = kind_of(command)
        self.destroys_captures_twice = not self.clang and version < 13
        header = pathlib.Path(folder) / "start.hpp"
        header.write_text(START, encoding="utf-8")
        compiled = f"{header}.{'pch' if self.clang else 'gch'}"
        subprocess.run([*self.command, "-x", "c++-header", str(header), "-o", compiled], check=True)
        self.include = ["-include-pch", compiled] if self.clang else ["-include", str(header)]

    def first_error(self, code):
        done = subprocess.run([*self.command, *self.include, "-fsyntax-only", "-x", "c++", "-"], text=True,
                              input=AROUND + code + END, capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
        found = re.search(r"error: (.*)", done.stderr)
        return found.group(1) if found else ""


def error_on_io_uring(command):
    """The first error of an edge that has sockets, on Asio's io_uring back end."""
    done = subprocess.run([*command, "-std=c++20", "-DASIO_HAS_IO_URING", "-DASIO_DISABLE_EPOLL", "-fsyntax-only",
                           "-x", "c++", "-"], text=True, capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8"},
                          input="#include <canigo/detail/context/asio_sockets.hpp>\n")
    found = re.search(r"error: (.*)", done.stderr)
    return found.group(1) if found else ""


def version_of_asio(command):
    done = subprocess.run([*command, "-E", "-P", "-x", "c++", "-"], input="#include <asio/version.hpp>\nASIO_VERSION",
                          text=True, capture_output=True, check=True)
    return int(done.stdout.split()[-1])


def is_said(said, expected):
    """The compilers put their own words around a text."""
    return expected in said if expected else not said


def main(command):
    if pathlib.Path(command[0]).name == "ccache":
        command = command[1:]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        compiler = Compiler(command, folder)
        wrong = 0
        for (code, expected), said in zip(CASES, threads.map(compiler.first_error, [code for code, _ in CASES])):
            if expected == TWICE and not compiler.destroys_captures_twice:
                expected = ""
            if compiler.clang:
                expected = OF_CLANG.get(expected, expected)
            if not is_said(said, expected):
                print(f"{code}\n  says: {said}\n  not:  {expected}")
                wrong += 1
        said, expected = error_on_io_uring(command), LOST_HANDLERS if version_of_asio(command) < 102800 else ""
        if not is_said(said, expected):
            print(f"an edge on io_uring\n  says: {said}\n  not:  {expected}")
            wrong += 1
    print(f"{len(CASES) + 1 - wrong} of {len(CASES) + 1} as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
