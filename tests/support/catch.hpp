#pragma once

// Catch2 v2 is one header, v3 has many: the tests include this file and work with either.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
