#pragma once

#include <atomic>

namespace canigo::detail {

/// An atomic whose steps other threads race with; the tests put one in its place that explores every such race.
template <class T>
using atomic = std::atomic<T>;

}  // namespace canigo::detail
