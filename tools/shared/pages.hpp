#pragma once

#include <CLI/App.hpp>

#include <string>

namespace tools {

/// Adds the option `--page`, which prints the program's manual page or its completions for a shell.
///
/// The page describes the options and commands that `app` has when it parses the command line. The type of an option
/// determines how its value is completed: FILE, DIR, or words separated by `|`.
void add_page_option(CLI::App& app);

/// Returns a page. `kind`: man, bash, zsh or fish.
std::string page_of(const CLI::App& app, const std::string& kind);

}  // namespace tools
