#include "gateway/config/file_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

namespace canigo::gateway {
namespace {

constexpr std::size_t most_of_value = 60;

bool has_tables(const toml::node& node) {
  const toml::array* list = node.as_array();
  return node.is_table() ||
         (list != nullptr && std::ranges::any_of(*list, [](const toml::node& n) { return n.is_table(); }));
}

/// Returns " is VALUE" for a message; returns an empty text for a table or a list of tables.
std::string value_of(const toml::node& node) {
  if (has_tables(node)) return {};
  if (const auto* text = node.as_string()) return fmt::format(" is \"{}\"", printable(text->get(), most_of_value));
  std::ostringstream written;
  node.visit([&](const auto& value) { written << value; });
  return " is " + printable(written.str(), most_of_value);
}

}  // namespace

config_error file_values::locate(const value_error& e) const {
  const auto at = [&](std::string_view field) { return toml::at_path(root_, field).node(); };
  std::string_view field = e.field;
  const toml::node* node = at(field);
  const std::string value = node == nullptr ? " is left out" : value_of(*node);
  while (node == nullptr && field.find('.') != field.npos) {
    field = field.substr(0, field.rfind('.'));
    node = at(field);
  }
  const toml::source_position where = node == nullptr ? toml::source_position{} : node->source().begin;
  return {{where.line, where.column}, e.field + value + e.why};
}

}  // namespace canigo::gateway
