#pragma once

#include "gateway/config/config.hpp"
#include "gateway/policy/token_amounts.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/policy/token_ratios.hpp"
#include "gateway/policy/usage_reader.hpp"
#include "gateway/wire/boxed.hpp"
#include "gateway/wire/message.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// The tokens of one request: the amounts that it requests from the limits, and the amounts that it has used.
///
/// begin_response() drops the usage of an earlier attempt, so only the last attempt counts.
class token_account {
 public:
  /// All arguments must outlive the account.
  token_account(const upstream& u, const tenant& whose, token_ratios& ratios)
      : upstream_{&u}, own_{whose.limits.contains(u.name) ? &whose.limits.at(u.name) : nullptr}, ratios_{&ratios} {}

  /// Whether the gateway must read the body of a request to this upstream, up to most_read_body bytes, before it sends
  /// the request.
  static bool reads_body(const upstream& u) noexcept { return u.tokens.reads_usage() || u.reads_model(); }

  /// Estimates the tokens of the request.
  const token_estimate& read(const called& what, const read_body& body);
  /// Returns the amounts to request from the limits, one for each unit of the upstream's rates. `of`: the targets that
  /// may serve the request. Call read() first. `least`: the number in the client's X-Canigo-Tokens. `prices`: null if
  /// calls cost nothing.
  const std::vector<token_amount>& ask(std::uint64_t least, target_set of = all_targets,
                                       const price_list* prices = nullptr);

  /// Returns the estimate that read() has made. Call read() first.
  const token_estimate& estimate() const noexcept { return estimate_; }

  /// Call it when a response begins. It drops the usage that the responses of earlier attempts have reported.
  void begin_response(const message_head& head);
  void take(std::string_view piece) {
    if (reader_) reader_->take(piece);
  }
  /// Ends the request, and updates the learned ratios. Returns the amounts to settle, in the order of ask(): the used
  /// amounts or, if those are unknown, the larger of the asked amounts and at_least(). A request that got a 4xx has
  /// used no tokens. A request that got an error without a usage costs no money. `is_whole`: whether the whole response
  /// has come. `prices`: null if calls cost nothing.
  std::vector<token_amount> settle(bool is_whole, const price_list* prices = nullptr);

  /// Returns the amounts to settle for a refused attempt whose response is dropped. A refused attempt has used no
  /// tokens.
  std::vector<token_amount> settle_refused() const;
  /// Returns the amounts to settle for an attempt that costs no money and whose response is dropped: 0 USD. Empty if
  /// ask() requested no USD.
  std::vector<token_amount> settle_free_of_charge() const;

  /// Returns the usage; empty if it is not known. Call settle() first.
  const boxed<token_usage>& used() const noexcept { return used_; }
  /// Returns a lower bound of the usage for a streamed response that reports no usage. It counts one output token for
  /// each event of the stream. Call settle() first.
  token_usage at_least() const noexcept { return events_ == 0 ? token_usage{} : token_usage{estimate_.input, events_}; }
  /// Whether the upstream should have reported its usage, but has not done so. Call settle() first.
  bool is_usage_missing() const noexcept { return is_missing_; }

 private:
  const upstream* upstream_;
  const tenant_limit* own_;  // the tenant's own limits at this upstream; null: it has none
  token_ratios* ratios_;
  token_estimate estimate_;
  std::vector<token_amount> asked_;
  // The object that reads the token usage from a response. It exists only while a response is read, so that a waiting
  // call takes less memory.
  std::unique_ptr<usage_reader> reader_;
  boxed<token_usage> used_;
  std::uint32_t events_ = 0;  // the number of events in a response stream that reports no usage
  std::int16_t status_ = 0;   // the status of the response
  bool is_missing_ = false;
};

}  // namespace canigo::gateway
