#include "gateway/config/reader_parts.hpp"

#include "gateway/config/places.hpp"
#include "gateway/config/secrets.hpp"
#include "gateway/config/units.hpp"
#include "gateway/wire/host_name.hpp"
#include "gateway/wire/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace canigo::gateway {
namespace {

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

std::string shown(const listen_address& a) {
  return a.is_unix() ? "unix:" + a.path : fmt::format("{}:{}", a.host, a.port);
}

bool is_same_place(const listen_address& a, const listen_address& b) noexcept {
  if (a.is_unix() || b.is_unix()) return a.path == b.path;
  return a.host == b.host && a.port == b.port && a.port != 0;
}

std::optional<listen_address> read_listen_address(table_view& t, std::string_view key) {
  const auto given = t.needed(key, listen_syntax);
  if (!given) return std::nullopt;
  auto address = parse_listen_address(given->text);
  if (!address) t.problems().refuse_text(given->where, given->field, given->text, listen_syntax);
  return address;
}

constexpr std::string_view usd_rate_syntax = "US dollars and a period such as \"0.50/1m\"";

/// Reads a rate in US dollars, such as "0.50/1m". Returns nothing for a text without this form. Throws what
/// rate::parse() throws.
std::optional<rate> parse_usd_rate(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == text.npos) return std::nullopt;
  const auto amount = parse_usd(text.substr(0, slash));
  if (!amount || *amount == 0) return std::nullopt;
  return rate::parse(std::to_string(*amount) + std::string{text.substr(slash)});
}

void read_usd_burst(table_view& t, std::int64_t& burst, std::int64_t most) {
  micro_usd given = static_cast<micro_usd>(burst);
  t.usd("burst", given);
  if (given < 1 || given > static_cast<micro_usd>(most)) {
    t.problems().refuse(t.where("burst"), t.field("burst"), usd_text(given),
                        fmt::format("0.000001 to {} US dollars", usd_text(static_cast<micro_usd>(most))));
  } else {
    burst = static_cast<std::int64_t>(given);
  }
}

std::optional<tls_files> read_tls(table_view& t) {
  auto given = t.table("tls");
  if (!given) return std::nullopt;
  tls_files files;
  for (const char* key : {"cert", "key"})
    if (!given->has(key))
      given->problems().complain(given->where(), given->field(key), "is missing; allowed: /PATH of a file in PEM");
  read_file_name(*given, "cert", files.cert);
  read_file_name(*given, "key", files.key);
  read_file_name(*given, "client_ca", files.client_ca);
  given->finish();
  return files;
}

void read_anonymous(table_view& t, listener& l) {
  const auto given = t.text("anonymous");
  if (!given) {
    if (!t.has("anonymous") && l.address.is_local()) l.anonymous = "local";
  } else if (given->text.empty() || (is_plain_name(given->text) && l.address.is_local())) {
    l.anonymous = given->text;
  } else if (!is_plain_name(given->text)) {
    t.problems().refuse_text(given->where, given->field, given->text, "a tenant's name, or \"\" for none");
  } else {
    t.problems().refuse_text(given->where, given->field, given->text,
                             "\"\", as others than this machine reach " + shown(l.address));
  }
}

}  // namespace

void read_file_name(table_view& t, std::string_view key, std::string& out) {
  const auto given = t.text(key);
  if (!given) return;
  if (is_readable_file(given->text)) {
    out = given->text;
  } else {
    t.problems().refuse_text(given->where, given->field, given->text, "/PATH of a file that can be read");
  }
}

bool is_plain_name(std::string_view text) noexcept {
  constexpr std::size_t longest = 64;
  return !text.empty() && text.size() <= longest && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.';
  });
}

std::optional<int> read_class(table_view& t, std::string_view key, const std::vector<std::string>& classes) {
  const auto given = t.text(key);
  if (!given) return std::nullopt;
  const auto found = std::ranges::find(classes, given->text);
  if (found != classes.end()) return static_cast<int>(found - classes.begin());
  t.problems().refuse_text(given->where, given->field, given->text, listed(classes));
  return std::nullopt;
}

void read_window(table_view& t, rate_window& window) {
  t.word("window", window, {{"average", rate_window::average}, {"strict", rate_window::strict}});
}

