#!/usr/bin/env python3
"""Checks how commits are named: subjects.py [RANGE], as "scheduler: Wake no more waiters than tokens".

RANGE is as for git log. Without it: the commits that main does not have, or the last one where there are none.
"""

import re
import subprocess
import sys

FORM = re.compile(r"[a-z][\w./, -]*: (?P<verb>[A-Z][a-z-]*)\b.*[^.]")
NO_VERB = re.compile(r"(A|An|The|No|Not|Who|What|Where|When|How|If|It|Only|More|Less|Every|Each)")
# Verbs end so themselves: "Pass", "Focus", "Need", "Bring".
PARTICIPLE = re.compile(r".*[^su]s|.*(?<!e)ed|.*[aeiouy].*ing")
VERBS = {"Embed", "Shed", "Bring", "String"}


def wrong_with(subject):
    """What is wrong with a subject, or None."""
    found = FORM.fullmatch(subject)
    if len(subject) > 72:
        return f"{len(subject)} columns; 72 are allowed"
    if not found:
        return 'is not of the form "module: Imperative ..." without a full stop'
    verb = found.group("verb")
    if NO_VERB.fullmatch(verb) or (PARTICIPLE.fullmatch(verb) and verb not in VERBS):
        return f'"{verb}" is no imperative'
    return None


def commits(*which):
    return subprocess.run(["git", "log", "--no-merges", "--format=%h %s", *which], check=True, capture_output=True,
                          text=True).stdout.splitlines()


def main():
    has_main = subprocess.run(["git", "rev-parse", "--verify", "--quiet", "main"], capture_output=True).returncode == 0
    named = commits(*sys.argv[1:]) if sys.argv[1:] else (has_main and commits("main..")) or commits("-1")
    errors = []
    for line in named:
        commit, subject = line.split(" ", 1)
        wrong = wrong_with(subject)
        if wrong:
            errors.append(f"{commit}: {subject}: {wrong}")
    print("\n".join(errors) or "subjects are fine")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
