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

/// The tokens of one request: the amount that it asks for, and the amount that it has used.
///
/// Each attempt begins with the head of a response; the last attempt counts.
class token_account {
 public:
  /// All arguments must outlive the account.
  token_account(const upstream& u, const tenant& whose, token_ratios& ratios)
      : upstream_{&u}, own_{whose.limits.contains(u.name) ? &whose.limits.at(u.name) : nullptr}, ratios_{&ratios} {}

  /// Whether the body of a request is read before it goes: up to most_read_body.
  static bool reads_body(const upstream& u) noexcept { return u.tokens.reads_usage() || u.reads_model(); }

  /// Estimates the tokens of the request.
  const token_estimate& read(const called& what, const read_body& body);
  /// Returns what to ask for of each unit of the upstream's rates, if one of the targets `of` serves the request. Call
  /// it after read(). `least`: the number in a client's X-Canigo-Tokens.
  const std::vector<token_amount>& ask(std::uint64_t least, target_set of = all_targets);

  /// After read().
  const token_estimate& estimate() const noexcept { return estimate_; }

  /// Call it when a response begins. Earlier responses no longer count.
  void begin_response(const message_head& head);
  void take(std::string_view piece) {
    if (reader_) reader_->take(piece);
  }
  /// The request has ended, and `is_whole` the response. Returns the amounts to settle, in the order of ask(): those
  /// that were used or, if these are unknown, those that were asked for. A refused request, by a 4xx, has used none.
  /// The ratios learn from it.
  std::vector<token_amount> settle(bool is_whole);

  /// The amounts to settle for an attempt that was refused, and whose response is dropped: of tokens none.
  std::vector<token_amount> settle_refused() const;

  /// After settle(): the usage, if it is known.
  const boxed<token_usage>& used() const noexcept { return used_; }
  /// After settle(): the upstream should have told its usage, and has not.
  bool is_usage_missing() const noexcept { return is_missing_; }

 private:
  const upstream* upstream_;
  const tenant_limit* own_;  // null: the tenant has no limit of its own here
  token_ratios* ratios_;
  token_estimate estimate_;
  std::vector<token_amount> asked_;
  std::unique_ptr<usage_reader> reader_;  // while a response is read; a waiter takes less memory without it
  boxed<token_usage> used_;
  int status_ = 0;  // the status of the response
  bool is_missing_ = false;
};

}  // namespace canigo::gateway
