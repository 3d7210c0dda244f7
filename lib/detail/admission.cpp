#include "canigo/detail/admission.hpp"

#include <algorithm>
#include <memory>
#include <mutex>

namespace canigo::detail {

namespace {

constexpr std::uint8_t grants_in_a_row = 128;
constexpr int resumptions_per_turn = 128;
constexpr duration retry_after = std::chrono::milliseconds{1};

net::any_io_executor keep_running(const net::any_io_executor& executor) noexcept {
  try {
    return net::prefer(context_executor(executor), net::execution::outstanding_work.tracked);
  } catch (...) {
    return {};  // only an executor too large for any_io_executor's own room comes here, and then without memory
  }
}

}  // namespace

// ---- waiter ----------------------------------------------------------------------------------------------------------

waiter::limit::limit(waiter& w) noexcept
    : deadline{[](deadline& d, due why) noexcept {
        if (why == due::expired) {
          waiter& late = *static_cast<limit&>(d).owner;
          late.home_->limit_passed(late);
        }
      }},
      owner{&w} {}

void waiter::request_cancel() noexcept { home_->cancel(*this); }

const net::any_io_executor& waiter::home_executor() const noexcept { return home_->executor(); }

outcome waiter::take_outcome() noexcept {
  if (!at_home_ && state_ == state::ending) home_->release_ref();
  return outcome_;
}

void waiter::abandon() noexcept {
  if (outcome_ == outcome::granted && state_ == state::ending) home_->undo(tokens);
  take_outcome();
}

// ---- life ------------------------------------------------------------------------------------------------------------

admission* admission::open(const net::any_io_executor& executor, supplies s, const admission_options& options) {
  return new admission{executor, std::move(s), options};
}

admission::admission(const net::any_io_executor& executor, supplies s, const admission_options& options)
    : time_{&time_source::of(executor)},
      supplies_{std::move(s)},
      queue_{options.priorities, options.ageing},
      queue_limit_{options.queue_limit},
      on_overflow_{options.on_overflow},
      priorities_{options.priorities},
      executor_{executor},
      wake_up_{*this},
      drain_{*this},
      context_{&net::use_service<context_service>(net::query(executor, net::execution::context))} {
  counts_.classes.resize(static_cast<std::size_t>(options.priorities));
  context_->add(*this);
}

void admission::close() noexcept {
  stop();
  release_ref();
}

void admission::destroy() noexcept {
  {
    const std::lock_guard lock{mutex_};
    if (!context_gone_) {
      context_->remove(*this);
      if (wake_armed_ && !time_->cancel(wake_up_)) {
        dying_ = true;
        return;
      }
    }
  }
  delete this;
}

void admission::context_shutdown() noexcept {
  add_ref();
  suspended_list waiters;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = stopped_ = true;
    time_->cancel(wake_up_);
    while (wait_node* n = queue_.first_of_most_important()) {
      auto& w = static_cast<waiter&>(*n);
      queue_.remove(w);
      if (w.limit_ != nullptr) time_->cancel(*w.limit_);
      w.state_ = waiter::state::fresh;
      waiters.push(w);
    }
    waiters.append(std::move(ready_));
    waiters.append(std::move(foreign_));
    if (std::exchange(retrying_, false)) release_ref();
  }
  // Their frames may hold permits, other waiters' handles, and the handle of this.
  while (suspended* s = waiters.pop()) s->destroy();
  work_ = {};
  executor_ = {};  // a strand's would reach for its context when this goes
  release_ref();
}

// ---- what is decided under the lock is carried out after it ----------------------------------------------------------

void admission::unlock_and_hand_over() noexcept {
  const bool drain_now = !ready_.empty() && !drain_posted_;
  if (drain_now) {
    drain_posted_ = true;
    add_ref();
  }
  suspended_list foreign{std::move(foreign_)};
  net::any_io_executor work;
  if (works_ == 0 && work_) work = std::exchange(work_, {});
  mutex_.unlock();

  // From here on `this` lives by the references that the drain and the foreign waiters hold.
  if (drain_now) post_drain();
  while (suspended* s = foreign.pop()) {
    admission& home = *static_cast<waiter*>(s)->home_;
    try {
      s->post();
    } catch (...) {
      const std::lock_guard lock{home.mutex_};
      home.foreign_.push(*s);
      home.retry_soon();
    }
  }
  // `work` kept the loop running until the posts do.
}

