#!/usr/bin/env python3
"""standards.py STAMP DEPFILE COMMANDS COMPILER...: every public header as C++20, C++23 and C++26.

COMMANDS is the build's compile_commands.json, in which the headers and their flags stand. The first COMPILER is that of
the build, which has compiled the target headers_alone as C++20. A compiler may be named twice. A standard that it does
not know is left out. As C++20 each header is compiled alone. As a later standard all are compiled in one file, and
alone only if that fails, to name those that do not compile. Asio is compiled once for each standard, which saves most
of the time: that a header includes what it uses is what headers_alone looks at.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

STANDARDS = [("c++20",), ("c++23", "c++2b"), ("c++26", "c++2c")]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
FLAG = re.compile(r"-[ID].+|-isystem.*|-pthread|-m.+")


def sources(commands):
    """The files of headers_alone, and the flags that all of them have, as they are in the build's folder."""
    found = [entry for entry in json.loads(pathlib.Path(commands).read_text(encoding="utf-8"))
             if "headers_alone" in entry["output"]]
    words = shlex.split(found[0]["command"])
    flags = [word for at, word in enumerate(words) if FLAG.fullmatch(word) or words[at - 1] == "-isystem"]
    return found[0]["directory"], [entry["file"] for entry in found], flags


def in_one_file(files, directory, folder):
    """A file that includes all headers. It has none of its own."""
    together = pathlib.Path(folder) / "together.cpp"
    together.write_text("".join(f'#include "{pathlib.Path(directory, file).resolve()}"\n' for file in files),
                        encoding="utf-8")
    return str(together)


def spelling_of(compiler, names):
    """How the compiler calls a standard; None if it does not know it."""
    for name in names:
        if subprocess.run([compiler, f"-std={name}", "-fsyntax-only", "-x", "c++", os.devnull],
                          stderr=subprocess.DEVNULL).returncode == 0:
            return name
    return None


class Way:
    """A compiler, a standard, and all of Asio compiled by them."""

    def __init__(self, compiler, standard, flags, directory, folder):
        self.name = f"{pathlib.Path(compiler).name} -std={standard}"
        self.directory = directory
        start = pathlib.Path(folder) / self.name.replace(" ", "") / "start.hpp"
        start.parent.mkdir()
        start.write_text("#include <asio.hpp>\n", encoding="utf-8")
        macros = subprocess.run([compiler, "-dM", "-E", "-x", "c++", os.devnull], capture_output=True, text=True).stdout
        is_clang = "__clang__" in macros
        compiled = f"{start}.{'pch' if is_clang else 'gch'}"
        self.command = [compiler, f"-std={standard}", *flags]
        subprocess.run([*self.command, "-x", "c++-header", str(start), "-o", compiled], cwd=directory, check=True)
        self.command += [*WARNINGS, *(["-include-pch", compiled] if is_clang else ["-include", str(start)])]

    def error_of(self, source):
        """What the compiler says of a header; empty: nothing."""
        done = subprocess.run([*self.command, source], cwd=self.directory, capture_output=True, text=True,
                              env={**os.environ, "LC_ALL": "C.UTF-8"})
        return done.stderr if done.returncode else ""


def main(stamp, depfile, commands, own, *others):
    directory, files, flags = sources(commands)
    include = pathlib.Path(__file__).resolve().parents[2] / "include"
    ours = " ".join(map(str, sorted(include.rglob("*.hpp"))))
    pathlib.Path(depfile).write_text(f"{stamp}: {ours}\n", encoding="utf-8")
    compilers = {os.path.realpath(shutil.which(name)): name for name in (*others, own)}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for compiler in compilers.values():
            for names in STANDARDS[compiler == own:]:
                standard = spelling_of(compiler, names)
                if standard is None:
                    print(f"{pathlib.Path(compiler).name} knows no {names[0]}")
                    continue
                begun = time.monotonic()
                way = Way(compiler, standard, flags, directory, folder)
                together = names != STANDARDS[0] and not way.error_of(in_one_file(files, directory, folder))
                errors = [] if together else [error for error in threads.map(way.error_of, files) if error]
                wrong += len(errors)
                print(*errors, f"{way.name}: {len(files) - len(errors)} of {len(files)} headers compile "
                      f"{'together' if together else 'alone'}, in {time.monotonic() - begun:.0f} s",
                      sep="\n", flush=True)
    if not wrong:
        pathlib.Path(stamp).write_text("\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
