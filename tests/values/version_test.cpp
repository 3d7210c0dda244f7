#include "canigo/version.hpp"

#include "support/catch.hpp"

#include <string>

TEST_CASE("the linked library has the version of its headers", "[version]") {
  const std::string headers = std::to_string(canigo::version_major) + "." + std::to_string(canigo::version_minor) +
                              "." + std::to_string(canigo::version_patch);
  CHECK(canigo::version() == headers);
}
