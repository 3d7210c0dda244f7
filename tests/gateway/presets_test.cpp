#include "gateway/config/presets.hpp"

#include "gateway/preset_upstream.hpp"
#include "support/catch.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace gateway = canigo::gateway;
using gateway_test::config_of;
using gateway_test::upstream_of;
using namespace std::chrono_literals;

namespace {

/// The full names of all values of a table.
void add_names(const toml::table& table, const std::string& prefix, std::set<std::string>& names) {
  for (const auto& [key, value] : table) {
    const std::string name = prefix + std::string{key.str()};
    if (const toml::table* inner = value.as_table()) {
      add_names(*inner, name + ".", names);
    } else {
      names.insert(name);
    }
  }
}

std::set<std::string> names_of(std::string_view text) {
  std::set<std::string> names;
  add_names(toml::parse(text), "", names);
  return names;
}

bool has_same_settings(const gateway::upstream& a, const gateway::upstream& b) {
  return a.window == b.window && a.tokens == b.tokens && a.refusal_body == b.refusal_body &&
         a.quota_resets == b.quota_resets && a.timeout == b.timeout && a.retry == b.retry && a.breaker == b.breaker;
}

}  // namespace

TEST_CASE("gateway: there is a preset for each provider, with its date and its sources", "[gateway][config]") {
  const std::set<std::string_view> wanted{"openai",  "azure",  "anthropic", "gemini",  "mistral",     "cohere",
                                          "bedrock", "github", "shopify",   "discord", "huggingface", "generic"};
  std::set<std::string_view> names;
  for (const gateway::preset& p : gateway::presets()) {
    CAPTURE(p.name);
    names.insert(p.name);
    CHECK(gateway::find_preset(p.name)->text == p.text);
    const std::string_view first = p.text.substr(0, p.text.find('\n'));
    CHECK(first.starts_with("# "));
    CHECK(first.find(" 20") != first.npos);
    CHECK((p.name == "generic" || p.text.find("# Sources: ") != p.text.npos));
    CHECK(p.text.ends_with('\n'));
  }
  CHECK(names == wanted);
  CHECK(gateway::find_preset("") == nullptr);
}

TEST_CASE("gateway: each preset can be read, and written into a file as it is", "[gateway][config]") {
  for (const gateway::preset& p : gateway::presets()) {
    CAPTURE(p.name);
    const gateway::upstream u = upstream_of(p.name);
    CHECK(u.provider == p.name);
    CHECK(has_same_settings(u, upstream_of("generic", p.text)));
    CHECK(has_same_settings(u, upstream_of(p.name, p.text)));
  }
}

TEST_CASE("gateway: an upstream without a provider has the values of the generic one", "[gateway][config]") {
  std::string text = config_of("generic");
  const std::string line = "provider = 'generic'\n";
  text.erase(text.find(line), line.size());
  const auto read = gateway::parse_config(text);
  REQUIRE(read.value);
  CHECK(has_same_settings(read.value->upstreams[0], upstream_of("generic")));
  // They are those that the code has, too: the hosts of forward mode have no preset.
  const gateway::upstream u = upstream_of("generic"), none;
  CHECK((u.window == none.window && u.timeout == none.timeout && u.retry == none.retry && u.breaker == none.breaker));
  CHECK((u.tokens.api == none.tokens.api && u.tokens.default_output == none.tokens.default_output));
  CHECK((u.tokens.learn == none.tokens.learn && u.tokens.add_usage == none.tokens.add_usage));
}

TEST_CASE("gateway: a file may have another value in the place of each one of a preset", "[gateway][config]") {
  const gateway::preset& generic = *gateway::find_preset("generic");
  std::set<std::string> all = names_of(generic.text);
  all.insert("refusal_body");
  // Those of the generic one take the places of all.
  for (const gateway::preset& p : gateway::presets()) {
    CAPTURE(p.name);
    for (const std::string& name : names_of(p.text)) {
      CAPTURE(name);
      CHECK(all.contains(name));
    }
    gateway::upstream u = upstream_of(p.name, generic.text);
    u.refusal_body.reset();
    CHECK(has_same_settings(u, upstream_of("generic")));
  }
  // One value leaves the others of its table as they are.
  const gateway::upstream u =
      upstream_of("openai",
                  "window = 'average'\nrefusal_body = false\ntimeout.first_byte = '7s'\nretry.attempts = 2\n"
                  "tokens = { default_output = 9, output_weight = 5, no_output = ['POST /y'], usage = { output = "
                  "['a.b'] }, free = ['POST /x'] }\n");
  const gateway::upstream openai = upstream_of("openai");
  CHECK((u.window == canigo::rate_window::average && u.refusal_body == false && u.retry.attempts == 2));
  CHECK((u.timeout.first_byte == 7s && u.timeout.total == 15min && u.timeout.connect == 5s));
  CHECK((u.tokens.api == gateway::token_api::openai && u.tokens.default_output == 9));
  CHECK(u.tokens.free == std::vector<gateway::call_pattern>{{"POST", "/x"}});
  CHECK(u.tokens.no_output == std::vector<gateway::call_pattern>{{"POST", "/y"}});
  CHECK((u.tokens.output_weight == 5 && openai.tokens.output_weight == 1));
  CHECK(u.tokens.usage.output == std::vector<std::string>{"a.b"});
  CHECK((u.tokens.usage.input == openai.tokens.usage.input && !u.tokens.usage.input.empty()));
}

