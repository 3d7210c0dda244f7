#include "gateway/config/places.hpp"
#include "gateway/config/reader_parts.hpp"
#include "gateway/wire/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace canigo::gateway {
namespace {

constexpr std::string_view path_syntax = "a path such as \"/v1/chat/completions\", of visible ASCII without ? and #";
constexpr std::string_view model_mark = "{model}";
constexpr std::string_view changed_path_syntax =
    "a path with a query if wanted, of visible ASCII without # and braces except in {model}, such as "
    "\"/deployments/{model}/chat?api-version=1\"";
constexpr std::string_view sticky_syntax = "\"header:NAME\", \"cookie:NAME\" or \"prompt-prefix\"";

bool is_visible(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

/// Whether the text may be the path that a target gets instead of the client's path.
bool is_changed_path(std::string_view text) noexcept {
  if (!is_visible(text) || text.find('#') != text.npos) return false;
  for (auto at = text.find_first_of("{}"); at != text.npos; at = text.find_first_of("{}")) {
    text.remove_prefix(at);
    if (!text.starts_with(model_mark)) return false;
    text.remove_prefix(model_mark.size());
  }
  return true;
}

void read_models(table_view& t, target& to) {
  const auto given = t.texts("models");
  if (!given) return;
  for (const text_at& model : *given) {
    if (is_model_pattern(model.text)) {
      to.models.push_back(model.text);
    } else {
      t.problems().refuse_text(model.where, model.field, model.text, model_syntax);
    }
  }
  if (given->empty())
    t.problems().complain(t.where("models"), t.field("models"), "names nothing; allowed: leave it out to serve all");
}

void read_paths(table_view& t, target& to) {
  auto given = t.table("path");
  if (!given) return;
  for (const std::string& from : given->keys()) {
    const auto text = given->text(from);
    if (!text) continue;
    const bool is_path = from.starts_with('/') && is_visible(from) && from.find_first_of("?#") == from.npos;
    if (!is_path) given->problems().refuse_text(given->where(from), given->field(), from, path_syntax);
    if (!text->text.starts_with('/') || !is_changed_path(text->text))
      given->problems().refuse_text(text->where, text->field, text->text, changed_path_syntax);
    to.paths.push_back({from, text->text});
  }
  given->finish();
}

target read_target(table_view& t, const config& c, const upstream& u) {
  target to;
  if (const auto name = t.needed("name", name_syntax)) {
    if (!is_plain_name(name->text)) t.problems().refuse_text(name->where, name->field, name->text, name_syntax);
    to.name = name->text;
  }
  read_url(t, to.url);
  to.credential = u.credential;
  read_credential(t, to.credential);
  upstream own = u;  // a copy of the upstream's settings; the target's preset replaces values in it
  if (t.has("provider")) read_presets(t, own);
  to.provider = own.provider;
  to.refusal_body = own.refusal_body;
  to.quota_resets = own.quota_resets;
  to.rates = read_rates(t, rate_units, u.shared ? rate_window::average : own.window);
  check_shared_rates(t, u, to.rates);
  t.integer("concurrency", to.concurrency, 1, 1'000'000);
  t.integer("prefer", to.prefer, 1, 100);
  to.private_addresses = u.private_addresses;
  t.flag("private", to.private_addresses);
  read_models(t, to);
  read_paths(t, to);
  // `false`: the budget of a target may not have at = "queue". If a target's budget is used up, a call does not wait
  // for the budget, but goes to another target.
  read_budget(t, c, to.budget, false);
  to.full_name = u.name + '/' + to.name;
  t.finish();
  return to;
}

}  // namespace

bool is_model_pattern(std::string_view text) noexcept {
  constexpr std::size_t longest = 64;
  if (text.empty() || text.size() > longest || !is_visible(text)) return false;
  const auto star = text.find('*');
  return star == text.npos || star + 1 == text.size();
}

void read_targets(table_view& t, const config& c, upstream& u) {
  for (table_view& given : t.tables("target", most_targets)) {
    target to = read_target(given, c, u);
    for (const target& other : u.targets) {
      if (!to.name.empty() && other.name == to.name)
        given.problems().refuse_text(given.where("name"), given.field("name"), to.name, "each name once");
      if (other.credential.is_passed() != to.credential.is_passed())
        given.problems().complain(given.where("credential"), given.field("credential"),
                                  "differs; allowed: all targets of an upstream have a credential, or none has");
    }
    u.targets.push_back(std::move(to));
  }
  if (u.targets.empty()) return;
  u.url = u.targets.front().url;
  u.credential = u.targets.front().credential;
  if (t.has("concurrency")) return;
  u.concurrency = 0;
  for (const target& to : u.targets) u.concurrency += to.concurrency;
}

void read_model_limits(table_view& t, upstream& u) {
  for (table_view& given : t.tables("model", most_model_limits)) {
    model_limit to;
    if (const auto match = given.needed("match", model_syntax)) {
      if (!is_model_pattern(match->text))
        given.problems().refuse_text(match->where, match->field, match->text, model_syntax);
      to.match = match->text;
    }
    given.flag("together", to.is_together);
    to.rates = read_rates(given, rate_units, u.window);
    given.integer("concurrency", to.concurrency, 1, 1'000'000);
    if (!given.has("rates") && !given.has("concurrency"))
      given.problems().complain(given.where(), given.field(), "limits nothing; allowed: rates, concurrency, or both");
    check_is_reached(given, u.models, to.match);
    given.finish();
    u.models.push_back(std::move(to));
  }
  if (u.shared && !u.models.empty())
    t.problems().complain(t.where("shared"), t.field("shared"),
                          "is true; allowed: false for an upstream with limits of models, as Redis keeps none of them");
}

void read_sticky(table_view& t, upstream& u) {
  const auto given = t.text("sticky");
  if (!given) return;
  using kind = sticky_options::kind;
  constexpr std::string_view header = "header:", cookie = "cookie:";
  const std::string_view text = given->text;
  if (text == "prompt-prefix") u.sticky = {kind::prompt_prefix, {}};
  if (text.starts_with(header)) u.sticky = {kind::header, std::string{text.substr(header.size())}};
  if (text.starts_with(cookie)) u.sticky = {kind::cookie, std::string{text.substr(cookie.size())}};
  const bool is_named = u.sticky.by == kind::header || u.sticky.by == kind::cookie;
  if (u.sticky.by == kind::none || (is_named && !is_token(u.sticky.name))) {
    t.problems().refuse_text(given->where, given->field, text, sticky_syntax);
  } else if (u.targets.size() < 2) {
    t.problems().complain(given->where, given->field, "is of no use: the upstream has no two targets");
  }
}

}  // namespace canigo::gateway
