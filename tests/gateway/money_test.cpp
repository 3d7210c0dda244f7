// Money: amounts, the file of prices, and what calls cost.

#include "gateway/config/money.hpp"

#include "gateway/config/config_view.hpp"
#include "gateway/config/price_list.hpp"
#include "gateway/config/reader.hpp"
#include "gateway/config/report.hpp"
#include "gateway/config/restart.hpp"
#include "gateway/config/table_view.hpp"
#include "gateway/policy/call_cost.hpp"
#include "support/catch.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gateway = canigo::gateway;
using gateway::micro_usd;
using gateway::parse_usd;

namespace {

const gateway::text_at source{"file:/prices.toml", {3, 10}, "prices"};

std::string temporary(const std::string& name) { return (std::filesystem::temp_directory_path() / name).string(); }

std::vector<std::string> mistakes_in(std::string_view text) {
  gateway::report problems;
  gateway::parse_prices(text, source, problems);
  std::vector<std::string> all;
  for (const auto& e : problems.take()) all.push_back(gateway::message_of(e, "g.toml"));
  return all;
}

gateway::price_list prices_of(std::string_view text) {
  gateway::report problems;
  auto prices = gateway::parse_prices(text, source, problems);
  for (const auto& e : problems.take()) UNSCOPED_INFO(e.text);
  CHECK(problems.is_empty());
  return prices;
}

}  // namespace

