#!/usr/bin/env python3
"""Compares CMakeLists.txt with Meson: cmake.py ROOT MESON-BUILD CMAKE MESON COMPILER [ARGUMENT...].

Both have the same options, compile the same sources with the same definitions, and install the same files with the same
words in the packages for CMake and pkg-config. CMake only configures; what it would compile is an empty file here.
ARGUMENT are for CMake.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Meson's option, and CMake's.
OPTIONS = {"http": "CANIGO_HTTP", "metrics": "CANIGO_METRICS", "redis": "CANIGO_REDIS", "sqlite": "CANIGO_SQLITE",
           "postgres": "CANIGO_POSTGRES",
           "boost": "CANIGO_BOOST", "at_once": "CANIGO_AT_ONCE",
           "hardening": "CANIGO_HARDENING", "asio_include": "CANIGO_ASIO_INCLUDE"}
# CMake installs no programs, and so neither their manuals nor their completions.
OF_PROGRAMS = ("bin/", "lib/systemd/", "share/bash-completion/", "share/canigo/grafana/canigo-gateway.json",
               "share/doc/canigo-gateway/", "share/fish/", "share/man/", "share/zsh/")
# They are for tests, examples, benchmarks and programs.
MESON_ONLY = {"tests", "examples", "tools", "bench", "gateway", "interleaving", "threads_only", "fuzz"}
CMAKE_ONLY = {"CANIGO_INSTALL", "CANIGO_PACKAGE_DIR"}


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def differences(what, ours, theirs):
    for item in sorted(set(ours) - set(theirs)):
        yield f"{what}: Meson has {item}, CMake has not"
    for item in sorted(set(theirs) - set(ours)):
        yield f"{what}: CMake has {item}, Meson has not"


def is_library(name):
    return re.fullmatch(r"canigo(-boost)?(_(http|jobs|metrics|postgres|redis|sqlite|testing))?", name)


def source(path, root):
    """A source as the tree names it, also one of the tree that scripts/on-boost makes."""
    return re.sub(r"^.*canigo-boost/lib/", "canigo-boost/lib/", os.path.relpath(path, root))


class Meson:
    def __init__(self, root, build, command):
        def asked(what):
            return json.loads(run(*command, "introspect", what, build))
        self.version = asked("--projectinfo")["version"]
        self.options = {o["name"]: o["value"] for o in asked("--buildoptions")}
        # What the builder gives Meson is the builder's to give CMake.
        given = set(self.options["cpp_args"])
        self.sources, self.defines = {}, {}
        for target in asked("--targets"):
            if is_library(target["name"]):
                for part in target["target_sources"]:
                    self.sources.setdefault(target["name"], set()).update(
                        source(s, root) for s in part.get("sources", ()))
                    for joined in part.get("generated_sources", ()):  # of sources that are compiled as one
                        included = re.findall(r'^#include *[<"](.+)[>"]', pathlib.Path(joined).read_text(), re.M)
                        self.sources[target["name"]].update(
                            source(pathlib.Path(joined).parent / s, root) for s in included)
                    self.defines.setdefault(target["name"], set()).update(
                        a[2:] for a in part.get("parameters", ())
                        if a not in given and re.match(r"-D(BOOST_ASIO|ASIO|CANIGO)_", a))
        self.prefix, self.libdir = self.options["prefix"], self.options["libdir"]
        self.installed = {os.path.relpath(d, self.prefix): s for s, d in asked("--installed").items()}


class CMake:
    def __init__(self, root, build, cmake, meson, arguments):
        query = build / ".cmake/api/v1/query"
        query.mkdir(parents=True)
        (query / "codemodel-v2").touch()
        edges = [f"-D{OPTIONS[e]}={'ON' if 'canigo_' + e in meson.sources else 'OFF'}"
                 for e in ("http", "metrics", "postgres", "redis", "sqlite")]
        edges.append("-DCANIGO_AT_ONCE=OFF")  # at once, it names the files that CMake makes of them
        edges.append(f"-DCANIGO_BOOST={'ON' if 'canigo-boost' in meson.sources else 'OFF'}")
        run(cmake, "-S", root, "-B", build, f"-DCMAKE_INSTALL_PREFIX={meson.prefix}", "-DCMAKE_SKIP_RPATH=ON",
            f"-DCMAKE_INSTALL_LIBDIR={meson.libdir}", *edges, *arguments)
        self.cache = set(re.findall(r"^(CANIGO_\w+):", (build / "CMakeCache.txt").read_text(), re.M))
        reply = build / ".cmake/api/v1/reply"
        self.sources, self.defines = {}, {}
        for path in reply.glob("target-*.json"):
            target = json.loads(path.read_text())
            name = target["name"].removesuffix("_objects")
            if name != target["name"]:
                self.sources[name] = {source(root / s["path"], root) for s in target["sources"]}
                self.defines[name] = {d["define"] for g in target["compileGroups"] for d in g.get("defines", ())
                                      if re.match("(BOOST_ASIO|ASIO|CANIGO)_", d["define"])}
        script = (build / "cmake_install.cmake").read_text()
        for library in re.findall(rf'"{re.escape(str(build))}/(lib[^/"]+)"', script):
            (build / library).touch()
        run(cmake, "--install", build, "--prefix", build / "installed")
        place = build / "installed"
        self.installed = {p.relative_to(place).as_posix(): p for p in place.rglob("*") if not p.is_dir()}


def words(path):
    """The lines of a package's file as words; the order of the lines and of the spaces is of no matter."""
    text = re.sub(r"([<>]=)", r" \1 ", pathlib.Path(path).read_text())
    return {" ".join(line.split()) for line in text.splitlines() if line.strip()}


