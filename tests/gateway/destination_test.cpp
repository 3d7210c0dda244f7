#include "gateway/policy/destination.hpp"

#include "gateway/config/places.hpp"
#include "support/catch.hpp"

#include <string_view>

namespace gateway = canigo::gateway;

namespace {

bool is_allowed(std::string_view host, std::uint16_t port) {
  gateway::forward_options forward;
  for (const std::string_view text : {"*.example.com:443", "repo.example.org:80", "10.0.0.1:8080", "[2001:db8::1]:443"})
    forward.allow.push_back(*gateway::parse_allowed_host(text));
  const auto parsed = gateway::parse_host(host);
  REQUIRE(parsed);
  const auto refused = gateway::judge_destination(forward, *parsed, port);
  if (refused) CHECK((refused->status == 403 && refused->error == "destination_forbidden"));
  return !refused;
}

}  // namespace

TEST_CASE("gateway: forward mode leads only to hosts and ports that are allowed", "[gateway][destination]") {
  CHECK(is_allowed("a.example.com", 443));
  CHECK(is_allowed("A.B.EXAMPLE.com.", 443));
  CHECK(is_allowed("repo.example.org", 80));
  CHECK(is_allowed("10.0.0.1", 8080));
  CHECK(is_allowed("[2001:DB8:0::1]", 443));
  CHECK_FALSE(is_allowed("example.com", 443));
  CHECK_FALSE(is_allowed("aexample.com", 443));
  CHECK_FALSE(is_allowed("a.example.com", 80));
  CHECK_FALSE(is_allowed("a.example.com", 8443));
  CHECK_FALSE(is_allowed("a.example.com.evil.org", 443));
  CHECK_FALSE(is_allowed("a.repo.example.org", 80));
  CHECK_FALSE(is_allowed("10.0.0.2", 8080));
  CHECK_FALSE(is_allowed("127.0.0.1", 443));
  CHECK_FALSE(is_allowed("[::1]", 443));
  CHECK_FALSE(is_allowed("[::ffff:10.0.0.1]", 8080));
  CHECK_FALSE(is_allowed("localhost", 80));
}

TEST_CASE("gateway: each spelling of a host has the same limit", "[gateway][destination]") {
  CHECK(gateway::limit_name(*gateway::parse_host("API.Example.com."), 443) == "api.example.com:443");
  CHECK(gateway::limit_name(*gateway::parse_host("[2001:DB8::0:1]"), 80) == "[2001:db8::1]:80");
}
