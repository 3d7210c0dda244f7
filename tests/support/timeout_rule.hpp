#pragma once

#include "canigo/time.hpp"

#include "support/catch.hpp"
#include "support/refusal.hpp"

#include <chrono>
#include <string>
#include <string_view>

/// Checks an option that is a timeout: it must be more than 0, and max means no timeout. `set` makes the object with
/// it.
template <class Set>
void check_timeout_option(std::string_view name, Set set) {
  using canigo::duration;
  INFO(name);
  for (const duration d : {duration::zero(), duration{-1}, duration{std::chrono::seconds{-1}}, duration::min()}) {
    const std::string expected = std::string{name} + " is " + canigo::to_string(d) + "; allowed: more than 0";
    CHECK(refusal([&] { set(d); }).substr(0, expected.size()) == expected);
  }
  for (const duration d : {duration{1}, duration{std::chrono::seconds{1}}, duration::max()}) {
    CHECK(refusal([&] { set(d); }) == "nothing was thrown");
  }
}
