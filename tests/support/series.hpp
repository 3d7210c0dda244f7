#pragma once

#include <optional>
#include <sstream>
#include <string>

/// Returns the value of one series in a metrics text; nothing if it is missing.
inline std::optional<std::string> value_of(const std::string& text, const std::string& series) {
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(series + " ")) return line.substr(series.size() + 1);
  }
  return std::nullopt;
}
