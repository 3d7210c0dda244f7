#include "pool_world.hpp"

#include "canigo/algorithms/backoff.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task.hpp"
#include "canigo/task_group.hpp"
#include "canigo/timeout.hpp"

#include "context.hpp"
#include "shortage.hpp"
#include "sparing_executor.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/this_coro.hpp>

#include <algorithm>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace simulated {

namespace net = canigo::net;
using namespace std::chrono_literals;
using canigo::errc;

namespace {

std::string figures(const canigo::pool_stats& s) {
  std::string text = std::to_string(s.submitted) + " submitted;";
  for (const std::uint64_t n :
       {s.succeeded, s.failed, s.cancelled, s.timed_out, s.stopped, std::uint64_t{s.queued}, std::uint64_t{s.delayed},
        std::uint64_t{s.held_back}, std::uint64_t{s.working}, std::uint64_t{s.overdue.size()}}) {
    text += " " + std::to_string(n);
  }
  return text;
}

/// What an operation of the plan throws, and what it may make of its cancellation.
struct failure {};
struct something_else {};

/// One operation, and what is known of it.
struct record {
  const pool_step* wanted = nullptr;
  net::cancellation_signal signal;
  std::optional<canigo::task<void>> handle;
  time_point asked_at{};
  std::uint64_t order = 0;  // in which they were handed over; 0: not yet
  std::uint64_t begun = 0;
  std::uint64_t finished = 0;
  std::uint64_t threw = 0;
  int told = 0;
  int to_be_told = 0;
  std::uint64_t nested_runs = 0;
  bool may_be_cancelled = false;
  bool began_short = false;  // of memory, when it was asked for
  bool was_short = false;    // since
};

/// work_stealing as it is for a pool that never lacks memory, so that the pool knows it.
net::any_io_executor executor_for(const pool_plan& p, context& c) {
  if (is_on_stealing && !p.is_short) return c.get_executor();
  return sparing_executor{c};
}

class pool_world {
 public:
  explicit pool_world(const pool_plan& p)
      : plan_{p},
        capacity_{p.workers},
        most_{p.workers},
        fewest_{p.workers},
        context_{std::in_place, p.seed},
        executor_{executor_for(p, *context_)} {
    canigo::strand_pool_options o{.concurrency = capacity_, .priorities = 2};
    o.queue_limit = p.queue_limit;
    o.on_overflow = p.on_overflow;
    pool_.emplace(executor_, o);
  }
  ~pool_world() {
    is_over_ = true;
    if (!plan_.context_goes_first) pool_.reset();
    context_.reset();
  }

  verdict play() {
    if (plan_.is_short) context_->poll();  // its workers begin
    for (const pool_step& s : plan_.steps) {
      verdict_.step = static_cast<std::size_t>(s.id);
      act(s);
      pass(s);
      check();
      if (!verdict_.is_good) return verdict_;
    }
    if (!plan_.is_abandoned) finish();
    verdict_.simulated = context_->elapsed();
    return verdict_;
  }

 private:
  /// An operation at work.
  struct inside {
    explicit inside(pool_world& w) : world{w} {
      ++world.running_;
      if (world.running_ > (world.plan_.is_resized ? world.most_ : world.capacity_)) world.fail("too many run at once");
    }
    ~inside() { --world.running_; }
    inside(const inside&) = delete;
    inside& operator=(const inside&) = delete;
    pool_world& world;
  };

  /// An operation that waits for another one of its pool, and how many did so at once meanwhile.
  struct wait_inside {
    explicit wait_inside(pool_world& w) : world{w} {
      const plenty here;
      world.waits_.insert(this);
      for (wait_inside* other : world.waits_) other->most = std::max(other->most, world.waits_.size());
    }
    ~wait_inside() { world.waits_.erase(this); }
    wait_inside(const wait_inside&) = delete;
    wait_inside& operator=(const wait_inside&) = delete;
    pool_world& world;
    std::size_t most = 0;
  };

  void fail(const std::string& what) {
    if (!verdict_.is_good) return;
    verdict_.is_good = false;
    verdict_.what = "pool: " + what + ", at " + canigo::to_string(context_->elapsed());
  }
  void fail(const record& r, const std::string& what) { fail("#" + std::to_string(r.wanted->id) + " " + what); }

