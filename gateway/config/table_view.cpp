#include "gateway/config/table_view.hpp"

#include "gateway/config/quantities.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace canigo::gateway {
namespace {

place place_of(const toml::source_region& region) noexcept { return {region.begin.line, region.begin.column}; }

/// Describes the kind of a value. If `shows_value`, also names the value of a number or a boolean.
std::string kind_of(const toml::node& node, bool shows_value) {
  const auto with = [&](const auto& value, std::string_view kind) {
    return shows_value ? fmt::format("{}, {}", value, kind) : std::string{kind};
  };
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return with(node.as_integer()->get(), "a whole number");
    case toml::node_type::floating_point:
      return with(node.as_floating_point()->get(), "a number with a point");
    case toml::node_type::boolean:
      return shows_value ? fmt::format("{}", node.as_boolean()->get()) : "true or false";
    default:
      return "a date or a time";
  }
}

std::string size_text(std::uint64_t bytes) {
  if (bytes >= 1 << 30 && bytes % (1 << 30) == 0) return fmt::format("{}GiB", bytes >> 30);
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}MiB", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}KiB", bytes >> 10);
  return fmt::format("{}B", bytes);
}

}  // namespace

std::string table_view::field(std::string_view key) const {
  return field_.empty() ? std::string{key} : fmt::format("{}.{}", field_, key);
}

place table_view::where() const noexcept { return place_of(table_->source()); }

place table_view::where(std::string_view key) const noexcept {
  const toml::node* node = table_->get(key);
  return node == nullptr ? where() : place_of(node->source());
}

const toml::node* table_view::ask(std::string_view key) {
  if (std::ranges::find(asked_, key) == asked_.end()) asked_.emplace_back(key);
  return table_->get(key);
}

std::vector<std::string> table_view::keys() const {
  std::vector<std::string> all;
  for (const auto& [key, value] : *table_) all.emplace_back(key.str());
  return all;
}

bool table_view::is_none(std::string_view key) const {
  const toml::node* node = table_->get(key);
  return node == nullptr || (node->is_array() && node->as_array()->empty());
}

bool table_view::is_text(std::string_view key) const {
  const toml::node* node = table_->get(key);
  return node != nullptr && node->is_string();
}

bool table_view::is_text(std::string_view key, std::string_view text) const {
  const toml::node* node = table_->get(key);
  return node != nullptr && node->is_string() && node->as_string()->get() == text;
}

void table_view::refuse_type(std::string_view key, const toml::node& node, std::string_view allowed) {
  // A number in the place of a string may be a secret, such as a token without quotes.
  const bool may_be_secret = allowed.find("string") != allowed.npos;
  report_->refuse(place_of(node.source()), field(key), kind_of(node, !may_be_secret), allowed);
}

std::optional<std::int64_t> table_view::number(std::string_view key, std::int64_t least, std::int64_t most) {
  const toml::node* node = ask(key);
  if (node == nullptr) return std::nullopt;
  const auto* value = node->as_integer();
  if (value != nullptr && value->get() >= least && value->get() <= most) return value->get();
  const std::string allowed = fmt::format("{} to {}", least, most);
  if (value == nullptr) {
    refuse_type(key, *node, allowed);
  } else {
    report_->refuse(place_of(node->source()), field(key), fmt::format("{}", value->get()), allowed);
  }
  return std::nullopt;
}

void table_view::flag(std::string_view key, bool& out) {
  const toml::node* node = ask(key);
  if (node == nullptr) return;
  if (const auto* value = node->as_boolean()) {
    out = value->get();
  } else {
    refuse_type(key, *node, "true or false");
  }
}

std::optional<text_at> table_view::text(std::string_view key) {
  const toml::node* node = ask(key);
  if (node == nullptr) return std::nullopt;
  if (const auto* value = node->as_string()) return text_at{value->get(), place_of(node->source()), field(key)};
  refuse_type(key, *node, "a string");
  return std::nullopt;
}

std::optional<text_at> table_view::needed(std::string_view key, std::string_view allowed) {
  if (ask(key) == nullptr) report_->complain(where(), field(key), fmt::format("is missing; allowed: {}", allowed));
  return text(key);
}

std::optional<std::vector<text_at>> table_view::texts(std::string_view key) {
  const toml::node* node = ask(key);
  if (node == nullptr) return std::nullopt;
  const toml::array* list = node->as_array();
  if (list == nullptr) {
    refuse_type(key, *node, "a list of strings");
    return std::nullopt;
  }
  std::vector<text_at> found;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const toml::node& element = (*list)[i];
    const std::string name = fmt::format("{}[{}]", key, i);
    if (const auto* value = element.as_string()) {
      found.push_back({value->get(), place_of(element.source()), field(name)});
    } else {
      refuse_type(name, element, "a string");
    }
  }
  return found;
}

