#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The cookie of an operator who has shown the admin's token. With this cookie, the admin page need not store the
/// token.
///
/// The cookie contains its expiry time, and a code that only this process can compute for that time and token. So a
/// restart, or a change of the token, makes all cookies invalid. The gateway keeps no list of cookies. Threads: any.
class session_cookie {
 public:
  static constexpr std::string_view name = "canigo_admin";
  static constexpr std::chrono::hours lifetime{12};

  /// Throws std::runtime_error if the system can't supply random numbers.
  session_cookie();

  /// Returns the value of a new cookie for `token`.
  std::string make(std::string_view token, std::chrono::system_clock::time_point now) const;
  /// Whether `cookies`, the value of a Cookie field, contains a cookie that is valid for `token` and has not expired.
  bool is_good(std::string_view cookies, std::string_view token, std::chrono::system_clock::time_point now) const;

  /// Whether both texts are equal. The duration of the comparison reveals nothing about either text.
  bool is_same(std::string_view a, std::string_view b) const;

 private:
  using code = std::array<std::uint8_t, 32>;
  code code_of(std::string_view text) const;

  code key_{};
};

}  // namespace canigo::gateway
