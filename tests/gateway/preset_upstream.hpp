#pragma once

#include "gateway/config/reader.hpp"
#include "support/catch.hpp"

#include <string>
#include <string_view>

namespace gateway_test {

/// Returns a configuration with one upstream of this provider. `more`: additional lines for the upstream.
inline std::string config_of(std::string_view provider, std::string_view more = "") {
  return "[[listen]]\naddress = '127.0.0.1:0'\n[[upstream]]\nname = 'a'\nurl = 'http://a'\nprefix = '/a'\nprovider = "
         "'" +
         std::string{provider} + "'\n" + std::string{more};
}

/// Returns the upstream of such a configuration, which must be valid.
inline canigo::gateway::upstream upstream_of(std::string_view provider, std::string_view more = "") {
  const auto read = canigo::gateway::parse_config(config_of(provider, more));
  for (const auto& e : read.errors) UNSCOPED_INFO(canigo::gateway::message_of(e, provider));
  REQUIRE(read.value);
  return read.value->upstreams.at(0);
}

}  // namespace gateway_test
