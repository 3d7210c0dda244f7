#!/usr/bin/env python3
"""Proves that every rule of tidy.py can fail: a small good tree passes, and each way to spoil it is found.

The same for the style of prose.py and for the subjects of commits, by samples.
"""

import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import prose  # noqa: E402, the line above comes first
import subjects  # noqa: E402
import tidy  # noqa: E402

GOOD = {
    "meson.build": "project('canigo', 'cpp',\n  version: '0.1.0')\n",
    "include/canigo/meson.build": "'canigo.hpp', 'version.hpp', 'rate.hpp', 'scheduler.hpp', 'detail'\n",
    "include/canigo/canigo.hpp": "#pragma once\n\n#include \"canigo/rate.hpp\"\n#include \"canigo/scheduler.hpp\"\n"
                                 "#include \"canigo/version.hpp\"\n",
    "include/canigo/version.hpp": "#pragma once\n\ninline constexpr int version_major = 0;\n"
                                  "inline constexpr int version_minor = 1;\ninline constexpr int version_patch = 0;\n",
    "include/canigo/rate.hpp": "#pragma once\n\n#include <fmt/core.h>\n\n#include <cstdint>\n",
    "include/canigo/scheduler.hpp": "#pragma once\n\n#include \"canigo/detail/base/mutex.hpp\"\n"
                                    "#include \"canigo/detail/context/asio_settings.hpp\"\n"
                                    "#include \"canigo/rate.hpp\"\n\n#include <asio/awaitable.hpp>\n",
    "include/canigo/detail/base/mutex.hpp": "#pragma once\n",
    "include/canigo/detail/context/asio_settings.hpp": "#pragma once\n\n#include <asio/version.hpp>\n",
    "lib/meson.build": "'rate.cpp', 'scheduler.cpp'\n",
    "lib/rate.cpp": "#include \"canigo/rate.hpp\"\n",
    "lib/scheduler.cpp": "#include \"canigo/scheduler.hpp\"\n\n#include \"parts.hpp\"\n\n#include <fmt/format.h>\n",
    "lib/parts.hpp": "#pragma once\n",
    "tests/meson.build": "'rate_test.cpp', 'scheduler_test.cpp', 'version_test.cpp'\n",
    "tests/rate_test.cpp": "TEST_CASE(\"ten a second\", \"[rate]\") {\n}\n",
    "tests/scheduler_test.cpp": "TEST_CASE(\"on the wall clock\",\n          \"[scheduler][realtime]\") {\n"
                                "  std::this_thread::sleep_for(1ms);\n}\n",
    "tests/version_test.cpp": "",
    "tests/canaries/defects.py": "DEFECTS = {\n    \"no_rate\": (\"rate.cpp\", None, \"canigo/«rate»\", \"\")}\n",
    "examples/meson.build": "'01_hello'\n",
    "examples/01_hello.cpp": "int main() {}\n",
    "examples/expected/01_hello.txt": "trailing space is what it prints \n",
    "scripts/test": "#!/bin/sh\n",
    "README.md": "Run scripts/test.\n",
}
# A layer of its own for the private header of the good tree.
tidy.TABLE["values"].append("parts")

UNNAMED = "namespace {\n\nvoid f(int a) {\n}\n\n}  // namespace\n"

