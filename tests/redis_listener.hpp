#pragma once

#include "../lib/redis/engine.hpp"

#include <memory>
#include <string_view>

namespace redis_test {

/// Who hears what is published, by the second connection of a client.
struct listener final : canigo::redis::detail::subscription {
  void subscribed() noexcept override { ++times; }
  void published(std::string_view) noexcept override { ++messages; }
  int times = 0;
  int messages = 0;
};

}  // namespace redis_test
