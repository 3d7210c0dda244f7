#!/usr/bin/env python3
"""Counts the instructions and allocations of an operation on each hot path, against instructions.txt.

instructions.py PROGRAM COMPILER ASIO [--record]

Instructions are the same on a busy machine as on a quiet one, so this is no timed test: callgrind counts 2,000 and
12,000 operations, and the difference is what 10,000 of them take. More than 5 % above the recorded figure fails, and so
does any allocation. --record writes what is counted, after a change that is worth its price, or that made it less.
Exit status: 77, which is "skipped", where the figures are not for this compiler and Asio, or valgrind is missing.
"""

import pathlib
import re
import shutil
import subprocess
import sys

FEW, MANY = 2_000, 12_000
SLACK = 1.05
FIGURES = pathlib.Path(__file__).with_name("instructions.txt")


def counted(program, path, operations):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, path,
                           str(operations)], capture_output=True, text=True, check=True)
    instructions = int(re.search(r"Collected\s*:\s*(\d+)", done.stderr).group(1))
    return instructions, int(done.stdout)


def main():
    program, compiler, asio = sys.argv[1:4]
    figures = dict(line.split(None, 1) for line in FIGURES.read_text().splitlines() if line[:1] not in ("", "#"))
    here = f"{compiler} with Asio {asio}"
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed")
        return 77
    record = "--record" in sys.argv
    if figures.get("for") != here and not record:
        print(f"skipped: the figures are for {figures.get('for')}, this is {here}")
        return 77
    failed, lines = False, []
    for path in subprocess.run([program], capture_output=True, text=True, check=True).stdout.split():
        few, _ = counted(program, path, FEW)
        many, allocations = counted(program, path, MANY)
        each = (many - few) / (MANY - FEW)
        bound = float(figures.get(path, 0))
        wrong = []
        if each > bound * SLACK:
            wrong.append(f"more than {SLACK * bound:.0f}")
        if allocations:
            wrong.append(f"{allocations} allocations")
        print(f"{path:<28} {each:8.1f} instructions, recorded {bound:.0f}  {', '.join(wrong) or 'ok'}")
        failed = failed or bool(wrong)
        lines.append(f"{path:<28} {each:.0f}")
    if record:
        head = [line for line in FIGURES.read_text().splitlines() if line.startswith("#")]
        FIGURES.write_text("\n".join(head + [f"{'for':<28} {here}"] + lines) + "\n")
        return 0
    return 1 if failed else 0


sys.exit(main())
