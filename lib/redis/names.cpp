#include "names.hpp"

#include <charconv>
#include <cstdint>
#include <random>
#include <unistd.h>

namespace canigo::redis::detail {

std::string escaped(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
    if (plain) {
      text += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text += '%';
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
  }
  return text;
}

std::string name_of_process() {
  char host[64] = {};
  ::gethostname(host, sizeof host - 1);  // a longer name is cut to the first 63 characters
  std::random_device random;
  const std::uint64_t bits = std::uint64_t{random()} << 32 | random();
  char hex[17] = {};
  std::to_chars(hex, hex + 16, bits, 16);
  return escaped(host) + ":" + std::to_string(::getpid()) + ":" + hex;
}

}  // namespace canigo::redis::detail
