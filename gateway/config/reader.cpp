#include "gateway/config/reader.hpp"

#include "gateway/config/file_kind.hpp"
#include "gateway/config/file_values.hpp"
#include "gateway/config/reader_parts.hpp"
#include "gateway/config/secrets.hpp"
#include "gateway/wire/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30;
constexpr std::size_t most_classes = 64;

void read_classes(table_view& t, config& c) {
  const auto given = t.texts("classes");
  if (!given) return;
  std::vector<std::string> classes;
  for (const text_at& name : *given) {
    if (!is_plain_name(name.text)) {
      t.problems().refuse_text(name.where, name.field, name.text, name_syntax);
    } else if (std::ranges::find(classes, name.text) != classes.end()) {
      t.problems().refuse_text(name.where, name.field, name.text, "each name once");
    } else {
      classes.push_back(name.text);
    }
  }
  if (given->empty() || given->size() > most_classes) {
    t.problems().complain(t.where("classes"), "classes",
                          fmt::format("has {} names; allowed: 1 to {}", given->size(), most_classes));
    return;
  }
  if (!classes.empty()) c.classes = std::move(classes);
}

void read_ageing(table_view& t, config& c) {
  if (const auto given = t.text("ageing"); given && given->text == "never") {
    c.ageing = duration::max();
  } else if (given) {
    t.time("ageing", c.ageing, 1ms, 24h);
  }
}

void read_redis(table_view& t, config& c) {
  const auto given = t.text("redis");
  if (!given) return;
  // The source is set even if the secret can't be read. Otherwise each setting that needs Redis would cause a further
  // error.
  c.redis.source = given->text;
  auto found = read_secret(*given, t.problems());
  if (!found) return;
  constexpr std::string_view schemes[] = {"redis://", "rediss://", "redis+sentinel://", "unix:"};
  if (std::ranges::none_of(schemes, [&](std::string_view s) { return found->value.starts_with(s); }))
    t.problems().complain(given->where, given->field,
                          "does not hold a URL; allowed: redis://, rediss://, redis+sentinel:// and unix:");
  c.redis = std::move(*found);
}

void read_redis_tls(table_view& t, config& c) {
  auto given = t.table("redis_tls");
  if (!given) return;
  read_file_name(*given, "ca", c.redis_tls.ca);
  read_file_name(*given, "cert", c.redis_tls.cert);
  read_file_name(*given, "key", c.redis_tls.key);
  if (given->has("key") && !given->has("cert"))
    t.problems().complain(given->where("key"), given->field("key"), "is of no use without a cert");
  given->finish();
  // If the URL can't be read from its source, read_redis() has reported an error, so this check is left out.
  if (c.redis.source.empty() || (!c.redis.value.empty() && !c.redis.value.starts_with("rediss://")))
    t.problems().complain(given->where(), "redis_tls", "is of no use: redis holds no rediss:// URL");
}

void read_access_log(table_view& t, config& c) {
  const auto given = t.text("access_log");
  if (!given) return;
  constexpr std::string_view file = "file:";
  if (given->text == "stdout" || given->text == "off") {
    c.access_log.to = given->text == "off" ? access_log_options::kind::off : access_log_options::kind::standard_output;
  } else if (given->text.starts_with("file:/")) {
    c.access_log = {access_log_options::kind::file, given->text.substr(file.size())};
  } else {
    t.problems().refuse_text(given->where, given->field, given->text, "stdout, off or file:/PATH");
  }
}

