#include "gateway/policy/token_estimate.hpp"

#include "gateway/wire/json_scan.hpp"
#include "gateway/wire/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace canigo::gateway {
namespace {

constexpr std::size_t longest_model = 64;

/// The largest estimate. A larger number in a client's body is lowered to this value before a multiplication, which
/// could otherwise overflow.
constexpr std::uint64_t most_estimated = 1'000'000'000;

/// Finds the parts of a request's body from which its tokens are estimated.
class body_scan final : public json_visitor {
 public:
  void boolean(bool value) override {
    if (depth_ == 1 && key_ == "stream") is_stream_ = value;
  }
  void whole_number(std::uint64_t value) override {
    if (depth_ != 1 && !in_generation_) return;
    constexpr std::string_view bounds[] = {
        "max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens",
        "maxTokens",  "maxTokenCount",         "max_new_tokens",    "max_gen_len"};
    if (std::ranges::find(bounds, key_) != std::end(bounds)) output_ = std::max(output_.value_or(0), value);
    constexpr std::string_view counts[] = {"n", "best_of", "candidateCount", "candidate_count"};
    if (std::ranges::find(counts, key_) != std::end(counts)) answers_ = std::max(answers_, value);
  }
  void other_number(double value) override {
    if (value < 0) return;
    const double most = static_cast<double>(most_estimated);
    whole_number(static_cast<std::uint64_t>(std::ceil(std::min(value, most))));
  }
  void text(std::string_view beginning, std::size_t size) override {
    if (depth_ == 1 && key_ == "model") model_ = beginning.substr(0, longest_model);
    if (!is_data_ && !beginning.starts_with("data:")) text_ += size;
  }
  void begin_object() override {
    if (depth_ == 0) is_object_ = true;
    // The names of the JSON members that hold the options of a generation, in the APIs of Gemini, Bedrock (Converse and
    // Titan) and Hugging Face.
    constexpr std::string_view generations[] = {"generationConfig", "generation_config", "inferenceConfig",
                                                "textGenerationConfig", "parameters"};
    if (depth_ == 1 && std::ranges::find(generations, key_) != std::end(generations)) in_generation_ = true;
    ++depth_;
  }
  void begin_list() override { ++depth_; }
  void end_object() override { leave(); }
  void end_list() override { leave(); }
  void name(std::string_view name) override {
    key_ = depth_ <= 2 ? name : std::string_view{};
    if (depth_ == 1 && name == "stream_options") has_stream_options_ = true;
    if (depth_ == 1 && (name == "messages" || name == "prompt")) has_prompt_ = true;
    // A member `data` below the top level may hold Base64 data: {"inlineData": {"data": "base64"}}, {"source": {"data":
    // "base64"}}, {"input_audio": {"data": "base64"}}
    is_data_ = depth_ > 1 && name == "data";
  }

  std::uint64_t text_size() const noexcept { return text_; }
  std::uint64_t output(std::uint64_t usual) const noexcept {
    const std::uint64_t one = std::min(output_.value_or(usual), most_estimated);
    return std::min(one * std::clamp<std::uint64_t>(answers_, 1, 1'000), most_estimated);
  }
  const std::string& model() const noexcept { return model_; }
  bool is_object() const noexcept { return is_object_; }
  bool is_stream() const noexcept { return is_stream_; }
  bool has_stream_options() const noexcept { return has_stream_options_; }
  bool has_prompt() const noexcept { return has_prompt_; }

 private:
  void leave() {
    --depth_;
    if (depth_ == 1) in_generation_ = false;
    key_.clear();
    is_data_ = false;
  }

  std::size_t depth_ = 0;
  std::string key_;  // the key of the next value; kept only in the outer levels of the document
  bool is_data_ = false;
  bool in_generation_ = false;
  bool is_object_ = false;
  bool is_stream_ = false;
  bool has_stream_options_ = false;
  bool has_prompt_ = false;
  std::uint64_t text_ = 0;
  std::optional<std::uint64_t> output_;
  std::uint64_t answers_ = 1;
  std::string model_;
};

bool scan(std::string_view text, body_scan& s) { return scan_json(text, s) && s.is_object(); }

constexpr std::uint64_t quarter(std::uint64_t bytes) noexcept { return bytes / 4 + (bytes % 4 != 0 ? 1 : 0); }

/// Decodes percent-encoded bytes. If `only_unreserved`, decodes only those that encode one of unreserved_characters.
std::string decoded(std::string_view text, bool only_unreserved) {
  std::string plain;
  while (!text.empty()) {
    unsigned byte = 0;
    const bool is_code = text.size() >= 3 && text.front() == '%' &&
                         std::from_chars(text.data() + 1, text.data() + 3, byte, 16).ptr == text.data() + 3;
    const bool is_decoded = is_code && (!only_unreserved || unreserved_characters.has(static_cast<char>(byte)));
    plain += is_decoded ? static_cast<char>(byte) : text.front();
    text.remove_prefix(is_decoded ? 3 : 1);
  }
  return plain;
}

/// Returns the model in a path such as "/v1beta/models/NAME:generateContent", "/model/NAME/converse" or
/// "/openai/deployments/NAME/chat/completions". Returns an empty text if a server may read the path as another path,
/// for example because it contains "//" or "/../".
std::string model_in(std::string_view target) {
  const std::string path = decoded(target.substr(0, target.find('?')), true);
  if (may_be_another_path(path, true)) return {};
  for (const std::string_view mark : {"/models/", "/model/", "/deployments/"}) {
    const auto at = path.find(mark);
    if (at == path.npos) continue;
    const std::string_view rest = std::string_view{path}.substr(at + mark.size());
    return decoded(rest.substr(0, rest.find_first_of(":/")), false).substr(0, longest_model);
  }
  return {};
}

bool is_one_of(const std::vector<call_pattern>& calls, const called& what) noexcept {
  return std::ranges::any_of(calls, [&](const call_pattern& p) { return p.matches(what.method, what.target); });
}

}  // namespace

token_estimate estimate_tokens(const token_options& o, const called& what, const read_body& body, bool wants_model) {
  token_estimate e;
  e.is_free = is_one_of(o.free, what);
  e.has_output = !e.is_free && !is_one_of(o.no_output, what);
  const bool is_empty = body.is_whole && body.text.empty();
  if (wants_model) e.model = model_in(what.target);
  if (is_empty) return e;
  const bool is_counted = o.api != token_api::none && !e.is_free;
  if (is_counted && e.has_output) e.output = o.default_output;
  if (is_counted) e.input = std::min(quarter(std::max<std::uint64_t>(body.length, body.text.size())), most_estimated);
  const bool is_read = is_counted && o.api != token_api::bytes;
  if (!is_read && !wants_model) return e;
  e.model = model_in(what.target);
  body_scan s;
  if (!body.is_whole || !scan(body.text, s)) return e;
  if (is_read) e.input = quarter(s.text_size());
  if (is_read && e.has_output) e.output = s.output(o.default_output);
  if (e.model.empty()) e.model = s.model();
  return e;
}

bool is_request_for_stream(std::string_view body) {
  body_scan s;
  return scan(body, s) && s.is_stream();
}

std::optional<std::string> with_include_usage(std::string_view body) {
  body_scan s;
  if (!scan(body, s) || !s.is_stream() || !s.has_prompt() || s.has_stream_options()) return std::nullopt;
  std::string text{body};
  text.insert(text.find('{') + 1, R"("stream_options":{"include_usage":true},)");
  return text;
}

}  // namespace canigo::gateway
