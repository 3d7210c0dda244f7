#!/usr/bin/env python3
"""Compares what shared libraries export with lib/exports.txt: symbols.py [--write] LIST LIBRARY...

The list has the functions and objects that have one definition, by name and without their arguments. It leaves out
canigo::detail, which the headers and the edges call, and the rest of other libraries. --write makes the list anew.
"""

import pathlib
import re
import subprocess
import sys


def without_arguments(name):
    """canigo::f of canigo::f(int)::x, and nothing of what belongs to a function."""
    depth, kept = 0, ""
    name = name.replace("operator()", "operator call").replace("(anonymous namespace)", "anonymous")
    for c in re.sub(r"operator(<=>|<<|<=|<|->|>)", "operator", name):
        if c == "(" and depth == 0:
            break
        depth += (c in "<") - (c in ">")
        kept += c
    return kept.split("[abi:")[0]


def exported(library):
    out = subprocess.run(["nm", "-DC", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        found = re.fullmatch(r"[0-9a-f]+ ([TDBR]) (.*)", line)
        if found and re.match(r"canigo::(?!detail::)", found.group(2)):
            yield without_arguments(found.group(2))


def main(arguments):
    write = arguments[0] == "--write"
    listed = pathlib.Path(arguments[write])
    found = set()
    for library in arguments[write + 1:]:
        name = pathlib.Path(library).name.split(".")[0]
        if not re.fullmatch(r"libcanigo(_[a-z]+)?", name):
            continue
        found |= {f"{name} {symbol}" for symbol in exported(library)}
    if write:
        listed.write_text("".join(line + "\n" for line in sorted(found)))
        return 0
    libraries = {line.split()[0] for line in found}
    wanted = {line for line in listed.read_text().splitlines() if line.split()[0] in libraries}
    for line in sorted(found - wanted):
        print(f"{line}: exported, and not in {listed.name}")
    for line in sorted(wanted - found):
        print(f"{line}: in {listed.name}, and not exported")
    if found != wanted:
        print("If that is meant: ninja exports, in the build directory, makes the list anew. See docs/decisions/0076.")
    return found != wanted


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
