#pragma once

#include "canigo/error.hpp"

#include "support/catch.hpp"

#include <string>
#include <system_error>

/// Returns the text of the error that `call` throws, whose code must be invalid_argument.
template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const std::system_error& error) {
    CHECK(error.code() == canigo::errc::invalid_argument);
    return error.what();
  }
  return "nothing was thrown";
}
