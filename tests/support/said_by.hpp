#pragma once

#include "support/catch.hpp"

#include <string>
#include <system_error>

/// What an error of the library says, which has the message of its code in it once.
inline std::string said_by(const std::system_error& e) {
  const std::string text = e.what(), message = e.code().message();
  CAPTURE(text);
  CHECK(text.find(message) != std::string::npos);
  CHECK(text.find(message) == text.rfind(message));
  return text;
}
