#pragma once

#include "choices.hpp"
#include "world.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace conversations {

/// What a client says in one request.
struct request_plan {
  enum class kind : std::uint8_t { reverse, absolute, tunnel, upgrade };
  enum class framing : std::uint8_t { none, length, chunked };
  /// What makes it one that the gateway has to refuse.
  enum class flaw : std::uint8_t { none, key, route, chunk, expectation, destination, dead };

  std::uint64_t id = 0;
  kind what = kind::reverse;
  flaw wrong = flaw::none;
  std::size_t upstream = 0;
  std::size_t tenant = 0;
  std::string method = "GET";
  framing frame = framing::none;
  std::size_t size = 0;
  std::size_t phase = 0;  // of its body's text
  bool expects_continue = false;
  bool is_old = false;  // HTTP/1.0
  bool closes = false;
  bool has_key = false;  // Idempotency-Key
  std::string longest_wait;
  std::string priority;
  std::size_t behind = 0;  // bytes that an optimistic client sends behind it, which are no request

  bool has_body() const noexcept { return frame == framing::chunked || (frame == framing::length && size > 0); }
  bool keeps_alive() const noexcept { return !closes && (!is_old || id % 2 == 0); }
  /// What stands in X-Said, and comes back in the answer: whose request it is.
  std::string said() const;
  std::string authorization() const;
};

/// What a client does on one connection.
struct conversation_plan {
  enum class pace : std::uint8_t {
    patient,   // sends a request when it has the answer to the one before
    eager,     // when it has the head of that answer
    pipelined  // all at once
  };
  enum class ending : std::uint8_t { orderly, close, reset, half_close, stall };

  std::uint64_t index = 0;
  bool is_forward = false;
  bool is_tls = false;
  std::vector<request_plan> requests;
  pace how = pace::patient;
  ending end = ending::orderly;
  std::size_t end_at = 0;         // per mille of what it sends; more: when it has sent all, after as many ms
  bool goes_on = true;            // with its body, after an answer that came early
  std::size_t cuts = 0;           // in a request, at most
  std::size_t longest_pause = 0;  // ms
  std::size_t read_pause = 0;     // ms without reading, after each piece
  std::size_t lingers = 0;        // ms after the last answer

  const request_plan* find(std::uint64_t id) const noexcept;
};

/// What an upstream does with one attempt of a request.
struct answer_plan {
  enum class start : std::uint8_t { head, part, whole };  // of the request: how much of it comes before the answer
  enum class framing : std::uint8_t { length, chunked, until_end };
  enum class ending : std::uint8_t { keep, announce, close, reset };
  enum class surplus : std::uint8_t { none, same_write, same_record, later };
  /// How the answer is written. The gateway reads all of them but the last.
  enum class spelling : std::uint8_t { usual, coding_in_capitals, blank_behind_size, no_reason, size_of_letters };

  start begins = start::whole;
  std::size_t at = 0;     // bytes of the body, of start::part
  std::size_t delay = 0;  // ms; more than any limit: it never answers
  int status = 200;
  bool asks_for_pause = false;  // Retry-After
  int interim = 0;              // 1xx before it
  framing frame = framing::length;
  std::size_t size = 0;
  std::size_t cuts = 0;
  std::size_t longest_pause = 0;
  std::size_t breaks_at = 1000;  // per mille of the answer, which ends there; 1000: it does not
  ending end = ending::keep;
  std::size_t ends_after = 0;  // ms
  bool reads_no_more = false;  // of the request, once it answers
  surplus more = surplus::none;
  spelling spelt = spelling::usual;
};

/// What a client says and does, in a line for the conversation and one for each request.
std::string text_of(std::uint64_t seed, const conversation_plan& p);

/// The same for the same seed and index.
conversation_plan plan_conversation(std::uint64_t seed, std::uint64_t index, bool with_tls);
answer_plan plan_answer(std::uint64_t seed, const request_plan& r, std::size_t attempt);

constexpr std::uint64_t conversation_of(std::uint64_t id) noexcept { return (id >> 8) - 1; }

}  // namespace conversations
