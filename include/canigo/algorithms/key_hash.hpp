#pragma once

#include "canigo/detail/keys/sip_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace canigo {

/// A 64-bit hash of the given bytes. Its seed differs in each process, so an attacker can't choose keys that collide.
///
/// Use it in the hash class of your own key type; see key_hash. Allocates: never.
inline std::uint64_t hash_of_bytes(const void* bytes, std::size_t size) {
  return detail::sip_hash<1, 3>::of(detail::process_hash_seed(), bytes, size);
}

/// How a key of type `Key` is passed to functions. A std::string is passed as std::string_view, so that a lookup makes
/// no string. Any other key is passed by reference.
template <class Key>
using key_view = std::conditional_t<std::is_same_v<Key, std::string>, std::string_view, const Key&>;

/// The default hash of keys for keyed limits. It supports strings, and types that are equal if and only if their bytes
/// are equal.
///
/// Such types are integers, enumerations, and arrays and structs of them without padding. For any other type, pass
/// `keyed` a class with a `std::uint64_t operator()(key_view<Key>) const noexcept`. All bits of its result must depend
/// on the whole key, and on a secret, as those of hash_of_bytes() do.
///
/// Source: SipHash-1-3, J.-P. Aumasson, D. J. Bernstein, INDOCRYPT 2012.
template <class Key>
class key_hash {
  static constexpr bool is_string = std::is_same_v<Key, std::string> || std::is_same_v<Key, std::string_view>;
  static_assert(is_string || std::has_unique_object_representations_v<Key>,
                "key_hash: two equal keys of this type may have different bytes; give keyed<> a hash of your own, made "
                "with canigo::hash_of_bytes");

 public:
  std::uint64_t operator()(key_view<Key> key) const noexcept {
    if constexpr (is_string) {
      return detail::sip_hash<1, 3>::of(seed_, key.data(), key.size());
    } else {
      return detail::sip_hash<1, 3>::of(seed_, &key, sizeof key);
    }
  }

 private:
  detail::hash_seed seed_ = detail::process_hash_seed();
};

}  // namespace canigo
