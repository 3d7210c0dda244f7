#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The cookie of an operator who has shown the admin's token, so that a page need not keep the token.
///
/// It holds the time at which it ends, and a code that only this process can make for that time and that token. So a
/// restart ends all cookies, and so does a change of the token. The gateway keeps no list of them.
/// Threads: any.
class session_cookie {
 public:
  static constexpr std::string_view name = "canigo_admin";
  static constexpr std::chrono::hours lifetime{12};

  /// Throws std::runtime_error if the system has no random numbers.
  session_cookie();

  /// The cookie's value.
  std::string make(std::string_view token, std::chrono::system_clock::time_point now) const;
  /// Whether `cookies`, the value of a Cookie field, has one that is good now.
  bool is_good(std::string_view cookies, std::string_view token, std::chrono::system_clock::time_point now) const;

  /// Whether both texts are the same. The time of the comparison reveals nothing about either text.
  bool is_same(std::string_view a, std::string_view b) const;

 private:
  using code = std::array<std::uint8_t, 32>;
  code code_of(std::string_view text) const;

  code key_{};
};

}  // namespace canigo::gateway
