#!/usr/bin/env python3
"""embed.py OUT.cpp PAGE.html PAGE.js PAGE.css: writes the page as C++, for the build.

Together the files have 40 KiB at most.
"""

import pathlib
import sys

MOST = 40 << 10


def main(out, *files):
    texts = [pathlib.Path(f).read_text(encoding="utf-8") for f in files]
    size = sum(len(t.encode()) for t in texts)
    if size > MOST:
        sys.exit(f"the page has {size} bytes; allowed: up to {MOST}")
    # The flavour has an inline namespace between canigo and gateway. Not every compiler opens it again by these names.
    functions = "\n".join(
        f'std::string_view canigo::gateway::page_{pathlib.Path(f).suffix[1:]}() noexcept {{\n'
        f'  return R"page({text})page";\n}}\n'
        for f, text in zip(files, texts))
    pathlib.Path(out).write_text(f'#include "gateway/admin/page.hpp"\n\n{functions}', encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
