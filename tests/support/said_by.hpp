#pragma once

#include "support/catch.hpp"

#include <string>
#include <system_error>

/// Returns the text of an error of the library, which contains the message of its code once. Boost's errors also
/// contain code and category, as in "stopped [canigo:5]", which this removes.
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