void read_limits(table_view& t, config& c) {
  auto limits = t.table("limits");
  if (!limits) return;
  if (auto size = limits->table("size")) {
    size->size("header", c.size.header, 1 * kib, 1 * mib);
    size->integer("fields", c.size.fields, 1, 1'000);
    size->size("target", c.size.target, 64, 1 * mib);
    size->size("body", c.size.body, 0, 1'024 * gib);
    size->size("read_ahead", c.size.read_ahead, 0, 1 * gib);
    size->size("buffered", c.size.buffered, 0, 1'024 * gib);
    size->finish();
  }
  if (auto time = limits->table("time")) {
    time->time("header", c.time.header, 1ms, 1h);
    time->time("body_idle", c.time.body_idle, 1ms, 24h);
    time->time("write_stall", c.time.write_stall, 1ms, 24h);
    time->time("keep_alive", c.time.keep_alive, 1ms, 24h);
    time->finish();
  }
  if (auto connections = limits->table("connections")) {
    connections->integer("all", c.connections.all, 1, 1'000'000);
    connections->integer("per_address", c.connections.per_address, 1, 1'000'000);
    connections->finish();
  }
  if (c.size.target > c.size.header)
    limits->problems().complain(limits->where("size"), "limits.size.target",
                                "is more than limits.size.header, of which it is a part");
  limits->finish();
}

/// Checks that there is a listener. Checks that upstreams exist if and only if a listener has reverse mode, and that
/// `forward` exists if and only if a listener has forward mode.
void check_ways(table_view& t, const config& c) {
  if (t.is_none("listen")) t.problems().complain(t.where("listen"), "listen", "names nothing; allowed: 1 to 64 tables");
  // A table with an error may be missing in `c`, although it is in the file. So the following checks are left out after
  // an error.
  if (!t.problems().is_empty()) return;
  const auto leads = [&](listen_mode mode) {
    return std::ranges::any_of(c.listeners,
                               [&](const listener& l) { return l.mode == mode || l.mode == listen_mode::both; });
  };
  if (leads(listen_mode::reverse) && t.is_none("upstream"))
    t.problems().complain(t.where("listen"), "upstream", "is missing, and a listener has mode \"reverse\" or \"both\"");
  if (!c.upstreams.empty() && !leads(listen_mode::reverse))
    t.problems().complain(t.where("upstream"), "upstream",
                          "is of no use: no listener has mode \"reverse\" or \"both\"");
  if (leads(listen_mode::forward) && t.is_none("forward"))
    t.problems().complain(t.where("listen"), "forward", "is missing, and a listener has mode \"forward\" or \"both\"");
  if (c.forward && !leads(listen_mode::forward))
    t.problems().complain(t.where("forward"), "forward", "is of no use: no listener has mode \"forward\" or \"both\"");
}

/// Returns the TOML parser's message. If it seems that a string has no quotes, or only one quote, adds a hint.
std::string what_is_wrong(std::string_view parser_says) {
  const auto says = [&](std::string_view words) { return parser_says.find(words) != std::string_view::npos; };
  std::string_view more;
  if (says("string: ") && says("control characters")) {
    more = "; a string ends with its quote, in the same line";
  } else if (says("could not determine value type") || says("expected a comment or whitespace") ||
             says("parsing time: expected") || says("parsing boolean: expected")) {
    more = "; a string needs quotes";
  }
  return fmt::format("{}{}", parser_says, more);
}

}  // namespace

read_result parse_config(std::string_view text) {
  report problems;
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& e) {
    const auto& at = e.source().begin;
    problems.complain({at.line, at.column}, "TOML:", what_is_wrong(e.description()));
    return {std::nullopt, problems.take()};
  }
  config c;
  table_view t{root, "", problems};
  t.integer("threads", c.threads, 0, 256);
  read_redis(t, c);
  read_redis_tls(t, c);
  read_classes(t, c);
  read_ageing(t, c);
  t.time("grace", c.grace, 0ms, 24h);
  read_access_log(t, c);
  read_money(t, c);
  read_admin(t, c);
  read_limits(t, c);
  read_forward(t, c);
  const auto listeners = read_listeners(t, c);
  read_upstreams(t, c);
  read_tenants(t, c, listeners);
  check_ways(t, c);
  t.finish();
  if (!problems.is_empty()) return {std::nullopt, problems.take()};
  return {std::move(c), {}, std::make_shared<const file_values>(std::move(root))};
}

read_result read_config(const std::string& path) {
  constexpr std::size_t most_bytes = 4 << 20;
  const auto refused = [](std::string_view why) {
    report problems;
    problems.complain({}, "the configuration", why);
    return read_result{std::nullopt, problems.take()};
  };
  std::ifstream file{path, std::ios::binary};
  if (!file) return refused(fmt::format("can't be opened: {}", std::generic_category().message(errno)));
  if (is_directory(path)) return refused("can't be opened: it is a directory");
  std::string text(most_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return refused("can't be read");
  if (!file.eof()) return refused("is too large; allowed: up to 4MiB");
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_config(text);
}

}  // namespace canigo::gateway
