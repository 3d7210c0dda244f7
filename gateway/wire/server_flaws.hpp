#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Bytes of a response, mended of a flaw that curl, Go's net/http and nginx accept, and Beast's parser does not.
struct mended_text {
  std::string text;
  std::size_t at = 0;       ///< where the text begins to differ from the server's bytes
  std::size_t added = 0;    ///< bytes that the server has not sent
  std::size_t dropped = 0;  ///< bytes of the server that are left out
  bool is_line = false;     ///< the text is one line, and further input makes it no longer

  /// How many bytes of the server the first `used` bytes of the text stand for.
  std::size_t of_server(std::size_t used) const noexcept { return used <= at ? used : used - added + dropped; }
};

/// Mends "HTTP/1.1 200" without the blank in front of an empty reason. `input`: from the beginning of the head on.
///
/// Source: RFC 9112, section 4, wants the blank.
std::optional<mended_text> mend_status_line(std::string_view input);

/// Whether the input ends in a status line, before or inside its line break. Beast would refuse it.
bool ends_within_status_line(std::string_view input) noexcept;

/// Mends a chunk's size with blanks behind it, and no extension. `input`: from the end of the last chunk on, with the
/// whole line.
///
/// The text is that line, as the parser reads no more in one step. For the chunk of size 0 it is the whole input.
///
/// Source: RFC 9112, section 7.1, has blanks only in front of an extension.
std::optional<mended_text> mend_chunk_line(std::string_view input);

/// Whether the whole line of a chunk's size is there.
bool has_chunk_line(std::string_view input) noexcept;

}  // namespace canigo::gateway
