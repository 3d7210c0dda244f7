#pragma once

#include "canigo/http/headers.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace canigo::http::detail {

/// The heads of an answer, line by line as curl hands them over: those of interim responses and of all hops, too.
///
/// curl lets pass more than HTTP allows: a strange status line, two lengths, a head that breaks off. This class does
/// not.
class response_head {
 public:
  explicit response_head(std::size_t most_bytes) noexcept : most_bytes_{most_bytes} {}

  /// Takes the next line, and keeps the fields of the last head in `fields`. `asked`: the fields of the request.
  ///
  /// Errors: errc::too_large for more than `most_bytes` of all heads together; error::weird_server_reply. Allocates.
  std::error_code take(std::string_view line, headers& fields, const headers& asked);

  /// Whether the last head has ended. When a body begins, the last head is that of the answer.
  bool is_complete() const noexcept { return is_complete_; }
  /// The bytes of all heads together.
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::error_code begin(std::string_view status_line, headers& fields, const headers& asked);
  bool take_length(std::string_view value) noexcept;

  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  bool is_inside_ = false;
  bool is_complete_ = false;
  std::optional<std::uint64_t> length_;  // the length of the body, by Content-Length
};

}  // namespace canigo::http::detail
