#pragma once

#include <CLI/App.hpp>

#include <string>

namespace tools {

/// Adds the option `--page`, which prints the program's manual page or its completions for a shell.
///
/// The page is made from the options and commands that `app` has when it parses. The type of an option determines its
/// completion: FILE, DIR, or words separated by `|`.
void add_page_option(CLI::App& app);

/// Returns a page. `kind`: man, bash, zsh or fish.
std::string page_of(const CLI::App& app, const std::string& kind);

}  // namespace tools
