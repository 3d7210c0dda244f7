#!/usr/bin/env python3
"""Checks that what is built to be installed is hardened: hardening.py [--without-fortify] COMPILE_COMMANDS FILE...

Shared libraries (.so) and programs: relocations are read-only and bound at the start, no stack is executable, no
code is relocated; programs can be loaded anywhere. Static libraries: every object says that it keeps to a shadow stack,
those of the edges also that calls lead only where they may, and the edges call the guard of the stack.
COMPILE_COMMANDS: each source of lib/ is compiled with the flags. With --without-fortify they need no _FORTIFY_SOURCE,
which the build leaves out with Asio 1.36 and 1.37.
"""

import json
import pathlib
import platform
import re
import subprocess
import sys

CORE = ["-fstack-protector", "-fstack-clash-protection"]
EDGES = ["-fstack-protector-strong", "-fstack-clash-protection"]
X86 = platform.machine() in ("x86_64", "i686")


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], capture_output=True, text=True, check=True).stdout


def linked(path):
    """What is wrong with a shared library or a program."""
    segments, dynamic = readelf("--segments", path), readelf("--dynamic", path)
    if "GNU_RELRO" not in segments:
        yield "relocations stay writable"
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW|\(BIND_NOW\)", dynamic):
        yield "functions are bound late"
    stack = re.search(r"GNU_STACK\s+(?:0x\w+\s+){5}([RWE ]+?)\s", segments)
    if not stack or "E" in stack.group(1):
        yield "the stack may be executable"
    if "TEXTREL" in dynamic:
        yield "text is relocated"
    if not re.search(r"\.so(\.\d+)*$", path):
        if not re.search(r"\(FLAGS_1\).*PIE", dynamic):
            yield "it is loaded at one address only"
        yield from guard(path)


def guard(path):
    if "__stack_chk_fail" not in readelf("--symbols", path):
        yield "no function guards its stack"


def archived(path):
    """What is wrong with a static library."""
    if X86:
        notes = readelf("--notes", path)
        objects = len(re.findall(r"^File: ", notes, re.M))
        is_core = pathlib.Path(path).name == "libcanigo.a"
        for mark, what in [("SHSTK", "a shadow stack"), *([] if is_core else [("IBT", "where calls lead")])]:
            marked = len(re.findall(rf"x86 feature: .*{mark}", notes))
            if objects == 0 or marked < objects:
                yield f"{objects - marked} of {objects} objects say nothing of {what}"
    if pathlib.Path(path).name != "libcanigo.a":
        yield from guard(path)


def compiled(commands, needs_fortify):
    """What is wrong with how the sources of lib/ are compiled."""
    seen = 0
    for command in json.loads(pathlib.Path(commands).read_text(encoding="utf-8")):
        if not re.search(r"libcanigo\w*\.(so|a)[.\d]*p/", command.get("output", "")):
            continue
        seen += 1
        flags = command["command"].split()
        is_core = re.search(r"libcanigo\.(so|a)", command["output"])
        for flag in CORE if is_core else EDGES:
            if flag not in flags:
                yield f"{command['file']}: compiled without {flag}"
        optimised = [f for f in flags if re.fullmatch(r"-O.*", f)][-1:] not in ([], ["-O0"], ["-Og"])
        if optimised and needs_fortify and not any("_FORTIFY_SOURCE=" in f for f in flags):
            yield f"{command['file']}: compiled without _FORTIFY_SOURCE"
    if seen == 0:
        yield f"{commands}: no source of lib/"


def main(commands, *paths):
    needs_fortify = commands != "--without-fortify"
    if not needs_fortify:
        commands, *paths = paths
    wrong = list(compiled(commands, needs_fortify))
    for path in paths:
        found = archived(path) if path.endswith(".a") else linked(path)
        wrong += [f"{path}: {what}" for what in found]
    print("\n".join(wrong) or f"{len(paths)} files")
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
