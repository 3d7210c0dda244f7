#include "time_zone.hpp"

#include "canigo/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

namespace canigo::jobs::detail {
namespace {

using std::chrono::seconds;

constexpr std::size_t most_name_of_zone = 64;
constexpr std::size_t most_file = std::size_t{256} << 10;  // max size of a file in bytes; a real one has up to 4 KiB
constexpr std::size_t header_size = 44;
/// Larger than any valid offset from UTC; a file with a larger offset is invalid.
constexpr seconds most_offset = std::chrono::hours{26};
/// A bound for instants, in seconds from 1970. A change before -most_instant only sets the first offset, because some
/// files contain a change at the beginning of the universe. A file with a change after most_instant is invalid.
constexpr std::int64_t most_instant = std::int64_t{1} << 40;

std::uint64_t big_endian(std::string_view bytes) noexcept {
  std::uint64_t n = 0;
  for (const char c : bytes) n = n << 8 | static_cast<unsigned char>(c);
  return n;
}

/// Reads parts from the front of a file.
class file_reader {
 public:
  explicit file_reader(std::string_view file) : rest_{file} {}

  /// Removes and returns the next bytes. If there are not enough bytes, it returns an empty text, and is_good() becomes
  /// false.
  std::string_view take(std::size_t bytes) noexcept {
    if (bytes > rest_.size()) {
      is_good_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view part = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return part;
  }
  bool is_good() const noexcept { return is_good_; }
  std::string_view rest() const noexcept { return rest_; }

 private:
  std::string_view rest_;
  bool is_good_ = true;
};

/// The number of elements of each kind in a data block of a TZif file.
struct block {
  std::size_t indicators_of_ut, indicators_of_standard, leaps, times, types, characters;