  void note(std::uint64_t n) {
    verdict_.hash = (verdict_.hash ^ n) * 0x100000001b3;
    verdict_.hash ^= verdict_.hash >> 29;
  }

  void pass(const pool_step& s) {
    const shortage of_handlers{s.fails_after_at};
    of_handlers_ = &of_handlers;
    const time_point until = context_->now() + s.then * 1ms;
    for (bool is_over = false; !is_over;) {
      try {
        if (s.then >= 0) {
          context_->run_until(until);
        } else {
          for (std::uint64_t i = 0; i < s.handlers; ++i) context_->step();
        }
        is_over = true;
      } catch (const std::bad_alloc&) {
        // Asio's coroutines let it through where there is no memory for the text of an error.
        is_over = s.then < 0;
        if (!of_handlers.has_struck()) fail("bad_alloc comes out of a handler, where there is memory");
      }
    }
    const plenty again;
    of_handlers_ = nullptr;
    if (of_handlers.has_struck()) {
      has_been_short_ = true;
      for (const auto& [id, r] : records_) r->was_short = r->was_short || r->told < r->to_be_told;
    }
    if (std::exchange(has_been_short_, false)) context_->run_for(1ms);  // then all that failed has been tried again
  }

  /// Whether memory was short since it was handed over: of those that were under way any may have felt it.
  bool was_short(const record& r) const {
    return r.was_short || (of_handlers_ != nullptr && of_handlers_->has_struck());
  }

  /// Calls the library while its k-th allocation fails; false if it says so by bad_alloc.
  template <class Function>
  bool with_little(int k, record* r, Function f) {
    const shortage here{k};
    bool is_done = true;
    try {
      f();
    } catch (const std::bad_alloc&) {
      is_done = false;
    }
    const plenty again;
    if (here.has_struck() || (of_handlers_ != nullptr && of_handlers_->has_struck())) {
      has_been_short_ = true;
      if (r != nullptr) r->began_short = true;
    } else if (!is_done) {
      fail("bad_alloc, where there is memory");
    }
    return is_done;
  }

  // ---- operations ----

  void begins(record& r) {
    const plenty here;
    const pool_step& s = *r.wanted;
    if (++r.begun > s.attempts) fail(r, "is tried too often");
    if (r.begun == 1 && context_->now() < r.asked_at + s.delay * 1ms) fail(r, "begins before its delay is over");
    const bool is_unwatched = r.began_short && s.what == pool_deed::submit;  // its wait had no memory
    if (r.told > 0 && r.begun == 1 && !is_unwatched) fail(r, "begins after its end was told");
    if (r.order == 0) fail(r, "begins, though there was no memory to hand it over");
    note(static_cast<std::uint64_t>(s.id) << 8 | 0xff);
    if (r.begun > 1 || !is_plain(s) || plan_.workers > 1 || plan_.is_resized || may_stop_) return;
    // With one worker, those of a class begin in the order in which they came.
    for (const auto& [id, other] : records_) {
      if (other->order != 0 && other->order < r.order && other->begun == 0 && other->told == 0 &&
          !other->may_be_cancelled && other->wanted->priority == s.priority && is_plain(*other->wanted)) {
        fail(r, "overtakes #" + std::to_string(id));
      }
    }
  }

  bool is_plain(const pool_step& s) const {
    return plan_.queue_limit == 1000 && s.delay == 0 && s.deadline < 0 && s.what != pool_deed::wait_group &&
           s.what != pool_deed::await_run;
  }

  void ends(record& r) {
    if (r.wanted->throws) {
      ++r.threw;
      throw failure{};
    }
    ++r.finished;
  }

  void work_shortly(record& r) {
    const inside here{*this};
    begins(r);
    ends(r);
  }

  static net::awaitable<void> work(pool_world& w, record& r, canigo::task_context& c) {
    const inside here{w};
    w.begins(r);
    const pool_step& s = *r.wanted;
    if (s.leaves_one && !w.plan_.is_short) net::co_spawn(c.executor(), left_behind(w, r), net::detached);
    if (s.heeds && s.makes_its_own) {
      try {
        co_await heeding(w, r);
      } catch (const std::system_error& e) {
        if (e.code() != net::error::operation_aborted) throw;
        throw something_else{};
      }
    } else if (s.heeds) {
      co_await heeding(w, r);
    } else {
      co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
      co_await net::this_coro::throw_if_cancelled(false);
      co_await canigo::sleep_for(s.lasts * 1ms);
    }
    w.ends(r);
  }

