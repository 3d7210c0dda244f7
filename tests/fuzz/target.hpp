#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

namespace fuzz {

/// Aborts if a promise is broken. The fuzzer then keeps the input, and a replay of the input fails.
inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

/// The bytes of an input. The first few decide how the rest is used.
class input {
 public:
  input(const std::uint8_t* data, std::size_t size) noexcept : bytes_{data, size} {}

  std::uint8_t byte() noexcept {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  std::span<const std::uint8_t> rest() const noexcept { return bytes_; }
  std::string_view text() const noexcept { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace fuzz

/// Each target defines this function, which libFuzzer or replay.cpp calls. If it returns, the input has broken no
/// promise.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
