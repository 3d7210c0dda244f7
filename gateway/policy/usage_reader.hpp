#pragma once

#include "gateway/config/config.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// The tokens that a request has used, as its upstream says.
struct token_usage {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  std::uint64_t cached_input = 0;       ///< a part of `input`, which the upstream has read from its cache
  std::uint64_t more_cached_input = 0;  ///< from its cache, too, and no part of `input`

  friend bool operator==(const token_usage&, const token_usage&) = default;
};

/// How a response tells its usage.
enum class usage_form : std::uint8_t {
  none,    ///< the response tells no usage
  json,    ///< its one document tells the usage
  events,  ///< its events tell the usage
  frames,  ///< the last of its binary frames of AWS tells it; each frame holds a document
};

/// The form of a response with this Content-Type.
usage_form usage_form_of(std::string_view content_type) noexcept;

/// The numbers of one or several documents, as usage_names has them: the last of each kind counts.
struct usage_numbers {
  std::optional<std::uint64_t> input;
  std::optional<std::uint64_t> more_input;
  std::optional<std::uint64_t> output;
  std::optional<std::uint64_t> more_output;
  std::optional<std::uint64_t> total;
  std::optional<std::uint64_t> cached_input;
  std::optional<std::uint64_t> more_cached_input;
  bool is_unreadable = false;  ///< one of the numbers is no number of tokens, so the others say nothing

  std::optional<token_usage> sum() const noexcept;
};

/// Reads the usage in the body of a response, which goes by in pieces.
///
/// The names count from the top of a document, from its `message`, `response`, `delta` or `interaction`, or from the
/// objects of a list. It keeps a document of up to 1 MiB, and of a larger one the last 16 KiB. It keeps one event of up
/// to 256 KiB, and passes over larger ones. Of the last 16 KiB of anything, only what is in an object there is read.
class usage_reader {
 public:
  static constexpr std::size_t most_document = std::size_t{1} << 20;
  static constexpr std::size_t tail = std::size_t{16} << 10;
  static constexpr std::size_t most_event = std::size_t{256} << 10;

  /// The names must outlive it.
  usage_reader(usage_form form, const usage_names& names);

  void take(std::string_view piece);
  /// The usage, at the end of a whole body: if a body breaks off, its usage is unknown. Nothing: the body told no
  /// usage.
  std::optional<token_usage> finish();

 private:
  void take_document(std::string_view piece);
  void take_events(std::string_view piece);
  void end_line();
  void end_event();

  usage_form form_;
  const usage_names* names_;
  std::vector<std::string_view> roots_;  // for events: the first parts of the names
  std::string document_;                 // the document, or the data of an event
  std::string line_;
  bool is_cut_ = false;      // the document: its beginning is gone; the event: it is too large
  bool was_return_ = false;  // the last byte was a return; a line feed behind it belongs to it
  usage_numbers numbers_;
};

}  // namespace canigo::gateway
