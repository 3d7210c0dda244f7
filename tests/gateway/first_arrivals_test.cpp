#include "gateway/policy/first_arrivals.hpp"

#include "gateway/heads.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <string>

using namespace std::chrono_literals;
namespace gateway = canigo::gateway;
using gateway_test::head_of;

namespace {

constexpr canigo::time_point arrived{1h};

std::string key(const std::string& head, const char* tenant = "t") {
  return gateway::resend_key(head_of(head), tenant);
}

}  // namespace

TEST_CASE("gateway: a call is known again by its key, or a GET by its target", "[gateway][first_arrivals]") {
  const std::string post = key("POST /a HTTP/1.1\nHost: x\nIdempotency-Key: 7\n");
  CHECK_FALSE(post.empty());
  CHECK(post == key("PUT /b HTTP/1.1\nHost: y\nidempotency-key:  7 \n"));
  CHECK(post != key("POST /a HTTP/1.1\nHost: x\nIdempotency-Key: 7\n", "u"));
  CHECK(post != key("POST /a HTTP/1.1\nHost: x\namz-sdk-invocation-id: 7\n"));
  CHECK(key("POST /a HTTP/1.1\nHost: x\n").empty());
  const std::string get = key("GET /a?b HTTP/1.1\nHost: x\n");
  CHECK_FALSE(get.empty());
  CHECK(get != key("GET /a HTTP/1.1\nHost: x\n"));
  CHECK(get != key("GET /a?b HTTP/1.1\nHost: y\n"));
  CHECK(key("GET /" + std::string(512, 'a') + " HTTP/1.1\nHost: x\n").empty());
}

TEST_CASE("gateway: a call that is sent again keeps its first arrival, once", "[gateway][first_arrivals]") {
  gateway::first_arrivals known;
  CHECK_FALSE(known.has_some());
  CHECK_FALSE(known.take("a", arrived));
  known.note("", arrived, arrived);
  CHECK_FALSE(known.has_some());
  known.note("a", arrived, arrived + 15s);
  CHECK(known.has_some());
  CHECK_FALSE(known.take("b", arrived + 16s));
  CHECK(known.take("a", arrived + 16s) == arrived);
  CHECK_FALSE(known.take("a", arrived + 16s));
}

TEST_CASE("gateway: an arrival is kept for a minute from when the client left", "[gateway][first_arrivals]") {
  gateway::first_arrivals known;
  known.note("a", arrived, arrived + 15s);
  known.note("b", arrived, arrived + 15s);
  CHECK(known.take("a", arrived + 75s - 1ns) == arrived);
  // It left again, and the earlier of the two arrivals counts.
  known.note("a", arrived + 1s, arrived + 76s);
  known.note("a", arrived, arrived + 77s);
  CHECK_FALSE(known.take("b", arrived + 77s));
  CHECK(known.take("a", arrived + 137s - 1ns) == arrived);
  known.note("c", arrived, arrived);
  CHECK_FALSE(known.take("c", arrived + 200s));
  CHECK_FALSE(known.has_some());
}

TEST_CASE("gateway: the arrivals that are kept are bounded", "[gateway][first_arrivals]") {
  gateway::first_arrivals known;
  for (std::size_t i = 0; i <= gateway::first_arrivals::most; ++i) known.note(std::to_string(i), arrived, arrived);
  CHECK(known.take("0", arrived));
  CHECK_FALSE(known.take(std::to_string(gateway::first_arrivals::most), arrived));
  // Those that were taken count until they would have ended.
  known.note("more", arrived, arrived);
  CHECK_FALSE(known.take("more", arrived));
  known.note("more", arrived, arrived + 60s);
  CHECK(known.take("more", arrived + 60s));
}