# rule, what is changed (None removes a file), where the offence must be found
BAD = [
    ("layers", {"include/canigo/rate.hpp": "#pragma once\n#include \"canigo/scheduler.hpp\"\n"},
     "include/canigo/rate.hpp:2"),
    ("layers", {"include/canigo/rate.hpp": "#pragma once\n#include <asio/post.hpp>\n"}, "include/canigo/rate.hpp:2"),
    ("layers", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n\n#include \"canigo/scheduler.hpp\"\n"},
     "lib/rate.cpp:3"),
    ("layers", {"include/canigo/unheard/of.hpp": "#pragma once\n"}, "include/canigo/unheard/of.hpp:1"),
    ("layers", {"include/canigo/http/a.hpp": "#pragma once\n#include \"canigo/redis/b.hpp\"\n",
                "include/canigo/redis/b.hpp": "#pragma once\n"}, "include/canigo/http/a.hpp:2"),
    ("gateway_layers", {"gateway/wire/a.hpp": "#pragma once\n#include \"gateway/call/b.hpp\"\n",
                        "gateway/call/b.hpp": "#pragma once\n"}, "gateway/wire/a.hpp:2"),
    ("gateway_layers", {"gateway/odd/a.hpp": "#pragma once\n"}, "gateway/odd/a.hpp:1"),
    ("tools_layers", {"tools/fetch/a.hpp": "#pragma once\n#include \"tools/jobs/b.hpp\"\n",
                      "tools/jobs/b.hpp": "#pragma once\n"}, "tools/fetch/a.hpp:2"),
    ("tools_layers", {"gateway/wire/a.hpp": "#pragma once\n#include \"tools/jobs/b.hpp\"\n",
                      "tools/jobs/b.hpp": "#pragma once\n"}, "gateway/wire/a.hpp:2"),
    ("circles", {"include/canigo/rate.hpp": "#pragma once\n#include \"canigo/detail/base/mutex.hpp\"\n",
                 "include/canigo/detail/base/mutex.hpp": "#pragma once\n#include \"canigo/rate.hpp\"\n"},
     "include/canigo/detail/base/mutex.hpp:1"),
    ("wrappers", {"include/canigo/scheduler.hpp": GOOD["include/canigo/scheduler.hpp"] +
                  "template <class T>\nnet::awaitable<T> with_rate(net::awaitable<T> op, scheduler& s);\n",
                  "tests/rate_test.cpp": "result_kinds::row{\"scheduler with_another\", x}\n"},
     "include/canigo/scheduler.hpp:9"),
    ("third_party", {"include/canigo/scheduler.hpp": "#pragma once\n#include \"canigo/detail/base/mutex.hpp\"\n"
                                                     "#include <curl/curl.h>\n"}, "include/canigo/scheduler.hpp:3"),
    ("third_party", {"include/canigo/scheduler.hpp": "#pragma once\n#include \"canigo/detail/base/mutex.hpp\"\n"
                                                     "#include <fmt/core.h>\n"}, "include/canigo/scheduler.hpp:3"),
    ("include_order", {"lib/scheduler.cpp": "#include \"parts.hpp\"\n#include \"canigo/scheduler.hpp\"\n"},
     "lib/scheduler.cpp:2"),
    ("include_order", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n#include <vector>\n#include <string>\n"},
     "lib/rate.cpp:3"),
    ("headers", {"lib/parts.hpp": "#ifndef PARTS\n"}, "lib/parts.hpp:1"),
    ("headers", {"lib/parts.hpp": "#pragma once\nusing namespace std;\n"}, "lib/parts.hpp:2"),
    ("headers", {"lib/parts.hpp": "#pragma once\n#define PARTS 1\n"}, "lib/parts.hpp:2"),
    ("words", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n// TO" "DO\n"}, "lib/rate.cpp:2"),
    ("words", {"scripts/test": "# good enough for" " now\n"}, "scripts/test:1"),
    ("words", {"README.md": "Run /ho" "me/somebody/scripts/test.\n"}, "README.md:1"),
    ("style", {"README.md": "Run scripts/test.\n\nWho asks first goes first.\n"}, "README.md:3"),
    ("style", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n\n// Who asks first goes first.\n"}, "lib/rate.cpp:3"),
    ("sleeps", {"tests/rate_test.cpp": "TEST_CASE(\"slow\", \"[rate]\") {\n  std::this_thread::sleep_for(1ms);\n}\n"},
     "tests/rate_test.cpp:2"),
    ("sleeps", {"tests/rate_test.cpp": "TEST_CASE(\"a\", \"[realtime]\") {\n}\n\nvoid helper() { usleep(5); }\n\n"
                                       "TEST_CASE(\"b\") {\n  helper();\n}\n"}, "tests/rate_test.cpp:4"),
    ("memory", {"tests/rate_test.cpp": "void run() {\n  {\n    failing f{0};\n    CHECK(go());\n    CHECK(f.stop());\n"
                                       "  }\n}\n"}, "tests/rate_test.cpp:4"),
    ("asio", {"include/canigo/scheduler.hpp": "#pragma once\n#include \"canigo/detail/base/mutex.hpp\"\n"
                                              "#include <asio/post.hpp>\n"}, "include/canigo/scheduler.hpp:3"),
    ("formats", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n#include <fmt/core.h>\nauto s = fmt::format(\"\");\n"},
     "lib/rate.cpp:3"),
    ("formats", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n#include <fmt/format.h>\nauto s = fmt::join(a, b);\n"},
     "lib/rate.cpp:3"),
    ("executors", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\nexecutor require(net::blocking_t::never_t) const;\n"},
     "lib/rate.cpp:2"),
    ("refusals", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\nvoid f() { throw_invalid(\"burst\", 0, \"1\"); }\n"},
     "lib/rate.cpp:2"),
    ("names", {"tests/rate_test.cpp": "void f() {\n  g(cancel_after(1s, h));\n}\n"}, "tests/rate_test.cpp:2"),
    ("canaries", {"tests/canaries/defects.py":
                  "DEFECTS = {\n    \"no_rate\": (\"rate.cpp\", None, \"«burst»\", \"\")}\n"},
     "tests/canaries/defects.py:2"),
    ("tests", {"tests/version_test.cpp": None}, "include/canigo/version.hpp:1"),
    ("listed", {"lib/meson.build": "'scheduler.cpp'\n"}, "lib/rate.cpp:1"),
    ("listed", {"lib/meson.build": "'scheduler.cpp'\n# 'rate.cpp'\n"}, "lib/rate.cpp:1"),
    ("listed", {"include/canigo/meson.build": "'canigo.hpp', 'version.hpp', 'rate.hpp', 'detail'\n"},
     "include/canigo/scheduler.hpp:1"),
    ("listed", {"tests/other_test.cpp": ""}, "tests/other_test.cpp:1"),
    ("listed", {"examples/02_more.cpp": ""}, "examples/02_more.cpp:1"),
    ("pairs", {"lib/meson.build": "'rate.cpp', 'scheduler.cpp', 'token_bucket.cpp'\n", "lib/token_bucket.cpp": "\n"},
     "lib/token_bucket.cpp:1"),
    ("dead", {"include/canigo/scheduler.hpp": "#pragma once\n"}, "include/canigo/detail/base/mutex.hpp:1"),
    ("dead", {"lib/scheduler.cpp": "#include \"canigo/scheduler.hpp\"\n"}, "lib/parts.hpp:1"),
    ("listed", {"tools/meson.build": "'fetch/b.cpp'\n", "tools/fetch/a.cpp": ""}, "tools/fetch/a.cpp:1"),
    ("dead", {"tools/fetch/a.hpp": "#pragma once\n"}, "tools/fetch/a.hpp:1"),
    ("dead", {"tests/helper.hpp": "#pragma once\n"}, "tests/helper.hpp:1"),
    ("dead", {"examples/expected/09_gone.txt": ""}, "examples/expected/09_gone.txt:1"),
    ("dead", {"README.md": "\n"}, "scripts/test:1"),
    ("lines", {"lib/rate.cpp": "#include \"canigo/rate.hpp\" \n"}, "lib/rate.cpp:1"),
    ("lines", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n\tint x;\n"}, "lib/rate.cpp:2"),
    ("lines", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n//" + "-" * 119 + "\n"}, "lib/rate.cpp:2"),
    ("lines", {"lib/rate.cpp": "#include \"canigo/rate.hpp\""}, "lib/rate.cpp:1"),
    ("options", {"include/canigo/rate.hpp": "#pragma once\n\nstruct rate_options {\n  int a = 1;  ///< one\n"
                                            "  int b;\n};\n"}, "include/canigo/rate.hpp:5"),
    ("conditions", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n\nwhile (f(a(1)) &&\n       co_await g()) {\n}\n"},
     "lib/rate.cpp:3"),
    ("conditions", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n\nfor (;; co_await g()) {\n}\n"
                                    "for (int i = 0; i < 3 && co_await g(); ++i) {\n}\n"}, "lib/rate.cpp:5"),
    ("timeouts", {"include/canigo/rate.hpp": "#pragma once\n\nstruct rate_options {\n"
                                             "  duration timeout = duration::max();  ///< more than 0\n};\n"},
     "include/canigo/rate.hpp:4"),
    ("timeouts", {"include/canigo/rate.hpp": "#pragma once\n\nstruct rate_options {\n  duration timeout;  ///< one\n"
                                             "};\n",
                  "tests/rate_test.cpp": "check_timeout_option(\"rate_options.timeout\", x);\n"},
     "include/canigo/rate.hpp:4"),
    ("together", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n\n" + UNNAMED,
                  "lib/parts.cpp": "#include \"parts.hpp\"\n\n" + UNNAMED}, "lib/rate.cpp:5"),
    ("test_timeouts", {"tests/meson.build": "'rate_test.cpp', 'scheduler_test.cpp', 'version_test.cpp'\n\n"
                                            "test('a', a)\ntest('b', f('c'), timeout: 600)\n"}, "tests/meson.build:3"),
    ("asio_private", {"lib/rate.cpp": "#include \"canigo/rate.hpp\"\n\nnet::detail::awaitable_thread<int>* a;\n"},
     "lib/rate.cpp:3"),
    ("decisions", {"docs/decisions/0001-a.md": "# 0002 A\n",
                   "docs/decisions/index.md": "| [0001](0001-a.md) | A | h |\n"},
     "docs/decisions/0001-a.md:1"),
    ("decisions", {"docs/decisions/0001-a.md": "# 0001 A\n", "docs/decisions/0001-b.md": "# 0001 B\n",
                   "docs/decisions/index.md": "| [0001](0001-a.md) | A | h |\n| [0001](0001-b.md) | B | h |\n"},
     "docs/decisions/0001-b.md:1"),
    ("decisions", {"docs/decisions/0001-a.md": "# 0001 A\n",
                   "docs/decisions/index.md": "| [0001](0001-a.md) | B | h |\n"},
     "docs/decisions/index.md:1"),
    ("umbrella", {"include/canigo/canigo.hpp": "#pragma once\n\n#include \"canigo/rate.hpp\"\n"},
     "include/canigo/canigo.hpp:1"),
    ("version", {"meson.build": "project('canigo', 'cpp',\n  version: '0.2.0')\n"}, "include/canigo/version.hpp:1"),
]

WORDS_30 = " ".join(["word"] * 30)
PLAIN = [
    ("a.md", "Permission to run. Held until it is released or destroyed."),
    ("a.md", "What does it cost? Nothing."),
    ("a.md", "## What is promised\n\n| what it knows | cost |\n|---|---|\n| the queue | none |"),
    ("a.md", "A waiter, who is in the queue, keeps its place. Waiters who leave lose it."),
    ("a.md", "It says what is wrong, and who waits."),
    ("a.md", "It is not under way, not until then, and not unless asked."),
    ("a.md", "Nothing is polled, no thread is started."),
    ("a.md", "Nothing happens if it is not there. A rate without a unit does not compile."),
    ("a.md", f"{WORDS_30}. {WORDS_30}!"),
    ("a.md", f"`one {WORDS_30} word` {WORDS_30[5:]}. [link](of/{WORDS_30})"),
    ("a.md", f"- {WORDS_30}\n- {WORDS_30}\n\n1. {WORDS_30}\n2. {WORDS_30}"),
    ("a.md", f"| a | b |\n|---|---|\n| {WORDS_30} | {WORDS_30} |"),
    ("a.md", f"It is run:\n\n    who {WORDS_30} words\n    who knows\n\n```text\nWho {WORDS_30}\n```\n"),
    ("a.md", f"It takes 1.5 s, e.g. as `co_await x.acquire();` says. {WORDS_30}."),
    ("a.md", f"<!-- who {WORDS_30} -->"),
    ("a.hpp", f"/// {WORDS_30}\n///\n/// {WORDS_30}\nint who;\nint x;  ///< {WORDS_30}\nint y;  ///< {WORDS_30}"),
    ("a.hpp", "auto url = \"https://who.example\";\n/// A call:\n///\n///     who(knows);\n"),
]
UNPLAIN = [  # with the line of the offence
    ("a.md", "Who waits longest goes first.", 1),
    ("a.md", "It is free.\n\nWhoever polls has no place.", 3),
    ("a.md", "It ends: what was let go already is not touched.", 1),
    ("a.md", "- one\n- Whose lease has ended is told.", 2),
    ("a.md", "1. one\n2. **What** is due comes first.", 2),
    ("a.md", "| a | b |\n|---|---|\n| one | What it takes is given back. |", 3),
    ("a.md", "A permit goes to who is first.", 1),
    ("a.md", f"One.\n{WORDS_30} too.", 1),
    ("a.md", f"```cpp\nint x;\n```\n{WORDS_30} too", 4),
    ("a.md", f"{WORDS_30} [and a link](x.md).", 1),
    ("a.md", "It is not unusual.", 1),
    ("a.md", "Nobody is not told.", 1),
    ("a.md", "There is no wait without a deadline.", 1),
    ("a.md", "It never does not end.", 1),
    ("a.md", "In order to run it, build it.", 1),
    ("a.hpp", "/// Leave to go on.", 1),
    ("a.hpp", f"/// Fine.\n///\n/// {WORDS_30}\n/// too\nint x;", 3),
    ("a.hpp", "int x;\nint y;  ///< What it takes.", 2),
]
SUBJECTS = ["scheduler: Wake no more waiters than tokens", "redis/client: Pass the user's name on", "v1: Need less"]
NO_SUBJECTS = ["Wake no more waiters", "scheduler: wake no more waiters", "scheduler: Wakes no more waiters",
               "scheduler: Waking waiters", "scheduler: Waked waiters", "scheduler: A waiter is woken",
               "scheduler: Wake no more waiters.", "scheduler: Wake " + "x" * 57]


def sample_failures():
    """What prose.py and subjects.py say of the samples that they should not."""
    for path, text in PLAIN:
        for offence in prose.offences(path, text):
            yield f"prose: {text!r}: {offence}"
    for path, text, line in UNPLAIN:
        found = list(prose.offences(path, text))
        if [number for number, _ in found] != [line]:
            yield f"prose: {text!r}: wanted one offence in line {line}; found: {found}"
    for subject in SUBJECTS:
        if subjects.wrong_with(subject):
            yield f"subjects: {subject!r}: {subjects.wrong_with(subject)}"
    for subject in NO_SUBJECTS:
        if not subjects.wrong_with(subject):
            yield f"subjects: {subject!r} is let through"


def offences(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            file = pathlib.Path(root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return tidy.check(root)


def main():
    failures = [f"the good tree: {offence}" for offence in offences(GOOD)]
    for rule, changes, where in BAD:
        files = {path: text for path, text in {**GOOD, **changes}.items() if text is not None}
        found = offences(files)
        if not any(line.startswith(f"{where}: {rule}: ") for line in found):
            failures.append(f"{rule}: {where} not found after changing {sorted(changes)}; found: {found}")
    proven = {rule for rule, _, _ in BAD}
    failures += [f"{rule.__name__}: no bad tree proves that it can fail" for rule in tidy.RULES
                 if rule.__name__ not in proven]
    failures += sample_failures()
    samples = len(UNPLAIN) + len(NO_SUBJECTS)
    print("\n".join(failures) if failures else f"{len(BAD)} bad trees and {samples} bad samples, each found")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
