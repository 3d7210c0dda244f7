// The headers that take longest to parse, for builds of the tests with a sanitizer or Boost.Asio. Other builds do not
// use this file, so they detect missing includes.
#include <asio.hpp>