std::vector<rate_limit> read_rates(table_view& t, const std::vector<std::string>& units,
                                   std::optional<rate_window> usual, const upstream* within) {
  const bool is_of_hosts = !usual;
  constexpr std::size_t most_rates = 16;
  constexpr std::int64_t most_burst = std::int64_t{1} << 62;
  std::vector<rate_limit> rates;
  for (table_view& given : t.tables("rates", most_rates)) {
    std::optional<rate> limit;
    const bool is_usd = !is_of_hosts && given.is_text("unit", "usd");
    if (const auto text = given.needed("limit", is_usd ? usd_rate_syntax : "N/PERIOD such as \"500/1m\"")) {
      try {
        limit = is_usd ? parse_usd_rate(text->text) : rate::parse(text->text);
        if (!limit) given.problems().refuse_text(text->where, text->field, text->text, usd_rate_syntax);
      } catch (const std::system_error& e) {
        // The exception's text is "rate is ...; allowed: ...: invalid argument". The message needs only the part from
        // "is" to the last colon.
        std::string_view what = e.what();
        what = what.substr(std::min(what.find("is "), what.size()));
        given.problems().complain(text->where, text->field, what.substr(0, what.rfind(": ")));
      }
    }
    std::string unit = "requests";
    if (is_of_hosts) {
      bool ignored = false;
      given.word("per", ignored, {{"host", true}});
    } else if (const auto text = given.text("unit")) {
      if (std::ranges::find(units, text->text) == units.end()) {
        given.problems().refuse_text(text->where, text->field, text->text, listed(units));
      } else {
        unit = text->text;
      }
    }
    rate_window window = usual.value_or(rate_window::average);
    // The limit of a host is deleted while no call uses it. A strict window would then lose its history, so the rates
    // of hosts can't choose a window.
    if (!is_of_hosts) read_window(given, window);
    const bool is_strict = limit && window == rate_window::strict;
    // The default burst for the unit "requests" is 1. For another unit it is a fifth of the limit, because one request
    // takes many units. In a strict window the default burst is the limit, because a call whose estimate exceeds the
    // burst is charged only the burst.
    std::int64_t burst = 1;
    if (limit && unit != "requests") burst = std::max<std::int64_t>(limit->tokens() / (is_strict ? 1 : 5), 1);
    if (is_strict && within != nullptr && counts(*within, unit))
      burst = static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(burst), most_of(*within, unit)));
    // A strict window never holds more tokens than its limit. So a configured `burst` above the limit is a mistake.
    const std::int64_t longest = is_strict ? limit->tokens() : most_burst;
    if (is_usd) {
      read_usd_burst(given, burst, longest);
    } else {
      given.integer("burst", burst, 1, longest);
    }
    given.finish();
    if (!limit) continue;
    rates.push_back(
        {.rate = *limit, .burst = static_cast<std::uint64_t>(burst), .unit = std::move(unit), .window = window});
  }
  return rates;
}

std::vector<listener_place> read_listeners(table_view& t, config& c) {
  std::vector<listener_place> places;
  for (table_view& given : t.tables("listen", 64)) {
    listener l;
    const auto address = read_listen_address(given, "address");
    if (address) {
      l.address = *address;
      for (const listener& other : c.listeners)
        if (is_same_place(other.address, *address))
          given.problems().refuse_text(given.where("address"), given.field("address"), shown(*address),
                                       "each address once");
      if (c.admin && is_same_place(c.admin->listen, *address))
        given.problems().refuse_text(given.where("address"), given.field("address"), shown(*address),
                                     "another address than admin.listen");
    }
    l.tls = read_tls(given);
    given.flag("reuse_port", l.reuse_port);
    if (const auto name = given.text("systemd")) {
      if (is_plain_name(name->text)) {
        l.systemd = name->text;
      } else {
        given.problems().refuse_text(name->where, name->field, name->text, name_syntax);
      }
    }
    if (l.reuse_port && (l.address.is_unix() || !l.systemd.empty()))
      given.problems().complain(given.where("reuse_port"), given.field("reuse_port"),
                                "is true; allowed: false for a unix socket and for one of systemd");
    given.word("mode", l.mode,
               {{"reverse", listen_mode::reverse}, {"forward", listen_mode::forward}, {"both", listen_mode::both}});
    // Anonymous clients need a local listener. Only a valid address shows whether the listener is local.
    if (address) {
      read_anonymous(given, l);
    } else {
      given.text("anonymous");
    }
    given.finish();
    const bool has_anonymous = !given.has("anonymous") || !l.anonymous.empty() || given.is_text("anonymous", "");
    places.push_back({given.where(), given.field(), address.has_value() && has_anonymous});
    c.listeners.push_back(std::move(l));
  }
  return places;
}

void read_admin(table_view& t, config& c) {
  auto given = t.table("admin");
  if (!given) return;
  admin_options admin;
  if (auto address = read_listen_address(*given, "listen")) admin.listen = std::move(*address);
  if (const auto source = given->needed("token", "env:NAME or file:/PATH")) {
    if (auto token = read_secret(*source, given->problems())) {
      if (!std::ranges::all_of(token->value, [](char ch) { return ch > 0x20 && ch < 0x7f; }))
        given->problems().complain(source->where, source->field, "holds something else than visible ASCII");
      // A short token is refused, because an attacker could guess it.
      constexpr std::size_t least = 16, most = 256;
      if (token->value.size() < least || token->value.size() > most)
        given->problems().complain(source->where, source->field,
                                   fmt::format("holds {} bytes; allowed: {} to {}", token->value.size(), least, most));
      admin.token = std::move(*token);
    }
  }
  if (const auto hosts = given->texts("hosts")) {
    admin.hosts.clear();
    for (const text_at& host : *hosts) {
      if (const auto name = parse_host(host.text)) {
        admin.hosts.push_back(name->text);
      } else {
        given->problems().refuse_text(host.where, host.field, host.text, "a host's name or address without a port");
      }
    }
  }
  given->finish();
  c.admin = std::move(admin);
}

}  // namespace canigo::gateway