TEST_CASE("gateway: an amount of dollars is read exactly, and only within its bounds", "[gateway][money]") {
  const std::pair<std::string_view, micro_usd> good[] = {{"0", 0},
                                                         {"50", 50'000'000},
                                                         {"0.15", 150'000},
                                                         {"2.5", 2'500'000},
                                                         {"0.000001", 1},
                                                         {"1.234567", 1'234'567},
                                                         {"1000000000", 1'000'000'000'000'000}};
  for (const auto& [text, amount] : good) {
    CAPTURE(text);
    CHECK(parse_usd(text) == amount);
    CHECK(parse_usd(gateway::usd_text(amount)) == amount);
  }
  for (const std::string_view bad : {"", ".", "1.", ".5", "-1", "+1", "1e3", "0.0000001", "1000000000.000001", "1 ",
                                     " 1", "1,5", "$1", "99999999999", "nan"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_usd(bad));
  }
  CHECK(gateway::usd_text(0) == "0");
  CHECK(gateway::usd_text(100'000'000) == "100");
  CHECK(gateway::usd_text(1'500'000) == "1.5");
  CHECK(gateway::usd_text(1) == "0.000001");
}

TEST_CASE("gateway: a price may be a text or a number, and the first pattern that matches counts", "[gateway][money]") {
  const auto prices = prices_of(
      "[[price]]\nmatch = 'gpt-4o-mini*'\ninput = 0.15\ncached_input = '0.075'\noutput = 0.6\n"
      "[[price]]\nmatch = 'gpt-4o*'\ninput = 2.5\noutput = 10\nper_call = 0.000001\n"
      "[[price]]\nmatch = 'exact'\nper_call = '0.01'\n"
      "[[price]]\nmatch = '*'\noutput = 1e-05\n");
  REQUIRE(prices.all.size() == 4);
  CHECK(*prices.of("gpt-4o-mini-2024") == gateway::price{"gpt-4o-mini*", 150'000, 75'000, 600'000, 0});
  // Without a price of their own, cached tokens cost what others do.
  CHECK(*prices.of("gpt-4o") == gateway::price{"gpt-4o*", 2'500'000, 2'500'000, 10'000'000, 1});
  CHECK(prices.of("exact")->per_call == 10'000);
  CHECK(prices.of("exact-not")->output == 10);
  CHECK(prices.of("")->match == "*");
  CHECK(prices_of("[[price]]\nmatch = 'a*'\ninput = 1\n").of("b") == nullptr);
}

TEST_CASE("gateway: each mistake in a file of prices has its place, its field, its value and what is allowed",
          "[gateway][money]") {
  const std::string usd{gateway::usd_syntax};
  const std::pair<std::string_view, std::string> wrong[] = {
      {"[[price]]\nmatch = 'a'\ninput = -1\n", ":3:9: price[0].input is -1; allowed: " + usd},
      {"[[price]]\nmatch = 'a'\ninput = 0.0000001\n", ":3:9: price[0].input is 0.0000001; allowed: " + usd},
      {"[[price]]\nmatch = 'a'\noutput = 'x'\n", ":3:10: price[0].output is \"x\"; allowed: " + usd},
      {"[[price]]\nmatch = 'a'\nper_call = true\n", ":3:12: price[0].per_call is true; allowed: " + usd},
      {"[[price]]\nmatch = 'a*b'\ninput = 1\n",
       ":2:9: price[0].match is \"a*b\"; allowed: a model such as \"gpt-4o\", which may end in *, of 1 to 64 visible "
       "characters"},
      {"[[price]]\nmatch = 'a'\ninput = 1\n[[price]]\nmatch = 'a'\ninput = 2\n",
       ":5:9: price[1].match is \"a\"; allowed: each pattern once"},
      {"[[price]]\nmatch = 'a*'\ninput = 1\n[[price]]\nmatch = 'a-*'\ninput = 2\n",
       ":5:9: price[1].match is \"a-*\"; allowed: before \"a*\", which matches it, too"},
      {"[[price]]\nmatch = 'a'\n",
       ":1:1: price[0] has no price; allowed: input, output or per_call, and 0 for no cost"},
      {"[[price]]\nmatch = 'a'\ninput = 1\ncolour = 2\n",
       ":4:1: price[0].colour is unknown; allowed: match, input, cached_input, output, per_call"},
      {"# nothing\n", ":0:0: price is missing; allowed: a table below [[price]] for each model"}};
  for (const auto& [text, message] : wrong) {
    CAPTURE(text);
    const auto found = mistakes_in(text);
    REQUIRE(found.size() == 1);
    CHECK(found[0] == "g.toml:3:10: prices names a file with a mistake: /prices.toml" + message);
  }
  const auto no_toml = mistakes_in("[[price]\n");
  REQUIRE(no_toml.size() == 1);
  CHECK(no_toml[0].find("/prices.toml:1:") != std::string::npos);
}

TEST_CASE("gateway: a file of prices that can't be read is refused", "[gateway][money]") {
  const std::string path = temporary("canigo-prices-" + std::to_string(::getpid()));
  const auto mistake = [](const std::string& text) {
    gateway::report problems;
    CHECK_FALSE(gateway::read_prices({text, {1, 1}, "prices"}, problems));
    const auto all = problems.take();
    return all.empty() ? std::string{} : all[0].text;
  };
  CHECK(mistake("env:PRICES") == "prices is \"env:PRICES\"; allowed: file:/PATH");
  for (const std::string& text : {"file:" + path, std::string{"file:/"}, std::string{"file:/dev/zero"}})
    CHECK(mistake(text) == "prices is \"" + text + "\"; allowed: a file that can be read, up to 1MiB");
  std::ofstream{path} << "[[price]]\nmatch = '*'\ninput = 1\n";
  gateway::report problems;
  const auto prices = gateway::read_prices({"file:" + path, {1, 1}, "prices"}, problems);
  REQUIRE(prices);
  CHECK(prices->all.size() == 1);
  std::remove(path.c_str());
}

TEST_CASE("gateway: a call costs its tokens, its cached tokens apart, rounded up to a micro-dollar",
          "[gateway][money]") {
  const gateway::price p{"m", 2'500'000, 1'250'000, 10'000'000, 7};
  CHECK(gateway::cost_of(p, {1'000'000, 0}) == 2'500'007);
  CHECK(gateway::cost_of(p, {0, 3}) == 37);
  CHECK(gateway::cost_of(p, {1, 0}) == 3 + 7);                  // 2.5 is rounded up
  CHECK(gateway::cost_of(p, {100, 0, 40}) == 150 + 50 + 7);     // a part of the input, as OpenAI and Gemini tell
  CHECK(gateway::cost_of(p, {100, 0, 0, 40}) == 250 + 50 + 7);  // besides the input, as Anthropic tells
  CHECK(gateway::cost_of(p, {100, 0, 200}) == 125 + 7);         // no more than the input
  const gateway::price dear{"m", gateway::most_usd, gateway::most_usd, gateway::most_usd, gateway::most_usd};
  CHECK(gateway::cost_of(dear, {2'000'000'000, 2'000'000'000, 0, 2'000'000'000}) == gateway::most_usd);
}

TEST_CASE("gateway: a call is expected to cost at least its estimate", "[gateway][money]") {
  const gateway::price p{"m", 1'000'000, 1'000'000, 2'000'000, 5};
  gateway::token_estimate e;
  e.input = 100;
  e.output = 50;
  CHECK(gateway::expected_cost(p, e, 1) == 205);
  CHECK(gateway::expected_cost(p, e, 0.1) == 205);
  CHECK(gateway::expected_cost(p, e, 1.5) == 305);
  e.is_free = true;
  CHECK(gateway::expected_cost(p, e, 1.5) == 0);
}

namespace {

/// A configuration with these lines at its top, and these of an upstream.
gateway::read_result configured(const std::string& top, const std::string& more) {
  return gateway::parse_config(top + "\n[[listen]]\naddress = '127.0.0.1:0'\n[[upstream]]\nname = 'a'\n" +
                               "url = 'http://a'\nprefix = '/a'\n" + more);
}

/// A file of prices that is removed at the end.
struct price_file {
  std::string path = temporary("canigo-prices-of-budgets-" + std::to_string(::getpid()));
  std::string top = "prices = 'file:" + path + "'\nstate = '/var/state.db'";
  price_file() { std::ofstream{path} << "[[price]]\nmatch = '*'\ninput = 1\n"; }
  ~price_file() { std::remove(path.c_str()); }
};

}  // namespace

TEST_CASE("gateway: a budget has an amount, a window and a zone", "[gateway][money]") {
  const price_file prices;
  const auto found =
      configured(prices.top,
                 "provider = 'openai'\nbudget = { usd = '0.5/week', zone = 'Europe/Paris', at = 'warn' }\n"
                 "[[tenant]]\nname = 't'\nkeys = ['sha256:" +
                     std::string(64, 'a') + "']\nbudget = { usd = '2/hour' }");
  for (const auto& e : found.errors) UNSCOPED_INFO(e.text);
  REQUIRE(found.value);
  const gateway::upstream& u = found.value->upstreams.at(0);
  CHECK(u.budget ==
        gateway::budget_options{500'000, gateway::calendar_unit::week, "Europe/Paris", gateway::over_budget::warn});
  CHECK(found.value->tenants.at(0).budget == gateway::budget_options{2'000'000, gateway::calendar_unit::hour});
  CHECK(u.is_priced);
  CHECK(u.reads_model());
  CHECK(found.value->refuses_unpriced);
  const auto view = gateway::config_view(*found.value);
  CHECK(view["upstreams"][0]["budget"]["usd"] == "0.5/week");
  CHECK(view["tenants"][0]["budget"]["at"] == "refuse");
  CHECK(view["prices"] == "file:" + prices.path);
  CHECK(view["state"] == "/var/state.db");
}

TEST_CASE("gateway: a budget with a wrong part, or without prices or a state, is refused", "[gateway][money]") {
  const price_file prices;
  const auto check = [&](const std::string& top, const std::string& more, const std::vector<std::string>& wrong) {
    CAPTURE(top, more);
    std::vector<std::string> found;
    for (const auto& e : configured(top, more).errors) found.push_back(e.text);
    CHECK(found == wrong);
  };
  const std::string openai = "provider = 'openai'\n", fine = "budget = { usd = '1/day' }";
  const std::string amounts =
      "allowed: US dollars and a window such as \"50/day\": up to 1000000000, above 0, for an hour, a day, a week or a "
      "month";
  for (const std::string usd : {"", "1", "0/day", "1/days", "1/ day", "-1/day", "1/2d", "/day"})
    check(prices.top, openai + "budget = { usd = '" + usd + "' }",
          {"upstream[0].budget.usd is \"" + usd + "\"; " + amounts});
  check(prices.top, openai + "budget = { usd = 50 }", {"upstream[0].budget.usd is a whole number; allowed: a string"});
  check(prices.top, openai + "budget = {}", {"upstream[0].budget.usd is missing; " + amounts});
  check(
      prices.top, openai + "budget = { usd = '1/day', zone = 'Mars' }",
      {"upstream[0].budget.zone is \"Mars\"; allowed: a name of this system's time zones, such as \"Europe/Paris\" or "
       "\"UTC\""});
  check(prices.top, openai + "budget = { usd = '1/day', at = 'stop' }",
        {"upstream[0].budget.at is \"stop\"; allowed: refuse, queue, warn"});
  check(prices.top, fine,
        {"upstream[0].budget needs the tokens of calls, and upstream[0].tokens.api does not say how they count"});
  check("state = '/var/state.db'", openai + fine, {"upstream[0].budget needs prices, which are missing"});
  check("prices = 'file:" + prices.path + "'", openai + fine,
        {"upstream[0].budget needs state, which is missing: a file, or \"redis\", that keeps what is spent over a "
         "restart"});
  check("state = 'state.db'", "",
        {"state is \"state.db\"; allowed: the path of a file, such as \"/var/lib/canigo-gateway/state.db\", or "
         "\"redis\""});
  check("unpriced = 'free'", "", {"unpriced is of no use: there are no prices"});
}

TEST_CASE("gateway: another state needs a restart, and another budget does not", "[gateway][money]") {
  const price_file prices;
  const std::string openai = "provider = 'openai'\n";
  const auto now = configured(prices.top, openai + "budget = { usd = '1/day' }");
  const auto next = configured("prices = 'file:" + prices.path + "'\nstate = '/var/other.db'",
                               openai + "budget = { usd = '2/month', at = 'warn' }");
  REQUIRE(now.value);
  REQUIRE(next.value);
  const auto changes = gateway::changes_for_restart(*now.value, *next.value);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].field == "state");
}
