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

/// The interim responses that a client asks for while its call waits, because it knows that its library reads them.
struct interim_wish {
  static constexpr int most = 8;  ///< the most for one call: a common client takes no more

  int status = 103;  ///< or 102
  duration every = std::chrono::seconds{15};

  friend bool operator==(const interim_wish&, const interim_wish&) = default;
};

/// How a request wants to be treated, as far as its tenant may ask for it.
struct client_hints {
  int priority = 0;                     ///< an index into config::classes
  bool asked_above_best = false;        ///< it asked for more than its tenant's best, and is served as the best
  duration max_wait = duration::max();  ///< the limit of the class or of the tenant, or a shorter wait
  std::optional<duration> patience;     ///< how long the client waits for an answer, as it says itself
  std::uint64_t least_tokens = 0;       ///< the estimate is raised to this
  std::optional<interim_wish> interim;
};

struct hint_reading {
  client_hints granted;
  std::optional<refusal> refused;  ///< 400 for a field that can't be read, or comes twice
};

/// Reads X-Canigo-Priority, which names a class, X-Canigo-Max-Wait, which can only shorten, X-Canigo-Tokens, which can
/// only raise the estimate, and X-Canigo-Interim, such as "103" or "103; every=4s".
///
/// SDKs tell their own time limit, in seconds: X-Stainless-Read-Timeout and X-Stainless-Timeout of OpenAI's and
/// Anthropic's, X-Server-Timeout of Google's. The shortest counts. A value that is no number is left out: one SDK
/// sends the word NOT_GIVEN.
///
/// `max_wait`: the longest wait in each class.
hint_reading read_hints(const message_head& head, const tenant& whose, std::span<const std::string> classes,
                        std::span<const duration> max_wait);

}  // namespace canigo::gateway
