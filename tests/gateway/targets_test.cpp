// The targets of an upstream: what the configuration says of them, and which of them a call may go to.

#include "gateway/config/config_view.hpp"
#include "gateway/config/reader.hpp"
#include "gateway/config/restart.hpp"
#include "gateway/heads.hpp"
#include "gateway/policy/limit_names.hpp"
#include "gateway/policy/target_choice.hpp"
#include "gateway/policy/token_amounts.hpp"
#include "support/catch.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gateway = canigo::gateway;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view beginning =
    "[[listen]]\naddress = '127.0.0.1:0'\n[[upstream]]\nname = 'ai'\nprefix = '/ai'\n";

std::string target(std::string_view name, std::string_view more = "") {
  return "[[upstream.target]]\nname = '" + std::string{name} + "'\nurl = 'https://" + std::string{name} + "/base'\n" +
         std::string{more} + "\n";
}

gateway::read_result read(const std::string& more) { return gateway::parse_config(std::string{beginning} + more); }

gateway::upstream upstream_with(const std::string& more) {
  ::setenv("CANIGO_TARGETS_TEST", "Bearer secret", 1);
  const auto found = read(more);
  for (const auto& e : found.errors) UNSCOPED_INFO(gateway::message_of(e, "text"));
  REQUIRE(found.value);
  return found.value->upstreams.at(0);
}

/// That the text is refused with this one message.
void check_refused(const std::string& more, const std::string& message) {
  CAPTURE(more);
  const auto found = read(more);
  REQUIRE(found.errors.size() == 1);
  const auto text = gateway::message_of(found.errors[0], "f");
  CHECK(text.substr(text.find(": ") + 2) == message);
}

}  // namespace

