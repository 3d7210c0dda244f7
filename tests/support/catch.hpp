#pragma once

// If ccache supplies the precompiled header, g++ 16 ignores `#pragma once` in a file of it. The macro works then, too.
#ifndef CANIGO_TESTS_SUPPORT_CATCH_HPP
#define CANIGO_TESTS_SUPPORT_CATCH_HPP

// Catch2 v2 is one header, v3 has many. The tests include this file, use the names of v2, and work with both versions.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

#include <string>

using Catch::Approx;
namespace Catch {
inline auto Contains(const std::string& part) { return Matchers::ContainsSubstring(part); }
}  // namespace Catch
#else
#include <catch2/catch.hpp>
#endif

#endif
