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
  if (c.is_subscribed) flags += 's';
  if (c.changes.has(setting::permits())) flags += 'C';
  if (c.changes.has(setting::rate_of(0))) flags += 'R';
  if (c.changes.has(setting::burst_of(0))) flags += 'B';
  if (c.changes.has(setting::pause())) flags += 'P';
  if (c.changes.is_of_further()) flags += 'M';
  return flags;
}

double as_double(std::integral auto n) noexcept { return static_cast<double>(n); }

/// Reads one number of a text made by packed(). Returns nothing if the number is not whole, or too large for a double
/// to hold it exactly.
std::optional<std::int64_t> whole(std::string_view bytes) noexcept {
  constexpr double most = 9007199254740992;
  std::uint64_t bits = 0;
  for (std::size_t i = 8; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(bytes[i]);
  const auto n = std::bit_cast<double>(bits);
  if (!(n >= -most && n <= most)) return std::nullopt;
  return static_cast<std::int64_t>(n);
}

/// Appends three lists: runs of acknowledged requests, cancelled requests, and runs of wanted requests. A run is a
/// series of requests with consecutive ids; it is stored as one entry. Precondition: the last three elements of
/// `numbers` are 0. The function changes these elements to the lengths of the lists.
void add_lists(const sync_call& c, std::vector<double>& numbers) {
  const std::size_t counts = numbers.size() - 3;
  numbers.reserve(numbers.size() + 2 * c.acknowledged->size() + 2 * c.cancels->size() + 4 * c.wanted.size());
  std::uint64_t last = 0;  // the last id that was added; 0 is the id of no request
  for (const auto id : *c.acknowledged) {
    if (last != 0 && id == last + 1) {
      ++numbers.back();
    } else {
      numbers.insert(numbers.end(), {as_double(id), 1});
      ++numbers[counts];
    }
    last = id;
  }
  const auto add_amounts = [&](const amounts_by_unit& amounts) {
    for (std::size_t unit = 1; unit < c.units; ++unit) numbers.push_back(as_double(amounts[unit]));
  };
  const auto add_set = [&](std::uint64_t set) {
    if (!c.alternatives.empty()) numbers.insert(numbers.end(), {as_double(set & 0xffffffff), as_double(set >> 32)});
  };
  for (const auto& [id, weight, amounts, set] : *c.cancels) {
    numbers.insert(numbers.end(), {as_double(id), as_double(weight)});
    add_amounts(amounts);
    add_set(set);
  }
  numbers[counts + 1] = as_double(c.cancels->size());
  const sync_call::wish* before = nullptr;
  for (const auto& w : c.wanted) {
    if (before != nullptr && w.id == before->id + 1 && w.priority == before->priority && w.weight == before->weight &&
        w.amounts == before->amounts && w.set == before->set) {
      ++numbers[numbers.size() - 2 - c.units - (c.alternatives.empty() ? 0 : 2)];
    } else {
      numbers.insert(numbers.end(), {as_double(w.id), 1, as_double(w.priority), as_double(w.weight)});
      add_amounts(w.amounts);
      add_set(w.set);
      ++numbers[counts + 2];
    }
    before = &w;
  }
}

/// Returns the argument ARGV[6] of the script as packed numbers: the settings of all rates except the first, and the
/// charged amounts of all units except the first. For each alternative, also the charged amounts of all its units.
std::string further_of(const sync_call& c) {
  const std::size_t rates = std::max(c.settings.rate_count, std::size_t{1});
  std::vector<double> numbers{as_double(c.shape), as_double(rates - 1), as_double(c.units - 1)};
  for (std::size_t i = 1; i < rates; ++i) {
    const rate_setting& r = c.settings.rates[i];
    const bool is_rate = c.changes.has(setting::rate_of(i));
    const bool is_burst = c.changes.has(setting::burst_of(i));
    numbers.insert(numbers.end(), {as_double(r.tokens), as_double(r.period), as_double(r.burst), as_double(r.unit + 1),
                                   as_double((is_rate ? 1 : 0) + (is_burst ? 2 : 0))});
  }
  for (std::size_t unit = 1; unit < c.units; ++unit) {
    numbers.insert(numbers.end(), {as_double(c.charged[unit].before), as_double(c.charged[unit].now)});
  }
  for (const auto& a : c.alternatives) {
    for (std::size_t unit = 0; unit < c.units; ++unit) {
      numbers.insert(numbers.end(), {as_double(a.charged[unit].before), as_double(a.charged[unit].now)});
    }
  }
  return packed(numbers);
}

/// Returns the argument ARGV[7] of the script: the numbers of a limiter's alternatives.
std::string alternatives_of(const sync_call& c) {
  std::vector<double> numbers{as_double(c.alternatives.size())};
  for (std::size_t i = 0; i < c.alternatives.size(); ++i) {
    const auto& a = c.alternatives[i];
    const alternative_setting& s = c.settings.alternatives[i];
    const int changed = (c.changes.has(setting::permits_of(i)) ? 1 : 0) +
                        (c.changes.has(setting::pause_of(i)) ? 2 : 0) +
                        (c.changes.has(setting::longer_pause_of(i)) ? 4 : 0);
    numbers.insert(numbers.end(), {as_double(a.rates), as_double(a.prefer), as_double(s.permits), as_double(s.pause),
                                   as_double(changed), as_double(a.held)});
  }
  return packed(numbers);
}

/// Reads the runs of waiters (each with consecutive ids) from an answer of the script; nothing if the text is
/// malformed.
std::optional<std::vector<sync_answer::run>> runs_of(std::string_view text) {
  std::vector<sync_answer::run> runs;
  runs.reserve(text.size() / (4 * 8));
  for (; text.size() >= 4 * 8; text.remove_prefix(4 * 8)) {
    const auto first = whole(text);
    const auto count = whole(text.substr(8));
    const auto weight = whole(text.substr(16));
    const auto token = whole(text.substr(24));
    if (!first || !count || !weight || !token || *first < 0 || *count < 0) return std::nullopt;
    const std::size_t from = *weight > 0 ? static_cast<std::size_t>(*weight) - 1 : 0;
    runs.push_back({static_cast<std::uint64_t>(*first), static_cast<std::uint64_t>(*count), *token, from});
  }
  if (!text.empty()) return std::nullopt;
  return runs;
}

/// Reads the states of a limiter's alternatives from an answer of the script; nothing if the text has another form.
std::optional<std::vector<sync_answer::alternative>> alternatives_in(std::string_view text) {
  std::vector<sync_answer::alternative> all;
  for (; text.size() >= 3 * 8; text.remove_prefix(3 * 8)) {
    const auto held = whole(text);
    const auto permits = whole(text.substr(8));
    const auto pause = whole(text.substr(16));
    if (!held || !permits || !pause || *held < 0 || *permits < 0 || all.size() == most_alternatives) {
      return std::nullopt;
    }
    all.push_back({static_cast<std::uint64_t>(*held), {static_cast<std::uint64_t>(*permits), *pause}});
  }
  if (!text.empty()) return std::nullopt;
  return all;
}

/// Reads the settings of a limit: "version permits tokens period burst pause", and then "tokens period burst" for each
/// further rate. Returns nothing if the text is malformed.
std::optional<limit_settings> settings_of(std::string_view text) {
  constexpr std::size_t of_first = 6;
  std::array<std::int64_t, of_first + 3 * (most_rates - 1)> numbers{};
  std::size_t count = 0;
  for (; count < of_first || !text.empty(); ++count) {
    if (count == numbers.size()) return std::nullopt;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), numbers[count]);
    if (end.ec != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end.ptr - text.data()));
    if (!text.empty()) text.remove_prefix(1);
  }
  if (count % 3 != 0) return std::nullopt;
  const auto at = [&](std::size_t i) { return static_cast<std::uint64_t>(numbers[i]); };
  constexpr std::uint64_t exact = std::uint64_t{1} << 53;
  for (std::size_t i = 0; i < count; ++i) {
    // Rejects negative numbers, too: as an unsigned number, each of them is greater than `exact`.
    if (i + 1 != of_first && at(i) > exact) return std::nullopt;
  }
  limit_settings s;
  s.version = at(0);
  s.permits = at(1);
  s.pause = numbers[5];
  // Adds a rate to the settings `s`. Returns false if the rate has more than one token per nanosecond, which no limit
  // can have.
  const auto add_rate = [&](std::size_t i) {
    s.rates[s.rate_count++] = {.tokens = at(i), .period = at(i + 1), .burst = at(i + 2)};
    return at(i) <= at(i + 1) * 1000;
  };
  const bool has_rate = at(2) != 0;
  if ((has_rate || count > of_first) && !add_rate(2)) return std::nullopt;
  for (std::size_t i = of_first; i < count; i += 3) {
    if (at(i) == 0 || !add_rate(i)) return std::nullopt;
  }
  return s;
}

}  // namespace

