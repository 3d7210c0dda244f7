#include "gateway/config/places.hpp"
#include "gateway/config/quantities.hpp"
#include "gateway/config/reader_parts.hpp"
#include "gateway/config/secrets.hpp"
#include "gateway/wire/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <system_error>
#include <utility>

namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;

/// Whether the gateway itself writes this field into each request. A credential may not use such a field.
bool is_own_field(std::string_view name) noexcept {
  constexpr std::string_view own[] = {"Connection",        "Expect",  "Forwarded", "Host", "Keep-Alive", "TE",
                                      "Transfer-Encoding", "Trailer", "Upgrade",   "Via"};
  return std::ranges::any_of(own, [&](std::string_view o) { return same_text(o, name); }) ||
         starts_with_text(name, "Content-") || starts_with_text(name, "Proxy-") ||
         starts_with_text(name, "X-Canigo-") || starts_with_text(name, "X-Forwarded-");
}

void read_on_redis_failure(table_view& t, upstream& u) {
  const auto given = t.text("on_redis_failure");
  if (!given) return;
  using kind = redis_failure::kind;
  constexpr std::string_view local = "local:";
  if (given->text == "closed" || given->text == "open") {
    u.on_redis_failure = {given->text == "open" ? kind::open : kind::closed, 1};
    return;
  }
  if (given->text.starts_with(local)) {
    if (const auto share = parse_share(std::string_view{given->text}.substr(local.size()))) {
      u.on_redis_failure = {kind::local, *share};
      return;
    }
  }
  t.problems().refuse_text(given->where, given->field, given->text,
                           "closed, open, or local:SHARE with a share above 0 and up to 1");
}

std::optional<hedge_delay> parse_hedge_delay(std::string_view text) {
  if (const auto time = parse_duration(text)) {
    if (*time < 1ms || *time > 1h) return std::nullopt;
    return hedge_delay{*time};
  }
  if (!text.starts_with('p')) return std::nullopt;
  int percentile = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), percentile);
  if (error != std::errc{} || end != text.data() + text.size() || percentile < 1 || percentile > 99) {
    return std::nullopt;
  }
  return hedge_delay{quantile{percentile / 100.0}};
}

void read_hedge(table_view& t, upstream& u) {
  auto given = t.table("hedge");
  if (!given) return;
  constexpr std::string_view allowed = "p1 to p99 such as \"p95\", or 1ms to 1h such as \"200ms\"";
  if (const auto after = given->needed("after", allowed)) {
    u.hedge_after = parse_hedge_delay(after->text);
    if (!u.hedge_after) t.problems().refuse_text(after->where, after->field, after->text, allowed);
  }
  given->finish();
}

void read_keep_alive(table_view& t, upstream& u) {
  auto given = t.table("keep_alive");
  if (!given) return;
  keep_alive_options& times = u.keep_alive.emplace();
  given->time("after", times.after, 100ms, 1h);
  given->time("every", times.every, 100ms, 1h);
  given->finish();
}

void read_websocket(table_view& t, upstream& u) {
  auto given = t.table("websocket");
  if (!given) return;
  websocket_options& w = u.websocket.emplace();
  given->time("idle", w.idle, 1ms, 24h * 7);
  if (const auto text = given->text("messages")) {
    try {
      w.messages = rate::parse(text->text);
    } catch (const std::system_error&) {
      given->problems().refuse_text(text->where, text->field, text->text, "N/PERIOD such as \"60/1m\"");
    }
  }
  given->finish();
}

/// Reports an error for each rate whose unit can't be counted: "tokens" need `tokens.api`, and "usd" needs prices.
void check_units(table_view& t, const upstream& u, const config& c) {
  const auto check = [&](const std::vector<rate_limit>& rates, std::string_view where) {
    for (const rate_limit& r : rates) {
      if (r.unit != "requests" && u.tokens.api == token_api::none) {
        t.problems().complain(t.where(where), t.field(where),
                              fmt::format("counts {}, and {} does not say how", r.unit, t.field("tokens.api")));
      } else if (r.unit == "usd" && c.prices_source.empty()) {
        t.problems().complain(t.where(where), t.field(where), "counts usd, and needs prices, which are missing");
      }
    }
  };
  check(u.rates, "rates");
  for (const target& to : u.targets) check(to.rates, "target");
  for (const model_limit& m : u.models) check(m.rates, "model");
}

