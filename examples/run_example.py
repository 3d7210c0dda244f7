#!/usr/bin/env python3
"""Runs an example and compares what it prints with a file: run_example.py PROGRAM EXPECTED.

Line by line and exactly; a line of the file between slashes, /like this/, is a regular expression for
the whole line. Anything on stderr or an exit status other than 0 fails too.
"""

import difflib
import re
import subprocess
import sys


def matches(expected, actual):
    if len(expected) > 1 and expected.startswith("/") and expected.endswith("/"):
        return re.fullmatch(expected[1:-1], actual) is not None
    return expected == actual


def main(program, expected_path):
    ran = subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50)
    with open(expected_path, encoding="utf-8") as file:
        expected = file.read().splitlines()
    actual = ran.stdout.splitlines()
    if ran.stderr:
        print(f"stderr is not empty:\n{ran.stderr}")
    if ran.returncode != 0:
        print(f"exit status {ran.returncode}")
    same = len(expected) == len(actual) and all(map(matches, expected, actual))
    if not same:
        # A line that matches its pattern does not appear in the difference.
        shown = [a if matches(e, a) else e for e, a in zip(expected, actual)] + expected[len(actual):]
        print("\n".join(difflib.unified_diff(shown, actual, "expected", "printed", lineterm="")))
    return 0 if same and ran.returncode == 0 and not ran.stderr else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
