#include "sync.hpp"

#include "script.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <concepts>

namespace canigo::redis::detail {
namespace {

using std::chrono::microseconds;

std::string flags_of(const sync_call& c) {
  std::string flags;
  if (c.quarantine) flags += 'q';
  if (c.leave) flags += 'l';
  if ((c.changes & setting::permits) != 0) flags += 'C';
  if ((c.changes & setting::rate) != 0) flags += 'R';
  if ((c.changes & setting::burst) != 0) flags += 'B';
  if ((c.changes & setting::pause) != 0) flags += 'P';
  return flags;
}

/// Whatever the server says.
duration us(std::int64_t n) noexcept {
  constexpr std::int64_t most = duration::max().count() / 1000;
  return microseconds{std::clamp(n, -most, most)};
}

double as_double(std::integral auto n) noexcept { return static_cast<double>(n); }

/// "version permits tokens period burst pause"
std::optional<limit_settings> settings_of(std::string_view text) {
  std::array<std::int64_t, 6> numbers{};
  for (auto& n : numbers) {
    const auto end = std::from_chars(text.data(), text.data() + text.size(), n);
    if (end.ec != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end.ptr - text.data()));
    if (!text.empty()) text.remove_prefix(1);
  }
  const auto at = [&](std::size_t i) { return static_cast<std::uint64_t>(numbers[i]); };
  return limit_settings{at(0), at(1), at(2), at(3), at(4), numbers[5]};
}

}  // namespace

std::string packed(std::span<const double> numbers) {
  std::string bytes;
  bytes.reserve(numbers.size() * 8);
  for (const double n : numbers) {
    const auto bits = std::bit_cast<std::uint64_t>(n);
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(bits >> shift & 0xff);
  }
  return bytes;
}

std::uint64_t number(std::string_view text) noexcept {
  std::uint64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

command sync_call::encoded(bool with_text) const {
  const std::string base{prefix};
  command c{with_text ? "EVAL" : "EVALSHA",
            with_text ? sync_script() : std::string_view{sync_sha()},
            3,
            base + "state",
            base + "sess",
            base + "q"};
  const auto us = std::chrono::duration_cast<microseconds>(lease).count();
  const std::array<double, 16> numbers{as_double(sequence),
                                       as_double(us),
                                       as_double(held),
                                       as_double(idle),
                                       as_double(charged_before),
                                       as_double(charged),
                                       as_double(ahead),
                                       as_double(settings.version),
                                       as_double(settings.permits),
                                       as_double(settings.tokens),
                                       as_double(settings.period),
                                       as_double(settings.burst),
                                       as_double(settings.pause),
                                       as_double(acknowledged->size()),
                                       as_double(cancels->size()),
                                       as_double(wanted.size())};
  c.add_run_id().add(session).add(packed(numbers)).add(prefix).add(flags_of(*this));
  for (const auto id : *acknowledged) c.add(id);
  for (const auto& [id, weight] : *cancels) c.add(id).add(weight);
  for (const auto& w : wanted) c.add(w.id).add(w.priority).add(w.weight);
  return c;
}

sync_answer::sync_answer(const reply& r) {
  const auto& parts = r.elements();
  if (parts.empty()) return;
  if (parts[0].text() == "NOSESS") what = status::no_session;
  constexpr std::size_t head = 9;
  if (parts[0].text() != "OK" || parts.size() < head) return;
  what = status::ok;
  if (parts[1].integer() >= 0) next = us(parts[1].integer());
  queue = static_cast<std::uint64_t>(parts[2].integer());
  held_by_all = static_cast<std::uint64_t>(parts[3].integer());
  quarantine = us(parts[4].integer());
  epoch = parts[5].integer();
  empty = us(parts[6].integer());
  ahead = static_cast<std::uint64_t>(parts[7].integer());
  if (!parts[8].text().empty()) settings = settings_of(parts[8].text());
  grants.reserve((parts.size() - head) / 2);
  for (std::size_t i = head; i + 1 < parts.size(); i += 2) {
    grants.push_back({number(parts[i].text()), parts[i + 1].integer()});
  }
}

}  // namespace canigo::redis::detail
