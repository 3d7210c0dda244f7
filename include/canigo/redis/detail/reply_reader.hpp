#pragma once

#include "canigo/redis/reply.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

namespace canigo::redis::detail {

/// Makes replies out of the bytes that come from Redis: hiredis' reader, with bounds.
///
/// A reply costs its bytes and a fixed amount for each of its elements, whatever the lengths are that it announces.
/// Once an error was found there is no way to go on.
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
  /// The next whole reply; empty if there is none yet, or an error.
  std::optional<reply> next(std::error_code& ec) noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace canigo::redis::detail
