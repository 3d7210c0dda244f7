// Catch2 v2 is compiled here, once, and linked into every test binary; v3 is a library that has its own main.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
