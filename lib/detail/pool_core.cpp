#include "canigo/detail/pool_core.hpp"

#include "canigo/detail/pool_turn.hpp"
#include "canigo/error.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::detail {

namespace {

constexpr int resumptions_per_turn = 128;
constexpr duration retry_after = std::chrono::milliseconds{1};
constexpr std::size_t most_workers = 100'000;

const pool_core_options& checked(const pool_core_options& o) {
  if (o.concurrency < 1 || o.concurrency > most_workers) throw_invalid("concurrency", o.concurrency, "1 to 100000");
  if (o.priorities < 1 || o.priorities > wait_queue::max_priorities)
    throw_invalid("priorities", o.priorities, "1 to 1024");
  if (o.queue_limit < 1) throw_invalid("queue_limit", o.queue_limit, "1 or more");
  if (o.timeout <= duration::zero()) throw_invalid("timeout", o.timeout, "more than 0");
  if (o.restart.limit > 10'000) throw_invalid("restart.limit", o.restart.limit, "0 to 10000");
  if (o.restart.within <= duration::zero()) throw_invalid("restart.within", o.restart.within, "more than 0");
  return o;
}

}  // namespace

// ---- life -----------------------------------------------------------------------------------------------------------

pool_core* pool_core::open(const net::any_io_executor& executor, const pool_core_options& options,
                           std::unique_ptr<pool_resources> resources) {
  auto* core = new pool_core{executor, checked(options), std::move(resources)};
  try {
    core->resize(options.concurrency);
  } catch (...) {
    core->close();
    throw;
  }
  return core;
}

pool_core::pool_core(const net::any_io_executor& executor, const pool_core_options& options,
                     std::unique_ptr<pool_resources> resources)
    : time_{&time_source::of(executor)},
      backlog_{options.priorities, options.queue_limit, options.on_overflow},
      options_{options},
      is_plain_{options.timeout == duration::max() && options.retry.attempts <= 1 && options.observer == nullptr},
      resources_{std::move(resources)},
      random_{static_cast<std::uint64_t>(time_->now().time_since_epoch().count())},
      restarts_{options.restart.limit, options.restart.within},
      executor_{executor},
      hands_over_{target_of<net::io_context::executor_type>(executor) != nullptr},
      drain_{*this},
      grace_{*this, [](pool_core& c, pool_alarm&) noexcept { c.grace_is_over(); }},
      retry_{*this, [](pool_core& c, pool_alarm&) noexcept { c.post_again(); }},
      context_{&net::use_service<context_service>(net::query(executor, net::execution::context))} {
  context_->add(*this);
}

pool_core::~pool_core() = default;

void pool_core::close() noexcept {
  request_stop(stop_mode::cancel_all, duration::max());
  release_ref();
}

void pool_core::destroy() noexcept {
  {
    const std::lock_guard lock{mutex_};
    orphan_ = !context_gone_ && !context_->remove(*this);
    if (orphan_) return;
  }
  delete this;
}

/// Takes a reference. False if there was none any more: whoever of destroy() and this comes second deletes.
bool pool_core::begin_shutdown() noexcept {
  std::size_t references = references_.load(std::memory_order_relaxed);
  while (references > 0) {
    if (references_.compare_exchange_weak(references, references + 1, std::memory_order_relaxed)) return true;
  }
  bool is_mine = false;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = true;
    let_go_of_executors();
    is_mine = orphan_;
  }
  if (is_mine) delete this;
  return false;
}

/// A strand's would reach for its context when this goes, and so would the workers'.
void pool_core::let_go_of_executors() noexcept {
  loop_.give_up();
  executor_ = {};
  for (const auto& w : workers_) w->strand_.reset();
}

