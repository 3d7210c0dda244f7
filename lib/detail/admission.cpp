#include "canigo/detail/admission.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>

namespace canigo::detail {

namespace {

constexpr std::uint8_t grants_in_a_row = 128;
constexpr int resumptions_per_turn = 128;
constexpr duration retry_after = std::chrono::milliseconds{1};
constexpr duration catch_up = std::chrono::milliseconds{20};

}  // namespace

admission_options checked(std::string_view type, const admission_options& o) {
  const auto field = [&](const char* name) { return std::string{type} + "." + name; };
  if (o.priorities < 1 || o.priorities > wait_queue::max_priorities) {
    throw_invalid(field("priorities"), o.priorities, "1 to 1024");
  }
  if (o.queue_limit < 1) throw_invalid(field("queue_limit"), o.queue_limit, "1 or more");
  if (o.ageing <= duration::zero()) throw_invalid(field("ageing"), o.ageing, "more than 0");
  if (o.on_overflow == overflow::wait) {
    throw_invalid(field("on_overflow"), "wait", "reject_new, evict_oldest, evict_least_important");
  }
  return o;
}

// ---- waiter ---------------------------------------------------------------------------------------------------------

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

// ---- life -----------------------------------------------------------------------------------------------------------

admission* admission::open(const net::any_io_executor& executor, supplies s, const admission_options& options) {
  return new admission{executor, std::move(s), options};
}

admission::admission(const net::any_io_executor& executor, supplies s, const admission_options& options)
    : counted_member{executor},
      supplies_{std::move(s)},
      queue_{options.priorities, options.ageing},
      queue_limit_{options.queue_limit},
      on_overflow_{options.on_overflow},
      priorities_{options.priorities},
      executor_{executor},
      runs_on_io_context_{target_of<net::io_context::executor_type>(executor) != nullptr},
      wake_up_{*this},
      drain_{*this} {
  counts_.classes.resize(static_cast<std::size_t>(options.priorities));
  granted_at_once_.resize(counts_.classes.size());
  join();
}

admission* open_idle(const net::any_io_executor& executor) {
  return admission::open(executor, supplies{{}, 0, supplies::occupancy::idle}, {});
}

void admission::close() noexcept {
  stop();
  {
    const std::lock_guard lock{mutex_};
    kept_by_places_ = supplies_.occupied() > 0;
    if (kept_by_places_) return;
  }
  release_ref();
}

bool admission::may_go() noexcept {
  if (wake_armed_ && !time_->cancel(wake_up_)) {
    dying_ = true;
    return false;
  }
  wake_armed_ = false;
  return true;
}

void admission::let_go_of_context() noexcept {
  time_ = nullptr;
  loop_.give_up();
  executor_ = {};
}

void admission::end_with_context() noexcept {
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
    somebody_waits_.store(false, std::memory_order_relaxed);
    waiters.append(std::move(ready_));
    waiters.append(std::move(foreign_));
    if (std::exchange(retrying_, false)) release_ref();
    time_ = nullptr;
  }
  // Their frames may hold permits, other waiters' handles, and the handle of this.
  while (suspended* s = waiters.pop()) s->destroy();
  {
    // A strand's would reach for its context when this goes.
    net::any_io_executor executor;
    net::any_io_executor work;
    const std::lock_guard lock{mutex_};
    executor_.swap(executor);
    work = loop_.give_up();
  }
}

// ---- what is decided under the lock is carried out after it ---------------------------------------------------------

void admission::unlock_and_hand_over() noexcept {
  const bool drain_now = !ready_.empty() && !drain_posted_.load(std::memory_order_relaxed);
  if (drain_now) {
    drain_posted_.store(true, std::memory_order_relaxed);
    add_ref();
  }
  if (!foreign_.empty() || loop_.is_over()) [[unlikely]]
    return unlock_and_hand_over_all(drain_now);
  mutex_.unlock();
  // From here on `this` lives by the reference that the drain holds.
  if (drain_now) post_drain();
}

void admission::unlock_and_hand_over_all(bool drain_now) noexcept {
  suspended_list foreign{std::move(foreign_)};
  const net::any_io_executor until_all_is_posted = loop_.let_go();
  mutex_.unlock();

  // From here on `this` lives by the references that the drain and the foreign waiters hold.
  if (drain_now) post_drain();
  while (suspended* s = foreign.pop()) {
    admission& home = *static_cast<waiter*>(s)->home_;
    try {
      s->post();
    } catch (...) {
      if (!home.keep_for_retry(*s)) s->destroy();
    }
  }
}

void admission::post_drain() noexcept {
  try {
    drain_.post();
  } catch (...) {
    bool has_context = false;
    {
      const std::lock_guard lock{mutex_};
      has_context = !context_gone_;
      if (has_context) {
        drain_posted_.store(false, std::memory_order_relaxed);
        if (!ready_.empty()) retry_soon();
      }
    }
    // Who asks when the context has gone goes as well.
    if (!has_context) return drain_.destroy();
    release_ref();
  }
}