void read_max_wait(table_view& t, const config& c, upstream& u) {
  constexpr duration usual = 2min;  // the max wait of a class that the table max_wait does not name
  u.max_wait.assign(c.classes.size(), usual);
  auto given = t.table("max_wait");
  if (!given) return;
  for (std::size_t i = 0; i < c.classes.size(); ++i) given->time(c.classes[i], u.max_wait[i], 0ms, 24h * 7);
  given->finish();
}

upstream read_upstream(table_view& t, const config& c) {
  upstream u;
  if (const auto name = t.needed("name", name_syntax)) {
    if (!is_plain_name(name->text)) t.problems().refuse_text(name->where, name->field, name->text, name_syntax);
    u.name = name->text;
  }
  if (t.has("target")) {
    if (t.text("url"))
      t.problems().complain(t.where("url"), t.field("url"), "is of no use: each of its targets has a url");
  } else if (!t.has("url")) {
    t.problems().complain(t.where(), t.field("url"),
                          fmt::format("is missing; allowed: {}; or tables [[upstream.target]]", origin_syntax));
  } else {
    read_url(t, u.url);
  }
  if (const auto prefix = t.needed("prefix", prefix_syntax)) {
    if (auto p = parse_prefix(prefix->text)) {
      u.prefix = std::move(*p);
    } else {
      t.problems().refuse_text(prefix->where, prefix->field, prefix->text, prefix_syntax);
    }
  }
  read_credential(t, u.credential);
  read_presets(t, u);
  read_settings(t, u);
  read_queue(t, c, u);
  t.flag("shared", u.shared);
  // Redis does not keep strict windows. So the rates of a shared upstream ignore the upstream's `window`, and are
  // averages.
  u.rates = read_rates(t, rate_units, u.shared ? rate_window::average : u.window);
  if (u.shared && c.redis.source.empty())
    t.problems().complain(t.where("shared"), t.field("shared"), "is true; allowed: false unless there is a redis");
  read_on_redis_failure(t, u);
  check_shared_rates(t, u, u.rates);
  if (u.shared && t.is_text("window", "strict"))
    t.problems().complain(t.where("window"), t.field("window"),
                          "is \"strict\"; allowed: \"average\" for a shared upstream, as Redis keeps no other");
  read_hedge(t, u);
  read_keep_alive(t, u);
  t.flag("forwarded", u.forwarded);
  t.flag("private", u.private_addresses);
  read_targets(t, c, u);
  read_model_limits(t, u);
  read_sticky(t, u);
  read_websocket(t, u);
  read_budget(t, c, u.budget);
  // If an upstream is shared, one limit in Redis has the rates of the upstream and of all its targets. Such a limit can
  // have at most this many rates.
  constexpr std::size_t most_rates = 127;
  std::size_t rates = u.rates.size();
  for (const target& to : u.targets) rates += to.rates.size();
  if (u.shared && rates == 0 && u.on_redis_failure.what != redis_failure::kind::closed)
    t.problems().complain(t.where("on_redis_failure"), t.field("on_redis_failure"),
                          "says what becomes of shared rates, and there are none; allowed: \"closed\"");
  if (u.shared && rates > most_rates)
    t.problems().complain(t.where("shared"), t.field("shared"),
                          fmt::format("is true, with {} rates in all; allowed: {} at most", rates, most_rates));
  t.finish();
  check_units(t, u, c);
  check_priced(t, u, c);
  return u;
}

}  // namespace

void check_shared_rates(table_view& t, const upstream& u, const std::vector<rate_limit>& rates) {
  // The scripts in Redis calculate with floating-point numbers, and are inexact for larger bursts.
  constexpr std::uint64_t most_burst = std::uint64_t{1} << 31;
  if (u.shared && std::ranges::any_of(rates, [](const rate_limit& r) { return r.burst > most_burst; }))
    t.problems().complain(t.where("rates"), t.field("rates"),
                          fmt::format("has a burst above {}, which is the most of a shared upstream", most_burst));
  if (u.shared && std::ranges::find(rates, rate_window::strict, &rate_limit::window) != rates.end())
    t.problems().complain(t.where("rates"), t.field("rates"),
                          "has a strict window; allowed: \"average\" for a shared upstream, as Redis keeps no other");
}

