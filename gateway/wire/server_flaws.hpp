#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// A part of a response in which a flaw of the server was corrected. curl, Go's net/http and nginx accept such flaws,
/// but Beast's parser does not.
struct mended_text {
  std::string text;
  std::size_t at = 0;       ///< where the text first differs from the server's bytes
  std::size_t added = 0;    ///< the number of bytes that are in the text although the server did not send them
  std::size_t dropped = 0;  ///< the number of bytes that the server sent and that are not in the text
  bool is_line = false;     ///< true: the text is one complete line; input after the line is not a part of it

  /// Returns how many bytes of the server's input correspond to the first `used` bytes of the text.
  std::size_t of_server(std::size_t used) const noexcept { return used <= at ? used : used - added + dropped; }
};

/// Adds the missing blank to a status line such as "HTTP/1.1 200", in which the reason is empty. Returns nothing if no
/// blank is missing. `input`: the bytes from the beginning of the head.
///
/// Source: RFC 9112, section 4, requires the blank.
std::optional<mended_text> mend_status_line(std::string_view input);

/// Whether the input ends inside a status line, or inside the line break after it. Beast may reject such an input, so
/// more bytes must be awaited.
bool ends_within_status_line(std::string_view input) noexcept;

/// Removes blanks after a chunk's size if no extension follows them. Returns nothing if there are no such blanks.
/// `input`: the bytes from the end of the previous chunk's data, with the whole line of the size.
///
/// The resulting text is only the line of the size, because the parser reads no more in one step. For the last chunk,
/// which has size 0, the resulting text is the whole input.
///
/// Source: RFC 9112, section 7.1, allows blanks only before an extension.
std::optional<mended_text> mend_chunk_line(std::string_view input);

/// Whether the input contains the whole line of a chunk's size.
bool has_chunk_line(std::string_view input) noexcept;

}  // namespace canigo::gateway
