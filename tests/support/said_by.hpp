#pragma once

#include "support/catch.hpp"

#include <string>
#include <system_error>

/// What an error of the library says, which has the message of its code in it once. Boost's errors say code and
/// category, too, as in "stopped [canigo:5]", which is left out.
inline std::string said_by(const std::system_error& e) {
  std::string text = e.what();
  const std::string message = e.code().message();
  const std::string code =
      std::string{" ["} + e.code().category().name() + ":" + std::to_string(e.code().value()) + "]";
  if (text.ends_with(code)) text.resize(text.size() - code.size());
  CAPTURE(text);
  CHECK(text.find(message) != std::string::npos);
  CHECK(text.find(message) == text.rfind(message));
  return text;
}
