#!/usr/bin/env python3
"""Keeps the tree in order: layers, include circles, banned words, plain sentences, files that nothing tests or builds.

tidy.py [ROOT] prints each offence as "path:line: rule: what is wrong" and exits with 1 if there is one.
The layers, and the headers that need no test, stand in layers.txt; self_test.py proves that each rule can fail.
"""

import pathlib
import re
import subprocess
import sys

import prose

# Outside the standard library and Asio, a public header includes nothing but these.
THIRD_PARTY_ALLOWED = {
    "include/canigo/rate.hpp": {"fmt/core.h", "fmt/format.h"},
    "include/canigo/jobs/json.hpp": {"nlohmann/json.hpp"},  # no other header includes it
}

# In pieces, or this file would offend.
BANNED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK|for" r" now|not" r" implemented)\b")
MACHINE_PATH = re.compile(r"(?<![\w.})])/(wo" r"rk|fa" r"rm|ro" r"ot|ho" r"me|tm" r"p|Us" r"ers)/\w")
SLEEP = re.compile(r"this_thread::sleep_(for|until)|\b(usleep|nanosleep)\s*\(|(?<![\w.:])sleep\s*\(")

CODE = (".cpp", ".hpp")
TEXT = CODE + (".in", ".py", ".build", ".options", ".sh", ".cmake")
# Asio has these names, too, since a version that most have not: by its arguments a call may find either.
OF_ASIO = re.compile(r"(?<![\w:.>])(cancel_after|cancel_at)\s*\(")
# The head of what an unnamed namespace may define: a type, a function, a constant.
UNNAMED = re.compile(r"(?:struct|class|enum class) \w+|\w[^;=]*\)(?= (?:noexcept )?\{)|const(?:expr)? [^;={(]*")
# The head of a function that wraps an operation of any result. A token takes what has a default constructor.
WRAPPER = re.compile(r"[^/]*\b(?!async_|try_)(\w+)\((?:net::awaitable<T>|Make&&|F&&) \w+[,)]")
MESON_TEST = re.compile(r"^ *test\((?:[^()']|'[^'\n]*'|\((?:[^()']|'[^'\n]*'|\([^()]*\))*\))*\)", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
LOOP = re.compile(r"\b(?:while|for) ?\(((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*)\)")
RULES = []


def rule(function):
    RULES.append(function)
    return function


class Tree:
    """The files of a repository, by path from its root."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = sorted(self._list())
        self._text = {}

    def _list(self):
        if (self.root / ".git").exists():
            listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                    cwd=self.root, check=True, capture_output=True, text=True).stdout
            paths = [path for path in listed.split("\0") if path]
        else:
            paths = [path.relative_to(self.root).as_posix() for path in self.root.rglob("*")]
            paths = [path for path in paths if not re.match(r"build/|subprojects/[^/]+/|\.git/", path)]
        return [path for path in set(paths) if (self.root / path).is_file()]

    def text(self, path):
        if path not in self._text:
            self._text[path] = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return self._text[path]

    def lines(self, path):
        return enumerate(self.text(path).split("\n"), 1)

    def under(self, *folders, suffix=CODE):
        return [p for p in self.files if p.startswith(folders) and p.endswith(suffix)]

    def includes(self, path):
        """(line, spelling, own file that it names or None) of each include."""
        for number, line in self.lines(path):
            found = INCLUDE.match(line)
            if not found:
                continue
            spelling = found.group(2)
            beside = (pathlib.PurePosixPath(path).parent / spelling).as_posix()
            for candidate in ("include/" + spelling, beside, "tests/" + spelling, spelling):
                if candidate in self.files:
                    yield number, spelling, candidate
                    break
            else:
                yield number, spelling, "include/" + spelling if spelling.startswith("canigo/") else None


def concept(path):
    """What a library file is about: "detail/base/mutex" for include/canigo/detail/base/mutex.hpp and its source."""
    return re.sub(r"^(include/canigo|lib)/", "", path).rsplit(".", 1)[0]


def read_layers(text):
    """layers.txt as {"values": [name, ...], ...}, lowest first."""
    table = {}
    for line in re.sub(r"#.*", "", text).splitlines():
        title, colon, names = line.rpartition(":")
        if colon:
            table[title] = []
        if names.strip():
            list(table.values())[-1].extend(names.split())
    return table


TABLE = read_layers((pathlib.Path(__file__).parent / "layers.txt").read_text(encoding="utf-8"))
UNTESTED = TABLE.pop("untested")
GATEWAY = TABLE.pop("gateway")
LAYERS = list(TABLE)


def layer(path):
    """The layer of a library file, or None if the table does not name it."""
    name = concept(path)
    for title, names in TABLE.items():
        if name in names or any(known.endswith("/") and name.startswith(known) for known in names):
            return LAYERS.index(title)
    return next((LAYERS.index(title) for title, names in TABLE.items() if "*" in names and "/" not in name), None)


@rule
def layers(tree):
    for path in tree.under("include/canigo/", "lib/"):
        level = layer(path)
        if level is None:
            yield path, 1, "is in no layer: give it a place in tests/tidy/layers.txt"
            continue
        for number, spelling, target in tree.includes(path):
            if LAYERS[level] == "values" and spelling.startswith("asio"):
                yield path, number, f"a value includes Asio: {spelling}"
            if target is None or not target.startswith(("include/canigo/", "lib/")):
                continue
            below = layer(target)
            if below is not None and below > level:
                yield path, number, f"layer '{LAYERS[level]}' includes {spelling} of layer '{LAYERS[below]}'"
            folder, other = concept(path).split("/")[0], concept(target).split("/")[0]
            if level == below == LAYERS.index("edges") and folder != other:
                yield path, number, f"edge '{folder}' includes edge '{other}': {spelling}"


@rule
def gateway_layers(tree):
    for path in tree.under("gateway/"):
        folder = path.split("/")[1]
        if "/" not in path[len("gateway/"):]:
            continue  # main.cpp is above all
        if folder not in GATEWAY:
            yield path, 1, "is in no folder of tests/tidy/layers.txt"
            continue
        for number, _, target in tree.includes(path):
            if target is None or not target.startswith("gateway/"):
                continue
            below = target.split("/")[1]
            if below in GATEWAY and GATEWAY.index(below) > GATEWAY.index(folder):
                yield path, number, f"gateway/{folder} includes {target} of the higher gateway/{below}"


@rule
def tools_layers(tree):
    """A tool knows its own folder, shared/ and the library; canigo-gateway knows shared/ alone."""
    for path in tree.under("gateway/", "tools/"):
        allowed = ("tools/shared/",) if path.startswith("gateway/") else (path.rsplit("/", 1)[0] + "/", "tools/shared/")
        others = ("tools/",) if path.startswith("gateway/") else ("tools/", "gateway/", "lib/")
        for number, _, target in tree.includes(path):
            if target and target.startswith(others) and not target.startswith(allowed):
                yield path, number, f"includes {target}; it may include {' and '.join(allowed)}"


@rule
def circles(tree):
    graph = {path: [t for _, _, t in tree.includes(path) if t in tree.files]
             for path in tree.under("gateway/", "include/", "lib/", "tools/", "tests/")}
    done, trail, reported = set(), [], []

    def visit(path):
        if path in trail:
            reported.append(trail[trail.index(path):] + [path])
        elif path not in done:
            trail.append(path)
            for target in graph.get(path, []):
                visit(target)
            done.add(trail.pop())

    for path in graph:
        visit(path)
    for circle in reported:
        yield min(circle), 1, "includes itself: " + " -> ".join(circle)


@rule
def third_party(tree):
    for path in tree.under("include/"):
        for number, spelling, target in tree.includes(path):
            standard = re.fullmatch(r"[a-z_0-9]+", spelling)
            if target or standard or re.match(r"asio(/|\.hpp$)", spelling):
                continue
            if spelling not in THIRD_PARTY_ALLOWED.get(path, ()):
                yield path, number, f"a public header includes {spelling}: that belongs in lib/"


@rule
def include_order(tree):
    """Own header, then canigo's, then third parties', then the standard library's; each sorted."""
    for path in tree.under("gateway/", "include/", "lib/"):
        if path.startswith("lib/") and path.endswith(".cpp"):
            own = [f"include/canigo/{concept(path)}.hpp", f"lib/{concept(path)}.hpp"]
        elif path.startswith("gateway/") and path.endswith(".cpp"):
            own = [path.replace(".cpp", ".hpp")]
        else:
            own = []
        before = (-1, "")
        for number, spelling, target in tree.includes(path):
            if target in own:
                place = 0
            elif target:
                place = 1
            elif re.fullmatch(r"[a-z_0-9]+(\.h)?|sys/.*", spelling):
                place = 3
            else:
                place = 2
            # Quoted neighbours ("engine.hpp") come after canigo/; within third parties any order of the libraries.
            key = spelling if place != 1 else (spelling if spelling.startswith("canigo/") else "d" + spelling)
            if place < before[0] or (place == before[0] and place != 2 and key < before[1]):
                yield path, number, f"{spelling} is out of order: own, canigo/, Asio and others, std; each sorted"
                break
            before = (place, key)


@rule
def headers(tree):
    for path in tree.under("gateway/", "include/", "lib/", "tools/", "tests/", suffix=(".hpp",)):
        if not re.match(r"(//[^\n]*\n|\s)*#pragma once\n", tree.text(path)) and not path.startswith("tests/pch/"):
            yield path, 1, "does not begin with #pragma once"
        for number, line in tree.lines(path):
            if re.match(r"\s*using\s+namespace\b", line):
                yield path, number, "using namespace in a header"
            if path.startswith(("gateway/", "include/", "lib/", "tools/")) and re.match(r"\s*#\s*define\b", line):
                yield path, number, "a macro in a header"


@rule
def words(tree):
    for path in tree.files:
        code = path.startswith(("gateway/", "include/", "lib/", "examples/", "tools/", "tests/", "bench/", "scripts/",
                                "cmake/", ".ci/"))
        if not (code or path.endswith(TEXT + (".md",))):
            continue
        for number, line in tree.lines(path):
            banned = BANNED.search(line)
            if code and banned:
                yield path, number, f"unfinished business: {banned.group(0)}"
            machine = MACHINE_PATH.search(line)
            if machine:
                yield path, number, f"a path of one machine: {machine.group(0)}"


@rule
def style(tree):
    """Pages are in plain sentences: tests/tidy/prose.py."""
    for path in tree.files:
        if prose.CHECKED.fullmatch(path):
            for number, message in prose.offences(path, tree.text(path)):
                yield path, number, message


@rule
def sleeps(tree):
    """A test waits in virtual time, except a test case tagged [realtime] or a file that says so in its first lines."""
    for path in tree.under("tests/"):
        text = tree.text(path)
        cases = re.findall(r"^\s*TEST_CASE\w*\s*\((.*?)\)\s*\{", text, re.M | re.S)
        says_so = any(line.startswith("//") and "[realtime]" in line for line in text.split("\n")[:5])
        if says_so or (cases and all("[realtime]" in case for case in cases)):
            continue
        head, in_head, allowed = "", False, False
        for number, line in tree.lines(path):
            if re.match(r"\s*TEST_CASE", line):
                head, in_head = "", True
            if in_head:
                head += line
                if line.rstrip().endswith("{"):
                    in_head, allowed = False, "[realtime]" in head
            elif line == "}":
                allowed = False
            if SLEEP.search(line) and not allowed:
                yield path, number, "sleeps on the wall clock in a test that is not [realtime]"


@rule
def conditions(tree):
    """g++ 12 evaluates a co_await on the right of && in a loop's condition when the left is false, too."""
    for path in tree.under("", suffix=CODE):
        text = tree.text(path)
        for loop in LOOP.finditer(text):
            condition = loop.group(1).split(";")[1] if loop.group(1).count(";") == 2 else loop.group(1)
            if re.search(r"(&&|\|\||\?).*\bco_await\b", condition, re.S):
                yield path, text[:loop.start()].count("\n") + 1, "a co_await in a part of a loop's condition"


@rule
def memory(tree):
    """Nothing is checked while allocations fail, because Catch may allocate for a check."""
    for path in tree.under("tests/", suffix=(".cpp", ".hpp")):
        failing = None
        for number, line in tree.lines(path):
            begun = re.match(r"(\s+)(?:const )?(?:allocations::)?failing (\w+)\{", line)
            if begun:
                failing = begun
            elif failing and line and not line.startswith(failing[1]) or failing and f"{failing[2]}.stop()" in line:
                failing = None
            elif failing and re.match(failing[1] + r"(CHECK|REQUIRE)(?!_THROWS)", line):
                yield path, number, f"checks while allocations fail: call {failing[2]}.stop() first"


@rule
def names(tree):
    for path in tree.under("tests/", "examples/", "tools/", "bench/"):
        for number, line in tree.lines(path):
            found = OF_ASIO.search(line.split("//")[0])
            if found:
                yield path, number, f"{found.group(1)} is a name of canigo and of Asio: say whose"


@rule
def tests(tree):
    paths = [path[len("tests/"):-len("_test.cpp")] for path in tree.under("tests/", suffix=("_test.cpp",))]
    # tests/redis/client_test.cpp is of redis/client, tests/admission/gate_test.cpp of gate.
    names = {path.replace("/", "_") for path in paths} | {path.split("/")[-1] for path in paths}
    concepts = [concept(path) for path in tree.under("include/canigo/")]
    stems = [name.split("/")[-1] for name in concepts]
    for name in concepts:
        if "detail" in name.split("/") or name in UNTESTED:
            continue
        # An edge's folder may be left out of the name unless another header shares the rest of it.
        stem = name.split("/")[-1]
        wanted = [name.replace("/", "_")] + ([stem] if stems.count(stem) == 1 else [])
        if not any(found == want or found.startswith(want + "_") for found in names for want in wanted):
            yield f"include/canigo/{name}.hpp", 1, f"has no test: tests/{wanted[0]}_test.cpp"


@rule
def wrappers(tree):
    """A public function that wraps an operation is in a table of tests with all kinds of results: result_kinds.hpp."""
    text = "".join(tree.text(path) for path in tree.under("tests/", suffix=("_test.cpp",)))
    rows = {" ".join(name.split()[:2]) for name in re.findall(r'\bresult_kinds::row\{\s*"([^"]+)"', text)}
    for path in tree.under("include/canigo/", suffix=(".hpp",)):
        is_detail, is_private = "detail" in concept(path).split("/"), False
        for number, line in tree.lines(path):
            if re.match(r"(}  // )?namespace detail\b", line):
                is_detail = line[0] != "}"
            elif line in ("};", " public:", " private:"):
                is_private = line == " private:"
            found = WRAPPER.match(line)
            if found and not is_detail and not is_private and f"{concept(path)} {found.group(1)}" not in rows:
                yield path, number, f'no test has result_kinds::row{{"{concept(path)} {found.group(1)}", ...}}'


@rule
def listed(tree):
    """Everything that can be compiled is compiled: it stands in the meson.build that rules its folder."""
    for path in tree.under("gateway/", "include/canigo/", "lib/", "tests/", "examples/", "tools/", "bench/"):
        if path.endswith(".hpp") and not path.startswith("include/"):
            continue
        if path.startswith("tests/install/"):
            continue
        folder = pathlib.PurePosixPath(path).parent
        while (folder / "meson.build").as_posix() not in tree.files and folder.as_posix() != ".":
            folder = folder.parent
        inside = pathlib.PurePosixPath(path).relative_to(folder).as_posix()
        build = (folder / "meson.build").as_posix()
        text = tree.text(build) if build in tree.files else ""
        text = re.sub(r"#.*", "", text)
        # The headers of a folder detail/ are installed as a whole.
        if path.startswith("include/canigo/detail/"):
            inside = "detail"
        if f"'{inside}'" not in text and f"'{inside.rsplit('.', 1)[0]}'" not in text:
            yield path, 1, f"is not in {build}"


@rule
def pairs(tree):
    """A source has the name of its header; the second source of a large one has the name and a word more."""
    for path in tree.under("lib/", suffix=(".cpp",)):
        words = concept(path).split("_")
        names = ["_".join(words[:n]) for n in range(len(words), 0, -1)]
        if not any(f"{folder}/{name}.hpp" in tree.files for folder in ("include/canigo", "lib") for name in names):
            yield path, 1, f"has no header of its name: include/canigo/{concept(path)}.hpp"


@rule
def dead(tree):
    everything = tree.under("gateway/", "include/", "lib/", "tests/", "examples/", "tools/", "bench/")
    used = {target for path in everything for _, _, target in tree.includes(path)}
    # A detail header lives on what the library does with it, not on its own source or its test.
    used_by_others = {target for path in tree.under("include/", "lib/") for _, _, target in tree.includes(path)
                      if target and concept(path) != concept(target)}
    for path in tree.under("include/canigo/", suffix=(".hpp",)):
        if "detail" in concept(path).split("/") and path not in used_by_others:
            yield path, 1, "nothing in the library includes it"
    for path in tree.under("gateway/", "lib/", suffix=(".hpp",)):
        if path not in used:
            yield path, 1, "nothing includes it"
    for path in tree.under("tests/", "examples/", "tools/", "bench/", suffix=(".hpp",)):
        if path not in used and not path.startswith(("tests/pch/", "tests/interleaving/shadow/", "tests/mutation/")):
            yield path, 1, "nothing includes it"
    for path in tree.under("examples/expected/", suffix=(".txt",)):
        source = path.replace("/expected/", "/").replace(".txt", ".cpp")
        if source not in tree.files:
            yield path, 1, f"there is no {source}"
    for path in tree.under("scripts/", suffix=""):
        mention = "/" + pathlib.PurePosixPath(path).name
        if not any(mention in tree.text(other) for other in tree.files if other != path
                   and (other.startswith((".ci/", "scripts/")) or other.endswith((".md", ".py", "meson.build")))):
            yield path, 1, "no script or page mentions it"


@rule
def lines(tree):
    for path in tree.files:
        text_file = path.endswith(TEXT + (".md",)) or path.startswith(("scripts/", ".ci/"))
        if not text_file or path.startswith("examples/expected/"):
            continue
        for number, line in tree.lines(path):
            if line != line.rstrip():
                yield path, number, "white space at the end of the line"
            if "\t" in line:
                yield path, number, "a tab"
            if len(line) > 120 and not path.endswith(".md"):
                yield path, number, f"{len(line)} columns; 120 are allowed"
        if tree.text(path) and not tree.text(path).endswith("\n"):
            yield path, tree.text(path).count("\n") + 1, "no newline at the end of the file"


def reached_from(tree, path):
    """All own files that a file includes, itself among them."""
    reached, waiting = set(), [path]
    while waiting:
        header = waiting.pop()
        if header in tree.files and header not in reached:
            reached.add(header)
            waiting += [target for _, _, target in tree.includes(header) if target]
    return reached


@rule
def asio(tree):
    """What includes Asio has the linker compare it with the library's."""
    settings = "include/canigo/detail/context/asio_settings.hpp"
    for path in tree.under("include/canigo/", suffix=(".hpp",)):
        for number, spelling, _ in tree.includes(path):
            if spelling.startswith("asio") and settings not in reached_from(tree, path):
                yield path, number, "includes Asio without canigo/net.hpp, so that nobody notices another Asio"
                break


@rule
def executors(tree):
    """An executor that can be required to run nothing at once says so when it is asked; a strand above it asks."""
    for path in tree.under("include/", "lib/", "tests/"):
        if re.search(r"\bquery\((\w+::)*blocking_t\b", tree.text(path)):
            continue
        for number, line in tree.lines(path):
            if re.search(r"\brequire\((\w+::)*blocking_t::never_t\b", line):
                yield path, number, "an executor with require(blocking_t::never_t), and without query(blocking_t)"
                break


@rule
def formats(tree):
    """fmt/core.h of fmt 12 has print, and no format; fmt/format.h has no join."""
    for path in tree.under("gateway/", "include/", "lib/", "tests/", "examples/", "tools/", "bench/", "docs/"):
        spellings = {spelling for _, spelling, _ in tree.includes(path)}
        for number, line in tree.lines(path):
            if re.search(r"\bfmt::(format|to_string)\(", line) and not spellings & {"fmt/format.h", "fmt/chrono.h"}:
                yield path, number, "calls fmt::format without fmt/format.h, which only some versions of fmt forgive"
                break
            if "fmt::join(" in line and "fmt/ranges.h" not in spellings:
                yield path, number, "calls fmt::join without fmt/ranges.h, where newer versions of fmt have it"
                break


@rule
def refusals(tree):
    """What is refused names whose field it is: "scheduler_options.burst", "permit.split: places", or a type, "rate"."""
    types = {concept(path).split("/")[-1] for path in tree.under("include/canigo/")}
    for path in tree.under("include/canigo/", "lib/"):
        for number, line in tree.lines(path):
            found = re.search(r'throw_invalid\("(\w+)"', line)
            if found and found.group(1) not in types:
                yield path, number, f"refuses {found.group(1)} and does not say whose"


@rule
def options(tree):
    """The reference on the site explains every option, by its docstring. Those of a base are explained there."""
    for path in tree.under("include/canigo/", suffix=(".hpp",)):
        inside, of_base, before = False, False, ""
        for number, line in tree.lines(path):
            if re.match(r"struct \w*options( : .*)? \{$", line):
                inside = "/detail/" not in path and not of_base
            elif line == "};":
                inside = False
            elif inside and re.match(r"  [\w:<>,&* ]+ \w+( = .*| ?\{.*)?;$", line) and "///" not in before[:5]:
                yield path, number, "an option without a docstring"
            of_base = "The first eight options" in line or of_base and line.startswith(("///", "template"))
            before = line


@rule
def timeouts(tree):
    """An option that is a timeout is more than 0, as its docstring says and a call of check_timeout_option() tests."""
    tests = "".join(tree.text(path) for path in tree.under("tests/"))
    tested = set(re.findall(r'check_timeout_option\("([\w.]+)"', tests))
    for path in tree.under("include/canigo/", suffix=(".hpp",)):
        if "/detail/" in path:
            continue
        owner, prose_before, of_base = "", "", ""
        for number, line in tree.lines(path):
            found = re.match(r"struct (\w+)", line)
            if found:
                owner, of_base = found.group(1), "The first eight options" in prose_before
            field = re.match(r"  (?:std::optional<)?duration>? (\w*timeout)(?: = .*?)?;(.*)", line)
            if field and f"{owner}.{field.group(1)}" not in tested:
                yield path, number, f'no test calls check_timeout_option("{owner}.{field.group(1)}", ...)'
            if field and not of_base and "more than 0" not in (prose_before + field.group(2)).lower():
                yield path, number, "a timeout whose docstring does not say \"more than 0\""
            prose_before = prose_before + line if line.lstrip().startswith(("///", "template")) else ""


@rule
def together(tree):
    """Several files of a library or of the gateway are compiled as one: what they name without a linkage differs."""
    first = {}
    for path in [*tree.under("lib/", suffix=(".cpp",)), *tree.under("gateway/", suffix=(".cpp",))]:
        unnamed = False
        for number, line in tree.lines(path):
            if line == "namespace {":
                unnamed = True
            elif line == "}  // namespace":
                unnamed = False
            named = UNNAMED.match(line)
            if unnamed and named:
                name = named.group().strip()
                part = "gateway" if path.startswith("gateway/") else path.rsplit("/", 1)[0]
                other = first.setdefault((part, name), path)
                if other != path:
                    yield path, number, f"has \"{name}\", as {other} has"


@rule
def test_timeouts(tree):
    """Meson ends a test after 30 s unless it is told another time, and a busy machine needs more for many a test."""
    for path in tree.under("", suffix=("meson.build",)):
        for call in MESON_TEST.finditer(tree.text(path)):
            told = re.search(r"\btimeout: (\d+)", call.group())
            if not told or int(told.group(1)) < 300:
                yield path, tree.text(path)[:call.start()].count("\n") + 1, "a test without a timeout of 300 s or more"


@rule
def canaries(tree):
    """What a canary changes stands in its source exactly once, or none of them can be built."""
    path, names = "tests/canaries/defects.py", {}
    exec(tree.text(path), names)
    for name, (source, _, there, _) in names["DEFECTS"].items():
        if tree.text("lib/" + source).count(there.replace("«", "").replace("»", "")) != 1:
            number = tree.text(path).split(f'"{name}"')[0].count("\n") + 1
            yield path, number, f"lib/{source} does not hold exactly once what {name} changes"


@rule
def asio_private(tree):
    """Names from inside Asio stand in one header."""
    home = "include/canigo/detail/context/asio_private.hpp"
    for path in tree.under("include/", "lib/", "gateway/", "tools/"):
        for number, line in tree.lines(path):
            if path != home and re.search(r"\b(net|asio)::detail::\w", line):
                yield path, number, f"names something from inside Asio; only {home} may"


@rule
def decisions(tree):
    """The number of a decision is its own, and stands in its heading; the index has its row."""
    first = {}
    index = "docs/decisions/index.md"
    rows = tree.text(index).split("\n") if list(tree.under("docs/decisions/", suffix=(".md",))) else []
    for path in tree.under("docs/decisions/", suffix=(".md",)):
        if path == index:
            continue
        name, heading = path.split("/")[-1], tree.text(path).split("\n")[0]
        row = f"| [{name[:4]}]({name}) | {heading[7:]} | "
        if not any(r.startswith(row) for r in rows):
            yield index, 1, f"has no row that begins with {row}"
        number = path.split("/")[-1][:4]
        if number.isdigit() and not tree.text(path).startswith(f"# {number} "):
            yield path, 1, f"its heading does not begin with {number}"
        if first.setdefault(number, path) != path:
            yield path, 1, f"has the number of {first[number]}"


@rule
def umbrella(tree):
    """canigo.hpp is all of the core: what is no edge and no detail."""
    path = "include/canigo/canigo.hpp"
    reached = reached_from(tree, path)
    for header in tree.under("include/canigo/"):
        if ("/" not in concept(header) or concept(header).startswith("algorithms/")) and header not in reached:
            yield path, 1, f"does not include canigo/{concept(header)}.hpp"


@rule
def version(tree):
    meson = re.search(r"version:\s*'([\d.]+)'", tree.text("meson.build")).group(1)
    path = "include/canigo/version.hpp"
    header = ".".join(re.findall(r"int version_\w+ = (\d+);", tree.text(path)))
    if header != meson:
        yield path, 1, f"says {header}, meson.build says {meson}"


def check(root):
    """All offences of a tree, as "path:line: rule: what is wrong"."""
    tree = Tree(root)
    return [f"{path}:{number}: {function.__name__}: {message}"
            for function in RULES for path, number, message in function(tree)]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    offences = check(root)
    print("\n".join(offences) if offences else "tidy")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
