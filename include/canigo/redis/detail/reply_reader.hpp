#pragma once

#include "canigo/redis/reply.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

namespace canigo::redis::detail {

/// Parses the bytes from Redis into replies with hiredis' reader, within bounds.
///
/// The cost of a reply is its number of bytes, plus a fixed amount for each element. Only bytes and elements that have
/// arrived count, not the lengths that the server announces. After an error the reader is unusable.
///
/// Errors: errc::too_large for a reply that costs more than the bound; error::bad_reply for anything that is not RESP
/// 2, and for arrays nested deeper than 7; errc::not_enough_memory.
class reply_reader {
 public:
  explicit reply_reader(std::size_t max_reply);
  ~reply_reader();
  reply_reader(const reply_reader&) = delete;
  reply_reader& operator=(const reply_reader&) = delete;

  std::error_code feed(std::string_view bytes) noexcept;
  /// Returns the next complete reply. Returns std::nullopt if no reply is complete yet. If an error occurs, sets `ec`
  /// and returns std::nullopt.
  std::optional<reply> next(std::error_code& ec) noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace canigo::redis::detail
