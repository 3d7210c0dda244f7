#include "gateway/policy/repeat_rules.hpp"

#include "gateway/heads.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

namespace gateway = canigo::gateway;
using gateway::repeat;
using gateway_test::head_of;
using end = gateway::attempt_end_kind;

namespace {

gateway::message_head request(const std::string& method, const std::string& fields = "") {
  return head_of(method + " / HTTP/1.1\nHost: a\n" + fields);
}

}  // namespace

TEST_CASE("gateway: a request is sent again only where that does no harm", "[gateway][repeat]") {
  struct row {
    gateway::attempt_result result;
    repeat of_get, of_post;
  };
  const repeat no = repeat::no, yes = repeat::yes, pause = repeat::yes_after_pause;
  const row rows[] = {
      {{.how = end::unreachable}, yes, yes},
      {{.how = end::lost}, yes, no},
      {{.how = end::answered, .status = 429}, pause, pause},
      {{.how = end::answered, .status = 429, .tells_limit = true}, pause, pause},
      {{.how = end::answered, .status = 503, .tells_limit = true}, pause, pause},
      {{.how = end::answered, .status = 503}, no, no},
      {{.how = end::answered, .status = 529}, pause, pause},
      {{.how = end::answered, .status = 403}, no, no},
      {{.how = end::answered, .status = 403, .tells_limit = true}, pause, pause},
      {{.how = end::answered, .status = 429, .forbids_retry = true}, no, no},
      {{.how = end::answered, .status = 429, .tells_limit = true, .forbids_retry = true}, no, no},
      {{.how = end::answered, .status = 502, .forbids_retry = true}, no, no},
      {{.how = end::answered, .status = 502}, yes, no},
      {{.how = end::answered, .status = 504}, yes, no},
      {{.how = end::answered, .status = 502, .tells_limit = true}, yes, no},
      {{.how = end::answered, .status = 500}, no, no},
      {{.how = end::answered, .status = 501}, no, no},
      {{.how = end::answered, .status = 505}, no, no},
      {{.how = end::answered, .status = 408, .tells_limit = true}, no, no},
      {{.how = end::answered, .status = 200, .tells_limit = true}, no, no},
      {{.how = end::answered, .status = 404}, no, no},
      {{.how = end::begun, .status = 429, .tells_limit = true}, no, no},
      {{.how = end::begun, .status = 502}, no, no},
      {{.how = end::begun, .status = 200}, no, no},
  };
  for (const row& r : rows) {
    CAPTURE(static_cast<int>(r.result.how), r.result.status, r.result.tells_limit);
    for (const std::string method : {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"}) {
      CHECK(gateway::judge_repeat(request(method), r.result, true) == r.of_get);
      CHECK(gateway::judge_repeat(request(method), r.result, false) == no);
    }
    for (const std::string method : {"POST", "PATCH", "TRACE", "get", "PROPFIND", "CONNECT"}) {
      CHECK(gateway::judge_repeat(request(method), r.result, true) == r.of_post);
      CHECK(gateway::judge_repeat(request(method), r.result, false) == no);
      CHECK(gateway::judge_repeat(request(method, "idempotency-key: \"x\"\n"), r.result, true) == r.of_get);
      CHECK(gateway::judge_repeat(request(method, "Idempotency-Key: \n"), r.result, true) == r.of_post);
    }
  }
}

TEST_CASE("gateway: 429 and 529 ask for a pause, and so do 403 and 503 that tell of a limit", "[gateway][repeat]") {
  CHECK(gateway::asks_for_pause({.how = end::answered, .status = 429}));
  CHECK(gateway::asks_for_pause({.how = end::begun, .status = 429}));
  CHECK(gateway::asks_for_pause({.how = end::answered, .status = 503, .tells_limit = true}));
  CHECK(gateway::asks_for_pause({.how = end::answered, .status = 403, .tells_limit = true}));
  CHECK(gateway::asks_for_pause({.how = end::answered, .status = 529}));
  CHECK_FALSE(gateway::asks_for_pause({.how = end::answered, .status = 403}));
  CHECK_FALSE(gateway::asks_for_pause({.how = end::answered, .status = 503}));
  CHECK_FALSE(gateway::asks_for_pause({.how = end::answered, .status = 301, .tells_limit = true}));
  CHECK_FALSE(gateway::asks_for_pause({.how = end::lost, .status = 429}));
}

TEST_CASE("gateway: what counts against an upstream", "[gateway][repeat]") {
  CHECK(gateway::counts_as_failure({.how = end::unreachable}));
  CHECK(gateway::counts_as_failure({.how = end::lost}));
  for (const auto how : {end::answered, end::begun}) {
    for (const int status : {500, 502, 503, 504, 529})
      CHECK(gateway::counts_as_failure({.how = how, .status = status}));
    for (const int status : {200, 204, 301, 400, 401, 404, 408, 429, 499, 501, 505, 599})
      CHECK_FALSE(gateway::counts_as_failure({.how = how, .status = status}));
  }
}
