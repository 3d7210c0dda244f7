#pragma once

#include <string_view>

namespace canigo {

/// The version of the headers, known at compile time.
inline constexpr int version_major = 0;
inline constexpr int version_minor = 2;
inline constexpr int version_patch = 0;

/// The version of the linked library, such as "0.2.0".
///
/// It differs from the version of the headers if the program was compiled with one version and runs with the shared
/// library of another.
///
/// Threads: any. Allocates: never.
std::string_view version() noexcept;

}  // namespace canigo
