// The headers that nearly every test includes and that take longest to parse. A test still includes what it uses.
#include "support/catch.hpp"

#include <asio.hpp>
