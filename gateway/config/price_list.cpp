#include "gateway/config/price_list.hpp"

#include "gateway/config/file_kind.hpp"
#include "gateway/config/reader_parts.hpp"
#include "gateway/config/report.hpp"
#include "gateway/config/table_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

namespace canigo::gateway {
namespace {

constexpr std::string_view file_mark = "file:";

price read_price(table_view& t) {
  constexpr std::string_view syntax = "a model such as \"gpt-4o\", which may end in *, of 1 to 64 visible characters";
  price p;
  if (const auto match = t.needed("match", syntax)) {
    const std::string_view name = match->text;
    const bool is_visible = std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~' && c != '"'; });
    const auto star = name.find('*');
    if (name.empty() || name.size() > 64 || !is_visible || (star != name.npos && star + 1 != name.size()))
      t.problems().refuse_text(match->where, match->field, name, syntax);
    p.match = name;
  }
  t.usd("input", p.input);
  p.cached_input = p.input;
  t.usd("cached_input", p.cached_input);
  t.usd("output", p.output);
  t.usd("per_call", p.per_call);
  if (!t.has("input") && !t.has("output") && !t.has("per_call"))
    t.problems().complain(t.where(), t.field(), "has no price; allowed: input, output or per_call, and 0 for no cost");
  t.finish();
  return p;
}

}  // namespace

bool is_of_model(std::string_view pattern, std::string_view model) noexcept {
  return pattern.ends_with('*') ? model.starts_with(pattern.substr(0, pattern.size() - 1)) : pattern == model;
}

const price* price_list::of(std::string_view model) const noexcept {
  const auto found = std::ranges::find_if(all, [&](const price& p) { return is_of_model(p.match, model); });
  return found == all.end() ? nullptr : &*found;
}

price_list parse_prices(std::string_view text, const text_at& source, report& problems) {
  const std::string_view path = std::string_view{source.text}.substr(file_mark.size());
  report own;
  price_list prices;
  try {
    const toml::table root = toml::parse(text);
    table_view t{root, "", own};
    for (table_view& given : t.tables("price", price_list::most)) {
      price p = read_price(given);
      check_is_reached(given, prices.all, p.match);
      prices.all.push_back(std::move(p));
    }
    if (t.is_none("price")) own.complain({}, "price", "is missing; allowed: a table below [[price]] for each model");
    t.finish();
  } catch (const toml::parse_error& e) {
    const auto& at = e.source().begin;
    own.complain({at.line, at.column}, "TOML:", e.description());
  }
  for (const config_error& e : own.take())
    problems.complain(source.where, source.field, fmt::format("names a file with a mistake: {}", message_of(e, path)));
  return prices;
}

std::optional<price_list> read_prices(const text_at& source, report& problems) {
  constexpr std::size_t most_bytes = 1 << 20;
  if (!source.text.starts_with("file:/")) {
    problems.refuse_text(source.where, source.field, source.text, "file:/PATH");
    return std::nullopt;
  }
  const std::string path = source.text.substr(file_mark.size());
  std::string text(most_bytes, '\0');
  // A pipe or a device is refused, because opening it may block for ever.
  std::ifstream file;
  if (is_regular_file(path)) file.open(path, std::ios::binary);
  if (file.is_open()) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || !file.eof()) {
    problems.refuse_text(source.where, source.field, source.text, "a file that can be read, up to 1MiB");
    return std::nullopt;
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_prices(text, source, problems);
}

}  // namespace canigo::gateway
