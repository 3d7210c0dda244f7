#pragma once

#include "canigo/time.hpp"

#include "gateway/wire/message.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Texts that are known only when a request no longer waits.
struct call_texts {
  std::string upstream_id;  ///< the X-Request-Id of the response; shortened
  std::string detail;       ///< the error in words, for a person
};

/// The facts of one request at its end: for the access log, the counters, and the fields of its response.
struct call_record {
  std::chrono::system_clock::time_point time;
  time_point since;
  std::string id;
  std::string method;
  std::string host;
  std::string path;  ///< without the query
  std::string_view tenant;
  std::string_view priority;  ///< the name of its class
  std::string_view upstream;
  std::string_view target;  ///< the target of its last attempt; empty: there was none, or the upstream has no list
  std::string_view route;   ///< the prefix that led to the upstream
  std::optional<std::size_t> tenant_index;
  bool wants_problem = false;  ///< its client has named application/problem+json
  int status = 0;              ///< 0: the client left without an answer
  std::string_view error;      ///< the value of X-Canigo-Error; empty: none
  std::string bound_by;  ///< the limit that it found in its way when it last began to wait; empty: it did not wait
  int attempts = 0;
  std::string_view kept;  ///< how its client was kept while it waited: "interim", "events"; empty: it was not
  duration waited{};
  duration connect{};
  std::unique_ptr<call_texts> texts;            ///< null: there are none; a waiter takes less memory so
  std::optional<duration> first_byte;           ///< from the arrival of the request to the first byte of the response
  std::optional<duration> upstream_first_byte;  ///< from the last attempt's beginning to the response's first byte
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::optional<std::uint64_t> tokens_asked;  ///< set if the upstream counts tokens
  std::optional<std::uint64_t> tokens_used;   ///< set if the upstream has told its usage
  std::uint64_t tokens_output = 0;            ///< how many of tokens_used are output
};

/// The start of a text that a stranger chose, for a page: at most `most` bytes of it, and "…" if there is more.
std::string shortened(std::string_view text, std::size_t most = 200);

/// The record of a request whose head has come now.
call_record begin_record(const message_head& head, std::string id);

inline call_texts& texts_of(call_record& r) {
  if (!r.texts) r.texts = std::make_unique<call_texts>();
  return *r.texts;
}

}  // namespace canigo::gateway
