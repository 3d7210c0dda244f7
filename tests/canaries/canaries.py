#!/usr/bin/env python3
"""Seeded defects: what simulation, interleaving, torture and tests must find. A checker that can't fail proves nothing.

canaries.py --sources              prints each source that has defects and each harness that must find one of them
canaries.py --names OUTPUT         writes the source that reads CANIGO_CANARY, which names the defect, at the start
canaries.py SOURCE INPUT OUTPUT    copies INPUT, which is lib/SOURCE, with all its defects, one of which may be chosen
                                   (a header's is ../include/canigo/NAME.hpp)
canaries.py --hunt PROGRAM...      runs each defect's harness; fails if one is not found, or if one finds any without
canaries.py --hunt-in DIRECTORY    the same with the programs there; fails if one is missing
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time

from defects import DEFECTS

BUDGET = 300  # seconds, for each; what takes longer does not end
OWN_PROGRAMS = ("policy_simulation", "simulation", "torture")  # the others are Catch2's, and end at the first failure
SLOW = {"http_leaves_a_stream_to_its_server"}  # comes first, as it waits for a minute and others go on meanwhile
HEAD = "namespace canigo::canaries {\nextern const int chosen;\n}\n#line 1\n"


def spoiled(source, text, all_defects=DEFECTS):
    """The text with every defect of the source, each in force if it is chosen."""
    numbers = {name: number for number, name in enumerate(all_defects, 1)}
    changes = []
    for name, (where, _, there, instead) in all_defects.items():
        if where != source:
            continue
        before, rest = there.split("«")
        marked, after = rest.split("»")
        whole = before + marked + after
        if text.count(whole) != 1:
            sys.exit(f"canaries: {name}: {where} does not hold exactly once: {whole}")
        start = text.index(whole) + len(before)
        chosen = f"::canigo::canaries::chosen == {numbers[name]}"
        if marked == "" or marked.endswith(";") or marked.startswith("if "):
            new = f"if ({chosen}) {{ {instead} }} else {{ {marked} }}"
        else:
            new = f"({chosen} ? ({instead}) : ({marked}))"
        changes.append((start, start + len(marked), new))
    changes.sort()
    result, at = [HEAD], 0
    for start, end, new in changes:
        if start < at:
            sys.exit(f"canaries: two defects of {source} change the same text")
        result += [text[at:start], new]
        at = end
    return "".join(result) + text[at:]


def names_source(all_defects=DEFECTS):
    names = ", ".join(f'"{name}"' for name in all_defects)
    return f"""#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace canigo::canaries {{

// None, where nothing is chosen. A name that is not one ends the program as if it had found nothing.
static int number_of_chosen() {{
  const char* name = std::getenv("CANIGO_CANARY");
  if (name == nullptr || *name == 0) return 0;
  int n = 0;
  for (const char* one : {{{names}}}) {{
    ++n;
    if (std::strcmp(one, name) == 0) return n;
  }}
  std::_Exit(EXIT_SUCCESS);
}}

extern const int chosen = number_of_chosen();

}}  // namespace canigo::canaries
"""


def run(program, arguments, name):
    environment = {**os.environ, "CANIGO_CANARY": name}
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, errors="replace",
                              timeout=BUDGET, env=environment)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return None, "does not end"


def first_words(output):
    """What the harness says it is: a seed, an assertion, a schedule."""
    lines = [line.strip() for line in output.splitlines()]
    for mark in ("seed=", "Assertion", "SIG", "explicitly with message:", ", run "):
        for at, line in enumerate(lines):
            if mark in line:
                return (lines[at + 1] if mark.startswith("explicitly") and at + 1 < len(lines) else line)[:100]
    return next((line for line in lines if line), "says nothing")[:100]


def programs_in(directory):
    """The program of each harness."""
    return [pathlib.Path(directory) / f"canaries_{harness}"
            for harness in sorted({harness for _, (harness, *_), _, _ in DEFECTS.values()})]


def hunt(programs):
    program = {pathlib.Path(p).name.removeprefix("canaries_"): p for p in programs}
    missed = []

    def one(name):
        _, (harness, *arguments), _, _ = DEFECTS[name]
        start = time.monotonic()
        at_the_first = [] if harness in OWN_PROGRAMS else ["--abort"]
        status, output = run(program[harness], arguments + at_the_first, name)
        found = status not in (0, None)
        said = first_words(output) if output or not status else f"ended by signal {-status}"
        print(f"{'found ' if found else 'MISSED'} {time.monotonic() - start:5.1f} s  {harness:12} {name}: {said}",
              flush=True)
        if not found:
            missed.append(name)

    def control(harness, *arguments):
        status, output = run(program[harness], arguments, "")
        if status != 0:
            print(f"{harness} {' '.join(arguments)} finds something where there is no defect:\n{output}", flush=True)
            missed.append(harness)

    defects = {name: defect for name, defect in DEFECTS.items() if defect[1][0] in program}
    controls = sorted({how for _, how, _, _ in defects.values()})
    with concurrent.futures.ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        slow_first = sorted(defects, key=lambda name: name not in SLOW)
        for work in [pool.submit(one, n) for n in slow_first] + [pool.submit(control, *c) for c in controls]:
            work.result()
    print(f"{len(defects) - sum(n in defects for n in missed)} of {len(defects)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--sources"]:
        for pair in sorted({f"{source} {harness[0]}" for source, harness, _, _ in DEFECTS.values()}):
            print(pair)
    elif sys.argv[1:2] == ["--names"] and len(sys.argv) == 3:
        pathlib.Path(sys.argv[2]).write_text(names_source(), encoding="utf-8")
    elif sys.argv[1:2] == ["--hunt"] and len(sys.argv) > 2:
        sys.exit(hunt(sys.argv[2:]))
    elif sys.argv[1:2] == ["--hunt-in"] and len(sys.argv) == 3:
        sys.exit(hunt(programs_in(sys.argv[2])))
    elif len(sys.argv) == 4:
        text = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
        pathlib.Path(sys.argv[3]).write_text(spoiled(sys.argv[1], text), encoding="utf-8")
    else:
        sys.exit(__doc__)
