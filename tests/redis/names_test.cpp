#include "../lib/redis/names.hpp"

#include "support/catch.hpp"

#include <string>
#include <unistd.h>

using canigo::redis::detail::escaped;
using canigo::redis::detail::name_of_process;

TEST_CASE("a name is escaped to what separates nothing in a key") {
  CHECK(escaped("azAZ09_.-") == "azAZ09_.-");
  CHECK(escaped("a b:c") == "a%20b%3ac");
  CHECK(escaped("{}") == "%7b%7d");
  CHECK(escaped("@[`/^") == "%40%5b%60%2f%5e");
  CHECK(escaped("\x7f\xff") == "%7f%ff");
  CHECK(escaped("").empty());
}

TEST_CASE("a process has another name each time") {
  const std::string a = name_of_process();
  CHECK(a.find(":" + std::to_string(::getpid()) + ":") != std::string::npos);
  CHECK(a != name_of_process());
}
