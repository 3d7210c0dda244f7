#pragma once

#include <atomic>

namespace canigo::detail {

/// An atomic variable that several threads use concurrently. The interleaving tests replace it by a type that explores
/// all interleavings.
template <class T>
using atomic = std::atomic<T>;

}  // namespace canigo::detail