void pool_core::context_shutdown() noexcept {
  if (!begin_shutdown()) return;
  suspended_list waiters;
  suspended_list workers;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = true;
    mode_ = stop_mode::cancel_all;
    const auto take_over = [&](pool_waiter_list& list) {
      while (pool_waiter_link* l = list.first()) {
        auto& w = static_cast<pool_waiter&>(*l);
        pool_waiter_list::remove(w);
        w.state_ = pool_waiter::state::fresh;
        waiters.push(w);
      }
    };
    while (pool_task* t = backlog_.take_any()) end_stopped(*t);
    for (pool_task* t = ended_; t != nullptr; t = t->next_ended_) take_over(t->waiters_);
    for (const auto& w : workers_) {
      w->rest_.disarm();
      if (w->current_ != nullptr) take_over(w->current_->waiters_);
      if (w->parked_ != nullptr) workers.push(*std::exchange(w->parked_, nullptr));
    }
    groups_.for_each_list(take_over);
    take_over(closed_waiters_);
    waiters.append(std::move(ready_));
    waiters.append(std::move(foreign_));
    grace_.disarm();
    retry_.disarm();
  }
  // Their frames may hold other tasks, handles, and the handle of this.
  while (suspended* s = waiters.pop()) s->destroy();
  while (suspended* s = workers.pop()) s->destroy();
  mutex_.lock();
  unlock_and_carry_out();
  let_go_of_executors();
  release_ref();
}

// ---- what is decided under the lock is carried out after it ---------------------------------------------------------

/// Where the drain that calls this goes on, it finds itself who is ready.
void pool_core::unlock_and_carry_out(bool drain_goes_on) noexcept {
  has_something_to_carry_out_ = false;
  const bool drain_now = !ready_.empty() && !drain_posted_ && !drain_goes_on;
  const bool rest_now = loop_.is_over();
  if (!drain_now && to_wake_ == nullptr && to_cancel_ == nullptr && ended_ == nullptr && foreign_.empty() &&
      !rest_now && !replaces_workers_) {
    mutex_.unlock();
    return;
  }
  if (context_gone_) return unlock_without_context();
  const bool replace_now = std::exchange(replaces_workers_, false);
  if (drain_now) {
    drain_posted_ = true;
    add_ref();
  }
  pool_worker* wakes = std::exchange(to_wake_, nullptr);
  pool_worker* cancels = std::exchange(to_cancel_, nullptr);
  pool_task* ended = std::exchange(ended_, nullptr);
  suspended_list foreign{std::move(foreign_)};
  const net::any_io_executor until_all_is_posted = loop_.let_go();
  mutex_.unlock();

  while (pool_worker* w = wakes) {
    wakes = w->next_wake_;
    try {
      w->wake_.post();
    } catch (...) {
      const std::lock_guard lock{mutex_};
      w->next_wake_ = to_wake_;
      to_wake_ = w;
      retry_soon();
    }
  }
  while (pool_worker* w = cancels) {
    cancels = w->next_cancel_;
    try {
      w->cancel_.post();
    } catch (...) {
      const std::lock_guard lock{mutex_};
      w->next_cancel_ = to_cancel_;
      to_cancel_ = w;
      retry_soon();
    }
  }
  if (drain_now) post_drain();
  while (suspended* s = foreign.pop()) {
    pool_core& home = *static_cast<pool_waiter*>(s)->home_;
    try {
      s->post();
    } catch (...) {
      const std::lock_guard lock{home.mutex_};
      home.foreign_.push(*s);
      home.retry_soon();
    }
  }
  if (ended != nullptr) carry_out_ended(ended);
  if (replace_now) replace_workers();
}

/// Nothing is posted any more; what was to be called is told so, as if the executor had dropped it.
void pool_core::unlock_without_context() noexcept {
  pool_worker* wakes = std::exchange(to_wake_, nullptr);
  pool_worker* cancels = std::exchange(to_cancel_, nullptr);
  pool_task* ended = std::exchange(ended_, nullptr);
  suspended_list lost{std::move(ready_)};
  lost.append(std::move(foreign_));
  mutex_.unlock();
  while (suspended* s = lost.pop()) s->destroy();
  for (pool_worker* w = wakes; w != nullptr; w = w->next_wake_) w->wake_.destroy();
  for (pool_worker* w = cancels; w != nullptr; w = w->next_cancel_) w->cancel_.destroy();
  carry_out_ended(ended);
}