  static net::awaitable<void> heeding(pool_world& w, record& r) {
    const pool_step& s = *r.wanted;
    if (s.what == pool_deed::run_nested) co_await nested(w, r);
    if (s.what == pool_deed::run_family) co_await family(s);
    co_await canigo::sleep_for(s.lasts * 1ms);
  }

  /// Uses the pool when the operation that began it has ended, on a strand that is a worker's.
  static net::awaitable<void> left_behind(pool_world& w, record& r) {
    if (r.wanted->what == pool_deed::run_nested || r.wanted->what == pool_deed::run_family) co_return;
    co_await canigo::sleep_for((1 + r.wanted->lasts) * 1ms);
    if (w.is_over_ || !w.pool_) co_return;
    try {
      co_await w.pool_->run([] {});
    } catch (const std::system_error& e) {
      const plenty here;
      if (e.code() == std::errc::resource_deadlock_would_occur) w.fail(r, "has left one that is told of a deadlock");
    }
  }

  static net::awaitable<void> nested(pool_world& w, record& r) {
    const pool_step& s = *r.wanted;
    if (!w.pool_ || w.is_over_) co_return;
    const std::uint64_t before = r.nested_runs;
    const auto runs = [&w, &r] {
      const inside here{w};
      ++r.nested_runs;
    };
    std::optional<net::awaitable<void>> inner;
    const auto ask = [&] { inner.emplace(w.pool_->run(runs, {.priority = s.priority, .group = s.group})); };
    if (!w.with_little(s.fails_inside_at, nullptr, ask)) co_return;
    const wait_inside here{w};
    std::error_code ec;
    try {
      co_await std::move(*inner);
    } catch (const std::system_error& e) {
      ec = e.code();
    }
    w.ended_inside(r, r.nested_runs > before, here.most, ec);
    if (ec == net::error::operation_aborted) throw std::system_error{ec};
  }

  void ended_inside(const record& r, bool has_run, std::size_t waited, std::error_code ec) {
    if (is_over_) return;
    const plenty here;
    if (!ec && !has_run) fail(r, "waits for an operation that has not run");
    if (ec == std::errc::resource_deadlock_would_occur && waited < fewest_ && !may_stop_ && !was_short(r)) {
      fail(r, "is told of a deadlock, where " + std::to_string(waited) + " of " + std::to_string(fewest_) + " wait");
    }
  }

  static net::awaitable<void> family(const pool_step& s) {
    canigo::task_group children{co_await net::this_coro::executor};
    children.spawn(canigo::sleep_for(s.lasts * 1ms));
    children.spawn(canigo::sleep_for(s.grace * 1ms));
    co_await children.join();
  }

  /// What is handed to the pool: short for those that are, else long.
  auto long_one(record& r) {
    return [this, &r](canigo::task_context& c) { return work(*this, r, c); };
  }

  static net::awaitable<void> awaiting(pool_world& w, record& r, canigo::task_options o) {
    co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
    if (w.is_over_ || !w.pool_) throw std::system_error{errc::stopped};
    w.hand_over(r);
    auto running = w.pool_->run(w.long_one(r), o);
    co_await canigo::with_timeout(std::move(running), (1 + r.wanted->lasts) * 1ms);
  }

  void hand_over(record& r) {
    r.order = ++orders_;
    r.asked_at = context_->now();
  }

  // ---- what is told ----

  auto handler(record& r) {
    ++r.to_be_told;
    return net::bind_cancellation_slot(r.signal.slot(), [this, &r](const std::exception_ptr& e) { told(r, e); });
  }

