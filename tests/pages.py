#!/usr/bin/env python3
"""Looks at the pages that programs print about their options: pages.py PROGRAM…

The manual page has every option of the help, and bash, zsh and fish complete them. A shell that is not installed is
skipped. Ends with the totals that Catch2 prints.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = {os.path.basename(path): os.path.abspath(path) for path in sys.argv[1:]}


def page(name, kind):
    return subprocess.run([PROGRAMS[name], "--page", kind], check=True, capture_output=True, text=True).stdout


def options_of(name, *command):
    """The names in the help."""
    text = subprocess.run([PROGRAMS[name], *command, "--help"], check=True, capture_output=True, text=True).stdout
    # CLI11 2.5 puts spaces before and behind the comma.
    listed = re.findall(r"^ +(-[^\s,]+(?:, *--[^\s,]+)?)", text, re.M)
    return {option.strip() for names in listed for option in names.split(",")} - {""}


def commands_of(name):
    text = subprocess.run([PROGRAMS[name], "--help"], check=True, capture_output=True, text=True).stdout
    return re.findall(r"^  (\w+) ", text.partition("Subcommands:")[2], re.M)


class PagesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("a file", "other"):
            with open(os.path.join(self.folder, name), "w", encoding="ascii"):
                pass
        os.mkdir(os.path.join(self.folder, "a folder"))

    def written(self, name, kind):
        path = os.path.join(self.folder, f".{name}.{kind}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page(name, kind))
        return path

    def complete_in_bash(self, name, *words):
        """What bash offers for the last of the words."""
        script = """source "$1"; shift
          compopt() { :; }
          COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_${1//-/_}"; printf '%s\\n' "${COMPREPLY[@]}" """
        done = subprocess.run(["bash", "-euc", script, "bash", self.written(name, "bash"), name, *words], check=True,
                              cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return {line for line in done.stdout.splitlines() if line}

    def test_the_manual_page_has_every_option_and_command(self):
        for name in PROGRAMS:
            text = page(name, "man")
            self.assertTrue(text.startswith(f".TH {name.upper()} 1 ".replace("-", "\\-")))
            found = set(re.findall(r"\\fB([^\\]*(?:\\-[^\\]*)*)\\fR", text))
            shown = {option.replace("\\-", "-") for option in found}
            self.assertLessEqual(options_of(name), shown)
            for command in commands_of(name):
                self.assertIn(f"\n.SS {command}\n", text)
                self.assertLessEqual(options_of(name, command), shown)

    @unittest.skipIf(shutil.which("mandoc") is None, "mandoc is not installed")
    def test_the_manual_page_has_no_mistake(self):
        for name in PROGRAMS:
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", self.written(name, "man")],
                                  capture_output=True, text=True)
            # An empty date is ours: the page is the same whenever it is made.
            self.assertEqual([line for line in done.stdout.splitlines() if "missing date" not in line], [])

    def test_bash_completes_every_option(self):
        for name in PROGRAMS:
            self.assertEqual(self.complete_in_bash(name, "-"), options_of(name))
            for command in commands_of(name):
                self.assertEqual(self.complete_in_bash(name, "place", command, "-"), options_of(name, command))

    def test_bash_completes_words_commands_and_files(self):
        for name in PROGRAMS:
            self.assertEqual(self.complete_in_bash(name, "--page", "z"), {"zsh"})
            self.assertEqual(self.complete_in_bash(name, "--page", "="), {"man", "bash", "zsh", "fish"})
            self.assertEqual(self.complete_in_bash(name, "--page", "=", "z"), {"zsh"})
            self.assertEqual(self.complete_in_bash(name, "oth"), {"other"})
            for command in commands_of(name):
                self.assertIn(command, self.complete_in_bash(name, "place", command[:-1]))
        if "canigo-fetch" in PROGRAMS:
            self.assertEqual(self.complete_in_bash("canigo-fetch", "-o", "a"), {"a folder"})
            self.assertEqual(self.complete_in_bash("canigo-fetch", "--cacert", "a"), {"a file", "a folder"})
            self.assertEqual(self.complete_in_bash("canigo-fetch", "--rate", "o"), set())

    @unittest.skipIf(shutil.which("zsh") is None, "zsh is not installed")
    def test_zsh_understands_its_page(self):
        # _arguments itself needs a terminal: it is replaced by what judges the form of its arguments.
        script = """_arguments() {
            for spec in "${@:#-*}"; do
              [[ $spec == (:|\\*:)*:* || $spec == (\\(*\\)|\\*|)(--|-)[a-zA-Z-]##* ]] || print -r -- $spec
            done }
          setopt extendedglob; source $1 """
        for name in PROGRAMS:
            done = subprocess.run(["zsh", "-fc", script, "zsh", self.written(name, "zsh")], capture_output=True,
                                  text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    @unittest.skipIf(shutil.which("fish") is None, "fish is not installed")
    def test_fish_completes_every_option(self):
        def offered(name, line):
            done = subprocess.run(["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]",
                                   self.written(name, "fish"), f"{name} {line}"], check=True, capture_output=True,
                                  text=True, cwd=self.folder, env={**os.environ, "HOME": self.folder})
            self.assertEqual(done.stderr, "")
            return {text.split("\t")[0] for text in done.stdout.splitlines()}

        for name in PROGRAMS:
            self.assertLessEqual({o for o in options_of(name) if o.startswith("--")}, offered(name, "--"))
            self.assertEqual(offered(name, "--page z"), {"zsh"})
            for command in commands_of(name):
                self.assertIn(command, offered(name, f"place {command[:-1]}"))
                self.assertLessEqual({o for o in options_of(name, command) if o.startswith("--")},
                                     offered(name, f"place {command} --"))
        if "canigo-fetch" in PROGRAMS:
            self.assertEqual(offered("canigo-fetch", "-o a"), {"a folder/"})

    def test_the_version_names_the_libraries(self):
        own = {"canigo-fetch": ("libcurl/", "zlib/", "nlohmann_json/"), "canigo-jobs": ("SQLite/",)}
        for name in PROGRAMS:
            text = subprocess.run([PROGRAMS[name], "--version"], check=True, capture_output=True, text=True).stdout
            self.assertRegex(text.splitlines()[0], rf"^{name} \d+\.\d+\.\d+$")
            for library in ("Asio/", "fmt/", "CLI11/", *own.get(name, ())):
                self.assertRegex(text, rf"(?m)(^| ){library}\d+\.\d+", library)


if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(PagesTest))
    bad = len(result.failures) + len(result.errors)
    ran = result.testsRun - len(result.skipped)
    if bad:
        print(f"test cases: {ran} | {ran - bad} passed | {bad} failed")
        sys.exit(1)
    print(f"All tests passed ({ran} in {ran} test cases)")
