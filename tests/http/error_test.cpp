#include "canigo/error.hpp"

#include "canigo/http/error.hpp"

#include "support/catch.hpp"

#include <system_error>

namespace http = canigo::http;

TEST_CASE("curl's codes have a category of their own") {
  const std::error_code ec = http::error::could_not_connect;
  CHECK(ec == http::error::could_not_connect);
  CHECK(ec != http::error::could_not_resolve_host);
  CHECK(std::string{ec.category().name()} == "curl");
  CHECK(ec.value() == 7);
  CHECK_FALSE(ec.message().empty());
  CHECK(ec != std::error_code{canigo::errc{7}});
}

TEST_CASE("an error of curl's without a name here has a text all the same") {
  const std::error_code ec{94, http::error_category()};
  CHECK_FALSE(ec.message().empty());
  CHECK_FALSE((std::error_code{123456, http::error_category()}.message().empty()));
}

TEST_CASE("no memory is no memory in every category") {
  CHECK((std::error_code{27, http::error_category()} == std::errc::not_enough_memory));
  CHECK((std::error_code{7, http::error_category()} != std::errc::not_enough_memory));
}