  std::size_t size(std::size_t time_size) const noexcept {
    return times * (time_size + 1) + types * 6 + characters + leaps * (time_size + 4) + indicators_of_standard +
           indicators_of_ut;
  }
};

std::optional<block> read_header(file_reader& from, char& version) {
  const std::string_view h = from.take(header_size);
  if (!from.is_good() || !h.starts_with("TZif")) return std::nullopt;
  version = h[4];
  const auto count = [&](std::size_t i) { return static_cast<std::size_t>(big_endian(h.substr(20 + 4 * i, 4))); };
  const block b{count(0), count(1), count(2), count(3), count(4), count(5)};
  return b.types > 0 && b.types <= 256 ? std::optional{b} : std::nullopt;
}

bool is_name(std::string_view name) noexcept {
  constexpr std::string_view allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";
  return !name.empty() && name.size() <= most_name_of_zone && name.find_first_not_of(allowed) == name.npos &&
         name.front() != '/' && name.back() != '/';
}

/// Returns the list without the changes that have no effect. A change has no effect if it sets the offset that is
/// already in force, or if the next change in the list has the same instant. `before`: the offset before the first
/// change.
std::vector<zone_change> tidy(seconds before, std::vector<zone_change> list) {
  std::vector<zone_change> kept;
  for (const zone_change& c : list) {
    if (!kept.empty() && kept.back().at == c.at) kept.pop_back();
    if (c.offset != (kept.empty() ? before : kept.back().offset)) kept.push_back(c);
  }
  return kept;
}

}  // namespace

time_zone time_zone::of(std::string_view name) {
  const char* variable = std::getenv("TZDIR");
  const std::string folder = variable != nullptr && *variable != '\0' ? variable : "/usr/share/zoneinfo";
  std::optional<time_zone> zone;
  if (is_name(name)) {
    std::ifstream in{folder + "/" + std::string{name}, std::ios::binary};
    std::string file;
    // `name` may be a folder. It can be opened, but reading from it fails, so `file` stays empty.
    for (char part[4096]; file.size() <= most_file && (in.read(part, sizeof part), in.gcount() > 0);) {
      file.append(part, static_cast<std::size_t>(in.gcount()));
    }
    if (file.size() <= most_file) zone = read(file);
  }
  if (!zone) {
    canigo::detail::throw_invalid("schedule.cron: zone", name.substr(0, most_name_of_zone),
                                  "a name such as Europe/Berlin that " + folder + " has; the package tzdata fills it");
  }
  return std::move(*zone);
}

std::optional<time_zone> time_zone::read(std::string_view file) {
  if (file.size() > most_file) return std::nullopt;
  file_reader from{file};
  char version = '\0';
  auto b = read_header(from, version);
  // The first block has 32-bit instants, for old programs, and is skipped. A file of version 1 has only this block, so
  // it is rejected.
  if (!b || version < '2' || version > '9') return std::nullopt;
  from.take(b->size(4));
  if (!from.is_good()) return std::nullopt;
  b = read_header(from, version);
  if (!b) return std::nullopt;
  const std::string_view times = from.take(b->times * 8);
  const std::string_view kinds = from.take(b->times);
  const std::string_view types = from.take(b->types * 6);
  from.take(b->characters + b->leaps * 12 + b->indicators_of_standard + b->indicators_of_ut);
  // Files with leap seconds are rejected, because their instants count leap seconds, which the system's clock ignores.
  if (!from.is_good() || b->leaps != 0) return std::nullopt;
  const auto offset_of = [&](std::size_t type) {
    return seconds{static_cast<std::int32_t>(big_endian(types.substr(type * 6, 4)))};
  };
  for (std::size_t i = 0; i < b->types; ++i) {
    if (std::chrono::abs(offset_of(i)) > most_offset) return std::nullopt;
  }
  time_zone zone;
  zone.first_ = offset_of(0);
  std::vector<zone_change> changes;
  for (std::size_t i = 0; i < b->times; ++i) {
    const auto at = static_cast<std::int64_t>(big_endian(times.substr(i * 8, 8)));
    const auto type = static_cast<unsigned char>(kinds[i]);
    const bool is_later = changes.empty() || zone_time{seconds{at}} > changes.back().at;
    if (type >= b->types || at > most_instant || !is_later) return std::nullopt;
    if (at < -most_instant) {
      zone.first_ = offset_of(type);
    } else {
      changes.push_back({zone_time{seconds{at}}, offset_of(type)});
    }
  }
  if (!changes.empty()) zone.last_ = changes.back().at;
  zone.changes_ = tidy(zone.first_, std::move(changes));
  const std::string_view footer = from.rest();
  if (!footer.starts_with('\n')) return std::nullopt;
  const std::string_view rule = footer.substr(1, footer.find('\n', 1) - 1);
  if (footer.find('\n', 1) == footer.npos) return std::nullopt;
  if (!rule.empty()) {
    zone.rule_ = zone_rule::read(rule);
    if (!zone.rule_) return std::nullopt;
    if (b->times == 0 && !zone.rule_->has_summer()) zone.first_ = zone.rule_->standard();
  }
  return zone;
}

time_zone::period time_zone::at(zone_time t) const {
  std::vector<zone_change> list = changes_;
  if (rule_ && rule_->has_summer()) {
    const auto after = std::max({t, last_, zone_time{}});
    const auto y = std::chrono::year_month_day{std::chrono::floor<std::chrono::days>(after)}.year();
    std::vector<zone_change> yearly;
    // Reads the changes of the years from y - 2 to y + 1. The changes of year y - 1 determine the offset at the
    // beginning of year y. The last change of year y - 2 determines the offset at the beginning of year y - 1.
    for (int i = -2; i <= 1; ++i) {
      for (const zone_change& c : rule_->changes_of(y + std::chrono::years{i})) {
        if (c.at > last_) yearly.push_back(c);
      }
    }
    // If a zone has summer time all year, one summer time ends at the instant at which the next one begins. The sort
    // puts the beginning after the end, because tidy() keeps only the last of several changes at one instant.
    std::ranges::sort(yearly, {},
                      [this](const zone_change& c) { return std::pair{c.at, c.offset != rule_->standard()}; });
    list.insert(list.end(), yearly.begin(), yearly.end());
    list = tidy(first_, std::move(list));
  }
  const auto next = std::ranges::upper_bound(list, t, {}, &zone_change::at);
  const auto offset_after = [&](std::ptrdiff_t changes) {
    return changes <= 0 ? first_ : list[static_cast<std::size_t>(changes - 1)].offset;
  };
  const std::ptrdiff_t n = next - list.begin();
  return {.begin = n == 0 ? zone_time::min() : list[static_cast<std::size_t>(n - 1)].at,
          .end = next == list.end() ? zone_time::max() : next->at,
          .offset = offset_after(n),
          .offset_before = offset_after(n - 1)};
}

}  // namespace canigo::jobs::detail
