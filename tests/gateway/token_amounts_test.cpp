#include "gateway/policy/token_amounts.hpp"

#include "gateway/policy/token_ratios.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

namespace gateway = canigo::gateway;
using canigo::rate;
using gateway::token_amount;
using amounts = std::vector<token_amount>;

namespace {

gateway::upstream upstream_with_rates(std::vector<canigo::rate_limit> rates) {
  gateway::upstream u;
  u.rates = std::move(rates);
  return u;
}

std::vector<token_amount> asked(const gateway::upstream& u, std::uint64_t input, std::uint64_t output, double ratio = 1,
                                std::uint64_t least = 0) {
  gateway::token_estimate e;
  e.input = input;
  e.output = output;
  return gateway::asked_amounts(u, nullptr, e, ratio, least);
}

}  // namespace

TEST_CASE("gateway: a request asks for each unit that is counted, within its burst", "[gateway][tokens]") {
  const auto all = upstream_with_rates({{.rate = rate::per_second(5), .burst = 20, .unit = "requests"},
                                        {.rate = rate::per_second(5), .burst = 1'000, .unit = "tokens"},
                                        {.rate = rate::per_minute(5), .burst = 2'000, .unit = "tokens"},
                                        {.rate = rate::per_second(5), .burst = 50, .unit = "input_tokens"},
                                        {.rate = rate::per_second(5), .burst = 300, .unit = "output_tokens"}});
  CHECK(asked(all, 40, 100) == amounts{{"requests", 1}, {"tokens", 140}, {"input_tokens", 40}, {"output_tokens", 100}});
  CHECK(asked(all, 40, 5'000) ==
        amounts{{"requests", 1}, {"tokens", 1'000}, {"input_tokens", 40}, {"output_tokens", 300}});
  CHECK(asked(all, 0, 0) == amounts{{"requests", 1}, {"tokens", 1}, {"input_tokens", 1}, {"output_tokens", 1}});
  CHECK(asked(all, 41, 100, 0.5) ==
        amounts{{"requests", 1}, {"tokens", 71}, {"input_tokens", 21}, {"output_tokens", 50}});
  // Usage of the past makes no estimate for a strict window smaller, but larger.
  const auto strict = upstream_with_rates({{.rate = rate::per_minute(5'000), .burst = 5'000, .unit = "tokens"},
                                           {.rate = rate::per_minute(5'000),
                                            .burst = 5'000,
                                            .unit = "input_tokens",
                                            .window = canigo::rate_window::strict}});
  CHECK(asked(strict, 41, 100, 0.5) == amounts{{"tokens", 71}, {"input_tokens", 41}});
  CHECK(asked(strict, 41, 100, 2) == amounts{{"tokens", 282}, {"input_tokens", 82}});
  // The tenant's own strict window counts, too.
  gateway::tenant_limit own;
  own.rates = {
      {.rate = rate::per_minute(5'000), .burst = 5'000, .unit = "tokens", .window = canigo::rate_window::strict}};
  gateway::token_estimate estimate;
  estimate.input = 41;
  estimate.output = 100;
  CHECK(gateway::asked_amounts(strict, &own, estimate, 0.5, 0) == amounts{{"tokens", 141}, {"input_tokens", 41}});
  gateway::token_estimate free;
  free.is_free = true;
  CHECK(gateway::asked_amounts(all, nullptr, free, 1, 0) ==
        amounts{{"requests", 1}, {"tokens", 0}, {"input_tokens", 0}, {"output_tokens", 0}});
  CHECK(gateway::asked_amounts(all, nullptr, free, 1, 90)[1].amount == 90);
  gateway::token_estimate embeddings;
  embeddings.input = 40;
  embeddings.has_output = false;
  CHECK(gateway::asked_amounts(all, nullptr, embeddings, 1, 0) ==
        amounts{{"requests", 1}, {"tokens", 40}, {"input_tokens", 40}, {"output_tokens", 0}});
  embeddings.input = 0;
  CHECK(gateway::asked_amounts(all, nullptr, embeddings, 1, 0) ==
        amounts{{"requests", 1}, {"tokens", 1}, {"input_tokens", 1}, {"output_tokens", 0}});
  // A client's word only raises.
  CHECK(asked(all, 40, 100, 1, 90)[1].amount == 140);
  CHECK(asked(all, 40, 100, 1, 900)[1].amount == 900);
  CHECK(asked(all, 40, 100, 0.1, 900)[1].amount == 900);
  CHECK(asked(all, 40, 100, 1, ~0ULL)[1].amount == 1'000);
  CHECK(asked(upstream_with_rates({}), 40, 100).empty());
  CHECK(asked(upstream_with_rates({{.rate = rate::per_second(5), .burst = 9, .unit = "tokens"}}), 4, 1) ==
        amounts{{"tokens", 5}});
}

TEST_CASE("gateway: what was used is settled by its unit", "[gateway][tokens]") {
  CHECK(gateway::used_amount("requests", {3, 4}, 1) == 1);
  CHECK(gateway::used_amount("tokens", {3, 4}, 1) == 7);
  CHECK(gateway::used_amount("input_tokens", {3, 4}, 1) == 3);
  CHECK(gateway::used_amount("output_tokens", {3, 4}, 1) == 4);
  // Some models of Bedrock burn the quota of all tokens faster by their output. The other quotas count tokens.
  CHECK(gateway::used_amount("tokens", {3, 4}, 5) == 23);
  CHECK(gateway::used_amount("input_tokens", {3, 4}, 5) == 3);
  CHECK(gateway::used_amount("output_tokens", {3, 4}, 5) == 4);
  CHECK(gateway::used_amount("requests", {3, 4}, 5) == 1);
}

TEST_CASE("gateway: the ratio of used to estimated is learned for each model", "[gateway][tokens]") {
  gateway::token_ratios ratios;
  CHECK(ratios.of("a") == 1);
  ratios.learn("a", 1'000, 600);
  CHECK(ratios.of("a") == Approx(0.95));
  CHECK(ratios.of("b") == 1);
  for (int i = 0; i < 100; ++i) ratios.learn("a", 1'000, 600);
  CHECK(ratios.of("a") == Approx(0.6).margin(0.001));
  ratios.learn("a", 0, 600);
  CHECK(ratios.of("a") == Approx(0.6).margin(0.001));
  for (int i = 0; i < 200; ++i) ratios.learn("a", 1'000, 0);
  CHECK(ratios.of("a") == Approx(0.1).margin(0.001));
  CHECK(ratios.of("a") >= 0.1);
  for (int i = 0; i < 200; ++i) ratios.learn("a", 1, ~0ULL);
  CHECK(ratios.of("a") == Approx(2).margin(0.001));
  CHECK(ratios.of("a") <= 2);
}

TEST_CASE("gateway: of many models the last ones are known", "[gateway][tokens]") {
  gateway::token_ratios ratios;
  const auto most = static_cast<int>(gateway::token_ratios::most_models);
  for (int i = 0; i < most; ++i) ratios.learn("m" + std::to_string(i), 1'000, 500);
  ratios.learn("m0", 1'000, 500);
  ratios.learn("new", 1'000, 500);
  CHECK(ratios.of("m0") < 1);
  CHECK(ratios.of("m1") == 1);
  CHECK(ratios.of("m2") < 1);
  CHECK(ratios.of("new") < 1);
}
