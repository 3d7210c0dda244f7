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
  std::uint64_t cached_input = 0;  ///< the part of `input` that the upstream read from its cache
  /// Tokens that were read from the upstream's cache and are not included in `input`.
  std::uint64_t more_cached_input = 0;

  friend bool operator==(const token_usage&, const token_usage&) = default;
};

/// How a response reports its usage.
enum class usage_form : std::uint8_t {
  none,    ///< the response reports no usage
  json,    ///< its single JSON document reports the usage
  events,  ///< its server-sent events report the usage
  frames,  ///< the last of its binary AWS frames reports the usage; each frame contains a document
};

/// Returns the form of a response with this Content-Type.
usage_form usage_form_of(std::string_view content_type) noexcept;

/// The numbers found in one or several documents under the names of usage_names. The last number of each kind counts.
struct usage_numbers {
  std::optional<std::uint64_t> input;
  std::optional<std::uint64_t> more_input;
  std::optional<std::uint64_t> output;
  std::optional<std::uint64_t> more_output;
  std::optional<std::uint64_t> total;
  std::optional<std::uint64_t> cached_input;
  std::optional<std::uint64_t> more_cached_input;
  bool is_unreadable = false;  ///< a value is no valid number of tokens, so the other numbers are not used either

  std::optional<token_usage> sum() const noexcept;
};

/// Reads the usage from the body of a response, which it gets in pieces.
///
/// A name starts at the top level of a document, in its `message`, `response`, `delta` or `interaction`, or in the
/// objects of a list. A document is kept up to 1 MiB; of a larger one the last 16 KiB are kept. An event is kept up to
/// 256 KiB; a larger one is skipped. In a part of a document, only objects that are complete are read.
class usage_reader {
 public:
  static constexpr std::size_t most_document = std::size_t{1} << 20;
  static constexpr std::size_t tail = std::size_t{16} << 10;
  static constexpr std::size_t most_event = std::size_t{256} << 10;

  /// `names` must outlive this object.
  usage_reader(usage_form form, const usage_names& names);

  void take(std::string_view piece);
  /// Returns the usage. Call it at the end of a whole body only: the usage of a truncated body is unknown. Returns
  /// nothing if the body reported no usage.
  std::optional<token_usage> finish();
  /// Returns how many events with data have come. A streaming model sends about one event for each token of its output.
  std::uint32_t events() const noexcept { return events_; }

 private:
  void take_document(std::string_view piece);
  void take_events(std::string_view piece);
  void end_line();
  void end_event();

  usage_form form_;
  const usage_names* names_;
  std::vector<std::string_view> roots_;  // for events: the top-level parts of the names
  std::string document_;                 // the document, or the data of an event
  std::string line_;
  bool is_cut_ = false;      // document: its beginning was dropped; event: it is too large
  bool was_return_ = false;  // the last byte was a carriage return; a line feed after it belongs to the same line end
  std::uint32_t events_ = 0;
  usage_numbers numbers_;
};

}  // namespace canigo::gateway
