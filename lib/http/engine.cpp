#include "engine.hpp"

#include "canigo/error.hpp"

#include <asio/error.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <algorithm>
#include <cassert>
#include <mutex>
#include <tuple>
#include <utility>

namespace canigo::http::detail {
namespace {

// The max number of rounds of work in one call of turn(). After these rounds, other handlers of the event loop can run.
constexpr int rounds_per_turn = 16;
constexpr int mail_per_round = 64;

/// The list of the engines of a context. A context shuts its services down in the reverse order of their creation, and
/// this service is created after the reactor. So an engine releases its sockets before the reactor shuts down, even if
/// another thread destroys the engine.
class engine_service final : public canigo::detail::context_service {
 public:
  using key_type = engine_service;
  static net::execution_context::id id;
  using context_service::context_service;

  static engine_service& of(const net::any_io_executor& executor) {
    const net::posix::stream_descriptor has_a_reactor{executor};
    return net::use_service<engine_service>(net::query(executor, net::execution::context));
  }
};

net::execution_context::id engine_service::id;

}  // namespace

std::shared_ptr<engine> engine::open(const net::any_io_executor& executor, const client_options& options) {
  return std::shared_ptr<engine>{new engine{executor, options}, [](engine* e) { e->unreferenced(); }};
}

engine::engine(const net::any_io_executor& executor, const client_options& options)
    : options_{options},
      time_{&time_source::of(executor)},
      context_{&engine_service::of(executor)},
      executor_{executor},
      loop_executor_{canigo::detail::context_executor(executor)},
      multi_{options_, loop_executor_, *time_, *this},
      queue_{options.connections, options.connections_per_host},
      alarm_{*time_, [](engine& e) { e.alarm_called(); }} {
  context_->add(*this);
}

// The engine is deleted by this function or by context_shutdown(), whichever is called second.
void engine::unreferenced() noexcept {
  {
    const std::lock_guard use{context_use_};
    if (!context_gone_) {
      // The context may be destroyed right after remove(). Before remove(), the context can't be destroyed while this
      // thread holds context_use_. So the engine releases its objects of the context before remove().
      let_go_of_context();
      is_left_to_context_ = !context_->remove(*this);
      if (is_left_to_context_) return;
    }
  }
  delete this;
}

void engine::let_go_of_context() noexcept {
  multi_.shutdown();
  std::ignore = alarm_.disarm();
  work_guard_ = {};
  loop_executor_ = {};
  executor_ = {};  // released while the context exists, because a strand's executor uses the context in its destructor
}

void engine::context_shutdown() noexcept {
  const auto keep = weak_from_this().lock();  // null if unreferenced() is running, because no reference is left
  linked_list<transfer, in_engine> doomed;
  bool is_mine = false;
  {
    const std::lock_guard use{context_use_};
    const auto all = [&] {
      const std::lock_guard lock{mutex_};
      context_gone_ = closing_ = true;
      transfer_mail_.clear();
      socket_mail_.clear();
      undelivered_.clear();
      return std::move(transfers_);
    };
    linked_list<transfer, in_engine> transfers{all()};
    while (transfer* t = transfers.pop()) {
      std::ignore = time_->cancel(t->deadline_);
      if (t->easy_ != nullptr) multi_.abort(*t);
      queue_.remove(*t);
      doomed.push(*t);
    }
    let_go_of_context();
    is_mine = is_left_to_context_;
  }
  // No lock is held here, because destroy() destroys coroutine frames of callers. These frames may own any object,
  // including this client.
  while (transfer* t = doomed.pop()) t->destroy();
  if (is_mine) delete this;
}

void engine::close() noexcept {
  {
    const std::lock_guard lock{mutex_};
    if (closing_) return;
    closing_ = true;
    if (!claim_work()) return;
  }
  const std::lock_guard use{context_use_};
  if (!context_gone_ && !turn()) post_or_work();
}

void engine::close_curl() noexcept {
  const auto all = [&] {
    const std::lock_guard lock{mutex_};
    return std::move(transfers_);
  };
  linked_list<transfer, in_engine> pending{all()};
  while (transfer* t = pending.pop()) {
    {
      const std::lock_guard lock{mutex_};
      transfers_.push(*t);
    }
    if (!t->deadline_.has_ended()) finish(*t, errc::stopped);
  }
  multi_.close();
}

client_stats engine::stats() const noexcept {
  const std::lock_guard lock{mutex_};
  return stats_;
}

/// Calls `put` under the lock; `put` stores an event. If `put` returns true, makes sure that a thread handles the
/// event. If `put` returns false, no work is needed.
template <class Put>
void engine::bring(Put&& put) noexcept {
  const auto keep = shared_from_this();
  {
    const std::lock_guard lock{mutex_};
    if (!put() || !claim_work()) return;
  }
  post_work();
}

void engine::start(transfer& t) noexcept {
  const auto keep = t.engine_;
  bool gone = false;
  bring([&] {
    gone = context_gone_;
    if (gone) return false;
    t.sent_at_ = time_->now();
    transfers_.push(t);
    transfer_mail_.push(t);
    return true;
  });
  if (gone) t.destroy();
}

void engine::cancel(transfer& t) noexcept {
  bring([&] {
    if (context_gone_ || t.deadline_.has_ended()) return false;
    t.cancel_wanted_ = true;
    transfer_mail_.push(t);
    return true;
  });
}

void engine::ask(stream& s, step& w) noexcept {
  const auto keep = s.shared_from_this();
  bool gone = false;
  bring([&] {
    gone = context_gone_;
    if (gone) return false;
    assert(s.waiting_ == nullptr && "one read_some at a time");
    s.waiting_ = &w;
    transfers_.push(s);
    transfer_mail_.push(s);
    return true;
  });
  if (gone) w.destroy();
}

void engine::cancel(stream& s, const step& w) noexcept {
  bring([&] {
    if (s.waiting_ != &w || s.deadline_.has_ended()) return false;
    s.cancel_wanted_ = true;
    transfer_mail_.push(s);
    return true;
  });
}

void engine::time_is_up(transfer& t) noexcept {
  bring([&] {
    t.time_is_up_ = true;
    transfer_mail_.push(t);
    return true;
  });
}

void engine::alarm_called() noexcept {
  bring([&] { return alarm_called_ = true; });
}

void engine::socket_fired(socket_watch& w, int what, std::error_code ec) noexcept {
  {
    const std::lock_guard lock{mutex_};
    w.fired |= what;
    // Only the cancellation of a wait is recorded. curl itself detects any other error when it uses the socket.
    if (ec == net::error::operation_aborted) w.aborted |= what;
    socket_mail_.push(w);
    if (!claim_work()) return;
  }
  work();
}

bool engine::claim_work() noexcept {
  has_mail_ = true;
  return !std::exchange(busy_, true);
}

struct engine::on_work {
  using allocator_type = canigo::detail::fixed_allocator<void, 128>;
  allocator_type get_allocator() const noexcept { return allocator_type{owner->work_memory_}; }
  void operator()() const noexcept { owner->work(); }
  std::shared_ptr<engine> owner;
};

void engine::post_work() noexcept {
  const std::lock_guard use{context_use_};
  if (!context_gone_) post_or_work();
}

void engine::post_or_work() noexcept {
  do {
    try {
      canigo::detail::post(loop_executor_, on_work{shared_from_this()});
      return;
    } catch (...) {  // posting has failed, so this thread calls turn() itself; turn() runs no code of the user
    }
  } while (!turn());
}

void engine::work() noexcept {
  if (!turn()) post_work();
}

bool engine::turn() noexcept {
  for (int round = 0; round < rounds_per_turn; ++round) {
    for (int i = 0; i < mail_per_round && read_one(); ++i) {
    }
    multi_.run();
    read_results();
    deliver();
    start_waiting_ones();
    set_alarm();
    if (nothing_left()) return true;
  }
  return false;
}

bool engine::read_one() noexcept {
  transfer* t = nullptr;
  socket_watch* w = nullptr;
  bool is_new = false, cancelled = false, is_time_up = false, is_alarm = false, must_close = false;
  int fired = 0, aborted = 0;
  {
    const std::lock_guard lock{mutex_};
    if (closing_ && multi_.is_open()) {
      must_close = true;
    } else if ((t = transfer_mail_.pop()) != nullptr) {
      is_new = std::exchange(t->is_new_, false);
      is_time_up = std::exchange(t->time_is_up_, false);
      cancelled = t->cancel_wanted_;
    } else if ((w = socket_mail_.pop()) != nullptr) {
      fired = std::exchange(w->fired, 0);
      aborted = std::exchange(w->aborted, 0);
    } else {
      is_alarm = has_mail_ = std::exchange(alarm_called_, false);
    }
  }
  if (must_close) {
    close_curl();
  } else if (w != nullptr) {
    multi_.socket_news(*w, fired, aborted);
  } else if (is_alarm) {
    alarm_.was_called();
    multi_.alarm_rang();
  } else if (t != nullptr) {
    if (is_time_up ? t->deadline_.rang() : t->deadline_.has_ended()) {
      hand_over(*t);
    } else if (cancelled && !t->is_left()) {
      give_up(*t, net::error::operation_aborted);
    } else if (is_new) {
      begin(*t);
    } else if (!is_time_up || !deadline_passed(*t)) {
      resume(*t);
    }
  } else {
    return false;
  }
  return true;
}

bool engine::nothing_left() noexcept {
  net::any_io_executor guard;
  const std::lock_guard lock{mutex_};
  note_stats();
  if (has_mail_ || multi_.is_due()) return false;
  if (transfers_.empty()) guard = std::exchange(work_guard_, {});
  busy_ = false;
  return true;
}

void engine::note_stats() noexcept {
  stats_.waiting = queue_.waiting();
  stats_.running = queue_.running();
}

void engine::set_alarm() noexcept {
  time_point when = multi_.alarm_at();
  if (!undelivered_.empty()) when = std::min(when, saturating_add(time_->now(), canigo::detail::retry_after));
  alarm_.set(when, *this);
}

}  // namespace canigo::http::detail
