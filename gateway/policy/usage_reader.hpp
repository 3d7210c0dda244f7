#pragma once

#include "gateway/config/config.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// The tokens that a request has used, as its upstream reported them.
struct token_usage {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  std::uint64_t cached_input = 0;  ///< how many tokens of `input` the upstream read from its cache
  /// The number of tokens that the upstream read from its cache, and that `input` does not include.
  std::uint64_t more_cached_input = 0;

  friend bool operator==(const token_usage&, const token_usage&) = default;
};

/// The form in which a response reports its usage.
enum class usage_form : std::uint8_t {
  none,    ///< the response reports no usage
  json,    ///< the single JSON document of the body reports the usage
  events,  ///< the server-sent events of the body report the usage
  frames,  ///< the last binary AWS frame of the body reports the usage; each frame contains a JSON document
};

/// Returns the form of a response with this Content-Type.
usage_form usage_form_of(std::string_view content_type) noexcept;

/// The numbers that were found in one or several documents under the names of usage_names. Of several numbers of one
/// kind, the last one counts.
struct usage_numbers {
  std::optional<std::uint64_t> input;
  std::optional<std::uint64_t> more_input;
  std::optional<std::uint64_t> output;
  std::optional<std::uint64_t> more_output;
  std::optional<std::uint64_t> total;
  std::optional<std::uint64_t> cached_input;
  std::optional<std::uint64_t> more_cached_input;
  /// Whether a number of input, output or total tokens is invalid. If so, sum() returns nothing. An invalid number of
  /// cached tokens is ignored, and does not set this flag.
  bool is_unreadable = false;

  std::optional<token_usage> sum() const noexcept;
};

/// Reads the usage from the body of a response. The caller passes the body to take() in pieces.
///
/// The usage_names are paths of members, such as "usage.input_tokens". A path starts at the top level of a JSON
/// document, or in its member `message`, `response`, `delta` or `interaction`. If the whole document is a list, a path
/// may also start in an object of this list. A document of up to 1 MiB is read completely. Of a larger document, and of
/// AWS frames, only the last 16 KiB are read, and in this part only complete objects. An event of more than 256 KiB is
/// skipped.
class usage_reader {
 public:
  static constexpr std::size_t most_document = std::size_t{1} << 20;
  static constexpr std::size_t tail = std::size_t{16} << 10;
  static constexpr std::size_t most_event = std::size_t{256} << 10;

  /// `names` must outlive this object.
  usage_reader(usage_form form, const usage_names& names);

  void take(std::string_view piece);
  /// Returns the usage; nothing if the body reported none. Call it only at the end of a whole body: the usage of a
  /// truncated body is unknown.
  std::optional<token_usage> finish();
  /// Returns the number of events with data so far. A streaming model sends about one event for each output token.
  std::uint32_t events() const noexcept { return events_; }

 private:
  void take_document(std::string_view piece);
  void take_events(std::string_view piece);
  void end_line();
  void end_event();

  usage_form form_;
  const usage_names* names_;
  std::vector<std::string_view> roots_;  // the first part of each dotted name, such as "usage"; used for events
  std::string document_;                 // the text of the document, or the data of the current event
  std::string line_;
  bool is_cut_ = false;      // true: only the end of the document is kept, or the event is too large
  bool was_return_ = false;  // the last byte was a carriage return; a line feed after it belongs to the same line end
  std::uint32_t events_ = 0;
  usage_numbers numbers_;
};

}  // namespace canigo::gateway
