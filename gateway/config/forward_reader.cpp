#include "gateway/config/places.hpp"
#include "gateway/config/reader_parts.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace canigo::gateway {
namespace {

std::vector<allowed_host> read_allowed(table_view& t) {
  std::vector<allowed_host> hosts;
  const auto given = t.texts("allow");
  if (!given || given->empty())
    t.problems().complain(t.where("allow"), t.field("allow"),
                          fmt::format("names nothing; allowed: {}", allowed_host_syntax));
  for (const text_at& text : given.value_or(std::vector<text_at>{})) {
    if (auto host = parse_allowed_host(text.text)) {
      hosts.push_back(std::move(*host));
    } else {
      t.problems().refuse_text(text.where, text.field, text.text, allowed_host_syntax);
    }
  }
  return hosts;
}

}  // namespace

void read_forward(table_view& t, config& c) {
  auto given = t.table("forward");
  if (!given) return;
  forward_options forward;
  forward.allow = read_allowed(*given);
  forward.each.rates = read_rates(*given, {"requests"}, std::nullopt);
  read_queue(*given, c, forward.each);
  read_timeouts(*given, forward.each);
  read_retry(*given, forward.each);
  read_breaker(*given, forward.each);
  given->integer("hosts", forward.hosts, 1, 10'000);
  given->integer("tunnels", forward.tunnels, 0, 1'000'000);
  given->flag("private", forward.each.private_addresses);
  given->finish();
  c.forward = std::move(forward);
}

}  // namespace canigo::gateway