/// Destroys what the tasks held, and only then tells those that wait for them: they may own what it refers to.
void pool_core::carry_out_ended(pool_task* ended) noexcept {
  if (ended == nullptr) return;
  for (pool_task* t = ended; t != nullptr; t = t->next_ended_) {
    if (!t->is_told_ && !std::exchange(t->is_dropped_, true)) t->drop_callable();
    if (options_.observer != nullptr && t->id_ != 0) options_.observer->task_ended(event_of(*t));
  }
  mutex_.lock();
  for (pool_task* t = ended; t != nullptr; t = t->next_ended_) {
    deliver(*t);
    --undelivered_;
  }
  check_closed();
  unlock();
  while (pool_task* t = ended) {
    ended = t->next_ended_;
    t->release_ref();
  }
}

void pool_core::post_drain() noexcept {
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

void pool_core::retry_soon() noexcept {
  if (!retry_.is_armed()) retry_.arm(time_->now() + retry_after);
}

void pool_core::post_again() noexcept {
  has_something_to_carry_out_ = true;
  replaces_workers_ = is_short_of_workers();
}

void pool_core::drain::post() { post_resumption(core->executor_, *this, fixed_allocator<void, 160>{memory}); }

void pool_core::drain::resume() { core->run_drain(); }

void pool_core::drain::destroy() noexcept {
  // The executor dropped what was posted to it, so nobody will be resumed there.
  suspended_list lost;
  {
    const std::lock_guard lock{core->mutex_};
    core->drain_posted_ = false;
    lost.append(std::move(core->ready_));
  }
  while (suspended* s = lost.pop()) s->destroy();
  core->release_ref();
}

/// One turn of the loop: callers are resumed, and workers called, on this thread.
///
/// Where several are there, or come in meanwhile, another drain is posted before the next one is called: where other
/// threads run the loop they shall help, as a handler or an operation may take its time.
void pool_core::run_drain() {
  struct end {
    pool_core& core;
    ~end() { core.end_drain(); }
  };
  const end at_the_end_or_a_throw{*this};
  pool_turn turn{*this};
  // An executor that calls at once what it is to call later has no other threads that could help.
  const bool may_have_help = !posting::is_under_way(drain_);
  for (int i = 0; i < resumptions_per_turn && turn.tasks_left > 0; ++i) {
    suspended* s = nullptr;
    bool call_helper = false;
    {
      const std::lock_guard lock{mutex_};
      if (i == 0) drain_posted_ = false;
      s = ready_.pop();
      if (!ready_.empty() && !drain_posted_ && may_have_help) {
        call_helper = true;
        drain_posted_ = true;
        add_ref();
      }
    }
    if (s == nullptr) return;
    if (call_helper) post_drain();
    s->resume();
  }
}

void pool_core::end_drain() noexcept {
  {
    const change c{*this};
    has_something_to_carry_out_ = has_something_to_carry_out_ || !ready_.empty();
  }
  release_ref();
}

// ---- waiters --------------------------------------------------------------------------------------------------------

void pool_waiter::request_cancel() noexcept { home_->cancel_wait(*this); }

const net::any_io_executor& pool_waiter::home_executor() const noexcept { return home_->executor(); }

int pool_waiter::take_code() noexcept {
  if (!at_home_ && state_ == state::ending) home_->release_ref();
  state_ = state::fresh;
  return code_;
}

void pool_waiter::abandon() noexcept { take_code(); }

std::error_code pool_waiter::take_error() noexcept {
  const int code = take_code();
  return code == pool_task::no_code ? std::error_code{} : pool_task::to_error_code(code);
}

parked_waiter::results parked_waiter::take_results() noexcept { return {take_error()}; }

/// Where there is no memory for the text of an error, that is the error.
std::exception_ptr task_waiter::take_failure() noexcept {
  const std::error_code e = take_error();
  if (!e) return wanted_->failure();
  try {
    throw std::system_error{e};
  } catch (...) {
    return std::current_exception();
  }
}

void pool_core::attach(pool_waiter& w, pool_waiter_list& list) noexcept {
  w.state_ = pool_waiter::state::waiting;
  list.push(w);
}

void pool_core::ready(pool_waiter& w, int code) noexcept {
  pool_waiter_list::remove(w);
  if (w.inside_ != nullptr) {
    pool_waiter** place = &w.inside_->nested_waits_;
    while (*place != &w) place = &(*place)->next_inside_;
    *place = w.next_inside_;
    if (w.inside_->nested_waits_ == nullptr) --blocked_;
    w.inside_ = nullptr;
  }
  w.state_ = pool_waiter::state::ending;
  w.code_ = code;
  has_something_to_carry_out_ = true;
  if (w.at_home_) {
    ready_.push(w);
  } else {
    add_ref();
    foreign_.push(w);
  }
}

void pool_core::ready_all(pool_waiter_list& list) noexcept {
  while (pool_waiter_link* l = list.first()) ready(static_cast<pool_waiter&>(*l), pool_task::no_code);
}

/// Whether with `w` every worker would wait for this pool, from inside. Notes that its worker does, if not.
bool pool_core::would_block_all(pool_waiter& w) noexcept {
  if (w.inside_ == nullptr) return false;
  pool_worker& worker = *w.inside_;
  if (worker.nested_waits_ == nullptr && blocked_ + 1 >= crew_.able()) {
    w.inside_ = nullptr;
    return true;
  }
  if (worker.nested_waits_ == nullptr) ++blocked_;
  w.next_inside_ = worker.nested_waits_;
  worker.nested_waits_ = &w;
  return false;
}

/// Where fewer workers are left, and each of them waits for its own pool, one of these waits ends. That frees its
/// worker, to go on or to leave, and then this is looked at again.
void pool_core::end_hopeless_wait() noexcept {
  if (blocked_ == 0 || blocked_ != crew_.running() || blocked_ < crew_.able()) return;
  for (const auto& worker : workers_) {
    for (pool_waiter* w = worker->nested_waits_; w != nullptr; w = w->next_inside_) {
      pool_task* t = w->task_;
      if (t != nullptr && (t->state() == task_state::running || has_ended(t->state()))) continue;
      if (w->purpose_ == pool_waiter::purpose::run) {
        backlog_.remove(*t);
        end(*t, task_state::failed, pool_task::deadlock, nullptr);
        admit_held();
      } else {
        ready(*w, pool_task::deadlock);
      }
      return;
    }
  }
}

void pool_core::fail(pool_waiter& w, int code) noexcept {
  const change c{*this};
  w.inside_ = nullptr;
  ready(w, code);
}

void pool_core::wait_for(pool_task& t, pool_waiter& w) noexcept {
  const change c{*this};
  w.task_ = &t;
  if (t.is_delivered_) {
    w.inside_ = nullptr;
    ready(w, pool_task::no_code);
  } else if (!has_ended(t.state()) && would_block_all(w)) {
    ready(w, pool_task::deadlock);
  } else {
    attach(w, t.waiters_);
  }
}

void pool_core::wait_group(std::uint64_t group, pool_waiter& w) noexcept {
  const change c{*this};
  pool_waiter_list* list = groups_.waiters(group);
  if (list == nullptr) {
    w.inside_ = nullptr;
    ready(w, pool_task::no_code);
  } else if (would_block_all(w)) {
    ready(w, pool_task::deadlock);
  } else {
    attach(w, *list);
  }
}

void pool_core::wait_closed(pool_waiter& w) noexcept {
  const change c{*this};
  if (w.inside_ != nullptr) {  // it can't end before the operation does that waits for it
    w.inside_ = nullptr;
    ready(w, pool_task::deadlock);
  } else if (has_closed()) {
    ready(w, pool_task::no_code);
  } else {
    attach(w, closed_waiters_);
  }
}

void pool_core::cancel_wait(pool_waiter& w) noexcept {
  const change c{*this};
  if (w.state_ != pool_waiter::state::waiting) return;
  if (w.purpose_ == pool_waiter::purpose::run) {
    cancel_locked(*w.task_);
  } else {
    ready(w, pool_task::aborted);
  }
}

// ---- stop -----------------------------------------------------------------------------------------------------------

void pool_core::request_stop(stop_mode mode, duration grace) noexcept {
  const change c{*this};
  if (context_gone_) return;
  if (mode > mode_) apply_stop(mode);
  if (mode == stop_mode::finish_running && mode_ == mode && grace != duration::max()) {
    const time_point at = saturating_add(time_->now(), std::max(grace, duration::zero()));
    if (at < grace_at_) grace_.arm(grace_at_ = at);
  }
  check_closed();
}

void pool_core::apply_stop(stop_mode mode) noexcept {
  mode_ = mode;
  if (mode == stop_mode::drain) {
    while (pool_task* t = backlog_.take_any_held()) end_stopped(*t);
  } else {
    while (pool_task* t = backlog_.take_any()) end_stopped(*t);
  }
  if (mode == stop_mode::cancel_all) {
    grace_.disarm();
    for (const auto& w : workers_) {
      if (w->current_ != nullptr && !w->current_->is_told_)
        w->current_->end_requested_.store(true, std::memory_order_release);
      if (w->is(pool_worker::state::running) || w->is(pool_worker::state::repairing)) request_cancel(*w);
    }
  }
  if (mode != stop_mode::drain) {
    wake_all();
  } else {
    check_drained();
  }
}

void pool_core::end_stopped(pool_task& t) noexcept {
  end(t, task_state::stopped, static_cast<int>(errc::stopped), nullptr);
}

void pool_core::grace_is_over() noexcept {
  counts_.report.escalated = crew_.running();
  apply_stop(stop_mode::cancel_all);
}

void pool_core::check_drained() noexcept {
  if (mode_ == stop_mode::drain && backlog_.size() == 0 && crew_.running() == 0) wake_all();
}

/// A worker that is lost while others wait to be drained is still to come back.
bool pool_core::has_closed() const noexcept {
  return crew_.is_empty() && undelivered_ == 0 && mode_ != stop_mode{} && !is_short_of_workers();
}

void pool_core::check_closed() noexcept {
  if (has_closed()) ready_all(closed_waiters_);
}

bool pool_core::is_closed() const noexcept {
  const std::lock_guard lock{mutex_};
  return has_closed();
}

stop_report pool_core::report() const {
  const std::lock_guard lock{mutex_};
  return counts_.report;
}

/// What can take its time (memory, texts) is done before and after the lock.
pool_stats pool_core::stats() const {
  pool_stats s;
  s.queued_by_class.resize(static_cast<std::size_t>(options_.priorities));
  std::vector<const std::string*> texts;
  std::size_t names = 0;
  std::size_t workers = 0;
  do {
    {
      const std::lock_guard lock{mutex_};
      names = names_.size();
      workers = workers_.size();
    }
    s.names.resize(names);
    s.overdue.reserve(workers);
    texts.reserve(names + workers);
  } while (!look(s, texts));
  for (std::size_t i = 0; i < names; ++i) s.names[i].name = *texts[i];
  for (std::size_t i = names; i < texts.size(); ++i) {
    if (texts[i] != nullptr) s.overdue[i - names].name = *texts[i];
  }
  return s;
}

/// Fills in all but the texts, which never change; false if there is not room for all of it.
bool pool_core::look(pool_stats& s, std::vector<const std::string*>& texts) const noexcept {
  const std::lock_guard lock{mutex_};
  if (names_.size() != s.names.size() || workers_.size() > s.overdue.capacity()) return false;
  s.working = crew_.running();
  s.sleeping = crew_.idle();
  s.repairing = crew_.repairing();
  const wait_queue& queue = backlog_.queued();
  s.queued = queue.size();
  s.delayed = backlog_.delayed();
  s.held_back = backlog_.held();
  s.resources = made_;
  for (std::size_t i = 0; i < s.queued_by_class.size(); ++i) s.queued_by_class[i] = queue.size(static_cast<int>(i));
  counts_.write(s);
  names_.write(s.names, texts);
  if (context_gone_) return true;
  const time_point now = time_->now();
  if (const wait_node* n = queue.oldest()) s.oldest_wait = std::max(now - n->since(), duration::zero());
  for (const auto& w : workers_) {
    const pool_task* t = w->current_;
    if (t == nullptr || t->extras_ == nullptr || !t->extras_->is_late) continue;
    const task_extras& x = *t->extras_;
    s.overdue.push_back({t->id_, {}, now - x.started_at, w->index_});
    texts.push_back(x.name != nullptr ? &x.name->name : nullptr);
  }
  return true;
}

}  // namespace canigo::detail
