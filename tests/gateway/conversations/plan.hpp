#pragma once

#include "choices.hpp"
#include "world.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace conversations {

/// The content of one request of a client.
struct request_plan {
  enum class kind : std::uint8_t { reverse, absolute, tunnel, upgrade };
  enum class framing : std::uint8_t { none, length, chunked };
  /// The flaw for which the gateway must refuse the request.
  enum class flaw : std::uint8_t { none, key, route, chunk, expectation, destination, dead };

  std::uint64_t id = 0;
  kind what = kind::reverse;
  flaw wrong = flaw::none;
  std::size_t upstream = 0;
  std::size_t tenant = 0;
  std::string method = "GET";
  framing frame = framing::none;
  std::size_t size = 0;
  std::size_t phase = 0;  // the position at which the text of its body begins; see body_text
  bool expects_continue = false;
  bool is_old = false;  // whether it uses HTTP/1.0
  bool closes = false;
  bool has_key = false;  // whether it has an Idempotency-Key
  std::string longest_wait;
  std::string priority;
  std::size_t behind = 0;  // the number of bytes that the client sends after it, and that are no request

  bool has_body() const noexcept { return frame == framing::chunked || (frame == framing::length && size > 0); }
  bool keeps_alive() const noexcept { return !closes && (!is_old || id % 2 == 0); }
  /// Returns the value of X-Said, which comes back in the answer and tells which request it answers.
  std::string said() const;
  std::string authorization() const;
};

/// What a client does on one connection.
struct conversation_plan {
  enum class pace : std::uint8_t {
    patient,   // the client sends a request when it has the whole answer to the previous one
    eager,     // the client sends a request when it has the head of the previous answer
    pipelined  // the client sends all requests at once
  };
  enum class ending : std::uint8_t { orderly, close, reset, half_close, stall };

  std::uint64_t index = 0;
  bool is_forward = false;
  bool is_tls = false;
  std::vector<request_plan> requests;
  pace how = pace::patient;
  ending end = ending::orderly;
  // when `end` happens, in per mille of the sent bytes; above 1000: this number of ms after all bytes were sent
  std::size_t end_at = 0;
  bool goes_on = true;            // whether the client continues with the body after an early answer
  std::size_t cuts = 0;           // the max number of cuts in a request
  std::size_t longest_pause = 0;  // the longest pause at a cut, in ms
  std::size_t read_pause = 0;     // for how many ms the client does not read, after each piece that it has read
  std::size_t lingers = 0;        // for how many ms the client stays after the last answer

  const request_plan* find(std::uint64_t id) const noexcept;
};

/// What an upstream does with one attempt of a request.
struct answer_plan {
  enum class start : std::uint8_t { head, part, whole };  // how much of the request comes before the answer
  enum class framing : std::uint8_t { length, chunked, until_end };
  enum class ending : std::uint8_t { keep, announce, close, reset };
  enum class surplus : std::uint8_t { none, same_write, same_record, later };
  /// How the answer is written. The gateway accepts all of these except the last one.
  enum class spelling : std::uint8_t { usual, coding_in_capitals, blank_behind_size, no_reason, size_of_letters };

  start begins = start::whole;
  std::size_t at = 0;     // for start::part: how many bytes of the body come before the answer
  std::size_t delay = 0;  // the delay of the answer, in ms; beyond all time limits: the upstream never answers
  int status = 200;
  bool asks_for_pause = false;  // whether the answer has the field Retry-After
  int interim = 0;              // the number of 1xx responses before the answer
  framing frame = framing::length;
  std::size_t size = 0;
  std::size_t cuts = 0;
  std::size_t longest_pause = 0;
  // after how many per mille of the answer the upstream closes the connection; 1000: it does not
  std::size_t breaks_at = 1000;
  ending end = ending::keep;
  std::size_t ends_after = 0;  // after how many ms the upstream closes the connection
  bool reads_no_more = false;  // whether the upstream reads nothing more of the request once it answers
  surplus more = surplus::none;
  spelling spelt = spelling::usual;
};

/// Describes what a client sends and does: one line for the conversation, and one for each request.
std::string text_of(std::uint64_t seed, const conversation_plan& p);

/// Returns a plan. The same seed and index give the same plan.
conversation_plan plan_conversation(std::uint64_t seed, std::uint64_t index, bool with_tls);
answer_plan plan_answer(std::uint64_t seed, const request_plan& r, std::size_t attempt);

constexpr std::uint64_t conversation_of(std::uint64_t id) noexcept { return (id >> 8) - 1; }

}  // namespace conversations