TEST_CASE("gateway: models may think for ten minutes, and minutes are counted strictly", "[gateway][config]") {
  for (const std::string_view name :
       {"openai", "azure", "anthropic", "gemini", "mistral", "cohere", "bedrock", "huggingface"}) {
    CAPTURE(name);
    const gateway::upstream u = upstream_of(name, "rates = [{ limit = '60/1m' }]\n");
    CHECK((u.timeout.first_byte == 10min && u.timeout.idle == 10min && u.timeout.total == 15min));
    CHECK(u.tokens.reads_usage());
    CHECK(u.rates.at(0).window == canigo::rate_window::strict);
    CHECK(upstream_of(name, "rates = [{ limit = '60/1m', window = 'average' }]\n").rates[0].window ==
          canigo::rate_window::average);
  }
  for (const std::string_view name : {"github", "shopify", "discord", "generic"}) {
    CAPTURE(name);
    const gateway::upstream u = upstream_of(name, "rates = [{ limit = '60/1m' }]\n");
    CHECK((!u.tokens.reads_usage() && u.rates.at(0).window == canigo::rate_window::average));
  }
}

TEST_CASE("gateway: a preset knows the calls of its provider that use no tokens", "[gateway][config]") {
  struct row {
    std::string_view provider, method, target;
    bool is_free;
  };
  for (const row& r : {
           row{"openai", "POST", "/v1/fine_tuning/jobs/j/pause", true},
           row{"openai", "POST", "/v1/vector_stores/v/files/f", true},
           row{"openai", "POST", "/v1/containers/c/files", true},
           row{"openai", "POST", "/v1/responses/input_tokens", true},
           row{"openai", "POST", "/v1/realtime/client_secrets", true},
           row{"openai", "POST", "/v1/responses", false},
           row{"openai", "POST", "/v1/responses/compact", false},
           row{"openai", "POST", "/v1/vector_stores/v/search", false},
           row{"openai", "POST", "/v1/evals/e/runs", false},
           row{"azure", "POST", "/openai/files/import?api-version=1", true},
           row{"azure", "POST", "/openai/deployments/d/chat/completions", false},
           row{"anthropic", "POST", "/v1/messages/count_tokens?beta=true", true},
           row{"anthropic", "POST", "/v1/messages/batches/b/cancel", true},
           row{"anthropic", "POST", "/v1/skills/s/versions?beta=true", true},
           row{"anthropic", "POST", "/v1/messages", false},
           row{"gemini", "POST", "/v1beta/models/g:countTokens", true},
           row{"gemini", "POST", "/upload/v1beta/fileSearchStores/s:uploadToFileSearchStore", true},
           row{"gemini", "POST", "/v1beta/interactions/i/cancel", true},
           row{"gemini", "POST", "/v1beta/interactions", false},
           row{"gemini", "POST", "/v1beta/models/g:streamGenerateContent?alt=sse", false},
           row{"mistral", "POST", "/v1/fine_tuning/models/m/archive", true},
           row{"mistral", "POST", "/v1/agents", true},
           row{"mistral", "POST", "/v1/agents/completions", false},
           row{"mistral", "POST", "/v1/conversations/c", false},
           row{"cohere", "POST", "/v2/batches/b:cancel", true},
           row{"cohere", "POST", "/v1/tokenize", true},
           row{"cohere", "POST", "/v2/chat", false},
           row{"bedrock", "POST", "/model/m%3A0/count-tokens", true},
           row{"bedrock", "POST", "/model/m%3A0/converse", false},
           row{"huggingface", "POST", "/api/models/a/b/preupload/main", true},
           row{"huggingface", "POST", "/api/models/a/b/tag/main", true},
           row{"huggingface", "POST", "/v1/chat/completions", false},
       }) {
    CAPTURE(r.provider, r.method, r.target);
    const gateway::token_options o = upstream_of(r.provider).tokens;
    CHECK(std::ranges::any_of(o.free, [&](const gateway::call_pattern& p) { return p.matches(r.method, r.target); }) ==
          r.is_free);
  }
}

TEST_CASE("gateway: it is known when the quotas of a day of Gemini are whole again", "[gateway][config]") {
  for (const gateway::preset& p : gateway::presets())
    CHECK(upstream_of(p.name).quota_resets ==
          (p.name == "gemini" ? gateway::quota_reset::pacific : gateway::quota_reset::unknown));
  CHECK(upstream_of("gemini", "quota_resets = '00:00 UTC'").quota_resets == gateway::quota_reset::utc);
  CHECK(upstream_of("gemini", "quota_resets = 'unknown'").quota_resets == gateway::quota_reset::unknown);
}

TEST_CASE("gateway: a body of a refusal is read where it tells of limits", "[gateway][config]") {
  for (const std::string_view name : {"openai", "azure", "anthropic", "gemini", "discord", "github"})
    CHECK(upstream_of(name).reads_refusals());
  for (const std::string_view name : {"mistral", "cohere", "bedrock", "shopify", "huggingface"})
    CHECK_FALSE(upstream_of(name).reads_refusals());
  CHECK_FALSE(upstream_of("generic").reads_refusals());
  CHECK(upstream_of("generic", "refusal_body = true").reads_refusals());
  CHECK(upstream_of("generic", "tokens.api = 'openai'").reads_refusals());
  CHECK_FALSE(upstream_of("generic", "tokens.api = 'openai'\nrefusal_body = false").reads_refusals());
}
