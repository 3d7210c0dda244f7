#pragma once

#include "gateway/config/config.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// A body is read for its tokens up to this size.
inline constexpr std::size_t most_read_body = std::size_t{1} << 20;

/// The tokens that a request will use, as far as its body tells.
struct token_estimate {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  std::string model;       ///< up to 64 bytes; empty: it names none
  bool is_free = false;    ///< such a call uses no tokens, and tells no usage
  bool has_output = true;  ///< false of a call for embeddings
};

/// The beginning of a request.
struct called {
  std::string_view method;
  std::string_view target;  ///< the target as it goes to the upstream
};

/// A body as far as it was read.
struct read_body {
  std::string_view text;
  bool is_whole = false;     ///< the whole body is in `text`
  std::uint64_t length = 0;  ///< the length of the whole body, as far as it is known
};

/// Estimates the tokens of a request.
///
/// The model is that of the target, if it has one behind "/models/", "/model/" or "/deployments/", else that of the
/// body. Both are 0 with token_api::none, for a request without a body, and for one that is free. The output of a call
/// that has none is 0, whatever its body allows. `wants_model`: the model is read, too, where no tokens are counted.
/// Allocates: in proportion to the body's longest string.
token_estimate estimate_tokens(const token_options& o, const called& what, const read_body& body,
                               bool wants_model = false);

/// Whether the text is JSON whose member `stream` is true.
bool is_request_for_stream(std::string_view body);

/// The JSON body of a request for a stream with stream_options.include_usage in it, so that the last event tells the
/// usage. Nothing if it is not for a stream, has stream_options of its own, or is no JSON object. Nothing either unless
/// it has `messages` or `prompt`: OpenAI's Responses tell the usage unasked, and answer 400 to that option.
std::optional<std::string> with_include_usage(std::string_view body);

}  // namespace canigo::gateway
