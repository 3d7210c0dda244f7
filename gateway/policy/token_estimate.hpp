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
  std::string model;       ///< up to 64 bytes; empty: the request names none
  bool is_stream = false;  ///< the request asks for events
};

/// A body as far as it was read.
struct read_body {
  std::string_view text;
  bool is_whole = false;     ///< the whole body is in `text`
  std::uint64_t length = 0;  ///< of the whole body, as far as that is known
};

/// Estimates the tokens of a request.
///
/// Input is a quarter of the bytes of all text in its JSON; or of the body's length, if the body is not whole or no
/// JSON. Pictures and sounds in base64 are no text. Output is the most that the request allows, or `default_output`,
/// for each answer that it wants.
///
/// `target` names the model if the API has it there. With token_api::none, and for a request without a body, both
/// numbers are 0.
/// Allocates: in proportion to the body's longest string.
token_estimate estimate_tokens(const token_options& o, std::string_view target, const read_body& body);

/// The JSON body of a request for a stream with stream_options.include_usage in it, so that the last event tells the
/// usage. Nothing if it is not for a stream, has stream_options of its own, or is no JSON object.
std::optional<std::string> with_include_usage(std::string_view body);

}  // namespace canigo::gateway
