#pragma once

#include "canigo/time.hpp"

#include "gateway/config/money.hpp"
#include "gateway/wire/message.hpp"

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace canigo::gateway {

/// A number that may be missing, in the room of a number. Its largest value stands for none.
template <class T>
class maybe {
 public:
  maybe() noexcept = default;
  maybe(T value) noexcept : value_{value} {}

  explicit operator bool() const noexcept { return value_ != none; }
  const T& operator*() const noexcept { return value_; }
  T value_or(T other) const noexcept { return *this ? value_ : other; }
  std::optional<T> get() const noexcept { return *this ? std::optional{value_} : std::nullopt; }

 private:
  static constexpr T largest() noexcept {
    if constexpr (std::is_integral_v<T>) {
      return std::numeric_limits<T>::max();
    } else {
      return T::max();
    }
  }
  static constexpr T none = largest();

  T value_ = none;
};

/// Facts that few requests have, or that are known only when a request no longer waits.
struct call_texts {
  std::string upstream_id;  ///< the X-Request-Id of the response; shortened
  std::string detail;       ///< the error in words, for a person
  std::string host;         ///< if the head does not have it as it is shown
  std::string path;
  maybe<micro_usd> usd = {};        ///< the cost of its attempts; none: it has no price, or had no attempt
  std::string_view priced_as = {};  ///< the pattern of the price
};

/// The facts of one request at its end: for the access log, the counters, and the fields of its response. The head of
/// the request outlives it.
struct call_record {
  std::chrono::system_clock::time_point time;
  time_point since;
  std::string id;
  std::string_view method;
  std::string_view host;
  std::string_view path;  ///< without the query
  std::string_view tenant;
  std::string_view priority;  ///< the name of its class
  std::string_view upstream;
  std::string_view target;  ///< the target of its last attempt; empty: there was none, or the upstream has no list
  std::string_view route;   ///< the prefix that led to the upstream
  std::uint32_t tenant_index = 0;
  bool wants_problem = false;  ///< its client has named application/problem+json
  int status = 0;              ///< 0: the client left without an answer
  int attempts = 0;
  std::string_view error;  ///< the value of X-Canigo-Error; empty: none
  std::string bound_by;    ///< the limit that it found in its way when it last began to wait; empty: it did not wait
  std::string_view kept;   ///< how its client was kept while it waited: "interim", "events"; empty: it was not
  duration waited{};
  duration connect{};
  std::unique_ptr<call_texts> texts;    ///< null: there are none; a waiter takes less memory so
  maybe<duration> first_byte;           ///< from the arrival of the request to the first byte of the response
  maybe<duration> upstream_first_byte;  ///< from the last attempt's beginning to the response's first byte
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  maybe<std::uint64_t> tokens_asked;  ///< set if the upstream counts tokens
  maybe<std::uint64_t> tokens_used;   ///< set if the upstream has told its usage
  std::uint64_t tokens_output = 0;    ///< how many of tokens_used are output
};

/// The start of a text that a stranger chose, for a page: at most `most` bytes of it, and "…" if there is more.
std::string shortened(std::string_view text, std::size_t most = 200);

/// The record of a request whose head has come now. The head must outlive it.
call_record begin_record(const message_head& head, std::string id);

inline call_texts& texts_of(call_record& r) {
  if (!r.texts) r.texts = std::make_unique<call_texts>();
  return *r.texts;
}

}  // namespace canigo::gateway
