#pragma once

#include "engine.hpp"

#include <memory>
#include <string>
#include <utility>

namespace canigo::redis::detail {

/// The text that `make` returns; empty if there is no memory for it. The code says enough then.
template <class Make>
std::string text_of(Make make) noexcept {
  try {
    return make();
  } catch (...) {
    return {};
  }
}

/// Holds the lock, and the engine. Its end releases the lock and carries out what was decided.
struct engine::change {
  explicit change(engine& e) noexcept : owner{e.shared_from_this()}, decisions{e} {}

  const std::shared_ptr<engine> owner;
  const delivery::change decisions;
};

}  // namespace canigo::redis::detail
