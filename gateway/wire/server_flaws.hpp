#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// A part of a response in which a flaw was corrected. curl, Go's net/http and nginx accept that flaw, but Beast's
/// parser does not.
struct mended_text {
  std::string text;
  std::size_t at = 0;       ///< where the text first differs from the server's bytes
  std::size_t added = 0;    ///< the number of bytes that the server has not sent
  std::size_t dropped = 0;  ///< the number of the server's bytes that were left out
  bool is_line = false;     ///< the text is one complete line, which further input does not extend

  /// Returns how many bytes of the server correspond to the first `used` bytes of the text.
  std::size_t of_server(std::size_t used) const noexcept { return used <= at ? used : used - added + dropped; }
};

/// Corrects "HTTP/1.1 200" that lacks the blank before an empty reason. `input`: the bytes from the beginning of the
/// head.
///
/// Source: RFC 9112, section 4, requires the blank.
std::optional<mended_text> mend_status_line(std::string_view input);

/// Whether the input ends inside a status line, or inside the line break after a status line. Beast would reject this
/// input.
bool ends_within_status_line(std::string_view input) noexcept;

/// Corrects a chunk's size that is followed by blanks without an extension. `input`: the bytes from the end of the
/// previous chunk's data, with the whole line of the size.
///
/// The resulting text is only the line of the size, because the parser reads no more in one step. For the last chunk,
/// which has size 0, the resulting text is the whole input.
///
/// Source: RFC 9112, section 7.1, allows blanks only before an extension.
std::optional<mended_text> mend_chunk_line(std::string_view input);

/// Whether the input contains the whole line of a chunk's size.
bool has_chunk_line(std::string_view input) noexcept;

}  // namespace canigo::gateway