void admission::post_drain() noexcept {
  try {
    drain_.post();
  } catch (...) {
    {
      const std::lock_guard lock{mutex_};
      drain_posted_ = false;
      if (!ready_.empty()) retry_soon();
    }
    release_ref();
  }
}

void admission::retry_soon() noexcept {
  if (!retrying_) {
    retrying_ = true;
    add_ref();
  }
  wake_at(time_->now() + retry_after);
}

admission::drain::drain(admission& a) noexcept : owner{&a} {}

void admission::drain::post() {
  post_resumption(owner->executor_, *this, fixed_allocator<void, 160>{memory});
}

void admission::drain::resume() { owner->run_drain(); }

void admission::drain::destroy() noexcept {
  // The executor dropped what was posted to it, so nobody will be resumed there.
  suspended_list lost;
  {
    const std::lock_guard lock{owner->mutex_};
    owner->drain_posted_ = false;
    lost.append(std::move(owner->ready_));
  }
  while (suspended* s = lost.pop()) s->destroy();
  owner->release_ref();
}

void admission::run_drain() {
  struct turn {
    admission& a;
    ~turn() { a.release_ref(); }
  };
  const turn until_the_end_or_a_throw{*this};
  // An executor that calls at once what it is to call later has no other threads that could help.
  const bool may_have_help = !posting::is_under_way(drain_);
  for (int i = 0; i < resumptions_per_turn; ++i) {
    waiter* w = nullptr;
    bool call_helper = false;
    {
      const std::lock_guard lock{mutex_};
      if (i == 0) drain_posted_ = false;
      w = static_cast<waiter*>(ready_.front());
      if (w == nullptr) return;
      if (i > 0 && w->passes_loop_ && drain_posted_) return;
      ready_.pop();
      if (!ready_.empty() && !drain_posted_ && may_have_help) {
        call_helper = true;
        drain_posted_ = true;
        add_ref();
      }
    }
    if (call_helper) post_drain();
    w->resume();
  }
  const change whoever_is_left{*this};
}

// ---- requests --------------------------------------------------------------------------------------------------------

void admission::check(const request& r) const {
  if (r.priority < 0 || r.priority >= priorities_) {
    throw_invalid("request.priority", r.priority, "0 to " + std::to_string(priorities_ - 1), errc::invalid_priority);
  }
  if (r.tokens == 0) throw_invalid("request.tokens", r.tokens, "1 or more");
  const std::lock_guard lock{mutex_};
  if (const auto most = supplies_.largest_request(); r.tokens > most) {
    throw_invalid("request.tokens", r.tokens, "1 to " + std::to_string(most), errc::too_large);
  }
}

outcome admission::refusal(const request& r, time_point now) const noexcept {
  if (r.priority < 0 || r.priority >= priorities_) return to_outcome(errc::invalid_priority);
  if (stopped_) return to_outcome(errc::stopped);
  if (r.tokens == 0) return to_outcome(errc::invalid_argument);
  if (r.tokens > supplies_.largest_request()) return to_outcome(errc::too_large);
  if (r.deadline < now) return to_outcome(errc::deadline_unreachable);
  return outcome::granted;
}

outcome admission::try_enter_locked(const request& r, time_point now) noexcept {
  if (const outcome refused = refusal(r, now); refused != outcome::granted) {
    count_end(refused);
    return refused;
  }
  if (!queue_.empty() || now < paused_until_ || !supplies_.try_take(now, r.tokens)) return outcome::must_wait;
  count_grant(r.priority, duration::zero());
  return outcome::granted;
}

outcome admission::try_enter(const request& r) noexcept {
  const time_point now = time_->now();
  const std::lock_guard lock{mutex_};
  const outcome o = try_enter_locked(r, now);
  if (o == outcome::must_wait) count_end(o);
  return o;
}

outcome admission::try_enter_in_turn(const request& r) noexcept {
  const time_point now = time_->now();
  const std::lock_guard lock{mutex_};
  const outcome o = try_enter_locked(r, now);
  if (o != outcome::granted || ++in_a_row_ <= grants_in_a_row) return o;
  in_a_row_ = 0;
  return outcome::granted_by_post;
}

