// Bodies of requests and responses that are read for their tokens, and of refusals for their limits: what is read does
// not depend on the pieces, and is bounded, whatever the bodies say.

#include "gateway/policy/refusal_body.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/policy/usage_reader.hpp"
#include "target.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace gateway = canigo::gateway;

namespace {

std::optional<gateway::token_usage> read(gateway::usage_form form, std::string_view body, std::size_t first,
                                         std::size_t size) {
  static const gateway::usage_names names{
      .input = {"usage.prompt_tokens", "usage.tokens.input_tokens", "meta.billed_units.input_tokens",
                "usage.inputTokens", "usageMetadata.promptTokenCount"},
      .more_input = {"usage.cache_creation_input_tokens", "usage.cacheWriteInputTokens"},
      .output = {"usage.completion_tokens", "usage.tokens.output_tokens", "usage.outputTokens",
                 "generation_token_count"},
      .more_output = {"usageMetadata.thoughtsTokenCount"},
      .total = {"usage.total_tokens", "usage.totalTokens"},
      .cached_input = {"usage.prompt_tokens_details.cached_tokens"},
      .more_cached_input = {"usage.cache_read_input_tokens"}};
  gateway::usage_reader r{form, names};
  r.take(body.substr(0, first));
  body.remove_prefix(std::min(first, body.size()));
  for (; !body.empty(); body.remove_prefix(std::min(size, body.size()))) r.take(body.substr(0, size));
  return r.finish();
}

void estimate(std::string_view body, gateway::token_api api) {
  gateway::token_options o;
  o.api = api;
  o.free = {{"GET", "/a*b*/c"}, {"POST", "*/x*y"}};
  const auto e = gateway::estimate_tokens(o, {"POST", body}, {body, true, body.size()});
  fuzz::require(e.input <= body.size() / 4 + 1, "input is no more than the body");
  fuzz::require(e.output <= 1'000'000'000, "output is bounded");
  o.no_output = {{"POST", "*"}};
  const auto without = gateway::estimate_tokens(o, {"POST", body}, {body, true, body.size()});
  fuzz::require(without.output == 0 && without.input == e.input, "a call without output has the same input");
  fuzz::require(e.model.size() <= 64, "a model's name is bounded");
  if (const auto with = gateway::with_include_usage(body)) {
    auto before = nlohmann::json::parse(body), after = nlohmann::json::parse(*with);
    fuzz::require(after["stream_options"]["include_usage"] == true, "the usage is asked for");
    after.erase("stream_options");
    fuzz::require(before == after, "and nothing else is changed");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  const auto form = static_cast<gateway::usage_form>(in.byte() % 4);
  const auto api = static_cast<gateway::token_api>(in.byte() % 7);
  const std::size_t first = in.byte(), step = in.byte() % 16 + 1u;
  // So much of it that a document is too large, or an event.
  const std::size_t filling = in.byte() % 64 == 0 ? gateway::usage_reader::most_document : 0;
  const std::string body = std::string(filling, ' ') + std::string{in.text()};
  const auto whole = read(form, body, body.size(), 1);
  fuzz::require(read(form, body, filling + first, step) == whole, "pieces make no difference");
  if (whole) fuzz::require(whole->input <= 2'000'000'000 && whole->output <= 2'000'000'000, "a usage is bounded");
  if (filling == 0) estimate(body, api);
  const auto told = gateway::read_refusal_body(body);
  fuzz::require(!told.wait || told.wait->count() >= 0, "a wait ends after it begins");
  return 0;
}
