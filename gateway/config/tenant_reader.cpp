#include "gateway/config/reader_parts.hpp"
#include "gateway/config/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <utility>

namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view key_syntax = "\"sha256:\" and 64 hexadecimal digits, of the key's SHA-256";

std::optional<int> hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::optional<key_digest> parse_key(std::string_view text) noexcept {
  constexpr std::string_view kind = "sha256:";
  key_digest digest{};
  if (!text.starts_with(kind)) return std::nullopt;
  text.remove_prefix(kind.size());
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const auto high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
    if (!high || !low) return std::nullopt;
    digest[i] = static_cast<std::uint8_t>(*high * 16 + *low);
  }
  return digest;
}

/// The values that identify the tenants read so far. Two tenants may not have the same value, because a client with
/// this value could then belong to either tenant.
struct taken {
  std::set<std::string> names;
  std::set<key_digest> keys;
  std::set<std::string> subjects;
  std::set<std::uint32_t> uids;
};

void read_keys(table_view& t, tenant& n, taken& others) {
  const auto keys = t.texts("keys");
  if (!keys) return;
  for (const text_at& key : *keys) {
    const auto digest = parse_key(key.text);
    if (!digest) {
      // The message does not show the text, because the text may be the key itself.
      t.problems().complain(key.where, key.field, fmt::format("is not shown here; allowed: {}", key_syntax));
    } else if (!others.keys.insert(*digest).second) {
      t.problems().refuse_text(key.where, key.field, key.text, "each key once");
    } else {
      n.keys.push_back(*digest);
    }
  }
}

void read_credentials(table_view& t, const config& c, tenant& n, taken& others) {
  read_keys(t, n, others);
  const auto complain = [&](std::string_view key, std::string_view why) {
    t.problems().complain(t.where(key), t.field(key), why);
  };
  if (const auto subject = t.text("subject")) {
    n.subject = subject->text;
    if (n.subject.empty()) complain("subject", "is empty; allowed: the subject or a name of a certificate");
    if (!n.subject.empty() && !others.subjects.insert(n.subject).second)
      t.problems().refuse_text(subject->where, subject->field, n.subject, "each subject once");
    if (std::ranges::none_of(c.listeners, [](const listener& l) { return l.tls && !l.tls->client_ca.empty(); }))
      complain("subject", "is of no use: no listener has tls.client_ca");
  }
  if (t.has("uid")) {
    std::optional<std::uint32_t> uid;
    std::int64_t number = -1;
    t.integer("uid", number, 0, 4'294'967'294);  // 4'294'967'295, which is -1 as a uid, means "no user"
    if (number >= 0) uid = static_cast<std::uint32_t>(number);
    if (uid && !others.uids.insert(*uid).second)
      t.problems().refuse(t.where("uid"), t.field("uid"), fmt::format("{}", *uid), "each uid once");
    if (std::ranges::none_of(c.listeners, [](const listener& l) { return l.address.is_unix(); }))
      complain("uid", "is of no use: no listener is a unix socket");
    n.uid = uid;
  }
}

void read_classes(table_view& t, const config& c, bool is_anonymous, tenant& n) {
  const int last = static_cast<int>(c.classes.size()) - 1;
  n.default_class = read_class(t, "class", c.classes).value_or(last);
  const auto best = read_class(t, "best", c.classes);
  n.best_class = best.value_or(is_anonymous ? 0 : n.default_class);
  if (n.best_class > n.default_class)
    t.problems().refuse_text(
        t.where("best"), t.field("best"), c.classes[static_cast<std::size_t>(n.best_class)],
        "its class \"" + c.classes[static_cast<std::size_t>(n.default_class)] + "\", or one more important");
}

/// Checks each rate of a tenant: the upstream must have a rate with the same unit, and the tenant's burst must not
/// exceed the upstream's burst.
void check_rates(table_view& t, const upstream& u, std::vector<rate_limit>& rates) {
  for (std::size_t i = 0; i < rates.size(); ++i) {
    rate_limit& own = rates[i];
    const std::uint64_t most = most_of(u, own.unit);
    const std::string field = fmt::format("{}[{}]", t.field("rates"), i);
    if (!counts(u, own.unit)) {
      t.problems().complain(t.where("rates"), field,
                            fmt::format("counts {}, which no rate of upstream \"{}\" does", own.unit, u.name));
    } else if (own.burst > most) {
      t.problems().complain(
          t.where("rates"), field + ".burst",
          fmt::format("is {}; allowed: up to {}, the burst of upstream \"{}\"", own.burst, most, u.name));
    }
  }
}

void read_limits(table_view& t, const config& c, tenant& n) {
  auto given = t.table("limits");
  if (!given) return;
  for (const upstream& u : c.upstreams) {
    auto one = given->table(u.name);
    if (!one) continue;
    tenant_limit limit;
    limit.rates = read_rates(*one, rate_units, rate_window::average, &u);
    check_rates(*one, u, limit.rates);
    one->integer("concurrency", limit.concurrency, 1, 1'000'000);
    one->finish();
    n.limits.emplace(u.name, std::move(limit));
  }
  given->finish();
}

bool can_be_used(const listener& l, const std::vector<tenant>& tenants) {
  return !l.anonymous.empty() || std::ranges::any_of(tenants, [&](const tenant& n) {
    return (!n.subject.empty() && l.tls && !l.tls->client_ca.empty()) || (n.uid && l.address.is_unix());
  });
}

}  // namespace

void read_tenants(table_view& t, config& c, const std::vector<listener_place>& listeners) {
  taken others;
  const auto is_anonymous = [&](const std::string& name) {
    return !name.empty() && std::ranges::find(c.listeners, name, &listener::anonymous) != c.listeners.end();
  };
  bool has_keys = false;
  for (table_view& given : t.tables("tenant", 10'000)) {
    tenant n;
    if (const auto name = given.needed("name", name_syntax)) {
      n.name = name->text;
      if (!is_plain_name(n.name)) given.problems().refuse_text(name->where, name->field, n.name, name_syntax);
      if (!others.names.insert(n.name).second)
        given.problems().refuse_text(name->where, name->field, n.name, "each name once");
    }
    read_credentials(given, c, n, others);
    has_keys = has_keys || given.has("keys");
    if (!given.has("keys") && !given.has("subject") && !given.has("uid") && !is_anonymous(n.name))
      given.problems().complain(given.where(), given.field(),
                                "can be nobody; allowed: keys, subject or uid, or a listener that names it");
    read_classes(given, c, is_anonymous(n.name), n);
    given.integer("weight", n.weight, 1, 10'000);
    given.time("max_wait", n.max_wait, 0ms, 24h * 7);
    read_limits(given, c, n);
    read_budget(given, c, n.budget);
    given.finish();
    c.tenants.push_back(std::move(n));
  }
  for (std::size_t i = 0; i < c.listeners.size(); ++i) {
    const listener& l = c.listeners[i];
    if (!l.anonymous.empty() && others.names.insert(l.anonymous).second) {
      tenant n;
      n.name = l.anonymous;
      n.default_class = static_cast<int>(c.classes.size()) - 1;
      c.tenants.push_back(std::move(n));
    }
    if (listeners[i].is_known && !has_keys && !can_be_used(l, c.tenants))
      t.problems().complain(listeners[i].where, listeners[i].field,
                            "can be used by nobody; allowed: anonymous, or a tenant with keys");
  }
}

}  // namespace canigo::gateway