void admission::enter(waiter& w, const request& r) noexcept {
  const time_point now = time_->now();
  const change c{*this};
  outcome o = try_enter_locked(r, now);
  if (o == outcome::must_wait && r.deadline != time_point::max() && earliest(r, now) > r.deadline) {
    o = to_outcome(errc::deadline_unreachable);
    count_end(o);
  }
  bool evicted = false;
  if (o == outcome::must_wait && queue_.size() >= queue_limit_) {
    evicted = make_room(r.priority);
    if (!evicted) {
      o = to_outcome(errc::queue_full);
      count_end(o);
    }
  }
  w.tokens = r.tokens;
  w.priority = static_cast<std::uint16_t>(r.priority);
  if (o != outcome::must_wait) {
    w.outcome_ = o;
    ready(w);
    return;
  }
  w.state_ = waiter::state::queued;
  queue_.push(w, now);
  if (r.deadline == time_point::max() || !time_->arm(*w.limit_, r.deadline)) w.limit_ = nullptr;
  if (w.holds_work_ && works_++ == 0 && !work_) work_ = keep_running(executor_);
  // One who came first in the queue may be able to go where the former first, heavier or less important, could not.
  if (evicted || queue_.front(now) == &w) pump(now);
}

void admission::deliver(waiter& w, const request& r, outcome o) noexcept {
  const change c{*this};
  w.tokens = r.tokens;
  w.outcome_ = o;
  w.passes_loop_ = true;
  ready(w);
}

void admission::cancel(waiter& w) noexcept {
  const change c{*this};
  if (w.state_ != waiter::state::queued) return;
  finish(w, outcome::aborted);
  pump(time_->now());
}

bool admission::make_room(int priority) noexcept {
  wait_node* victim = nullptr;
  if (on_overflow_ == overflow::evict_oldest) victim = queue_.oldest();
  if (on_overflow_ == overflow::evict_least_important) {
    victim = queue_.youngest_of_least_important();
    if (victim != nullptr && victim->priority <= priority) victim = nullptr;
  }
  if (victim == nullptr) return false;
  finish(static_cast<waiter&>(*victim), to_outcome(errc::evicted));
  return true;
}

/// Ends the wait of one that is queued.
void admission::finish(waiter& w, outcome o) noexcept {
  queue_.remove(w);
  if (w.holds_work_) --works_;
  w.outcome_ = o;
  if (o != outcome::granted) count_end(o);
  if (w.limit_ != nullptr && !time_->cancel(*w.limit_)) {
    w.state_ = waiter::state::awaiting_limit;
    add_ref();  // for the call of the limit
    return;
  }
  ready(w);
}

void admission::ready(waiter& w) noexcept {
  w.state_ = waiter::state::ending;
  if (w.at_home_) {
    ready_.push(w);
  } else {
    add_ref();
    foreign_.push(w);
  }
}

void admission::limit_passed(waiter& w) noexcept {
  bool release = false;
  {
    const change c{*this};
    if (w.state_ == waiter::state::queued) {
      // At its very deadline it may still go; and it may only go before the others.
      const time_point now = time_->now();
      pump(now);
      if (w.state_ == waiter::state::queued) {
        w.limit_ = nullptr;
        finish(w, to_outcome(errc::timed_out));
        pump(now);
      }
    }
    if (w.state_ == waiter::state::awaiting_limit) {
      release = true;
      ready(w);
    }
  }
  if (release) release_ref();
}

// ---- supply meets demand ---------------------------------------------------------------------------------------------

void admission::pump(time_point now) noexcept {
  if (context_gone_) return;
  time_point next = paused_until_;
  if (now >= paused_until_) {
    next = time_point::max();
    while (wait_node* n = queue_.front(now)) {
      if (n->tokens > supplies_.largest_request()) {  // the limit shrank since it came
        finish(static_cast<waiter&>(*n), to_outcome(errc::too_large));
        continue;
      }
      if (!supplies_.try_take(now, n->tokens)) {
        next = supplies_.ready_at(now, n->tokens);
        // One that rises above it may be lighter.
        if (n->tokens > 1) next = std::min(next, queue_.next_promotion(now));
        break;
      }
      count_grant(n->priority, now - n->since());
      finish(static_cast<waiter&>(*n), outcome::granted);
    }
  }
  wake_at(queue_.empty() ? time_point::max() : next);
}

