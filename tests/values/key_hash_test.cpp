#include "canigo/algorithms/key_hash.hpp"

#include "canigo/detail/keys/sip_hash.hpp"

#include "support/catch.hpp"

#include <array>
#include <cstdint>
#include <set>
#include <string>

using namespace canigo;

TEST_CASE("SipHash-2-4 gives the numbers of its authors, and 1-3 those of others", "[key_hash]") {
  // The vectors of the paper: the key 00 01 … 0f, and the messages of 0 to 15 bytes 00 01 ….
  const detail::hash_seed seed{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::array<unsigned char, 16> message{};
  for (std::size_t i = 0; i < message.size(); ++i) message[i] = static_cast<unsigned char>(i);
  using two_four = detail::sip_hash<2, 4>;
  CHECK(two_four::of(seed, message.data(), 0) == 0x726fdb47dd0e0e31);
  CHECK(two_four::of(seed, message.data(), 1) == 0x74f839c593dc67fd);
  CHECK(two_four::of(seed, message.data(), 7) == 0xab0200f58b01d137);
  CHECK(two_four::of(seed, message.data(), 8) == 0x93f5f5799a932462);
  CHECK(two_four::of(seed, message.data(), 15) == 0xa129ca6149be45e5);
  using one_three = detail::sip_hash<1, 3>;
  CHECK(one_three::of(seed, message.data(), 0) == 0xabac0158050fc4dc);
}

TEST_CASE("the seed of a process is drawn once, and strings hash the same however they are handed over", "[key_hash]") {
  const auto& a = detail::process_hash_seed();
  const auto& b = detail::process_hash_seed();
  CHECK(&a == &b);
  CHECK((a.first != 0 || a.second != 0));
  const key_hash<std::string> h;
  CHECK(h(std::string{"key"}) == h("key"));
  CHECK(h("key") == hash_of_bytes("key", 3));
}

TEST_CASE("keys of other types hash by their bytes", "[key_hash]") {
  std::set<std::uint64_t> seen;
  for (std::uint32_t i = 0; i < 10'000; ++i) seen.insert(key_hash<std::uint32_t>{}(i));
  CHECK(seen.size() == 10'000);
  const std::array<unsigned char, 16> address{1, 2, 3};
  using addresses = key_hash<std::array<unsigned char, 16>>;
  CHECK(addresses{}(address) == hash_of_bytes(address.data(), address.size()));
}
