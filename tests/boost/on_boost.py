#!/usr/bin/env python3
"""scripts/on-boost: its patterns by samples, and that nothing of standalone Asio is left in the tree that it makes.

on_boost.py ROOT [COMPILER ...]   with a compiler, all public headers are compiled, too; skipped without Boost.Asio
"""

import importlib.machinery
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(sys.argv[1])
COMPILER = sys.argv[2:]
SKIPPED = 77

SAMPLES = [
    ("#include <asio.hpp>\n", "#include <boost/asio.hpp>\n"),
    ("#include <asio/ip/tcp.hpp>\n", "#include <boost/asio/ip/tcp.hpp>\n"),
    ("#include <system_error>\n", "#include <boost/system/system_error.hpp>\n#include <system_error>\n"),
    ("asio::io_context io;", "boost::asio::io_context io;"),
    ("::asio::io_context io;", "::boost::asio::io_context io;"),
    ("boost::asio::io_context io;", "boost::asio::io_context io;"),
    ("f(asio::post);", "f(boost::asio::post);"),
    ("namespace net = ::asio;", "namespace net = ::boost::asio;"),
    ("namespace net = boost::asio;", "namespace net = boost::asio;"),
    ("namespace asio::detail {", "namespace boost::asio::detail {"),
    ("}  // namespace asio::detail", "}  // namespace boost::asio::detail"),
    ("#if ASIO_VERSION < 102300", "#if BOOST_ASIO_VERSION < 102300"),
    ("#if defined(BOOST_ASIO_X) || MY_ASIO_X", "#if defined(BOOST_ASIO_X) || MY_ASIO_X"),
    ("struct asio_version;", "struct boost_version;"),
    ("throw std::system_error{ec};", "throw boost::system::system_error{ec};"),
    ("std::error_code ec;", "boost::system::error_code ec;"),
    ("const std::error_category& c", "const boost::system::error_category& c"),
    ("ec == std::errc::timed_out", "ec == std::errc::timed_out"),
    ("std::make_error_code(std::errc::io_error)",
     "boost::system::errc::make_error_code(boost::system::errc::io_error)"),
    ("struct std::is_error_code_enum<canigo::errc>", "struct boost::system::is_error_code_enum<canigo::errc>"),
    ("namespace canigo {", "namespace canigo::inline on_boost {"),
    ("namespace canigo::redis::detail {", "namespace canigo::inline on_boost::redis::detail {"),
    ("namespace canigo_test {", "namespace canigo_test {"),
    ("namespace fs = canigo::detail;", "namespace fs = canigo::detail;"),
    ('CHECK(name == "asio.ssl");', 'CHECK(name == "asio.ssl");'),
]

# Each is a way to name standalone Asio, or an error code that is not Boost's. std::make_error_code is for other enums.
LEFT = re.compile(r"(?<!boost::)(?<!\w)asio::|<asio[/.]|(?<![\w_])ASIO_[A-Z]|namespace asio\b"
                  r"|\bstd::(error_code|error_category|error_condition|system_error|system_category|generic_category)\b"
                  r"|std::make_error_code\(std::errc|^namespace canigo( \{|::(?!inline on_boost))", re.M)


def load():
    loader = importlib.machinery.SourceFileLoader("on_boost", str(ROOT / "scripts" / "on-boost"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("on_boost", loader))
    loader.exec_module(module)
    return module


def check_headers(target):
    """One file that includes every public header whose edge can be compiled here."""
    headers = sorted(p.relative_to(target / "include").as_posix() for p in (target / "include").rglob("*.hpp"))
    source = "".join(f"#include <{header}>\n" for header in headers)
    command = COMPILER + ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror",
                          "-fsyntax-only", f"-I{target / 'include'}", "-x", "c++", "-"]
    if subprocess.run(COMPILER + ["-E", "-x", "c++", "-"], input="#include <boost/asio.hpp>\n", text=True,
                      capture_output=True).returncode != 0:
        return False
    compiled = subprocess.run(command, input=source, text=True, capture_output=True)
    assert compiled.returncode == 0, compiled.stderr
    return True


def main():
    module = load()
    for text, wanted in SAMPLES:
        found = module.on_boost(text)
        assert found == wanted, f"{text!r} becomes {found!r} instead of {wanted!r}"
        assert not LEFT.search(found), f"what is left in {found!r} would not be noticed"

    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "tree"
        target.mkdir()
        written = module.write(ROOT, target)
        assert set(written) == set(module.files(ROOT))
        for name in written:
            if name.endswith(module.CODE):
                text = (target / name).read_text()
                for found in LEFT.finditer(text):
                    line = text.count("\n", 0, found.start()) + 1
                    raise AssertionError(f"{name}:{line}: {found.group(0)} is left")
        assert "?for?canigo::on_boost::redis::detail::*;" in (target / "lib/redis/exports.map").read_text()
        assert "project('canigo-boost'" in (target / "meson.build").read_text()

        # What has not changed is not written again, and what has gone is removed.
        assert module.write(ROOT, target) == []
        (target / "lib" / "another.cpp").write_text("int x;\n")
        (target / "lib" / "error.cpp").write_text("int x;\n")
        assert sorted(module.write(ROOT, target)) == ["lib/another.cpp", "lib/error.cpp"]
        assert not (target / "lib" / "another.cpp").exists()

        # No folder of somebody else is taken for its own.
        stranger = pathlib.Path(folder) / "stranger"
        stranger.mkdir()
        (stranger / "letter.txt").write_text("dear\n")
        refused = subprocess.run([ROOT / "scripts" / "on-boost", stranger], capture_output=True, text=True)
        assert refused.returncode != 0 and "not empty" in refused.stderr, refused
        assert (stranger / "letter.txt").is_file()

        if COMPILER and not check_headers(target):
            sys.exit(SKIPPED)


if __name__ == "__main__":
    main()
