#include "canigo/http/public_address.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ranges>

namespace canigo::http {
namespace {

struct v4_block {
  std::uint32_t first;
  int bits;
};

constexpr std::uint32_t v4(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) noexcept {
  return a << 24 | b << 16 | c << 8 | d;
}

constexpr std::array special_v4{
    v4_block{v4(0, 0, 0, 0), 8},        // "this network" (RFC 1122): not a public address
    v4_block{v4(10, 0, 0, 0), 8},       // addresses of private networks
    v4_block{v4(100, 64, 0, 0), 10},    // addresses behind a carrier's NAT
    v4_block{v4(127, 0, 0, 0), 8},      // loopback addresses
    v4_block{v4(169, 254, 0, 0), 16},   // link-local addresses
    v4_block{v4(172, 16, 0, 0), 12},    // addresses of private networks
    v4_block{v4(192, 0, 0, 0), 24},     // addresses for protocols of the IETF
    v4_block{v4(192, 0, 2, 0), 24},     // addresses for documentation
    v4_block{v4(192, 88, 99, 0), 24},   // addresses of 6to4 relays
    v4_block{v4(192, 168, 0, 0), 16},   // addresses of private networks
    v4_block{v4(198, 18, 0, 0), 15},    // addresses for benchmarks
    v4_block{v4(198, 51, 100, 0), 24},  // addresses for documentation
    v4_block{v4(203, 0, 113, 0), 24},   // addresses for documentation
    v4_block{v4(224, 0, 0, 0), 3},      // multicast addresses and reserved addresses
};

bool is_public_v4(std::uint32_t address) noexcept {
  constexpr int size = 32;
  return std::ranges::none_of(special_v4, [&](v4_block b) { return (address ^ b.first) >> (size - b.bits) == 0; });
}

using v6_bytes = net::ip::address_v6::bytes_type;

struct v6_block {
  std::array<std::uint8_t, 8> first;
  int bits;
};

/// The ranges inside 2000::/3 that are not public. Outside of 2000::/3 no address is public.
constexpr std::array special_v6{
    v6_block{{0x20, 0x01, 0x00, 0x00}, 23},  // addresses for protocols of the IETF, such as Teredo
    v6_block{{0x20, 0x01, 0x0d, 0xb8}, 32},  // addresses for documentation
    v6_block{{0x3f, 0xff, 0x00, 0x00}, 20},  // addresses for documentation
};

bool begins_with(const v6_bytes& address, const v6_block& b) noexcept {
  for (int bit = 0; bit < b.bits; ++bit) {
    const auto at = static_cast<std::size_t>(bit / 8);
    if (((address[at] ^ b.first[at]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

std::uint32_t v4_at(const v6_bytes& address, std::size_t at) noexcept {
  return v4(address[at], address[at + 1], address[at + 2], address[at + 3]);
}

bool is_public_v6(const v6_bytes& address) noexcept {
  constexpr std::array<std::uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::array<std::uint8_t, 12> nat64{0, 0x64, 0xff, 0x9b};
  const auto has_prefix = [&](const auto& prefix) {
    return std::ranges::equal(prefix, address | std::views::take(12));
  };
  constexpr std::size_t at_the_end = 12;
  if (has_prefix(mapped) || has_prefix(nat64)) return is_public_v4(v4_at(address, at_the_end));
  if (begins_with(address, {{0x20, 0x02}, 16})) return is_public_v4(v4_at(address, 2));
  return begins_with(address, {{0x20}, 3}) &&
         std::ranges::none_of(special_v6, [&](const v6_block& b) { return begins_with(address, b); });
}

}  // namespace

bool is_public(const net::ip::address& address) noexcept {
  return address.is_v4() ? is_public_v4(address.to_v4().to_uint()) : is_public_v6(address.to_v6().to_bytes());
}

}  // namespace canigo::http
