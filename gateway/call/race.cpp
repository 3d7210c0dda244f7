#include "gateway/call/race.hpp"

#include "canigo/error.hpp"

#include "gateway/call/attempt_meaning.hpp"
#include "gateway/policy/repeat_rules.hpp"

#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include <chrono>

namespace canigo::gateway {

race::race(const net::any_io_executor& loop, exchange& first, response_sink& next) : bell_{loop}, next_{next} {
  for (lane& l : lanes_) l.home = this;
  lanes_[0].of = &first;
}

exchange& race::enter() {
  exchange& first = *lanes_[0].of;
  exchange& copy = second_.emplace(first);
  copy.first_byte.reset();
  copy.connect_time = {};
  copy.over = nullptr;
  copy.beside = &first;
  first.beside = &copy;
  lanes_[1].of = &copy;
  return copy;
}

net::awaitable<void> race::wait(duration limit) {
  bell_.expires_at(saturating_add(std::chrono::steady_clock::now(), limit));
  error_code ignored;
  co_await bell_.async_wait(net::redirect_error(net::use_awaitable, ignored));
}

std::size_t race::decisive() const noexcept {
  if (winner_ != nullptr || !lanes_[1].end) return has_second_won() ? 1 : 0;
  const bool first_is_unsent = nothing_was_sent(*lanes_[0].end);
  return first_is_unsent == nothing_was_sent(*lanes_[1].end) ? last_ : first_is_unsent ? 1 : 0;
}

attempt_end race::take_result() {
  const std::size_t of = decisive();
  exchange& x = *lanes_[0].of;
  if (second_) x.connect_time += second_->connect_time;
  if (of == 1) {
    x.status = second_->status;
    x.has_begun = second_->has_begun;
    x.keeps_client = second_->keeps_client;
    x.first_byte = second_->first_byte;
    x.failure = second_->failure;
    x.lacks_descriptor = second_->lacks_descriptor;
    x.bytes_out = second_->bytes_out;
  }
  // `made_way` is true if this attempt's response was dropped because the call's other attempt still ran. If the other
  // attempt then brought no response, it is still undecided whether the call is retried. So this result is treated like
  // a lost connection.
  const lane& l = lanes_[of];
  return *l.end == attempt_end::put_back && l.made_way ? attempt_end::lost : *l.end;
}

/// Returns true if the response of an attempt is to be dropped. A 429, or a response that counts as a failure, is
/// dropped while the call's other attempt is still running, because the other attempt may succeed.
bool race::drops(lane& l, const message_head& h, std::string_view body, std::size_t target) {
  if (winner_ != nullptr) return false;
  const lane& other = other_than(l);
  const bool other_runs = other.runs() && !other.is_put_back;
  const bool is_bad = h.status == 429 || counts_as_failure({.how = attempt_end_kind::answered, .status = h.status});
  l.made_way = is_bad && other_runs;
  l.is_put_back = l.made_way || next_.drops(h, body, target);
  return l.is_put_back;
}

bool race::claim(lane& l) {
  if (winner_ != nullptr) return false;
  winner_ = &l;
  if (exchange* const other = other_than(l).of) other->drop();
  bell_.cancel();
  return true;
}

}  // namespace canigo::gateway