void admission::wake_at(time_point when) noexcept {
  if (retrying_) when = std::min(when, time_->now() + retry_after);
  if (when == time_point::max()) {
    if (wake_armed_ && time_->cancel(wake_up_)) wake_armed_ = false;
  } else if (!wake_armed_ || when != wake_time_) {
    wake_armed_ = time_->arm(wake_up_, when);
  }
  wake_time_ = when;
}

admission::wake_up::wake_up(admission& a) noexcept
    : deadline{[](deadline& d, due why) noexcept {
        if (why == due::expired) static_cast<wake_up&>(d).owner->woken();
      }},
      owner{&a} {}

void admission::woken() noexcept {
  mutex_.lock();
  wake_armed_ = false;
  if (dying_) {
    mutex_.unlock();
    delete this;
    return;
  }
  const bool retry = std::exchange(retrying_, false);
  pump(time_->now());
  unlock_and_hand_over();
  if (retry) release_ref();
}

void admission::release(std::uint64_t tokens) noexcept {
  const change c{*this};
  supplies_.release(tokens);
  if (!queue_.empty()) pump(time_->now());
}

void admission::undo(std::uint64_t tokens) noexcept {
  const change c{*this};
  if (context_gone_) return;
  const time_point now = time_->now();
  supplies_.undo(now, tokens);
  pump(now);
}

void admission::pause_until(time_point t) noexcept {
  const change c{*this};
  paused_until_ = t;
  if (!context_gone_) pump(time_->now());
}

void admission::stop() noexcept {
  const change c{*this};
  stopped_ = true;
  while (wait_node* n = queue_.first_of_most_important()) finish(static_cast<waiter&>(*n), to_outcome(errc::stopped));
  if (!context_gone_) wake_at(time_point::max());
}

time_point admission::earliest(const request& r, time_point now) const noexcept {
  const std::uint64_t ahead = queue_.tokens_ahead(r.priority);
  const std::uint64_t all = ahead > ~std::uint64_t{0} - r.tokens ? ~std::uint64_t{0} : ahead + r.tokens;
  const time_point ready = supplies_.rates_ready_at(now, all);
  // A pause without an end may end at any moment.
  return paused_until_ == time_point::max() ? ready : std::max(ready, paused_until_);
}

duration admission::estimate(const request& r) const {
  check(r);
  const time_point now = time_->now();
  const std::lock_guard lock{mutex_};
  return earliest(r, now) - now;
}

// ---- counts ----------------------------------------------------------------------------------------------------------

void admission::count_grant(int priority, duration waited) noexcept {
  auto& c = counts_.classes[static_cast<std::size_t>(priority)];
  ++c.granted;
  c.wait.record(waited);
}

void admission::count_end(outcome o) noexcept {
  if (o == outcome::aborted) {
    ++counts_.cancelled;
  } else if (o == to_outcome(errc::timed_out)) {
    ++counts_.timed_out;
  } else if (o == to_outcome(errc::evicted)) {
    ++counts_.evicted;
  } else if (o == to_outcome(errc::stopped)) {
    ++counts_.stopped;
  } else {
    ++counts_.rejected;
  }
}

void admission::read_counts(queue_stats& s) const noexcept {
  auto classes = std::move(s.classes);
  std::copy(counts_.classes.begin(), counts_.classes.end(), classes.begin());
  s = {.classes = std::move(classes),
       .waiting = queue_.size(),
       .cancelled = counts_.cancelled,
       .timed_out = counts_.timed_out,
       .evicted = counts_.evicted,
       .rejected = counts_.rejected,
       .stopped = counts_.stopped};
  for (std::size_t i = 0; i < s.classes.size(); ++i) {
    s.classes[i].waiting = queue_.size(static_cast<int>(i));
    s.granted += s.classes[i].granted;
  }
  s.requested = s.waiting + s.granted + s.cancelled + s.timed_out + s.evicted + s.rejected + s.stopped;
}

std::size_t admission::waiting() const noexcept {
  const std::lock_guard lock{mutex_};
  return queue_.size();
}

}  // namespace canigo::detail
