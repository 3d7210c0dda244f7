#!/usr/bin/env python3
"""include_time.py COMPILER INCLUDE [ARGUMENT...]: how much longer a file compiles that includes scheduler.hpp and Asio
than one that includes only the parts of Asio that a coroutine needs. Printed, not judged: the machine may be busy."""

import pathlib
import subprocess
import sys
import tempfile
import time

ASIO = "#include <asio/awaitable.hpp>\n#include <asio/co_spawn.hpp>\n#include <asio/io_context.hpp>\n" \
       "#include <asio/steady_timer.hpp>\n#include <asio/use_awaitable.hpp>\n"


def seconds(command, folder, name, text):
    source = pathlib.Path(folder) / name
    source.write_text(text)
    best = 1e9
    for _ in range(3):
        start = time.monotonic()
        subprocess.run([*command, "-std=c++20", "-O1", "-c", source, "-o", source.with_suffix(".o")], check=True)
        best = min(best, time.monotonic() - start)
    return best


with tempfile.TemporaryDirectory() as scratch:
    command = [sys.argv[1], "-I" + sys.argv[2], *sys.argv[3:]]
    alone = seconds(command, scratch, "asio.cpp", ASIO)
    both = seconds(command, scratch, "both.cpp", ASIO + "#include <canigo/scheduler.hpp>\n")
print(f"Asio {alone:.2f} s, and scheduler.hpp {both:.2f} s: {both - alone:.2f} s more, 0.3 s are wanted")