bool admission::keep_for_retry(suspended& s) noexcept {
  const std::lock_guard lock{mutex_};
  if (context_gone_) return false;
  foreign_.push(s);
  retry_soon();
  return true;
}

void admission::retry_soon() noexcept {
  if (!retrying_) {
    retrying_ = true;
    add_ref();
  }
  wake_at(wake_armed_ ? wake_time_ : time_point::max());
}

admission::drain::drain(admission& a) noexcept : owner{&a} {}

void admission::drain::post() {
  const fixed_allocator<void, 160> allocator{memory};
  using executor_type = net::io_context::executor_type;
  const auto* io = owner->runs_on_io_context_ ? owner->executor_.target<executor_type>() : nullptr;
  if (io != nullptr) {
    post_resumption(*io, *this, allocator);
  } else {
    post_resumption(owner->executor_, *this, allocator);
  }
}

void admission::drain::resume() { owner->run_drain(); }

void admission::drain::destroy() noexcept {
  // The executor dropped what was posted to it, so nobody will be resumed there.
  suspended_list lost;
  {
    const std::lock_guard lock{owner->mutex_};
    owner->drain_posted_.store(false, std::memory_order_relaxed);
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
    // Where it may have help, a drain is posted as long as somebody is ready.
    if (i > 0 && may_have_help && !drain_posted_.load(std::memory_order_relaxed)) return;
    waiter* w = nullptr;
    bool call_helper = false;
    {
      const std::lock_guard lock{mutex_};
      if (i == 0) drain_posted_.store(false, std::memory_order_relaxed);
      w = static_cast<waiter*>(ready_.front());
      if (w == nullptr) return;
      if (i > 0 && w->passes_loop_ && drain_posted_.load(std::memory_order_relaxed)) return;
      ready_.pop();
      if (!ready_.empty() && !drain_posted_.load(std::memory_order_relaxed) && may_have_help) {
        call_helper = true;
        drain_posted_.store(true, std::memory_order_relaxed);
        add_ref();
      }
    }
    if (call_helper) post_drain();
    w->resume();
  }
  const change whoever_is_left{*this};
}

// ---- requests -------------------------------------------------------------------------------------------------------

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

/// The clock costs half of what a free semaphore does, and that needs it only for a request with a deadline.
inline time_point admission::now_for(const request& r) const noexcept {
  return supplies_.has_rates() || r.deadline != time_point::max() ? clock() : time_point::min();
}

bool admission::is_paused(time_point now) noexcept {
  if (now == time_point::min()) now = clock();
  if (now < paused_until_) return true;
  paused_until_ = time_point::min();
  return false;
}

/// Inline, and what mostly happens first: it is half of what a free acquire costs.
[[gnu::always_inline]] inline outcome admission::try_enter_locked(const request& r, time_point now) noexcept {
  const bool can_be = static_cast<unsigned>(r.priority) < static_cast<unsigned>(priorities_) && r.tokens != 0;
  if (can_be && !stopped_ && r.deadline >= now) [[likely]] {
    if (queue_.empty() && (paused_until_ == time_point::min() || !is_paused(now)) && supplies_.try_take(now, r.tokens))
        [[likely]] {
      ++granted_at_once_[static_cast<std::size_t>(r.priority)];
      return outcome::granted;
    }
    if (r.tokens == 1) return outcome::must_wait;  // one is never too many
  }
  return why_not(r, now);
}

outcome admission::why_not(const request& r, time_point now) noexcept {
  outcome o = outcome::must_wait;
  if (r.priority < 0 || r.priority >= priorities_) {
    o = to_outcome(errc::invalid_priority);
  } else if (stopped_) {
    o = to_outcome(errc::stopped);
  } else if (r.tokens == 0) {
    o = to_outcome(errc::invalid_argument);
  } else if (r.tokens > supplies_.largest_request()) {
    o = to_outcome(errc::too_large);
  } else if (r.deadline < now) {
    o = to_outcome(errc::deadline_unreachable);
  }
  if (o != outcome::must_wait) count_end(o);
  return o;
}

outcome admission::try_enter(const request& r) noexcept {
  const time_point now = now_for(r);
  const std::lock_guard lock{mutex_};
  const outcome o = try_enter_locked(r, now);
  if (o == outcome::must_wait) count_end(o);
  return o;
}

outcome admission::try_enter_in_turn(const request& r) noexcept {
  const time_point now = now_for(r);
  const std::lock_guard lock{mutex_};
  const outcome o = try_enter_locked(r, now);
  if (o != outcome::granted || ++in_a_row_ <= grants_in_a_row) return o;
  in_a_row_ = 0;
  return outcome::granted_by_post;
}