TEST_CASE("gateway: each key of a target is read, and the others have its upstream's values", "[gateway][targets]") {
  const auto u =
      upstream_with("provider = 'openai'\nprivate = true\nsticky = 'header:X-Session'\n" + target("a") + target("b", R"(
provider = 'gemini'
credential = 'pass'
rates = [{ limit = '500/1m', burst = 20 }, { limit = '1000/1m', unit = 'tokens' }]
concurrency = 3
prefer = 2
private = false
models = ['gpt-x', 'small*']
path = { '/v1/chat' = '/c/{model}?v=1', '/v1/x' = '/y' }
)"));
  REQUIRE(u.targets.size() == 2);
  const gateway::target& a = u.targets[0];
  const gateway::target& b = u.targets[1];
  CHECK((a.name == "a" && a.url.host == "a" && a.url.path == "/base" && a.url.is_tls));
  CHECK((a.provider == "openai" && a.private_addresses && a.concurrency == 64 && a.prefer == 1));
  CHECK((a.rates.empty() && a.models.empty() && a.paths.empty()));
  CHECK((b.provider == "gemini" && !b.private_addresses && b.concurrency == 3 && b.prefer == 2));
  CHECK(b.quota_resets == gateway::quota_reset::pacific);
  REQUIRE(b.rates.size() == 2);
  CHECK((b.rates[0].burst == 20 && b.rates[1].burst == 1'000 && b.rates[1].unit == "tokens"));
  CHECK(b.models == std::vector<std::string>{"gpt-x", "small*"});
  REQUIRE(b.paths.size() == 2);
  CHECK((b.paths[0].from == "/v1/chat" && b.paths[0].to == "/c/{model}?v=1"));
  CHECK((u.sticky == gateway::sticky_options{gateway::sticky_options::kind::header, "X-Session"}));
  CHECK((u.url.host == "a" && u.concurrency == 67 && u.reads_model()));
  CHECK(upstream_with("concurrency = 5\n" + target("a")).concurrency == 5);
  CHECK_FALSE(upstream_with(target("a")).reads_model());
}

TEST_CASE("gateway: a target has substitutes for each of its models", "[gateway][targets]") {
  const auto u = upstream_with(target("a", "models = ['gpt-x', 'gpt-4*']") + target("b", "models = ['gpt-*']") +
                               target("c") + target("d", "models = ['gpt-4o', 'small']"));
  using sets = std::vector<gateway::target_set>;
  CHECK(gateway::substitutes(u, 0) == sets{0b0111, 0b0111});
  CHECK(gateway::substitutes(u, 1) == sets{0b0110});
  CHECK(gateway::substitutes(u, 2) == sets{0b0100});
  CHECK(gateway::substitutes(u, 3) == sets{0b1111, 0b1100});
}

TEST_CASE("gateway: a path with a model's name can't be called without one", "[gateway][targets]") {
  const auto u = upstream_with(target("a", "path = { '/chat' = '/of/{model}', '/x' = '/y' }") + target("b"));
  CHECK(gateway::callable_without_model(u, "/ai/chat") == 0b10);
  CHECK(gateway::callable_without_model(u, "/ai/chat?q") == 0b10);
  CHECK(gateway::callable_without_model(u, "/ai/x") == 0b11);
}

TEST_CASE("gateway: wrong targets are refused with field, value and range", "[gateway][targets]") {
  ::setenv("CANIGO_TARGETS_TEST", "Bearer secret", 1);
  ::setenv("CANIGO_TARGETS_REDIS", "redis://127.0.0.1", 1);
  check_refused("url = 'http://x'\n" + target("a"), "upstream[0].url is of no use: each of its targets has a url");
  check_refused(target("a") + target("a"), "upstream[0].target[1].name is \"a\"; allowed: each name once");
  check_refused(
      target("a", "models = ['m*x']"),
      "upstream[0].target[0].models[0] is \"m*x\"; allowed: 1 to 64 visible characters of ASCII, of which the "
      "last may be '*' for any rest");
  check_refused(target("a", "models = []"),
                "upstream[0].target[0].models names nothing; allowed: leave it out to serve all");
  check_refused(target("a", "path = { 'v1' = '/x' }"),
                "upstream[0].target[0].path is \"v1\"; allowed: a path such as \"/v1/chat/completions\", of visible "
                "ASCII without ? and #");
  for (const std::string path : {"/x#y", "/{modle}/x", "/{model}/}", "/{mo{model}del}", "/x y"})
    check_refused(target("a", "path = { '/v1' = '" + path + "' }"),
                  "upstream[0].target[0].path./v1 is \"" + path +
                      "\"; allowed: a path with a query if wanted, of visible ASCII without # and braces except in "
                      "{model}, such as \"/deployments/{model}/chat?api-version=1\"");
  check_refused(target("a", "prefer = 0"), "upstream[0].target[0].prefer is 0; allowed: 1 to 100");
  check_refused(target("a", "rates = [{ limit = '1/1s', unit = 'tokens' }]"),
                "upstream[0].target counts tokens, and upstream[0].tokens.api does not say how");
  check_refused(target("a") + target("b", "credential = { header = 'X-Key', value = 'env:CANIGO_TARGETS_TEST' }"),
                "upstream[0].target[1].credential differs; allowed: all targets of an upstream have a credential, or "
                "none has");
  const auto no_url = gateway::parse_config(std::string{beginning});
  REQUIRE(no_url.errors.size() == 1);
  CHECK(gateway::message_of(no_url.errors[0], "").ends_with("; or tables [[upstream.target]]"));
  check_refused("sticky = 'ip'\n" + target("a"),
                "upstream[0].sticky is \"ip\"; allowed: \"header:NAME\", "
                "\"cookie:NAME\" or \"prompt-prefix\"");
  const std::string sticky = "\"header:NAME\", \"cookie:NAME\" or \"prompt-prefix\"";
  check_refused("sticky = 'ip'\n" + target("a") + target("b"), "upstream[0].sticky is \"ip\"; allowed: " + sticky);
  check_refused("sticky = 'header:'\n" + target("a") + target("b"),
                "upstream[0].sticky is \"header:\"; allowed: " + sticky);
  check_refused("sticky = 'prompt-prefix'\n" + target("a"),
                "upstream[0].sticky is of no use: the upstream has no two targets");
  const std::string redis = "redis = 'env:CANIGO_TARGETS_REDIS'\n" + std::string{beginning} + "shared = true\n";
  const auto parsed = [&](const std::string& targets) {
    ::setenv("CANIGO_TARGETS_REDIS", "redis://127.0.0.1:1", 1);
    return gateway::parse_config(redis + targets);
  };
  CHECK(parsed(target("a", "rates = [{ limit = '1/1s' }]") + target("b")).errors.empty());
  const std::string strict = "rates = [{ limit = '1/1s', window = 'strict' }]";
  for (const auto& [more, why] : std::vector<std::pair<std::string, std::string>>{
           {strict, "has a strict window; allowed: \"average\" for a shared upstream, as Redis keeps no other"},
           {"rates = [{ limit = '1/1s', burst = 3_000_000_000 }]", "has a burst above 2147483648"}}) {
    const auto refused = parsed(target("a", more));
    REQUIRE(refused.errors.size() == 1);
    const std::string said = gateway::message_of(refused.errors[0], "");
    CHECK(said.find("upstream[0].target[0].rates " + why) != said.npos);
  }
}

TEST_CASE("gateway: a tenant's rates count units that a target counts", "[gateway][targets]") {
  const std::string two = "tokens = { api = 'openai' }\n" +
                          target("a", "rates = [{ limit = '100/1m', burst = 5, unit = 'tokens' }]") +
                          target("b", "rates = [{ limit = '100/1m', burst = 50, unit = 'tokens' }]");
  const auto with_tenant = [&](std::string_view rates) {
    return two + "[[tenant]]\nname = 't'\nkeys = []\nlimits.ai = { rates = [" + std::string{rates} + "] }\n";
  };
  check_refused(with_tenant("{ limit = '10/1s' }"),
                "tenant[0].limits.ai.rates[0] counts requests, which no rate of upstream \"ai\" does");
  check_refused(with_tenant("{ limit = '10/1s', burst = 51, unit = 'tokens' }"),
                "tenant[0].limits.ai.rates[0].burst is 51; allowed: up to 50, the burst of upstream \"ai\"");
  CHECK(read(with_tenant("{ limit = '10/1s', burst = 50, unit = 'tokens' }")).value);
  const auto u = upstream_with(two);
  // The largest burst of the targets that may serve a request bounds it.
  CHECK((gateway::most_amount(u, nullptr, "tokens") == 50 && gateway::most_amount(u, nullptr, "tokens", 1) == 5));
  CHECK(gateway::most_amount(u, nullptr, "requests") == canigo::unlimited);
  CHECK((gateway::counts(u, "tokens") && !gateway::counts(u, "requests")));
  const gateway::token_estimate e{.input = 30, .output = 10, .model = {}};
  CHECK(gateway::asked_amounts(u, nullptr, e, 1, 0) == std::vector<gateway::token_amount>{{"tokens", 40}});
  CHECK(gateway::asked_amounts(u, nullptr, e, 1, 0, 1) == std::vector<gateway::token_amount>{{"tokens", 5}});
}

TEST_CASE("gateway: a model is served by the targets that name it, and by those that name none", "[gateway][targets]") {
  const auto u = upstream_with(target("a", "models = ['gpt-x', 'small*']") + target("b") +
                               target("c", "models = ['*']") + target("d", "models = ['other']"));
  CHECK(gateway::targets_of(u) == 0b1111);
  CHECK(gateway::serving(u, "") == 0b1111);
  CHECK(gateway::serving(u, "gpt-x") == 0b0111);
  CHECK(gateway::serving(u, "gpt-xx") == 0b0110);
  CHECK(gateway::serving(u, "small") == 0b0111);
  CHECK(gateway::serving(u, "small-2") == 0b0111);
  CHECK(gateway::serving(upstream_with(target("a", "models = ['m']")), "n") == 0);
  gateway::upstream alone;
  CHECK((gateway::targets_of(alone) == 1 && gateway::serving(alone, "m") == 1));
}

TEST_CASE("gateway: a target's path takes the model in, and keeps the client's query", "[gateway][targets]") {
  const auto u = upstream_with(target("a", "path = { '/v1/chat' = '/d/{model}/{model}?v=1', '/v1/x' = '/y' }"));
  const auto at = [&](std::string_view path) { return gateway::target_at(u, u.targets[0], path, "m/1 é"); };
  CHECK(at("/ai/v1/chat") == "/base/d/m%2F1%20%C3%A9/m%2F1%20%C3%A9?v=1");
  CHECK(at("/ai/v1/chat?a=b") == "/base/d/m%2F1%20%C3%A9/m%2F1%20%C3%A9?v=1&a=b");
  CHECK(at("/ai/v1/x?a=b") == "/base/y?a=b");
  CHECK(at("/ai/v1/x?") == "/base/y");
  CHECK(at("/ai/v1/chats?") == "/base/v1/chats?");
  CHECK(at("/ai") == "/base/");
}

TEST_CASE("gateway: the settings for a target are its own, and else its upstream's", "[gateway][targets]") {
  const auto u = upstream_with("provider = 'openai'\ntimeout = { idle = '7s' }\n" +
                               target("a", "provider = 'gemini'\nconcurrency = 9\nprivate = true"));
  const gateway::upstream at = gateway::settings_at(u, u.targets[0]);
  CHECK((at.name == "ai" && at.url.host == "a" && at.provider == "gemini" && at.concurrency == 9));
  CHECK((at.private_addresses && at.timeout.idle == 7s && at.targets.empty()));
  CHECK((at.quota_resets == gateway::quota_reset::pacific && u.quota_resets != at.quota_resets));
}

TEST_CASE("gateway: calls of one key have one target, which is as likely as each other", "[gateway][targets]") {
  using kind = gateway::sticky_options::kind;
  const auto head = gateway_test::head_of("POST / HTTP/1.1\nX-S: 1\nCookie: a=2; sid=3\nCookie: late=4; empty=\n");
  const auto key = [&](kind by, std::string name, std::string_view body = "") {
    return gateway::sticky_key({by, std::move(name)}, head, body);
  };
  CHECK(key(kind::header, "x-s"));
  CHECK_FALSE(key(kind::header, "x-t"));
  CHECK((key(kind::cookie, "sid") && key(kind::cookie, "late") && key(kind::cookie, "a")));
  CHECK(key(kind::cookie, "sid") != key(kind::cookie, "late"));
  CHECK((!key(kind::cookie, "si") && !key(kind::cookie, "empty") && !key(kind::cookie, "SID")));
  CHECK_FALSE(key(kind::prompt_prefix, ""));
  const std::string prefix(1'024, 'x');
  CHECK(key(kind::prompt_prefix, "", prefix + "a") == key(kind::prompt_prefix, "", prefix + "b"));
  CHECK(key(kind::prompt_prefix, "", "a" + prefix) != key(kind::prompt_prefix, "", "b" + prefix));
  CHECK_FALSE(gateway::sticky_key({}, head, "x"));

  const auto u = upstream_with(target("a") + target("b") + target("c") + target("d", "prefer = 2"));
  std::vector<int> of(4);
  for (std::uint64_t k = 0; k < 3'000; ++k) {
    const auto all = gateway::target_of_key(u, 0b1111, k);
    REQUIRE(all);
    ++of[*all];
    // Without one of the targets, only its keys move.
    const auto without = gateway::target_of_key(u, 0b1111 & ~(1U << *all), k);
    const auto other = gateway::target_of_key(u, 0b1111 & ~(1U << (*all + 1) % 3), k);
    CHECK((without != all && other == all));
  }
  CHECK((std::min({of[0], of[1], of[2]}) > 850 && of[3] == 0));
  CHECK(gateway::target_of_key(u, 0b1000, 5) == std::size_t{3});
  CHECK_FALSE(gateway::target_of_key(u, 0, 5));
}

TEST_CASE("gateway: a waiter's limit is named with its target", "[gateway][targets]") {
  using cause = canigo::wait_reason::cause;
  const auto u = upstream_with(target("a", "rates = [{ limit = '1/1m' }, { limit = '9/1h' }]") + target("b"));
  const auto name = [&](cause ceiling, std::size_t index, std::size_t alternative) {
    return gateway::name_of(
        {.binds = cause::alternatives, .ceiling = ceiling, .index = index, .alternative = alternative}, u);
  };
  CHECK(name(cause::rate, 1, 0) == "requests/1h of a");
  CHECK(name(cause::concurrency, 0, 1) == "concurrency of b");
  CHECK(name(cause::paused, 0, 1) == "paused");
  CHECK(name(cause::none, 0, canigo::no_alternative) == "targets");
  CHECK(gateway::name_of({.binds = cause::concurrency}, u) == "concurrency");
}

TEST_CASE("gateway: the names, the number and the rates of targets need a restart", "[gateway][targets][restart]") {
  const auto before = read(target("a", "rates = [{ limit = '1/1m' }]") + target("b"));
  const auto check = [&](const std::string& more, std::vector<std::string> wanted) {
    CAPTURE(more);
    const auto next = read(more);
    REQUIRE(next.value);
    std::vector<std::string> found;
    for (const auto& e : gateway::changes_for_restart(*before.value, *next.value)) found.push_back(e.field);
    CHECK(found == wanted);
  };
  check(target("a", "rates = [{ limit = '2/1m', burst = 9 }]\nmodels = ['m']\nconcurrency = 1") + target("b"), {});
  check(target("a", "rates = [{ limit = '1/1m' }]"), {"upstream[0].target"});
  check(target("a", "rates = [{ limit = '1/1m' }]") + target("c", "prefer = 2"),
        {"upstream[0].target[1].name", "upstream[0].target[1].prefer"});
  check(target("a") + target("b"), {"upstream[0].target[0].rates"});
  check(target("a", "rates = [{ limit = '1/1m', window = 'strict' }]") + target("b"),
        {"upstream[0].target[0].rates[0].window"});
}

TEST_CASE("gateway: the page of the configuration shows each target without its secret", "[gateway][targets]") {
  ::setenv("CANIGO_TARGETS_TEST", "Bearer secret", 1);
  const auto found = read(target("a",
                                 "credential = { header = 'X-Key', value = 'env:CANIGO_TARGETS_TEST' }\n"
                                 "models = ['m']\npath = { '/x' = '/y' }"));
  REQUIRE(found.value);
  const auto shown = gateway::config_view(*found.value)["upstreams"][0];
  CHECK_FALSE(shown.contains("url"));
  const auto& a = shown["targets"][0];
  CHECK((a["name"] == "a" && a["url"] == "https://a/base" && a["credential"] == "X-Key from env:CANIGO_TARGETS_TEST"));
  CHECK((a["models"][0] == "m" && a["path"]["/x"] == "/y" && a["prefer"] == 1));
  CHECK(shown.dump().find("secret") == std::string::npos);
}

TEST_CASE("gateway: websockets to an upstream have an idle time and a rate of messages", "[gateway][websocket]") {
  const std::string url = "url = 'http://a'\n";
  CHECK_FALSE(upstream_with(url).websocket);
  const auto usual = upstream_with(url + "websocket = {}\n").websocket;
  REQUIRE(usual);
  CHECK((usual->idle == 10min && !usual->messages));
  const auto own = upstream_with(url + "websocket = { idle = '5s', messages = '60/1m' }\n").websocket;
  REQUIRE(own);
  CHECK((own->idle == 5s && own->messages == canigo::rate::per_minute(60)));
  check_refused(url + "websocket = { messages = 'many' }",
                "upstream[0].websocket.messages is \"many\"; allowed: N/PERIOD such as \"60/1m\"");
}