def check(root, build, cmake, meson_command, arguments):
    meson = Meson(root, build, meson_command)
    if meson.options["asio_include"]:
        arguments = [*arguments, "-DCANIGO_ASIO_INCLUDE=" + meson.options["asio_include"]]
    with tempfile.TemporaryDirectory() as directory:
        other = CMake(root, pathlib.Path(directory), cmake, meson, arguments)
        own = {n for n in re.findall(r"^option\('(\w+)'", (root / "meson_options.txt").read_text(), re.M)}
        yield from differences("options", own - MESON_ONLY, {m for m, c in OPTIONS.items() if c in other.cache})
        yield from differences("options", set(OPTIONS.values()) | CMAKE_ONLY, other.cache)
        yield from differences("libraries", meson.sources, other.sources)
        for name in meson.sources.keys() & other.sources.keys():
            yield from differences(name, meson.sources[name], other.sources[name])
            yield from differences(name, meson.defines[name], other.defines[name])
        # Meson leaves folders and the links of libraries to the installation itself.
        ours = set()
        for path, source in meson.installed.items():
            if os.path.isdir(source):
                ours |= {f"{path}/{p.relative_to(source).as_posix()}" for p in pathlib.Path(source).rglob("*.hpp")}
            elif not path.startswith(OF_PROGRAMS):
                ours.add(path)
        if meson.options["default_library"] == "both":
            yield from differences("installed", {p for p in ours if not re.search(r"\.so[.\d]*$", p)},
                                   {p for p in other.installed if not re.search(r"\.so[.\d]*$", p)})
            for name in meson.sources:
                if f"{meson.libdir}/lib{name}.so.{meson.version}" not in other.installed:
                    yield f"installed: no lib{name}.so.{meson.version}"
                if f"{meson.libdir}/lib{name}.so.{'.'.join(meson.version.split('.')[:2])}" not in other.installed:
                    yield f"installed: the shared {name} has another soversion"
        for path in ours & other.installed.keys():
            if path.endswith((".pc", ".cmake")):
                yield from differences(path, words(meson.installed[path]), words(other.installed[path]))


def main(root, build, cmake, meson, compiler, *arguments):
    arguments = [f"-DCMAKE_CXX_COMPILER={compiler}", *arguments]
    wrong = list(check(pathlib.Path(root), build, cmake, meson.split(), arguments))
    print("\n".join(wrong) or "CMake builds and installs what Meson does")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
