#include "canigo/detail/coro/hedge_race.hpp"

#include "canigo/algorithms/latency_window.hpp"
#include "canigo/task_group.hpp"
#include "canigo/time_source.hpp"

#include <utility>

namespace canigo::detail {

hedge_race::hedge_race(const net::any_io_executor& strand, const hedge_options& options)
    : doorbell{strand}, strand_{strand}, options_{options} {
  const std::size_t most = options.copies + std::size_t{1};
  signals_.reserve(most);
  runs_.reserve(most);
}

/// Starts the next copy of the operation. A failure to start counts as the copy's failure.
void hedge_race::start_next() noexcept {
  const std::size_t index = runs_.size();
  runs_.push_back(true);  // this allocates nothing, because the constructor has reserved the memory
  signals_.emplace_back();
  ++running_;
  last_start_ = time().now();
  if (index == 0) started_at_ = last_start_;
  try {
    signals_[index] = std::make_unique<net::cancellation_signal>();
    start(index);
  } catch (...) {
    static_cast<void>(ended(index, std::current_exception()));
  }
}

/// Records the end of a copy. If no copy runs any more, returns the permit for the slot in the task group; otherwise an
/// empty permit.
permit hedge_race::ended(std::size_t index, const std::exception_ptr& failure) noexcept {
  runs_[index] = false;
  --running_;
  if (index == 0) is_first_noted_ = true;  // if the first copy has failed, its latency is not recorded
  if (failure) failure_ = failure;
  ring();
  return running_ == 0 ? std::move(in_group_) : permit{};
}

void hedge_race::note_winner(std::size_t index) noexcept {
  if (has_winner_) return;
  has_winner_ = true;
  if (index == 0 || !is_first_noted_) note_latency();
}

/// Records the latency of the first copy, when this copy has a result, or was cancelled because another copy has a
/// result. A cancelled copy took at least as long as recorded. Without the latencies of cancelled copies, the window
/// would contain only fast calls, and the quantile would sink.
void hedge_race::note_latency() noexcept {
  is_first_noted_ = true;
  const time_point now = time().now();
  if (options_.window != nullptr) options_.window->record(now, time_between(started_at_, now));
}

void hedge_race::end_all() noexcept {
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    if (!runs_[i]) continue;
    try {
      signals_[i]->emit(net::cancellation_type::terminal);
    } catch (...) {
      // An exception of a cancellation handler is ignored, because the exception concerns only one copy.
    }
  }
}

void hedge_race::cancelled() noexcept {
  is_cancelled_ = true;
  end_all();
  ring();
}

/// Returns when to start the next copy; max if no further copy is started.
time_point hedge_race::next_start() {
  if (!may_start_ || runs_.size() > options_.copies) return time_point::max();
  if (!options_.after.is_quantile()) return saturating_add(last_start_, options_.after.after());
  const auto slow = options_.window->quantile(time().now(), options_.after.share());
  return slow ? saturating_add(last_start_, *slow) : time_point::max();
}

net::awaitable<void> hedge_race::run(std::shared_ptr<hedge_race> self) {
  co_await net::this_coro::throw_if_cancelled(false);
  self->options_.budget->pay_in();
  self->start_next();
  while (self->running_ > 0 && !self->has_winner_) {
    const net::cancellation_state state = co_await net::this_coro::cancellation_state;
    if (state.cancelled() != net::cancellation_type::none && !self->is_cancelled_) self->cancelled();
    self->may_start_ = self->may_start_ && !self->is_cancelled_;
    const time_point next = self->next_start();
    if (next <= self->time().now()) {
      self->may_start_ = self->options_.budget->try_take();
      if (self->may_start_) self->start_next();
      continue;
    }
    co_await self->wait_until(next);
  }
  self->end_all();
  if (self->options_.group != nullptr && !self->is_cancelled_ && self->running_ > 0) {
    self->in_group_ = self->options_.group->hold();
    co_return;
  }
  while (self->running_ > 0) co_await self->wait_until(time_point::max());
}

}  // namespace canigo::detail