void read_credential(table_view& t, credential& c) {
  if (t.is_text("credential")) {
    bool is_passed = false;
    t.word("credential", is_passed, {{"pass", true}});
    if (is_passed) c = {};
    return;
  }
  auto given = t.table("credential");
  if (!given) return;
  if (const auto name = given->needed("header", "a field's name such as \"Authorization\"")) {
    if (is_token(name->text) && !is_own_field(name->text)) {
      c.header = name->text;
    } else {
      given->problems().refuse_text(name->where, name->field, name->text,
                                    "a field's name that the gateway does not set");
    }
  }
  if (const auto source = given->needed("value", "env:NAME or file:/PATH")) {
    if (auto value = read_secret(*source, given->problems())) {
      value->value = trim(value->value);
      if (value->value.empty() || !is_field_value(value->value))
        given->problems().complain(source->where, source->field, "holds a line break or another control character");
      c.value = std::move(*value);
    }
  }
  given->finish();
}

void read_url(table_view& t, origin& to) {
  if (const auto url = t.needed("url", origin_syntax)) {
    if (auto o = parse_origin(url->text)) {
      to = std::move(*o);
      // The error message does not show the URL, because the URL may contain a password before the '@'.
    } else if (url->text.find('@') != std::string::npos) {
      t.problems().complain(url->where, url->field, fmt::format("has an '@'; allowed: {}", origin_syntax));
    } else {
      t.problems().refuse_text(url->where, url->field, url->text, origin_syntax);
    }
  }
}

void read_queue(table_view& t, const config& c, upstream& u) {
  t.integer("concurrency", u.concurrency, 1, 1'000'000);
  t.integer("queue", u.queue, 1, 10'000'000);
  t.word("overflow", u.on_overflow,
         {{"reject_new", overflow::reject_new},
          {"evict_oldest", overflow::evict_oldest},
          {"evict_least_important", overflow::evict_least_important}});
  read_max_wait(t, c, u);
}

void read_timeouts(table_view& t, upstream& u) {
  auto given = t.table("timeout");
  if (!given) return;
  given->time("connect", u.timeout.connect, 1ms, 1h);
  given->time("first_byte", u.timeout.first_byte, 1ms, 24h);
  given->time("idle", u.timeout.idle, 1ms, 24h);
  given->time("total", u.timeout.total, 1ms, 24h * 7);
  // A preset or a default may be longer than a `total` that the user has given. Then `total` ends the call.
  if (given->has("first_byte") && given->has("total") && u.timeout.first_byte > u.timeout.total)
    given->problems().refuse_text(given->where("first_byte"), given->field("first_byte"),
                                  to_string(u.timeout.first_byte), "at most total, " + to_string(u.timeout.total));
  given->finish();
}

void read_retry(table_view& t, upstream& u) {
  auto given = t.table("retry");
  if (!given) return;
  given->integer("attempts", u.retry.attempts, 1, 10);
  given->percent("budget", u.retry.budget, 0, 100);
  given->size("body", u.retry.body, 0, 64 << 20);
  given->finish();
}

void read_breaker(table_view& t, upstream& u) {
  auto given = t.table("breaker");
  if (!given) return;
  given->percent("failures", u.breaker.failures, 1, 100);
  given->integer("of", u.breaker.of, 1, 1'000'000);
  given->time("within", u.breaker.within, 1ms, 24h);
  given->time("open", u.breaker.open, 1ms, 24h);
  given->time("most", u.breaker.most, 1ms, 24h);
  if (u.breaker.most < u.breaker.open)
    given->problems().complain(given->where("most"), given->field("most"),
                               fmt::format("is {}; allowed: {} or more, which is how long it is open first",
                                           to_string(u.breaker.most), to_string(u.breaker.open)));
  given->finish();
}

void read_upstreams(table_view& t, config& c) {
  for (table_view& given : t.tables("upstream", 256)) {
    upstream u = read_upstream(given, c);
    for (const upstream& other : c.upstreams) {
      if (!u.name.empty() && other.name == u.name)
        given.problems().refuse_text(given.where("name"), given.field("name"), u.name, "each name once");
      if (!u.prefix.empty() && other.prefix == u.prefix)
        given.problems().refuse_text(given.where("prefix"), given.field("prefix"), u.prefix, "each prefix once");
    }
    c.upstreams.push_back(std::move(u));
  }
}

}  // namespace canigo::gateway
