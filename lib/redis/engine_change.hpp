#pragma once

#include "engine.hpp"

#include <memory>
#include <string>
#include <utility>

namespace canigo::redis::detail {

/// Returns the text that `make` returns. If there is no memory for the text, returns "", because the error code
/// suffices.
template <class Make>
std::string text_of(Make make) noexcept {
  try {
    return make();
  } catch (...) {
    return {};
  }
}

/// Holds the engine and its lock. Its destructor releases the lock, and then posts the handlers of the calls that have
/// ended.
struct engine::change {
  explicit change(engine& e) noexcept : owner{e.shared_from_this()}, decisions{e} {}

  const std::shared_ptr<engine> owner;
  const delivery::change decisions;
};

}  // namespace canigo::redis::detail
