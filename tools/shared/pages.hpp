#pragma once

#include <CLI/App.hpp>

#include <string>

namespace tools {

/// Adds the option `--page`, which prints the manual page of the program, or what completes its options in a shell.
///
/// All of it is made from the options and commands that `app` has when it parses. The type of an option says what
/// completes it: FILE, DIR, or words with `|` between them.
void add_page_option(CLI::App& app);

/// `kind`: man, bash, zsh or fish.
std::string page_of(const CLI::App& app, const std::string& kind);

}  // namespace tools