duration us(std::int64_t n) noexcept {
  constexpr std::int64_t most = duration::max().count() / 1000;
  return microseconds{std::clamp(n, -most, most)};
}

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
  const rate_setting& first = settings.rates[0];
  std::vector<double> numbers{as_double(sequence),
                              as_double(us),
                              as_double(held),
                              as_double(idle),
                              as_double(charged[0].before),
                              as_double(charged[0].now),
                              as_double(ahead),
                              as_double(settings.version),
                              as_double(settings.permits),
                              as_double(first.tokens),
                              as_double(first.period),
                              as_double(first.burst),
                              as_double(settings.pause),
                              as_double(seen),
                              as_double(latest),
                              as_double(epoch),
                              0,
                              0,
                              0};
  add_lists(*this, numbers);
  c.add_run_id().add(session).add(packed(numbers)).add(prefix).add(flags_of(*this));
  if (shape != 0) c.add(further_of(*this));
  if (!alternatives.empty()) c.add(alternatives_of(*this));
  return c;
}

sync_answer::sync_answer(const reply& r) {
  const auto& parts = r.elements();
  if (parts.empty()) return;
  if (parts[0].text() == "NOSESS") what = status::no_session;
  if (parts[0].text() == "FORM" && parts.size() == 2) {
    what = status::other_form;
    form = static_cast<int>(parts[1].integer());
  }
  if (parts[0].text() == "SHAPE") what = status::other_shape;
  if (parts[0].text() != "OK" || parts.size() < 12 || parts.size() > 14) return;
  auto runs = runs_of(parts[10].text());
  if (!runs) return;
  if (parts.size() == 14) {
    auto all = alternatives_in(parts[13].text());
    if (!all) return;
    alternatives = std::move(*all);
  }
  if (parts.size() >= 13) {
    std::string_view text = parts[12].text();
    for (std::size_t i = 1; i < empty.size() && text.size() >= 8; ++i, text.remove_prefix(8)) {
      const auto n = whole(text);
      if (!n) return;
      empty[i] = us(*n);
    }
  }
  grants = std::move(*runs);
  for (std::size_t i = 0; i < grants.size(); ++i)
    grants[i].is_news = static_cast<std::int64_t>(i) >= parts[9].integer();
  what = status::ok;
  if (parts[1].integer() >= 0) next = us(parts[1].integer());
  queue = static_cast<std::uint64_t>(parts[2].integer());
  held_by_all = static_cast<std::uint64_t>(parts[3].integer());
  quarantine = us(parts[4].integer());
  epoch = parts[5].integer();
  empty[0] = us(parts[6].integer());
  ahead = static_cast<std::uint64_t>(parts[7].integer());
  now = parts[11].integer();
  if (!parts[8].text().empty()) settings = settings_of(parts[8].text());
  if (settings) {
    for (const alternative& a : alternatives) settings->alternatives.push_back(a.settings);
  }
}

}  // namespace canigo::redis::detail
