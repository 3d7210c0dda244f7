#include "gateway/config/presets.hpp"
#include "gateway/config/reader_parts.hpp"
#include "gateway/wire/text.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace canigo::gateway {
namespace {

void read_calls(table_view& t, std::string_view key, std::vector<call_pattern>& calls) {
  const auto given = t.texts(key);
  if (!given) return;
  calls.clear();
  for (const text_at& text : *given) {
    if (auto pattern = parse_call_pattern(text.text)) {
      calls.push_back(std::move(*pattern));
    } else {
      t.problems().refuse_text(text.where, text.field, text.text, call_pattern_syntax);
    }
  }
}

bool is_usage_name(std::string_view text) noexcept {
  std::size_t parts = 0;
  for (;;) {
    const auto dot = text.find('.');
    const std::string_view part = text.substr(0, dot);
    if (part.empty() || ++parts > most_usage_parts) return false;
    if (!std::ranges::all_of(part, [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-'; }))
      return false;
    if (dot == text.npos) return true;
    text.remove_prefix(dot + 1);
  }
}

void read_usage(table_view& t, usage_names& usage) {
  auto given = t.table("usage");
  if (!given) return;
  const auto read = [&](std::string_view key, std::vector<std::string>& out) {
    const auto names = given->texts(key);
    if (!names) return;
    out.clear();
    for (const text_at& name : *names) {
      if (is_usage_name(name.text)) {
        out.push_back(name.text);
      } else {
        t.problems().refuse_text(name.where, name.field, name.text,
                                 "1 to 3 names of members with . between them, such as \"usage.input_tokens\"");
      }
    }
  };
  read("input", usage.input);
  read("more_input", usage.more_input);
  read("output", usage.output);
  read("more_output", usage.more_output);
  read("total", usage.total);
  read("cached_input", usage.cached_input);
  read("more_cached_input", usage.more_cached_input);
  given->finish();
}

void read_tokens(table_view& t, upstream& u) {
  auto given = t.table("tokens");
  if (!given) return;
  given->word("api", u.tokens.api,
              {{"none", token_api::none},
               {"openai", token_api::openai},
               {"anthropic", token_api::anthropic},
               {"gemini", token_api::gemini},
               {"cohere", token_api::cohere},
               {"bedrock", token_api::bedrock},
               {"bytes/4", token_api::bytes}});
  given->integer("default_output", u.tokens.default_output, 0, 1'000'000'000);
  given->integer("output_weight", u.tokens.output_weight, 1, 1'000);
  given->flag("learn", u.tokens.learn);
  given->flag("add_usage", u.tokens.add_usage);
  if (u.tokens.add_usage && u.tokens.api != token_api::openai)
    given->problems().complain(given->where("add_usage"), given->field("add_usage"),
                               "is true; allowed: false unless api is \"openai\"");
  read_calls(*given, "free", u.tokens.free);
  read_calls(*given, "no_output", u.tokens.no_output);
  read_usage(*given, u.tokens.usage);
  given->finish();
}

void read_values(const preset& p, upstream& u) {
  const toml::table values = toml::parse(p.text);
  report wrongs;
  table_view t{values, "", wrongs};
  read_settings(t, u);
  t.finish();
  assert(wrongs.is_empty());
}

}  // namespace

void read_settings(table_view& t, upstream& u) {
  read_window(t, u.window);
  read_tokens(t, u);
  bool tells = false;
  t.flag("refusal_body", tells);
  if (t.has("refusal_body")) u.refusal_body = tells;
  t.word("quota_resets", u.quota_resets,
         {{quota_reset_names[0], quota_reset::unknown},
          {quota_reset_names[1], quota_reset::utc},
          {quota_reset_names[2], quota_reset::pacific}});
  read_timeouts(t, u);
  read_retry(t, u);
  read_breaker(t, u);
}

void read_presets(table_view& t, upstream& u) {
  read_values(*find_preset(u.provider), u);
  const auto given = t.text("provider");
  if (!given) return;
  if (const preset* own = find_preset(given->text)) {
    u.provider = given->text;
    read_values(*own, u);
    return;
  }
  std::string names;
  for (const preset& p : presets()) names.append(names.empty() ? "" : ", ").append(p.name);
  t.problems().refuse_text(given->where, given->field, given->text, names);
}

}  // namespace canigo::gateway
