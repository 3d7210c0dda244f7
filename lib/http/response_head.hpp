#pragma once

#include "canigo/http/headers.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace canigo::http::detail {

/// Reads all heads of an answer, line by line, as curl passes them. Interim responses and redirects have heads, too.
///
/// It rejects three flaws that curl accepts: a malformed status line, two different values of Content-Length, and a
/// head that is cut off.
class response_head {
 public:
  explicit response_head(std::size_t most_bytes) noexcept : most_bytes_{most_bytes} {}

  /// Reads the next line, and keeps the fields of the last head in `fields`. `asked`: the fields of the request.
  ///
  /// Errors: errc::too_large for more than `most_bytes` in all heads together; error::weird_server_reply. Allocates.
  std::error_code take(std::string_view line, headers& fields, const headers& asked);

  /// Whether the last head has ended. When a body begins, the last head is that of the final response.
  bool is_complete() const noexcept { return is_complete_; }
  /// The number of bytes of all heads together.
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::error_code begin(std::string_view status_line, headers& fields, const headers& asked);
  bool take_length(std::string_view value) noexcept;

  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  bool is_inside_ = false;
  bool is_complete_ = false;
  std::optional<std::uint64_t> length_;  // the length of the body, from Content-Length
};

}  // namespace canigo::http::detail