  void told(record& r, const std::exception_ptr& e) {
    if (is_over_) return;
    const plenty here;
    ++verdict_.acquires;
    if (++r.told > 1) fail(r, "is told twice");
    int code = 0;
    try {
      if (e) std::rethrow_exception(e);
      if (r.finished == 0 && r.wanted->what != pool_deed::wait_group) fail(r, "succeeds without having ended");
    } catch (const failure&) {
      code = -1;
      if (r.threw == 0) fail(r, "fails without having thrown");
      if (r.begun < r.wanted->attempts && !may_end_early(r)) fail(r, "is not tried again");
    } catch (const something_else&) {
      fail(r, "ends with what it has made of its cancellation");
    } catch (const std::bad_alloc&) {
      code = -2;
      if (!r.began_short && !was_short(r)) fail(r, "ends with bad_alloc");
    } catch (const std::system_error& error) {
      code = error.code().value();
      if (!may_end_with(r, error.code())) fail(r, "ends with " + error.code().message());
    }
    note(static_cast<std::uint64_t>(r.wanted->id) << 32 | static_cast<std::uint32_t>(code));
    note(static_cast<std::uint64_t>(context_->elapsed().count()));
  }

  bool may_end_early(const record& r) const {
    return may_stop_ || r.may_be_cancelled || r.wanted->deadline >= 0 || r.wanted->what == pool_deed::await_run;
  }

  bool may_end_with(const record& r, std::error_code e) const {
    const pool_step& s = *r.wanted;
    if (e == net::error::operation_aborted) return r.may_be_cancelled || may_stop_;
    if (e == errc::timed_out) return s.timeout != 0 || s.deadline >= 0 || s.what == pool_deed::await_run;
    if (e == errc::stopped) return may_stop_;
    if (e == errc::queue_full) return plan_.queue_limit < 1000;
    if (e == errc::evicted) return plan_.queue_limit < 1000 && plan_.on_overflow != canigo::overflow::reject_new;
    if (e == errc::not_enough_memory)
      return was_short(r) || (r.began_short && (r.begun == 0 || s.what == pool_deed::submit));
    if (e == std::future_errc::broken_promise) return was_short(r);  // its worker had no memory to go on with it
    return false;
  }

  // ---- deeds ----

  canigo::task_options options_of(const pool_step& s) const {
    canigo::task_options o{.priority = s.priority,
                           .timeout = s.timeout == 0 ? std::nullopt : std::optional<duration>{s.timeout * 1ms},
                           .delay = s.delay * 1ms,
                           .group = s.group};
    if (s.deadline >= 0) o.deadline = context_->now() + s.deadline * 1ms;
    if (s.attempts > 1) o.retry = {.attempts = s.attempts, .backoff = canigo::backoff::constant(1ms)};
    return o;
  }

  record& make_record(const pool_step& s) {
    auto& r = records_[s.id];
    r = std::make_unique<record>();
    r->wanted = &s;
    return *r;
  }

  void ask(const pool_step& s) {
    if (!pool_) return;
    record& r = make_record(s);
    const canigo::task_options o = options_of(s);
    if (s.what == pool_deed::await_run) {
      net::co_spawn(executor_, awaiting(*this, r, o), handler(r));
      return;
    }
    hand_over(r);
    if (with_little(s.fails_at, &r, [&] { ask_pool(s, r, o); })) return;
    if (r.handle) fail(r, "has a handle that can't be waited for");
    r.to_be_told = 0;
    r.order = 0;
  }

  void ask_pool(const pool_step& s, record& r, const canigo::task_options& o) {
    switch (s.what) {
      case pool_deed::run_short:
        pool_->async_run([this, &r] { work_shortly(r); }, o, handler(r));
        break;
      case pool_deed::submit:
        r.handle = pool_->submit(long_one(r), o);
        r.handle->async_wait(handler(r));
        break;
      case pool_deed::post:
        if (!pool_->try_post([this, &r] { work_shortly(r); }, o) && !may_stop_ && plan_.queue_limit == 1000) {
          const plenty here;
          fail(r, "is refused");
        }
        break;
      default:
        pool_->async_run(long_one(r), o, handler(r));
        break;
    }
  }

  void cancel(int id, int fails_at) {
    const auto found = records_.find(id);
    if (found == records_.end()) return;
    record& r = *found->second;
    r.may_be_cancelled = true;
    with_little(fails_at, nullptr, [&r] {
      if (r.handle && r.told == 0) r.handle->cancel();
      r.signal.emit(net::cancellation_type::terminal);
    });
  }

