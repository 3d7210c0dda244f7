#!/usr/bin/env python3
"""Checks README.md, CONTRIBUTING.md and docs/ against the repository: docs.py ROOT.

A ```cpp block is found word for word, up to white space, in an example, in tests/docs_test.cpp or in a header; a
```text block in what an example prints; a ```meson or ```cmake block in the projects that tests/install builds. The
first ```cpp block of README.md is all that lies between the markers of examples/01_hello.cpp. Relative links lead to
a file, and their anchors to a heading; a header, a script, an example or a test that is named exists. A row of a table
has as many cells as its head, and its first cell is no other row's if that is a name in backticks.
"""

import pathlib
import re
import sys

SOURCES = {
    "cpp": ["examples/*.cpp", "examples/*/*.cpp", "tools/*/*.cpp", "tests/docs_test.cpp",
            "include/canigo/**/*.hpp"],
    "text": ["examples/expected/*.txt"],
    "meson": ["tests/install/**/meson.build", "tests/install/**/*.wrap"],
    "cmake": ["tests/install/**/CMakeLists.txt"],
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:canigo/|include/|lib/|examples/|tools/|tests/|bench/|packaging/|scripts/|docs/|\.ci/)"
                   r"[\w./-]*\w)`")


def comparable(text):
    return [" ".join(line.split()) for line in text.strip("\n").splitlines()]


def contains(lines, wanted):
    return any(lines[i : i + len(wanted)] == wanted for i in range(len(lines) - len(wanted) + 1))


def anchors(text):
    headings = re.findall(r"^#+ (.*)$", re.sub(FENCE, "", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def check_tables(prose):
    # A stroke inside of a cell has a backslash before it.
    head, firsts = 0, set()
    for number, line in enumerate(prose.splitlines(), 1):
        if not line.startswith("|"):
            head, firsts = 0, set()
            continue
        cells = re.split(r"(?<!\\)\|", line.strip())[1:-1]
        if head == 0:
            head = len(cells)
        elif len(cells) != head:
            yield number, f"the row has {len(cells)} cells, and its table {head}"
        name = cells[0].strip() if cells else ""
        if name in firsts:
            yield number, f"the table has two rows {name}"
        if re.fullmatch(r"`[^`]+`", name):
            firsts.add(name)


def check(root, page):
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(root)
    for match in FENCE.finditer(text):
        language, block = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        if language in SOURCES:
            files = [f for pattern in SOURCES[language] for f in root.glob(pattern)]
            wanted = comparable(block)
            if not any(contains(comparable(f.read_text(encoding="utf-8")), wanted) for f in files):
                yield f"{name}:{line}: this {language} block is not in {', '.join(SOURCES[language])}"
    prose = re.sub(FENCE, lambda m: "\n" * m.group().count("\n"), text)
    for number, what in check_tables(prose):
        yield f"{name}:{number}: {what}"
    for number, line in enumerate(prose.splitlines(), 1):
        for target in LINK.findall(line):
            path, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                yield f"{name}:{number}: no such file: {path}"
            elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
                yield f"{name}:{number}: no such heading: {target}"
        for path in NAMED.findall(line):
            if re.search(r"(^|/|_)x[._]", path):
                continue  # stands for any name
            if not ((root / path).exists() or (root / "include" / path).exists()):
                yield f"{name}:{number}: no such file: {path}"


def check_first_screen(root):
    example = (root / "examples/01_hello.cpp").read_text(encoding="utf-8").split("// [readme]\n")[1]
    fences = FENCE.findall((root / "README.md").read_text(encoding="utf-8"))
    if example not in [block for language, block in fences if language == "cpp"][:1]:
        yield "README.md: the first code block is not what lies between the markers of examples/01_hello.cpp"


def main(root):
    root = pathlib.Path(root)
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted(root.glob("docs/**/*.md"))]
    errors = [e for page in pages for e in check(root, page)] + list(check_first_screen(root))
    print("\n".join(errors) or f"{len(pages)} pages")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
