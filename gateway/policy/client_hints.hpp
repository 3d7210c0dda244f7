#pragma once

#include "canigo/time.hpp"

#include "gateway/config/config.hpp"
#include "gateway/policy/refusal.hpp"
#include "gateway/wire/message.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace canigo::gateway {

/// The interim responses (status 1xx) that a client has asked for. It gets them while its call waits. Other clients get
/// none, because their libraries may be unable to read interim responses.
struct interim_wish {
  /// the max number of interim responses for one call; a common client library accepts no more
  static constexpr int most = 8;

  int status = 103;  ///< the status of the interim response: 103 or 102
  duration every = std::chrono::seconds{15};

  friend bool operator==(const interim_wish&, const interim_wish&) = default;
};

/// The class, the longest wait and the other settings of a request. The client asks for them in header fields, and gets
/// them as far as its tenant allows.
struct client_hints {
  int priority = 0;  ///< the index of the class in config::classes
  /// The client asked for a more important class than its tenant may use; the call is served in the tenant's most
  /// important class.
  bool asked_above_best = false;
  /// how long the call may wait: the shortest of the limits that the class, the tenant and the client set
  duration max_wait = duration::max();
  std::optional<duration> patience;  ///< how long the client waits for an answer; none: the request does not say
  std::uint64_t least_tokens = 0;    ///< a lower estimate of tokens is raised to this number
  std::optional<interim_wish> interim;
};

struct hint_reading {
  client_hints granted;
  std::optional<refusal> refused;  ///< the answer 400; set if a header field is unreadable or occurs twice
};

/// Reads the header fields by which a client sets options of its request:
/// - X-Canigo-Priority names a priority class;
/// - X-Canigo-Max-Wait can only shorten the wait;
/// - X-Canigo-Tokens can only raise the estimate of the request's tokens;
/// - X-Canigo-Interim asks for interim responses, such as "103" or "103; every=4s".
///
/// SDKs report their own time limit, in seconds: X-Stainless-Read-Timeout and X-Stainless-Timeout of OpenAI's and
/// Anthropic's SDKs, X-Server-Timeout of Google's. The shortest of these limits is used. A value that is not a number
/// is ignored, because one SDK sends the word NOT_GIVEN.
///
/// `max_wait`: the longest wait in each class.
hint_reading read_hints(const message_head& head, const tenant& whose, std::span<const std::string> classes,
                        std::span<const duration> max_wait);

}  // namespace canigo::gateway