  void act(const pool_step& s) {
    switch (s.what) {
      case pool_deed::cancel:
        cancel(s.target, s.fails_at);
        break;
      case pool_deed::cancel_group:
        if (!pool_ || s.group == 0) break;
        for (const auto& [id, r] : records_) r->may_be_cancelled = r->may_be_cancelled || r->wanted->group == s.group;
        with_little(s.fails_at, nullptr, [&] { pool_->cancel_group(s.group); });
        break;
      case pool_deed::wait_group: {
        if (!pool_ || s.group == 0) break;
        record& r = make_record(s);
        net::co_spawn(executor_, pool_->wait_group(s.group), handler(r));
        break;
      }
      case pool_deed::resize:
        if (pool_) resize(s);
        break;
      case pool_deed::stop:
        if (!pool_) break;
        stop(s.mode, s.grace >= 0 ? duration{s.grace * 1ms} : duration::max(), s.fails_at);
        break;
      case pool_deed::destroy:
        may_stop_ = true;
        with_little(s.fails_at, nullptr, [this] { pool_.reset(); });
        break;
      default:
        ask(s);
        break;
    }
  }

  void resize(const pool_step& s) {
    capacity_ = s.workers;
    most_ = std::max(most_, capacity_);
    fewest_ = std::min(fewest_, capacity_);
    pool_->resize(capacity_);
  }

  void stop(canigo::stop_mode mode, duration grace = duration::max(), int fails_at = -1) {
    may_stop_ = true;
    with_little(fails_at, nullptr, [&] { pool_->request_stop(mode, grace); });
    // Who had not been let in is told so, and not let in any more.
    if (const auto s = pool_->stats(); s.held_back > 0) fail(std::to_string(s.held_back) + " are held back for ever");
  }

  // ---- judging ----

  void check() {
    if (!pool_ || !verdict_.is_good) return;
    auto s = pool_->stats();
    // Of the operations that are overdue some belong to tasks that have ended, some to tasks that have not.
    const std::uint64_t running = s.submitted - (s.succeeded + s.failed + s.cancelled + s.timed_out + s.stopped +
                                                 s.queued + s.delayed + s.held_back);
    if (running > s.working || running + s.overdue.size() < s.working) {
      fail("the figures do not add up: " + figures(s));
    }
    // At rest no worker is free beside work that it could do.
    context_->poll();
    s = pool_->stats();
    if (may_stop_ || s.working >= capacity_) return;
    const std::string free = std::to_string(capacity_ - s.working) + " free workers";
    if (s.queued > 0) fail(std::to_string(s.queued) + " wait beside " + free);
    if (s.held_back > 0 && s.delayed == 0) fail(std::to_string(s.held_back) + " are held back beside " + free);
  }

  void finish() {
    may_stop_ = true;
    if (pool_) stop(canigo::stop_mode::drain);
    context_->run();
    for (const auto& [id, r] : records_) {
      // Asio drops a coroutine that it has no memory to tell of an error.
      const bool may_be_dropped = r->was_short && r->wanted->what == pool_deed::wait_group;
      if (r->told != r->to_be_told && !may_be_dropped) fail(*r, "is told " + std::to_string(r->told) + " times");
    }
    if (running_ != 0) fail("something still runs");
    if (!canigo::time_source::of(executor_).idle()) fail("something is left armed");
    if (!pool_) return;
    const auto s = pool_->stats();
    if (s.queued + s.delayed + s.held_back + s.working != 0) fail("it is not at rest");
    check();
  }

  const pool_plan& plan_;
  verdict verdict_;
  std::size_t capacity_;
  std::size_t most_;
  std::size_t fewest_;
  std::size_t running_ = 0;
  std::uint64_t orders_ = 0;
  bool may_stop_ = false;
  bool is_over_ = false;
  bool has_been_short_ = false;  // of memory, a moment ago
  const shortage* of_handlers_ = nullptr;
  std::set<wait_inside*> waits_;
  std::map<int, std::unique_ptr<record>> records_;
  std::optional<context> context_;
  net::any_io_executor executor_;
  std::optional<canigo::strand_pool> pool_;
};

}  // namespace

verdict play(const pool_plan& p) { return pool_world{p}.play(); }

pool_plan make_pool_plan(std::uint64_t seed) { return make_pool_plan(seed, dice{seed ^ 0x706f6f6c}); }

verdict play_pool(std::uint64_t seed, dice d) { return play(make_pool_plan(seed, d)); }

}  // namespace simulated
