#include "gateway/policy/token_account.hpp"

#include "gateway/heads.hpp"
#include "gateway/preset_upstream.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gateway = canigo::gateway;
using canigo::rate;
using gateway::token_amount;
using gateway_test::head_of;
using amounts = std::vector<token_amount>;

namespace {

/// An upstream that counts requests and tokens, and a request to it that asks for 10 + 90 tokens.
struct scene {
  explicit scene(gateway::token_api api = gateway::token_api::openai) {
    u.tokens = gateway_test::upstream_of("generic").tokens;
    u.tokens.api = api;
    u.rates = {{.rate = rate::per_second(5), .burst = 20, .unit = "requests"},
               {.rate = rate::per_minute(5'000), .burst = 1'000, .unit = "tokens"}};
  }
  amounts ask(std::uint64_t least = 0, std::string_view method = "POST") {
    account.read({method, "/v1/x"}, {body, true, body.size()});
    return account.ask(least);
  }
  void begin(std::string_view type, std::string_view more = "", int status = 200) {
    auto head = head_of("HTTP/1.1 200 OK\nContent-Type: " + std::string{type} + "\n" + std::string{more});
    head.status = status;
    account.begin_response(head);
  }

  gateway::upstream u;
  gateway::token_ratios ratios;
  gateway::tenant whose;
  gateway::token_account account{u, whose, ratios};
  std::string body = R"({"model":"mmmm","max_tokens":90,"a":")" + std::string(36, 'x') + "\"}";
};

}  // namespace

TEST_CASE("gateway: a request is settled by the usage of its response, and the next one asks for less",
          "[gateway][tokens]") {
  scene s;
  CHECK(s.ask() == amounts{{"requests", 1}, {"tokens", 100}});
  s.begin("application/json");
  s.account.take(R"({"usage":{"prompt_tokens":8,)");
  s.account.take(R"("completion_tokens":12}})");
  CHECK(s.account.settle(true) == amounts{{"requests", 1}, {"tokens", 20}});
  CHECK(s.account.used() == gateway::token_usage{8, 12});
  CHECK_FALSE(s.account.is_usage_missing());
  // 1 + (0.2 - 1) / 8
  CHECK(s.ask() == amounts{{"requests", 1}, {"tokens", 90}});
  CHECK(s.ask(95) == amounts{{"requests", 1}, {"tokens", 95}});
  s.u.tokens.learn = false;
  CHECK(s.ask() == amounts{{"requests", 1}, {"tokens", 100}});
}

TEST_CASE("gateway: where nobody knows the usage, the estimate stands", "[gateway][tokens]") {
  const std::string usage = R"({"usage":{"prompt_tokens":8}})";
  const amounts asked{{"requests", 1}, {"tokens", 100}};
  struct row {
    std::string type, more, body;
    bool is_whole;
  };
  for (const row& r :
       {row{"application/json", "", "{}", true}, row{"application/json", "", usage, false},
        row{"text/plain", "", usage, true}, row{"application/json", "Content-Encoding: gzip\n", usage, true}}) {
    CAPTURE(r.type, r.more, r.body, r.is_whole);
    scene s;
    s.ask();
    s.begin(r.type, r.more);
    s.account.take(r.body);
    CHECK(s.account.settle(r.is_whole) == asked);
    CHECK((!s.account.used() && s.account.is_usage_missing()));
    CHECK(s.ratios.of("mmmm") == 1);
  }
  scene unanswered;
  unanswered.ask();
  CHECK(unanswered.account.settle(false) == asked);
  CHECK(unanswered.account.is_usage_missing());
}

TEST_CASE("gateway: a stream without a usage is charged a token for each event, if that is more", "[gateway][tokens]") {
  for (const bool is_whole : {true, false}) {
    for (const int events : {50, 95}) {
      scene s;
      s.ask();
      s.begin("text/event-stream");
      s.account.take(": a comment\n\n");
      for (int i = 0; i < events; ++i) s.account.take("data: {\"choices\":[]}\n\n");
      const std::uint64_t tokens = events == 50 ? 100 : 105;
      CHECK(s.account.settle(is_whole) == amounts{{"requests", 1}, {"tokens", tokens}});
      CHECK(s.account.at_least() == gateway::token_usage{10, static_cast<std::uint64_t>(events)});
      CHECK(s.account.is_usage_missing());
    }
  }
}

TEST_CASE("gateway: of several attempts the last response counts", "[gateway][tokens]") {
  scene s;
  s.ask();
  s.begin("application/json");
  s.account.take(R"({"usage":{"prompt_tokens":8}})");
  s.begin("application/json", "Content-Encoding: identity\n");
  s.account.take(R"({"usage":{"prompt_tokens":9}})");
  CHECK(s.account.settle(true) == amounts{{"requests", 1}, {"tokens", 9}});
}

TEST_CASE("gateway: an upstream without an interface has no usage to tell", "[gateway][tokens]") {
  scene s{gateway::token_api::bytes};
  s.ask();
  s.begin("application/json");
  s.account.take(R"({"usage":{"prompt_tokens":8}})");
  CHECK(s.account.settle(true)[1].amount == (s.body.size() + 3) / 4 + 512);
  CHECK((!s.account.used() && !s.account.is_usage_missing()));
  CHECK_FALSE(gateway::token_account::reads_body(s.u));
  s.u.tokens.api = gateway::token_api::gemini;
  CHECK(gateway::token_account::reads_body(s.u));
}

