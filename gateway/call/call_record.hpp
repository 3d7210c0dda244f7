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

/// A number that may be missing. It takes no more memory than the number, because the largest value means "missing".
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

/// The facts that only few requests have, and those that are known only after a request has waited. They are not
/// members of call_record, so that waiting requests take less memory.
struct call_texts {
  std::string upstream_id;  ///< the X-Request-Id of the upstream's response, shortened
  std::string detail;       ///< the explanation of the error, a sentence for people
  std::string host;         ///< owns the text of call_record::host, if the request's head does not contain that text
  std::string path;
  maybe<micro_usd> usd = {};        ///< the cost of all attempts; none: the model has no price, or there was no attempt
  std::string_view priced_as = {};  ///< the model pattern whose price was used, such as "gpt-4*"
};

/// The facts about one request, for the access log, the counters, and the fields of its response. The head of the
/// request must outlive this object.
struct call_record {
  std::chrono::system_clock::time_point time;
  time_point since;
  std::string id;
  std::string_view method;
  std::string_view host;
  std::string_view path;  ///< the request's path without its query
  std::string_view tenant;
  std::string_view priority;  ///< the name of the request's priority class
  std::string_view upstream;
  /// The name of the target of the last attempt; empty: there was no attempt, or the upstream lists no targets.
  std::string_view target;
  std::string_view route;  ///< the path prefix by which the upstream was chosen
  std::uint32_t tenant_index = 0;
  bool wants_problem = false;  ///< whether the client's Accept field names application/problem+json
  int status = 0;              ///< the status of the answer; 0: the client disconnected without an answer
  int attempts = 0;
  std::string_view error;  ///< the value of X-Canigo-Error; empty: there was no error
  /// the cause of the request's latest wait, such as the name of a limit; empty: the request has not waited
  std::string bound_by;
  std::string_view kept;  ///< the kind of message sent to the waiting client: "interim" or "events"; empty: none
  duration waited{};
  duration connect{};
  /// null if the request has none of the facts in call_texts, so that a waiting request takes less memory
  std::unique_ptr<call_texts> texts;
  maybe<duration> first_byte;           ///< from the arrival of the request to the first byte of the response
  maybe<duration> upstream_first_byte;  ///< from the last attempt's start to the response's first byte
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  maybe<std::uint64_t> tokens_asked;  ///< the tokens requested from the upstream's rates; missing if none counts tokens
  maybe<std::uint64_t> tokens_used;   ///< the tokens that the upstream has reported as used; missing: no report
  std::uint64_t tokens_output = 0;    ///< the number of output tokens among `tokens_used`
};

/// Shortens a text that a client or an upstream has sent, for display: keeps at most `most` bytes, and adds "…" if
/// something was cut off.
std::string shortened(std::string_view text, std::size_t most = 200);

/// Starts the record of a request whose head has just arrived. `head` must outlive the record.
call_record begin_record(const message_head& head, std::string id);

inline call_texts& texts_of(call_record& r) {
  if (!r.texts) r.texts = std::make_unique<call_texts>();
  return *r.texts;
}

}  // namespace canigo::gateway
