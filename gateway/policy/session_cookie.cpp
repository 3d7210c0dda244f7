#include "gateway/policy/session_cookie.hpp"

#include "gateway/wire/text.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <charconv>
#include <stdexcept>

namespace canigo::gateway {
namespace {

std::string hex(const std::array<std::uint8_t, 32>& bytes) {
  std::string text;
  for (const std::uint8_t b : bytes) text += fmt::format("{:02x}", b);
  return text;
}

std::string_view value_in(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    const auto end = cookies.find(';');
    const std::string_view one = trim(cookies.substr(0, end));
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=')
      return one.substr(name.size() + 1);
    if (end == cookies.npos) break;
    cookies.remove_prefix(end + 1);
  }
  return {};
}

}  // namespace

session_cookie::session_cookie() {
  if (RAND_bytes(key_.data(), static_cast<int>(key_.size())) != 1)
    throw std::runtime_error{"admin: the system has no random numbers"};
}

session_cookie::code session_cookie::code_of(std::string_view text) const {
  code made{};
  unsigned size = 0;
  HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), made.data(), &size);
  return made;
}

bool session_cookie::is_same(std::string_view a, std::string_view b) const {
  const code of_a = code_of(a);
  const code of_b = code_of(b);
  return CRYPTO_memcmp(of_a.data(), of_b.data(), of_a.size()) == 0;
}

std::string session_cookie::make(std::string_view token, std::chrono::system_clock::time_point now) const {
  const auto end = std::chrono::duration_cast<std::chrono::seconds>((now + lifetime).time_since_epoch()).count();
  const std::string until = std::to_string(end);
  return until + '.' + hex(code_of(until + '.' + std::string{token}));
}

bool session_cookie::is_good(std::string_view cookies, std::string_view token,
                             std::chrono::system_clock::time_point now) const {
  const std::string_view value = value_in(cookies, name);
  const std::string_view until = value.substr(0, value.find('.'));
  std::int64_t end = 0;
  const auto read = std::from_chars(until.data(), until.data() + until.size(), end);
  if (until.empty() || read.ec != std::errc{} || read.ptr != until.data() + until.size()) return false;
  // `end`, the time at which the cookie expires, comes from the client, so it may be any number. Whole seconds are
  // compared, because a conversion of `end` to a finer unit could overflow.
  if (end <= std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count()) return false;
  const std::string wanted = std::string{until} + '.' + hex(code_of(std::string{until} + '.' + std::string{token}));
  return is_same(value, wanted);
}

}  // namespace canigo::gateway
