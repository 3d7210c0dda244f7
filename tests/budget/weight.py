#!/usr/bin/env python3
"""How much a user's program compiles for canigo: weight.py ROOT CMAKE COMPILER...

It bounds three numbers, and names what is too much: the headers beside canigo.hpp; the headers of canigo that the
header of a limit pulls; and the compilations of the core in a CMake project that adds it. No source is compiled twice.
COMPILER is the command with all of its arguments. CMAKE only configures. If it is "", that part is left out.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP_LEVEL = 45  # headers beside canigo.hpp, with it
# Headers of canigo that each pulls, with itself.
PULLED = {"scheduler.hpp": 20, "semaphore.hpp": 25, "limiter.hpp": 25, "strand_pool.hpp": 35, "resource_pool.hpp": 35,
          "policy.hpp": 50, "canigo.hpp": 132}
AT_ONCE = 10  # sources in one compilation

PROJECT = """cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_subdirectory({root} canigo)
"""


def top_level(root):
    """The names of the headers that lie beside canigo.hpp."""
    return sorted(path.name for path in (root / "include/canigo").glob("*.hpp"))


def check_top_level(names):
    if len(names) > TOP_LEVEL:
        yield (f"{len(names)} headers lie in include/canigo, {TOP_LEVEL} may: give one to its class, to algorithms/ or "
               f"to detail/: {' '.join(names)}")


def pulled(root, compiler, header):
    """The headers of canigo in a file that includes `header` alone, with it."""
    made = subprocess.run([*compiler, "-std=c++20", f"-I{root / 'include'}", "-M", "-x", "c++", "-"], check=True,
                          text=True, input=f'#include "canigo/{header}"\n', stdout=subprocess.PIPE).stdout
    own = f"{root / 'include/canigo'}/"
    return sorted({word.removeprefix(own) for word in made.replace("\\\n", " ").split() if word.startswith(own)})


def check_pulled(header, names):
    if len(names) > PULLED[header]:
        yield f"{header} pulls {len(names)} headers of canigo, {PULLED[header]} are allowed: {' '.join(names)}"


def sources_of_core(root):
    """The sources that lib/meson.build lists for the core, in its order."""
    found = re.search(r"^sources = files\((.*?)\)", (root / "lib/meson.build").read_text(encoding="utf-8"), re.M | re.S)
    return re.findall(r"'([^']+)'", found.group(1))


def compiled_by_cmake(root, cmake, compiler):
    """The sources of each compilation of the core, in a project that adds it with no option."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "CMakeLists.txt").write_text(PROJECT.format(root=root), encoding="utf-8")
        found = [f"-DCANIGO_ASIO_INCLUDE={part[2:]}" for part in compiler if part.startswith("-I")]
        subprocess.run([cmake, "-S", place, "-B", place / "build", *found], check=True, stdout=subprocess.DEVNULL)
        commands = json.loads((place / "build/compile_commands.json").read_text(encoding="utf-8"))
        units = []
        for command in commands:
            file = pathlib.Path(command["file"])
            if "canigo_objects" not in command.get("output", command["command"]):
                continue
            text = file.read_text(encoding="utf-8") if file.name.startswith("unity_") else f'#include "{file}"'
            units.append([os.path.relpath(name, root / "lib") for name in re.findall(r'#include "([^"]+)"', text)])
        return units


def check_compiled(sources, units):
    """`units`: the sources of each compilation."""
    times = collections.Counter(name for unit in units for name in unit)
    twice = sorted(name for name, count in times.items() if count > 1)
    if twice:
        yield f"compiled more than once: {' '.join(twice)}"
    missing = sorted(set(sources) - set(times))
    if missing:
        yield f"never compiled: {' '.join(missing)}"
    if len(units) > -(-len(sources) // AT_ONCE):
        alone = sorted(unit[0] for unit in units if len(unit) == 1)
        yield f"{len(units)} compilations of {len(sources)} sources, not {AT_ONCE} at once; alone: {' '.join(alone)}"


def self_test():
    """Each of the checks can fail, and names what is wrong."""
    assert not list(check_top_level(["a.hpp"] * TOP_LEVEL))
    assert "last.hpp" in next(check_top_level(["a.hpp"] * TOP_LEVEL + ["last.hpp"]))
    assert not list(check_pulled("scheduler.hpp", ["a.hpp"] * 20))
    assert "last.hpp" in next(check_pulled("scheduler.hpp", ["a.hpp"] * 20 + ["last.hpp"]))
    assert not list(check_compiled(["a", "b"], [["a", "b"]]))
    assert "once: a" in next(check_compiled(["a", "b"], [["a", "b", "a"]]))
    assert "never compiled: b" in next(check_compiled(["a", "b"], [["a"]]))
    assert "alone: a b" in next(check_compiled(["a", "b"], [["a"], ["b"]]))


def main():
    root, cmake, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:]
    self_test()
    offences = list(check_top_level(top_level(root)))
    for header in PULLED:
        names = pulled(root, compiler, header)
        print(f"{header}: {len(names)} of {PULLED[header]}")
        offences += check_pulled(header, names)
    sources = sources_of_core(root)
    offences += check_compiled(sources, [sources])
    if cmake:
        units = compiled_by_cmake(root, cmake, compiler)
        print(f"{len(units)} compilations of {len(sources)} sources")
        offences += check_compiled(sources, units)
    print("\n".join(offences))
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