void admission::enter(waiter& w, const request& r) noexcept {
  const time_point now = clock();
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
  somebody_waits_.store(true, std::memory_order_relaxed);
  if (r.deadline == time_point::max() || !time_->arm(*w.limit_, r.deadline)) w.limit_ = nullptr;
  if (w.holds_work_) loop_.add_reason(executor_);
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
    if (victim->priority <= priority) victim = nullptr;
  }
  if (victim == nullptr) return false;
  finish(static_cast<waiter&>(*victim), to_outcome(errc::evicted));
  return true;
}

/// Ends the wait of one that is queued.
void admission::finish(waiter& w, outcome o) noexcept {
  queue_.remove(w);
  somebody_waits_.store(!queue_.empty(), std::memory_order_relaxed);
  if (w.holds_work_) loop_.remove_reason();
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

// ---- supply meets demand --------------------------------------------------------------------------------------------

void admission::pump(time_point now) noexcept {
  if (context_gone_) return;
  time_point next = paused_until_;
  if (now >= paused_until_) {
    paused_until_ = time_point::min();
    next = time_point::max();
    // A wake-up is always a little late. What was due meanwhile is taken as of when it was due, or a bucket that brims
    // would lose that time at every grant; but a process that was held up for long must not make up for it in one go.
    time_point as_of = std::min(now, std::max(wake_time_, saturating_add(now, -catch_up)));
    while (wait_node* n = queue_.front(now)) {
      if (n->tokens > 1 && n->tokens > supplies_.largest_request()) {  // the limit shrank since it came
        finish(static_cast<waiter&>(*n), to_outcome(errc::too_large));
        continue;
      }
      if (!supplies_.try_take(as_of, n->tokens)) {
        const time_point ready = supplies_.ready_at(as_of, n->tokens);
        if (ready > now || !supplies_.try_take(ready, n->tokens)) {
          next = ready;
          // One that rises above it may be lighter.
          if (n->tokens > 1) next = std::min(next, queue_.next_promotion(now));
          break;
        }
        as_of = ready;
      }
      count_grant(n->priority, now - n->since());
      finish(static_cast<waiter&>(*n), outcome::granted);
    }
  }
  wake_at(queue_.empty() ? time_point::max() : next);
}

void admission::wake_at(time_point when) noexcept {
  if (retrying_) when = std::min(when, time_->now() + retry_after);
  if (wake_armed_) {
    // If it is being called just now, that call looks again; a second one to come would be one too many.
    if (when == wake_time_ || !time_->cancel(wake_up_)) return;
    wake_armed_ = false;
  }
  if (when != time_point::max()) wake_armed_ = time_->arm(wake_up_, when);
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
    unreferenced();
    return;
  }
  const bool retry = std::exchange(retrying_, false);
  pump(time_->now());
  unlock_and_hand_over();
  if (retry) release_ref();
}

bool admission::occupy(std::uint64_t places) noexcept {
  const std::lock_guard lock{mutex_};
  return supplies_.try_occupy(places);
}

std::uint64_t admission::occupied() const noexcept {
  const std::lock_guard lock{mutex_};
  return supplies_.occupied();
}

void admission::release(std::uint64_t places) noexcept {
  mutex_.lock();
  supplies_.release(places);
  if (queue_.empty() && !kept_by_places_) [[likely]] {
    mutex_.unlock();
    return;
  }
  if (!queue_.empty()) pump(time_->now());
  const bool last = gave_up_last_place();
  unlock_and_hand_over();
  if (last) release_ref();
}

void admission::undo(std::uint64_t tokens) noexcept {
  bool last = false;
  {
    const change c{*this};
    const time_point now = clock();
    supplies_.undo(now, tokens);
    pump(now);
    last = gave_up_last_place();
  }
  if (last) release_ref();
}

bool admission::gave_up_last_place() noexcept {
  if (!kept_by_places_ || supplies_.occupied() > 0) return false;
  kept_by_places_ = false;
  return true;
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
  const time_point now = clock();
  const std::lock_guard lock{mutex_};
  const auto at = static_cast<std::uint64_t>(earliest(r, now).time_since_epoch().count());
  const std::uint64_t wait = at - static_cast<std::uint64_t>(now.time_since_epoch().count());
  return duration{static_cast<duration::rep>(std::min<std::uint64_t>(wait, duration::max().count()))};
}

// ---- counts ---------------------------------------------------------------------------------------------------------

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
    s.classes[i].granted += granted_at_once_[i];
    s.classes[i].wait.record_at_once(granted_at_once_[i]);
    s.granted += s.classes[i].granted;
  }
  s.requested = s.waiting + s.granted + s.cancelled + s.timed_out + s.evicted + s.rejected + s.stopped;
}

std::size_t admission::waiting() const noexcept {
  const std::lock_guard lock{mutex_};
  return queue_.size();
}

}  // namespace canigo::detail
