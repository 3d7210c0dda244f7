// What nearly every test includes and what takes longest to parse. A test still includes what it uses.
#include "support/catch.hpp"

#include <asio.hpp>
