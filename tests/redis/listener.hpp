#pragma once

#include "../lib/redis/engine.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace redis_test {

/// Receives published messages through the second connection of a client.
struct listener final : canigo::redis::detail::subscription {
  void subscribed() noexcept override { ++times; }
  void published(std::string_view) noexcept override { ++messages; }
  void refused(std::error_code, const std::string&) noexcept override { ++refusals; }
  void unheard(std::error_code, const std::string&) noexcept override { ++losses; }
  int times = 0;
  int messages = 0;
  int refusals = 0;
  int losses = 0;
};

}  // namespace redis_test
