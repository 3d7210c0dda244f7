#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace canigo::detail {

/// The secret key of the hash function: two words that differ in each process.
struct hash_seed {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

/// The seed of this process, drawn at the first call.
const hash_seed& process_hash_seed();

/// SipHash with `Rounds` rounds per word and `LastRounds` at the end. An attacker who does not know the seed can't
/// choose keys that collide.
///
/// Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012. The hash tables of Rust
/// and Python use the variant 1-3: `Rounds` is 1, `LastRounds` is 3.
template <int Rounds, int LastRounds>
class sip_hash {
 public:
  static std::uint64_t of(const hash_seed& seed, const void* data, std::size_t size) noexcept {
    sip_hash h{seed};
    const auto* bytes = static_cast<const unsigned char*>(data);
    std::size_t left = size;
    for (; left >= 8; left -= 8, bytes += 8) h.add(word(bytes, 8));
    h.add(word(bytes, left) | std::uint64_t{size & 0xff} << 56);
    return h.end();
  }

 private:
  explicit sip_hash(const hash_seed& seed) noexcept
      : v0_{seed.first ^ 0x736f6d6570736575},
        v1_{seed.second ^ 0x646f72616e646f6d},
        v2_{seed.first ^ 0x6c7967656e657261},
        v3_{seed.second ^ 0x7465646279746573} {}

  static std::uint64_t word(const unsigned char* bytes, std::size_t size) noexcept {
    std::uint64_t w = 0;
    if constexpr (std::endian::native == std::endian::little) {
      if (size == 8) {
        std::memcpy(&w, bytes, 8);
        return w;
      }
    }
    for (std::size_t i = 0; i < size; ++i) w |= std::uint64_t{bytes[i]} << (8 * i);
    return w;
  }

  void add(std::uint64_t w) noexcept {
    v3_ ^= w;
    for (int i = 0; i < Rounds; ++i) round();
    v0_ ^= w;
  }

  std::uint64_t end() noexcept {
    v2_ ^= 0xff;
    for (int i = 0; i < LastRounds; ++i) round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

  void round() noexcept {
    v0_ += v1_;
    v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v1_;
    v0_ += v3_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_, v1_, v2_, v3_;
};

}  // namespace canigo::detail
