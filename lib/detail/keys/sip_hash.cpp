#include "canigo/detail/keys/sip_hash.hpp"

#include <random>

namespace canigo::detail {

const hash_seed& process_hash_seed() {
  static const hash_seed seed = [] {
    std::random_device device;
    const auto word = [&device] { return std::uint64_t{device()} << 32 | device(); };
    return hash_seed{word(), word()};
  }();
  return seed;
}

}  // namespace canigo::detail
