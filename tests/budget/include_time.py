#!/usr/bin/env python3
"""What including the library costs.

include_time.py --count INCLUDE                 fails if a header pulls more headers of the library than PULLED says
include_time.py COMPILER INCLUDE [ARGUMENT...]  the same, and fails if a file that includes scheduler.hpp and Asio takes
                                                more than a quarter longer to compile than one that includes only the
                                                parts of Asio that a coroutine needs, which take a second

It is the compiler's CPU time that is compared, the least of three turns of each: a busy machine adds a little to both.
"""

import pathlib
import re
import resource
import subprocess
import sys
import tempfile

# How many other headers of the library each of these pulls. Fewer is better: then write the new figure here.
PULLED = {"scheduler.hpp": 25, "limiter.hpp": 52, "strand_pool.hpp": 40, "resource_pool.hpp": 41}
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


def pulled(include, header):
    """All headers of the library that `header` includes, by way of others too."""
    found, left = set(), [f"canigo/{header}"]
    while left:
        text = (pathlib.Path(include) / left.pop()).read_text()
        new = set(re.findall(r'^#include "(canigo/[^"]+)"', text, re.MULTILINE)) - found
        found |= new
        left += new
    return found


def count(include):
    too_many = False
    for header, most in PULLED.items():
        n = len(pulled(include, header))
        print(f"{header} pulls {n} headers, {most} are allowed")
        too_many = too_many or n > most
    return too_many


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    too_many = count(sys.argv[2])
    if sys.argv[1] == "--count":
        return 1 if too_many else 0
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
    return 0 if ratio <= MOST and not too_many else 1


sys.exit(main())
