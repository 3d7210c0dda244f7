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
  bool is_stream = false;  ///< it asks for events
};

/// A body as far as it was read.
struct read_body {
  std::string_view text;
  bool is_whole = false;     ///< all of it is in `text`
  std::uint64_t length = 0;  ///< of the whole body, as far as that is known
};

/// Estimates the tokens of a request. Input is a quarter of the bytes of all text in its JSON, or of its length if it
/// is not all there, or no JSON. Output is the most that it allows, for each answer that it wants, or
/// `default_output`. Pictures and sounds in base64 are no text.
///
/// `target` names the model where the API has it there. With token_api::none, and of a request without a body, both are
/// 0.
/// Allocates: in proportion to the body's longest string.
token_estimate estimate_tokens(const token_options& o, std::string_view target, const read_body& body);

/// The JSON body of a request for a stream with stream_options.include_usage in it, so that the last event tells the
/// usage. Nothing if it is not for a stream, has stream_options of its own, or is no JSON object.
std::optional<std::string> with_include_usage(std::string_view body);

}  // namespace canigo::gateway
