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

/// The interim responses that a client asks for while its call waits. A client that asks for them knows that its
/// library reads them.
struct interim_wish {
  static constexpr int most = 8;  ///< the max number for one call, because a common client library accepts no more

  int status = 103;  ///< the status of the interim response: 103 or 102
  duration every = std::chrono::seconds{15};

  friend bool operator==(const interim_wish&, const interim_wish&) = default;
};

/// How a client wants its request to be treated, within what its tenant allows.
struct client_hints {
  int priority = 0;  ///< an index into config::classes
  /// The client asked for a better class than its tenant's best; the call is served in the tenant's best class.
  bool asked_above_best = false;
  duration max_wait = duration::max();  ///< the limit of the class or of the tenant, or the client's own shorter limit
  std::optional<duration> patience;     ///< how long the client waits for an answer, if a field of the request says so
  std::uint64_t least_tokens = 0;       ///< the estimate is raised to at least this number
  std::optional<interim_wish> interim;
};

struct hint_reading {
  client_hints granted;
  std::optional<refusal> refused;  ///< 400 for a field that is unreadable, or that occurs twice
};

/// Reads the fields by which a client asks for a treatment:
/// - X-Canigo-Priority names a class;
/// - X-Canigo-Max-Wait can only shorten the wait;
/// - X-Canigo-Tokens can only raise the estimate;
/// - X-Canigo-Interim asks for interim responses, such as "103" or "103; every=4s".
///
/// SDKs report their own time limit, in seconds: X-Stainless-Read-Timeout and X-Stainless-Timeout of OpenAI's and
/// Anthropic's SDKs, X-Server-Timeout of Google's. The shortest of them counts. A value that is no number is ignored,
/// because one SDK sends the word NOT_GIVEN.
///
/// `max_wait`: the longest wait in each class.
hint_reading read_hints(const message_head& head, const tenant& whose, std::span<const std::string> classes,
                        std::span<const duration> max_wait);

}  // namespace canigo::gateway