void table_view::time(std::string_view key, duration& out, duration least, duration most) {
  const auto given = text(key);
  if (!given) return;
  const auto value = parse_duration(given->text);
  if (value && *value >= least && *value <= most) {
    out = *value;
  } else if (value) {
    report_->refuse_text(given->where, given->field, given->text, to_string(least) + " to " + to_string(most));
  } else {
    report_->refuse_text(given->where, given->field, given->text, duration_syntax);
  }
}

void table_view::size(std::string_view key, std::uint64_t& out, std::uint64_t least, std::uint64_t most) {
  const auto given = text(key);
  if (!given) return;
  const auto value = parse_size(given->text);
  if (value && *value >= least && *value <= most) {
    out = *value;
  } else if (value) {
    report_->refuse_text(given->where, given->field, given->text, size_text(least) + " to " + size_text(most));
  } else {
    report_->refuse_text(given->where, given->field, given->text, size_syntax);
  }
}

void table_view::usd(std::string_view key, micro_usd& out) {
  const toml::node* node = ask(key);
  if (node == nullptr) return;
  std::string given;
  if (const auto* text = node->as_string()) {
    given = text->get();
  } else if (const auto* whole = node->as_integer()) {
    given = fmt::format("{}", whole->get());
  } else if (const auto* number = node->as_floating_point()) {
    given = fmt::format("{}", number->get());
    // The shortest text of a very small or large number has an exponent, such as 1e-07, but an amount of money must not
    // have an exponent. So such a number is formatted without an exponent.
    if (given.find('e') != given.npos) given = fmt::format("{:.17f}", number->get());
    const auto last = given.find_last_not_of('0');
    if (given.find('.') != given.npos) given.erase(given[last] == '.' ? last : last + 1);
  } else {
    refuse_type(key, *node, usd_syntax);
    return;
  }
  if (const auto amount = parse_usd(given)) {
    out = *amount;
  } else if (node->is_string()) {
    report_->refuse_text(place_of(node->source()), field(key), given, usd_syntax);
  } else {
    report_->refuse(place_of(node->source()), field(key), given, usd_syntax);
  }
}

std::optional<int> table_view::percentage(std::string_view key, int least, int most) {
  const auto given = text(key);
  if (!given) return std::nullopt;
  const auto value = parse_percent(given->text);
  if (value && *value >= least && *value <= most) return value;
  report_->refuse_text(given->where, given->field, given->text, fmt::format("\"{}%\" to \"{}%\"", least, most));
  return std::nullopt;
}

std::optional<table_view> table_view::table(std::string_view key) {
  const toml::node* node = ask(key);
  if (node == nullptr) return std::nullopt;
  if (const toml::table* value = node->as_table()) return table_view{*value, field(key), *report_};
  refuse_type(key, *node, field_.empty() ? fmt::format("a table, such as below [{}]", key) : "a table");
  return std::nullopt;
}

std::vector<table_view> table_view::tables(std::string_view key, std::size_t most) {
  std::vector<table_view> found;
  const toml::node* node = ask(key);
  if (node == nullptr) return found;
  const toml::array* list = node->as_array();
  if (list == nullptr) {
    refuse_type(key, *node,
                field_.empty() ? fmt::format("a list of tables, each below [[{}]]", key) : "a list of tables");
    return found;
  }
  if (list->size() > most)
    report_->complain(place_of(list->source()), field(key),
                      fmt::format("has {} elements; allowed: up to {}", list->size(), most));
  for (std::size_t i = 0; i < std::min(list->size(), most); ++i) {
    const std::string name = fmt::format("{}[{}]", key, i);
    if (const toml::table* value = (*list)[i].as_table()) {
      found.emplace_back(*value, field(name), *report_);
    } else {
      refuse_type(name, (*list)[i], "a table");
    }
  }
  return found;
}

void table_view::finish() const {
  std::string allowed;
  for (const std::string& key : asked_) allowed.append(allowed.empty() ? "" : ", ").append(key);
  if (allowed.empty()) allowed = "nothing";
  for (const auto& [key, node] : *table_) {
    if (std::ranges::find(asked_, key.str()) != asked_.end()) continue;
    report_->complain(place_of(key.source()), field(key.str()), fmt::format("is unknown; allowed: {}", allowed));
  }
}

}  // namespace canigo::gateway
