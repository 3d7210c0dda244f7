#include "pool_world.hpp"

#include "canigo/backoff.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/testing/simulation.hpp"
#include "canigo/timeout.hpp"

#include "plan.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simulated {

namespace net = canigo::net;
using namespace std::chrono_literals;

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

/// Tasks of every kind in a pool that is cancelled, resized and stopped, in any order of what is ready.
class pool_world {
 public:
  pool_world(std::uint64_t seed, dice d) : dice_{d}, context_{std::in_place, seed} {
    capacity_ = most_ = 1 + dice_.roll(4);
    is_resized_ = dice_.one_in(3);
    canigo::strand_pool_options o{.concurrency = capacity_, .priorities = 2};
    o.queue_limit = dice_.one_in(3) ? 1 + dice_.roll(3) : 1000;
    o.on_overflow = dice_.one_in(2) ? canigo::overflow::wait : canigo::overflow::evict_oldest;
    pool_.emplace(context_->get_executor(), o);
  }
  ~pool_world() {
    pool_.reset();
    context_.reset();
  }

  verdict play() {
    const std::uint64_t steps = 5 + dice_.roll(40);
    for (step_ = 0; step_ < steps && verdict_.is_good; ++step_) {
      verdict_.step = step_;
      act();
      if (dice_.one_in(2)) {
        context_->run_for(dice_.roll(4) * 1ms);
      } else {
        for (std::uint64_t i = dice_.roll(6); i > 0; --i) context_->step();
      }
      check();
    }
    finish();
    verdict_.simulated = context_->elapsed();
    return verdict_;
  }

 private:
  struct inside {
    explicit inside(pool_world& w) : world{w} {
      ++world.running_;
      if (world.running_ > (world.is_resized_ ? world.most_ : world.capacity_)) world.fail("too many run at once");
    }
    ~inside() { --world.running_; }
    inside(const inside&) = delete;
    inside& operator=(const inside&) = delete;
    pool_world& world;
  };

  void fail(const std::string& what) {
    if (!verdict_.is_good) return;
    verdict_.is_good = false;
    verdict_.what = "pool: " + what + ", at " + canigo::to_string(context_->elapsed());
  }

  static net::awaitable<void> work(pool_world& w, duration d, bool throws, bool heeds) {
    const inside here{w};
    if (heeds) {
      co_await canigo::sleep_for(d);
    } else {
      co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
      co_await net::this_coro::throw_if_cancelled(false);
      co_await canigo::sleep_for(d);
    }
    if (throws) throw 1;
  }

  void submit() {
    const std::size_t n = told_.size();
    told_.push_back(0);
    signals_.push_back(std::make_unique<net::cancellation_signal>());
    canigo::task_options o{.priority = static_cast<int>(dice_.roll(2))};
    if (dice_.one_in(4)) o.timeout = (1 + dice_.roll(3)) * 1ms;
    if (dice_.one_in(4)) o.delay = dice_.roll(3) * 1ms;
    if (dice_.one_in(3)) o.group = 1 + dice_.roll(2);
    if (dice_.one_in(4)) o.retry = {.attempts = 2, .backoff = canigo::backoff::constant(1ms)};
    const duration d = dice_.roll(5) * 1ms;
    const bool throws = dice_.one_in(4);
    const bool heeds = !dice_.one_in(5);
    auto handler = net::bind_cancellation_slot(signals_.back()->slot(), [this, n](std::exception_ptr e) {
      verdict_.hash = (verdict_.hash ^ (n << 1 | (e ? 1 : 0))) * 0x100000001b3;
      ++verdict_.acquires;
      if (++told_[n] > 1) fail("task " + std::to_string(n) + " is told twice");
    });
    if (dice_.one_in(3)) {
      pool_->async_run(
          [this, throws] {
            const inside here{*this};
            if (throws) throw 1;
          },
          o, std::move(handler));
    } else {
      pool_->async_run([this, d, throws, heeds](canigo::task_context&) { return work(*this, d, throws, heeds); }, o,
                       std::move(handler));
    }
  }

  void act() {
    switch (dice_.roll(16)) {
      case 0:
        if (!signals_.empty()) signals_[dice_.roll(signals_.size())]->emit(net::cancellation_type::terminal);
        break;
      case 1:
        if (pool_) pool_->cancel_group(1 + dice_.roll(2));
        break;
      case 2:
        if (pool_ && is_resized_) {
          capacity_ = 1 + dice_.roll(4);
          most_ = std::max(most_, capacity_);
          pool_->resize(capacity_);
        }
        break;
      case 3:
        if (pool_ && dice_.one_in(6)) {
          is_stopping_ = true;
          pool_->request_stop(static_cast<canigo::stop_mode>(1 + dice_.roll(3)),
                              dice_.one_in(2) ? duration{2ms} : duration::max());
        }
        break;
      case 4:
        if (dice_.one_in(10)) pool_.reset();
        break;
      default:
        if (pool_) submit();
        break;
    }
  }

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
    if (is_stopping_ || s.working >= capacity_) return;
    const std::string free = std::to_string(capacity_ - s.working) + " free workers";
    if (s.queued > 0) fail(std::to_string(s.queued) + " wait beside " + free);
    if (s.held_back > 0 && s.delayed == 0) fail(std::to_string(s.held_back) + " are held back beside " + free);
  }

  void finish() {
    if (pool_ && verdict_.is_good) pool_->request_stop(canigo::stop_mode::drain);
    context_->run();
    for (std::size_t n = 0; n < told_.size(); ++n) {
      if (told_[n] != 1) fail("task " + std::to_string(n) + " is told " + std::to_string(told_[n]) + " times");
    }
    if (running_ != 0) fail("something still runs");
    if (!canigo::time_source::of(context_->get_executor()).idle()) fail("something is left armed");
    if (!pool_) return;
    const auto s = pool_->stats();
    if (s.queued + s.delayed + s.held_back + s.working != 0) fail("it is not at rest");
    if (s.submitted > told_.size()) fail("more was counted than submitted");
    check();
  }

  verdict verdict_;
  dice dice_;
  std::size_t step_ = 0;
  std::size_t capacity_ = 1;
  std::size_t most_ = 1;
  std::size_t running_ = 0;
  bool is_resized_ = false;
  bool is_stopping_ = false;
  std::vector<int> told_;
  std::vector<std::unique_ptr<net::cancellation_signal>> signals_;
  std::optional<canigo::testing::simulation> context_;
  std::optional<canigo::strand_pool> pool_;
};

}  // namespace

verdict play_pool(std::uint64_t seed) { return play_pool(seed, dice{seed ^ 0x706f6f6c}); }

verdict play_pool(std::uint64_t seed, dice d) { return pool_world{seed, d}.play(); }

}  // namespace simulated
