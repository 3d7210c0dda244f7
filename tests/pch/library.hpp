// What takes longest to parse, for builds with a sanitizer, which are for tests only, and on Boost.Asio. The other
// builds do without, so that an include which is missing is missed.
#include <asio.hpp>
