#!/usr/bin/env python3
"""scripts/abi tells a change that breaks programs from one that does not: abi.py ROOT COMPILER...

It compares small libraries here, of which each has one change. Skipped without abidiff.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
HEADER = """#pragma once
namespace canigo {
struct options { int priority = 0; long tokens = 1; };
class limit {
 public:
  virtual ~limit();
  virtual int acquire(const options& o);
  void stop();
 private:
  options last_;
};
int version();
}
"""
SOURCE = """#include "canigo/limit.hpp"
namespace canigo {
limit::~limit() = default;
int limit::acquire(const options& o) { last_ = o; return o.priority; }
void limit::stop() {}
int version() { return 2; }
}
"""
# What is changed in both, whether programs have to be compiled anew, and what the report names.
CHANGES = [
    ("nothing", [], False, ""),
    ("a body", [("return 2;", "return 3;")], False, ""),
    ("a function is added", [("int version()", "int another() ;\nint version()"),
                             ("int another() ;\nint version() {", "int another() { return 1; }\nint version() {")],
     False, ""),
    ("a function is removed", [("void stop();", ""), ("void limit::stop() {}", "")], True, "canigo::limit::stop()"),
    ("a parameter changes", [("int version()", "int version(int)")], True, "canigo::version("),
    ("a struct grows", [("int priority = 0;", "int priority = 0; double weight = 1; int more = 0;")], True,
     "data member insertions"),
    ("fields change places", [("int priority = 0; long tokens = 1;", "long tokens = 1; int priority = 0;")], True,
     "offset changed"),
    ("a class grows", [("options last_;", "options last_; int count_ = 0;")], True, "count_"),
    ("a virtual function is added before another", [("  virtual int acquire", "  virtual int first() { return 0; }\n"
                                                     "  virtual int acquire")], True, "vtable"),
]


def installed(folder, changes, command):
    header, source = HEADER, SOURCE
    for before, after in changes:
        assert before in header + source, before
        header, source = header.replace(before, after), source.replace(before, after)
    (folder / "include" / "canigo").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "include" / "canigo" / "limit.hpp").write_text(header)
    (folder / "limit.cpp").write_text(source)
    subprocess.run([*command, "-std=c++20", "-g", "-fPIC", "-shared", f"-I{folder / 'include'}", folder / "limit.cpp",
                    "-o", folder / "lib" / "libcanigo.so"], check=True)
    return folder


def main(root, *command):
    if shutil.which("abidiff") is None:
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        before = installed(place / "before", [], command)
        for number, (what, changes, is_break, named) in enumerate(CHANGES):
            after = installed(place / str(number), changes, command)
            said = subprocess.run([os.path.join(root, "scripts", "abi"), "--compare", before, after],
                                  capture_output=True, text=True)
            assert said.returncode == (1 if is_break else 0), f"{what}: {said.returncode}\n{said.stdout}{said.stderr}"
            assert named in said.stdout, f"{what}: {named!r} is not named in\n{said.stdout}"
            print(f"{what}: {'a break' if is_break else 'no break'}")
        (place / "0" / "lib" / "libcanigo.so").unlink()
        said = subprocess.run([os.path.join(root, "scripts", "abi"), "--compare", before, place / "0"],
                              capture_output=True, text=True)
        assert said.returncode == 1 and "libcanigo.so is gone" in said.stdout, said


if __name__ == "__main__":
    main(*sys.argv[1:])
