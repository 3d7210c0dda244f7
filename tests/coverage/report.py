#!/usr/bin/env python3
"""Which lines and branches of lib/ and include/ no test has run: report.py LLVM-COV PROFILE EXCEPTIONS BINARY...

Fails if a line has not been run that EXCEPTIONS does not name, or if more than 2 % of the branches were not taken both
ways, those it names left out. It has one exception a line: a file, a piece of the line's text in backticks, the reason.
What it names and has been run all the same is shown: threads may meet in rare ways, or not.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEAST_BRANCHES = 98.0
EXCEPTION = re.compile(r"^(\S+) `(.+)` (\S.*)$")


def exported(llvm_cov, profile, binaries, form):
    command = [llvm_cov, "export", f"-format={form}", f"-instr-profile={profile}", binaries[0]]
    for binary in binaries[1:]:
        command += ["-object", binary]
    command += [str(ROOT / "lib"), str(ROOT / "include")]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def lines_of(text):
    """{file: {line: times run}}, and {file: {line: branches}} without those that the compiler has decided"""
    lines = collections.defaultdict(dict)
    decisions = collections.defaultdict(collections.Counter)
    for record in text.splitlines():
        kind, _, rest = record.partition(":")
        if kind == "SF":
            file = str(pathlib.Path(rest).relative_to(ROOT))
        elif kind == "DA":
            number, count = rest.split(",")[:2]
            lines[file][int(number)] = int(count)
        elif kind == "BRDA":
            decisions[file][int(rest.split(",")[0])] += 0.5
    return lines, decisions


def branches_of(text, decisions):
    """{file: {(line, column, end line, end column): [times true, times false]}}, all instances of a template as one"""
    branches = {}
    for file in json.loads(text)["data"][0]["files"]:
        name = str(pathlib.Path(file["filename"]).relative_to(ROOT))
        of_file = branches[name] = collections.defaultdict(lambda: [0, 0])
        for branch in file["branches"]:
            if branch[:2] == branch[2:4]:
                continue  # of an assert
            counts = of_file[tuple(branch[:4])]
            counts[0] += branch[4]
            counts[1] += branch[5]
        on_line = collections.Counter(place[0] for place in of_file)
        for place, counts in sorted(of_file.items()):
            if counts == [0, 0] and on_line[place[0]] > decisions[name][place[0]]:
                on_line[place[0]] -= 1
                del of_file[place]
    return branches


def exceptions_of(path):
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        match = EXCEPTION.match(line)
        if not match:
            sys.exit(f"{path}:{number}: not `file`, a piece of text in backticks, and a reason")
        found.append([number, match[1], match[2], False])
    return found


def main():
    llvm_cov, profile, exceptions_path, *binaries = sys.argv[1:]
    exceptions_path = pathlib.Path(exceptions_path)
    exceptions = exceptions_of(exceptions_path)
    lines, decisions = lines_of(exported(llvm_cov, profile, binaries, "lcov"))
    branches = branches_of(exported(llvm_cov, profile, binaries, "text"), decisions)

    def is_excepted(file, text):
        named = False
        for exception in exceptions:
            if exception[1] == file and exception[2] in text:
                named = exception[3] = True
        return named

    problems = []
    totals = [0, 0, 0, 0, 0, 0]  # lines, not run, of these excepted; branches, not taken, of these excepted
    print(f"{'':44} {'lines':>7} {'not run':>8} {'branches':>9} {'not taken':>10}")
    for file in sorted(lines):
        source = (ROOT / file).read_text(encoding="utf-8").splitlines()
        row = [len(lines[file]), 0, 0, 0]
        for number, count in sorted(lines[file].items()):
            if count == 0:
                row[1] += 1
                if is_excepted(file, source[number - 1]):
                    totals[2] += 1
                else:
                    problems.append(f"{file}:{number}: not run: {source[number - 1].strip()}")
        for place, counts in sorted(branches.get(file, {}).items()):
            row[2] += 2
            for way, count in zip(("true", "false"), counts):
                if count == 0:
                    row[3] += 1
                    number, column, end, end_column = place
                    text = source[number - 1]
                    piece = text[column - 1 : end_column - 1 if end == number else None]
                    if is_excepted(file, text):
                        totals[5] += 1
                    else:
                        problems.append(f"{file}:{number}: never {way}: {piece}")
        totals[0] += row[0]
        totals[1] += row[1]
        totals[3] += row[2]
        totals[4] += row[3]
        if row[1] or row[3]:
            print(f"{file:44} {row[0]:7} {row[1]:8} {row[2]:9} {row[3]:10}")
    print("\n".join(problems))
    all_lines, lines_missed, lines_excepted, all_branches, branches_missed, branches_excepted = totals
    line_share = 100 * (1 - (lines_missed - lines_excepted) / all_lines)
    branch_share = 100 * (1 - (branches_missed - branches_excepted) / all_branches)
    print(f"lines: {all_lines}, not run {lines_missed}, of these {lines_excepted} listed: {line_share:.2f} %")
    print(f"branches: {all_branches}, not taken {branches_missed}, of these {branches_excepted} listed: "
          f"{branch_share:.2f} %")
    stale = [e for e in exceptions if not e[3]]
    for number, file, text, _ in stale:
        print(f"{exceptions_path}:{number}: was run, or is not there: {file} `{text}`")
    sys.exit(1 if lines_missed > lines_excepted or branch_share < LEAST_BRANCHES else 0)


main()
