#pragma once

#include "gateway/config/config.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// At most this many bytes of a request's body are read to estimate its tokens.
inline constexpr std::size_t most_read_body = std::size_t{1} << 20;

/// The tokens that a request is expected to use, estimated from its body.
struct token_estimate {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  std::string model;       ///< the model's name, up to 64 bytes; empty: the request names no model
  bool is_free = false;    ///< true: the call uses no tokens, and its response reports no usage
  bool has_output = true;  ///< false for a call without output, such as one for embeddings
};

/// The method and the target of a request.
struct called {
  std::string_view method;
  std::string_view target;  ///< the request target that the upstream gets
};

/// The part of a request's body that was read.
struct read_body {
  std::string_view text;
  bool is_whole = false;     ///< whether `text` is the whole body
  std::uint64_t length = 0;  ///< the length of the whole body; 0 if it is not known
};

/// Estimates the tokens of a request.
///
/// The model is the part of the request target after "/models/", "/model/" or "/deployments/". If the target names no
/// model, the model is read from the body. The estimates of input and output tokens are 0 with token_api::none, for a
/// request without a body, and for a free request. The estimate of output tokens is also 0 for a call without output,
/// such as one for embeddings. `wants_model`: whether the model is read even if no tokens are counted. Allocates: in
/// proportion to the body's longest string.
token_estimate estimate_tokens(const token_options& o, const called& what, const read_body& body,
                               bool wants_model = false);

/// Whether the text is JSON whose member `stream` is true.
bool is_request_for_stream(std::string_view body);

/// Returns the JSON body of a streaming request with stream_options.include_usage added, so that the last event reports
/// the usage. Returns nothing if the request is not a streaming one, has its own stream_options, or is no JSON object.
/// Also returns nothing if there is neither `messages` nor `prompt`: OpenAI's Responses API always reports usage, and
/// rejects stream_options.include_usage.
std::optional<std::string> with_include_usage(std::string_view body);

}  // namespace canigo::gateway
