#pragma once

#include "canigo/time.hpp"

#include "gateway/config/money.hpp"
#include "gateway/config/report.hpp"

#include <toml++/toml.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::gateway {

/// A string in the configuration file, with the name of its key and its place (line and column).
struct text_at {
  std::string text;
  place where;
  std::string field;  ///< the full name of the string's key, such as "upstream[0].url"
};

/// Reads the keys of one table of the file. If a value has the wrong type or is out of range, reports an error and
/// leaves the caller's variable unchanged, as if the value were missing.
class table_view {
 public:
  /// `table` and `r` must outlive this object. `field`: the name of the table; empty for the whole file.
  table_view(const toml::table& table, std::string field, report& r)
      : table_{&table}, field_{std::move(field)}, report_{&r} {}

  const std::string& field() const noexcept { return field_; }
  std::string field(std::string_view key) const;
  place where() const noexcept;
  /// Returns the place (line and column) of the key's value in the file. If the table has no such value, returns the
  /// place of the table.
  place where(std::string_view key) const noexcept;
  report& problems() const noexcept { return *report_; }
  bool has(std::string_view key) const { return table_->contains(key); }
  /// Returns all keys of the table. Use it for a table whose keys are names that the file's author chooses.
  std::vector<std::string> keys() const;
  /// Whether the value of the key is missing, or is an empty list.
  bool is_none(std::string_view key) const;
  bool is_text(std::string_view key) const;
  bool is_text(std::string_view key, std::string_view text) const;

  template <std::integral T>
  void integer(std::string_view key, T& out, std::int64_t least, std::int64_t most) {
    if (const auto value = number(key, least, most)) out = static_cast<T>(*value);
  }
  void flag(std::string_view key, bool& out);
  std::optional<text_at> text(std::string_view key);
  /// Like text(), but a missing value is reported as an error.
  std::optional<text_at> needed(std::string_view key, std::string_view allowed);
  /// Returns the strings of a list; returns nothing if the list is missing or invalid.
  std::optional<std::vector<text_at>> texts(std::string_view key);
  void time(std::string_view key, duration& out, duration least, duration most);
  void size(std::string_view key, std::uint64_t& out, std::uint64_t least, std::uint64_t most);
  /// Reads an amount of US dollars, which is a string or a number in the file. A floating-point number is converted to
  /// its shortest decimal form, which equals the text in the file if that text has at most 15 digits.
  void usd(std::string_view key, micro_usd& out);
  template <std::integral T>
  void percent(std::string_view key, T& out, int least, int most) {
    if (const auto value = percentage(key, least, most)) out = static_cast<T>(*value);
  }
  template <class E>
  void word(std::string_view key, E& out, std::initializer_list<std::pair<std::string_view, E>> words) {
    const auto given = text(key);
    if (!given) return;
    std::string allowed;
    for (const auto& [name, value] : words) {
      if (given->text == name) {
        out = value;
        return;
      }
      allowed.append(allowed.empty() ? "" : ", ").append(name);
    }
    report_->refuse_text(given->where, given->field, given->text, allowed);
  }
  std::optional<table_view> table(std::string_view key);
  /// Returns the tables of a list of tables; more than `most` tables are an error.
  std::vector<table_view> tables(std::string_view key, std::size_t most);

  /// Reports an error for each key of the table that none of the other functions has read, because such a key is
  /// unknown.
  void finish() const;

 private:
  const toml::node* ask(std::string_view key);
  void refuse_type(std::string_view key, const toml::node& node, std::string_view allowed);
  std::optional<std::int64_t> number(std::string_view key, std::int64_t least, std::int64_t most);
  std::optional<int> percentage(std::string_view key, int least, int most);

  const toml::table* table_;
  std::string field_;
  report* report_;
  std::vector<std::string> asked_;
};

}  // namespace canigo::gateway
