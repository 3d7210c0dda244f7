#include "gateway/policy/token_account.hpp"

#include "gateway/policy/call_cost.hpp"
#include "gateway/policy/fields.hpp"

#include <algorithm>
#include <memory>

namespace canigo::gateway {

const token_estimate& token_account::read(const called& what, const read_body& body) {
  estimate_ = estimate_tokens(upstream_->tokens, what, body, upstream_->reads_model());
  return estimate_;
}

const std::vector<token_amount>& token_account::ask(std::uint64_t least, target_set of, const price_list* prices) {
  const double ratio = upstream_->tokens.learn ? ratios_->of(estimate_.model) : 1;
  const price* const p = prices == nullptr ? nullptr : prices->of(estimate_.model);
  const micro_usd cost = p == nullptr ? 0 : expected_cost(*p, estimate_, ratio);
  asked_ = asked_amounts(*upstream_, own_, estimate_, ratio, least, of, cost);
  return asked_;
}

void token_account::begin_response(const message_head& head) {
  status_ = static_cast<std::int16_t>(head.status);  // fits, because a status has three digits
  if (!upstream_->tokens.reads_usage() || estimate_.is_free) return;
  const auto encoding = value_of(head, "Content-Encoding");
  const bool is_plain = !encoding || same_text(trim(*encoding), "identity");
  const auto type = value_of(head, "Content-Type");
  reader_ = std::make_unique<usage_reader>(is_plain && type ? usage_form_of(*type) : usage_form::none,
                                           upstream_->tokens.usage);
}

std::vector<token_amount> token_account::settle(bool is_whole, const price_list* prices) {
  used_.reset();
  events_ = 0;
  if (reader_ && is_whole) used_ = reader_->finish();
  const bool is_told = static_cast<bool>(used_);
  const bool is_refused = status_ >= 400 && status_ < 500;
  if (!is_told && is_refused && upstream_->tokens.api != token_api::none && !estimate_.is_free) used_ = token_usage{};
  is_missing_ = upstream_->tokens.reads_usage() && !used_ && !estimate_.is_free;
  if (!used_ && reader_) events_ = reader_->events();
  reader_.reset();
  const price* const p = prices == nullptr ? nullptr : prices->of(estimate_.model);
  const bool is_free = !is_told && is_free_of_charge(status_);
  const auto amount_for = [&](std::string_view unit, const token_usage& u) {
    if (unit != "usd") return used_amount(unit, u, upstream_->tokens.output_weight);
    return p == nullptr || is_free ? micro_usd{0} : cost_of(*p, u);
  };
  std::vector<token_amount> amounts = asked_;
  if (!used_) {
    for (token_amount& a : amounts) {
      if (a.unit == "usd" && is_free) a.amount = 0;
      if (events_ > 0) a.amount = std::max(a.amount, amount_for(a.unit, at_least()));
    }
    return amounts;
  }
  for (token_amount& a : amounts) a.amount = amount_for(a.unit, *used_);
  // Only reported usage changes the learned ratio. A refused request has used no tokens, which says nothing about the
  // usage of the next request.
  if (is_told && upstream_->tokens.learn)
    ratios_->learn(estimate_.model, estimate_.input + estimate_.output, used_->input + used_->output);
  return amounts;
}

std::vector<token_amount> token_account::settle_free_of_charge() const {
  std::vector<token_amount> amounts;
  for (const token_amount& a : asked_)
    if (a.unit == "usd") amounts.push_back({a.unit, 0});
  return amounts;
}

std::vector<token_amount> token_account::settle_refused() const {
  std::vector<token_amount> amounts = asked_;
  for (token_amount& a : amounts)
    if (a.unit != "requests") a.amount = 0;
  return amounts;
}

}  // namespace canigo::gateway
