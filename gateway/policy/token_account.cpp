#include "gateway/policy/token_account.hpp"

#include "gateway/policy/fields.hpp"

#include <algorithm>
#include <memory>

namespace canigo::gateway {

const token_estimate& token_account::read(const called& what, const read_body& body) {
  estimate_ = estimate_tokens(upstream_->tokens, what, body, upstream_->reads_model());
  return estimate_;
}

const std::vector<token_amount>& token_account::ask(std::uint64_t least, target_set of) {
  const double ratio = upstream_->tokens.learn ? ratios_->of(estimate_.model) : 1;
  asked_ = asked_amounts(*upstream_, own_, estimate_, ratio, least, of);
  return asked_;
}

void token_account::begin_response(const message_head& head) {
  status_ = static_cast<std::int16_t>(head.status);  // of three digits
  if (!upstream_->tokens.reads_usage() || estimate_.is_free) return;
  const auto encoding = value_of(head, "Content-Encoding");
  const bool is_plain = !encoding || same_text(trim(*encoding), "identity");
  const auto type = value_of(head, "Content-Type");
  reader_ = std::make_unique<usage_reader>(is_plain && type ? usage_form_of(*type) : usage_form::none,
                                           upstream_->tokens.usage);
}

std::vector<token_amount> token_account::settle(bool is_whole) {
  used_.reset();
  events_ = 0;
  if (reader_ && is_whole) used_ = reader_->finish();
  const bool is_told = static_cast<bool>(used_);
  const bool is_refused = status_ >= 400 && status_ < 500;
  if (!is_told && is_refused && upstream_->tokens.api != token_api::none && !estimate_.is_free) used_ = token_usage{};
  is_missing_ = upstream_->tokens.reads_usage() && !used_ && !estimate_.is_free;
  if (!used_ && reader_) events_ = reader_->events();
  reader_.reset();
  std::vector<token_amount> amounts = asked_;
  if (!used_) {
    if (events_ == 0) return amounts;
    for (token_amount& a : amounts)
      a.amount = std::max(a.amount, used_amount(a.unit, at_least(), upstream_->tokens.output_weight));
    return amounts;
  }
  for (token_amount& a : amounts) a.amount = used_amount(a.unit, *used_, upstream_->tokens.output_weight);
  // The usage of a refused request says nothing about the next request, so only reported usage is learned.
  if (is_told && upstream_->tokens.learn)
    ratios_->learn(estimate_.model, estimate_.input + estimate_.output, used_->input + used_->output);
  return amounts;
}

std::vector<token_amount> token_account::settle_refused() const {
  std::vector<token_amount> amounts = asked_;
  for (token_amount& a : amounts)
    if (a.unit != "requests") a.amount = 0;
  return amounts;
}

}  // namespace canigo::gateway
