#pragma once

#include <string_view>

namespace canigo {

/// The version of the headers, at compile time.
inline constexpr int version_major = 0;
inline constexpr int version_minor = 2;
inline constexpr int version_patch = 0;

/// The version of the library that is linked, such as "0.2.0".
///
/// It differs from the constants above when a program that was compiled with one version runs with the shared library
/// of another.
///
/// Threads: any. Allocates: never.
std::string_view version() noexcept;

}  // namespace canigo
