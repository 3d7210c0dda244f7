#!/usr/bin/env python3
"""include_time.py COMPILER INCLUDE [ARGUMENT...]: fails if a file that includes scheduler.hpp and Asio takes more than
a quarter longer to compile than one that includes only the parts of Asio that a coroutine needs, which take a second.

It is the compiler's CPU time that is compared, the least of three turns of each: a busy machine adds a little to both.
"""

import pathlib
import resource
import subprocess
import sys
import tempfile

MOST = 1.25
TURNS = 3
ASIO = "#include <asio/awaitable.hpp>\n#include <asio/co_spawn.hpp>\n#include <asio/io_context.hpp>\n" \
       "#include <asio/steady_timer.hpp>\n#include <asio/use_awaitable.hpp>\n"
TEXTS = {"asio": ASIO, "both": ASIO + "#include <canigo/scheduler.hpp>\n"}


def cpu_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    least = dict.fromkeys(TEXTS, float("inf"))
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(TURNS):
            for name, text in TEXTS.items():
                source = pathlib.Path(scratch) / f"{name}.cpp"
                source.write_text(text)
                command = [sys.argv[1], "-I" + sys.argv[2], *sys.argv[3:], "-std=c++20", "-O1", "-c", source,
                           "-o", source.with_suffix(".o")]
                least[name] = min(least[name], cpu_seconds(command))
    ratio = least["both"] / least["asio"]
    print(f"Asio {least['asio']:.2f} s, and scheduler.hpp {least['both']:.2f} s: {ratio:.3f} times, {MOST} are allowed")
    return 0 if ratio <= MOST else 1


sys.exit(main())
