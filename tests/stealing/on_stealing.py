#!/usr/bin/env python3
"""scripts/on-stealing: its pattern by samples, and that only tests are others in the tree that it makes.

on_stealing.py ROOT
"""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(sys.argv[1])

SAMPLES = [
    ("net::io_context io;", "::stealing_context io;"),
    ("std::make_unique<canigo::net::io_context>(1)", "std::make_unique<::stealing_context>(1)"),
    ("::asio::io_context& io", "::stealing_context& io"),
    ("net::strand<net::io_context::executor_type>", "net::strand<::stealing_context::executor_type>"),
    ("#include <asio/io_context.hpp>", "#include <asio/io_context.hpp>"),
    ("other::net::io_context io;", "other::net::io_context io;"),
]


def main():
    loader = importlib.machinery.SourceFileLoader("on_stealing", str(ROOT / "scripts" / "on-stealing"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("on_stealing", loader))
    loader.exec_module(module)
    for before, after in SAMPLES:
        text = module.on_stealing(before)
        assert text == (after if after == before else module.INCLUDE + after), text
    header = "#pragma once\n\n#include <asio/io_context.hpp>\n\nnet::io_context io;\n"
    assert module.on_stealing(header).startswith("#pragma once\n" + module.INCLUDE), module.on_stealing(header)

    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "tree"
        subprocess.run([ROOT / "scripts" / "on-stealing", target], check=True)
        others = [path.relative_to(target).as_posix() for path in target.rglob("*")
                  if path.is_file() and path.read_bytes() != (ROOT / path.relative_to(target)).read_bytes()]
        assert "meson.build" in others and "tests/admission/semaphore_test.cpp" in others, others
        wrong = [name for name in others if name != "meson.build" and not name.startswith("tests/")]
        assert not wrong, wrong
        assert not [name for name in others if name.startswith(("tests/stealing/", "tests/interleaving/"))], others


if __name__ == "__main__":
    main()
