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
  return gateway::find_allowed(forward, *parsed, port) != nullptr;
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

TEST_CASE("gateway: a host that is not allowed is refused by its name", "[gateway][destination]") {
  const auto refused = gateway::refuse_destination(*gateway::parse_host("Evil.example."), 80);
  CHECK((refused.status == 403 && refused.error == "destination_forbidden"));
  CHECK(refused.detail == "evil.example:80 is not in forward.allow");
}

TEST_CASE("gateway: a host of forward mode is an upstream with the settings of each", "[gateway][destination]") {
  gateway::forward_options forward;
  forward.each.concurrency = 7;
  const auto u = gateway::upstream_of(forward, *gateway::parse_host("[2001:DB8::0:1]"), 8080);
  CHECK((u.name == "[2001:db8::1]:8080" && u.concurrency == 7 && u.credential.is_passed()));
  CHECK((u.url.host == "2001:db8::1" && u.url.port == 8080 && u.url.is_address && u.url.path.empty()));
  CHECK_FALSE(gateway::upstream_of(forward, *gateway::parse_host("a.example"), 80).url.is_address);
}
