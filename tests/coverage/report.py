#!/usr/bin/env python3
"""Which lines and branches no test has run: report.py LLVM-COV PROFILE EXCEPTIONS BINARY...

It looks at lib/ and include/, or at the folders that --of names. Fails if less than --least-lines per cent of the lines
were run (100), or less than --least-branches of the branches taken both ways (98), those left out that EXCEPTIONS
names. It has one exception a line: a file, a piece of the line's text in backticks, the reason.
That is for the line with that text and its branches, and for the rest of its block as far as that was not run either.
What it names and has been run all the same is shown: threads may meet in rare ways, or not. What it names and is not
there any more is an error.
"""

import argparse
import bisect
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXCEPTION = re.compile(r"^(\S+) `(.+)` (\S.*)$")


def exported(llvm_cov, profile, binaries, folders, form):
    command = [llvm_cov, "export", f"-format={form}", f"-instr-profile={profile}", binaries[0]]
    for binary in binaries[1:]:
        command += ["-object", binary]
    command += [str(ROOT / folder) for folder in folders]
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


def indent(line):
    return len(line) - len(line.lstrip())


def correct(lines, files):
    """llvm-cov takes what stands before a line that goes on after a block with a return for the line itself"""
    for file in files:
        name = str(pathlib.Path(file["filename"]).relative_to(ROOT))
        places = [segment[:2] for segment in file["segments"]]
        source = (ROOT / name).read_text(encoding="utf-8").splitlines()
        for number, count in lines[name].items():
            if count == 0:
                here = bisect.bisect_right(places, [number, indent(source[number - 1]) + 1]) - 1
                _, _, times, is_counted, _, is_gap = file["segments"][here]
                if is_counted and not is_gap:
                    lines[name][number] = times


def branches_of(files, decisions):
    """{file: {(line, column, end line, end column): [times true, times false]}}, all instances of a template as one"""
    branches = {}
    for file in files:
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


def exceptions_of(path, folders):
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        match = EXCEPTION.match(line)
        if not match:
            sys.exit(f"{path}:{number}: not `file`, a piece of text in backticks, and a reason")
        file, text = match[1], match[2]
        if file.split("/")[0] not in folders:
            continue
        source = ROOT / file
        if not source.is_file() or text not in source.read_text(encoding="utf-8"):
            sys.exit(f"{path}:{number}: there is no such line: {file} `{text}`")
        found.append([number, file, text, False])
    return found


def excepted_in(file, source, run, missed, exceptions):
    """the numbers of the lines that stand under an exception; `run` is how often each was, `missed` where that is less
    than all of it"""
    excepted = set()
    for exception in exceptions:
        if exception[1] != file:
            continue
        for number, line in enumerate(source, 1):
            if exception[2] not in line or number not in missed:
                continue
            exception[3] = True
            excepted.add(number)
            if run.get(number, 1) != 0:
                continue
            for below in range(number + 1, len(source) + 1):
                text = source[below - 1]
                is_outside = bool(text.strip()) and indent(text) < indent(line)
                if run.get(below, 0) != 0 or (is_outside and text.strip() != "}"):
                    break
                excepted.add(below)
                if is_outside:
                    break
    return excepted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--of", action="append")
    parser.add_argument("--least-lines", type=float, default=100)
    parser.add_argument("--least-branches", type=float, default=98)
    parser.add_argument("llvm_cov")
    parser.add_argument("profile")
    parser.add_argument("exceptions", type=pathlib.Path)
    parser.add_argument("binaries", nargs="+")
    a = parser.parse_args()
    folders = a.of or ["lib", "include"]
    exceptions = exceptions_of(a.exceptions, folders)
    lines, decisions = lines_of(exported(a.llvm_cov, a.profile, a.binaries, folders, "lcov"))
    files = json.loads(exported(a.llvm_cov, a.profile, a.binaries, folders, "text"))["data"][0]["files"]
    correct(lines, files)
    branches = branches_of(files, decisions)

    problems = []
    totals = [0, 0, 0, 0, 0, 0]  # lines, not run, of these excepted; branches, not taken, of these excepted
    print(f"{'':44} {'lines':>7} {'not run':>8} {'branches':>9} {'not taken':>10}")
    for file in sorted(lines):
        source = (ROOT / file).read_text(encoding="utf-8").splitlines()
        row = [len(lines[file]), 0, 0, 0]
        missed = {number for number, count in lines[file].items() if count == 0}
        missed |= {place[0] for place, counts in branches.get(file, {}).items() if 0 in counts}
        excepted = excepted_in(file, source, lines[file], missed, exceptions)
        for number, count in sorted(lines[file].items()):
            if count == 0:
                row[1] += 1
                if number in excepted:
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
                    if number in excepted:
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

    def share(missed, of):
        return 100 * (1 - missed / of)

    lines_left, branches_left = lines_missed - lines_excepted, branches_missed - branches_excepted
    print(f"lines: {all_lines}, not run {lines_missed}: {share(lines_missed, all_lines):.2f} %; "
          f"{lines_excepted} of these are listed, without them {share(lines_left, all_lines):.2f} %")
    print(f"branches: {all_branches}, not taken {branches_missed}: {share(branches_missed, all_branches):.2f} %; "
          f"{branches_excepted} of these are listed, without them {share(branches_left, all_branches):.2f} %")
    for number, file, text, was_needed in exceptions:
        if not was_needed:
            print(f"{a.exceptions}:{number}: was run all the same: {file} `{text}`")
    is_short = share(lines_left, all_lines) < a.least_lines or share(branches_left, all_branches) < a.least_branches
    sys.exit(1 if is_short else 0)


if __name__ == "__main__":
    main()