TEST_CASE("gateway: no request asks for more than its tenant's burst, as it could never go", "[gateway][tokens]") {
  scene s;
  s.u.name = "a";
  s.whose.limits["a"].rates = {{.rate = rate::per_minute(50), .burst = 30, .unit = "tokens"}};
  gateway::token_account account{s.u, s.whose, s.ratios};
  account.read({"POST", "/"}, {s.body, true, s.body.size()});
  CHECK(account.ask(0) == amounts{{"requests", 1}, {"tokens", 30}});
  s.whose.limits["a"].rates[0].burst = 3'000;
  CHECK(account.ask(~0ULL) == amounts{{"requests", 1}, {"tokens", 1'000}});
  // Of another upstream, or of another unit.
  s.u.name = "b";
  gateway::token_account other{s.u, s.whose, s.ratios};
  other.read({"POST", "/"}, {s.body, true, s.body.size()});
  CHECK(other.ask(0)[1].amount == 100);
}

TEST_CASE("gateway: a free request asks for no tokens, and is charged none", "[gateway][tokens]") {
  const std::string usage = R"({"usage":{"prompt_tokens":8,"completion_tokens":12}})";
  for (const std::string_view method : {"GET", "HEAD", "DELETE"}) {
    CAPTURE(method);
    scene s;
    CHECK(s.ask(0, method) == amounts{{"requests", 1}, {"tokens", 0}});
    // A stored response, which has told its usage before.
    s.begin("application/json");
    s.account.take(usage);
    CHECK(s.account.settle(true) == amounts{{"requests", 1}, {"tokens", 0}});
    CHECK((!s.account.used() && !s.account.is_usage_missing()));
    CHECK(s.ratios.of("mmmm") == 1);
    s.begin("application/json", "", 404);
    CHECK(s.account.settle(true) == amounts{{"requests", 1}, {"tokens", 0}});
    CHECK((!s.account.used() && !s.account.is_usage_missing()));
  }
  scene s;
  // Its client knows better.
  CHECK(s.ask(70, "GET") == amounts{{"requests", 1}, {"tokens", 70}});
  s.begin("application/json");
  CHECK(s.account.settle(true)[1].amount == 70);
  s.u.tokens.free.clear();
  CHECK(s.ask(0, "GET")[1].amount == 100);
  s.u.tokens.free = {{"POST", "*/x"}};
  CHECK(s.ask()[1].amount == 0);
}

TEST_CASE("gateway: a refused request gets its estimate back, and nothing is learned of it", "[gateway][tokens]") {
  for (const auto api : {gateway::token_api::openai, gateway::token_api::bytes}) {
    for (const int status : {400, 404, 429, 499}) {
      CAPTURE(status);
      scene s{api};
      s.ask();
      s.begin("application/json", "", status);
      s.account.take("{}");
      CHECK(s.account.settle(status != 404) == amounts{{"requests", 1}, {"tokens", 0}});
      CHECK(s.account.used() == gateway::token_usage{});
      CHECK_FALSE(s.account.is_usage_missing());
      CHECK(s.ratios.of("mmmm") == 1);
    }
  }
  const amounts asked{{"requests", 1}, {"tokens", 100}};
  for (const int status : {302, 399, 500, 503}) {
    CAPTURE(status);
    scene s;
    CHECK(s.ask() == asked);
    s.begin("application/json", "", status);
    CHECK(s.account.settle(true) == asked);
    CHECK(s.account.is_usage_missing());
  }
  // It may have used some all the same.
  scene told;
  told.ask();
  told.begin("application/json", "", 400);
  told.account.take(R"({"usage":{"prompt_tokens":8}})");
  CHECK(told.account.settle(true)[1].amount == 8);
  scene none{gateway::token_api::none};
  none.ask();
  none.begin("application/json", "", 400);
  none.account.settle(true);
  CHECK_FALSE(none.account.used());
}

TEST_CASE("gateway: a rate in money asks for the expected cost and is settled by the cost", "[gateway][tokens]") {
  scene s;
  s.u.tokens.learn = false;
  s.u.rates.push_back({.rate = rate::per_minute(1'000'000), .burst = 500'000, .unit = "usd"});
  const gateway::price_list prices{
      {{.match = "mm*", .input = 1'000'000, .cached_input = 1'000'000, .output = 2'000'000, .per_call = 7}}};
  const auto ask = [&](const gateway::price_list* of) {
    s.account.read({"POST", "/v1/x"}, {s.body, true, s.body.size()});
    return s.account.ask(0, gateway::all_targets, of);
  };
  // 10 + 2 * 90 + 7 micro-dollars
  CHECK(ask(&prices) == amounts{{"requests", 1}, {"tokens", 100}, {"usd", 197}});
  s.begin("application/json");
  s.account.take(R"({"usage":{"prompt_tokens":8,"completion_tokens":12}})");
  CHECK(s.account.settle(true, &prices) == amounts{{"requests", 1}, {"tokens", 20}, {"usd", 39}});
  for (const int status : {400, 503}) {  // such a call costs nothing
    CAPTURE(status);
    ask(&prices);
    s.begin("application/json", "", status);
    CHECK(s.account.settle(true, &prices).back() == token_amount{"usd", 0});
  }
  ask(&prices);
  s.begin("application/json");
  CHECK(s.account.settle(true, &prices).back() == token_amount{"usd", 197});  // it tells no usage
  CHECK(s.account.settle_free_of_charge() == amounts{{"usd", 0}});
  const gateway::price_list none;
  gateway::token_account other{s.u, s.whose, s.ratios};
  other.read({"POST", "/v1/x"}, {s.body, true, s.body.size()});
  CHECK(other.ask(0, gateway::all_targets, &none).back() == token_amount{"usd", 0});
}
