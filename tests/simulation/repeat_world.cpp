#include "repeat_world.hpp"

#include "canigo/algorithms/backoff.hpp"
#include "canigo/hedge.hpp"
#include "canigo/retry.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/testing/simulation.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"
#include "canigo/timeout.hpp"

#include "plan.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/error.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace simulated {

namespace net = canigo::net;
using namespace std::chrono_literals;

namespace {

/// A failure of an operation, which is told apart by its number.
struct failure {
  std::uint32_t number;
  std::optional<duration> again_after;  // nothing: not worth another attempt
};

std::optional<duration> is_worth(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const failure& f) {
    return f.again_after;
  } catch (...) {
    return std::nullopt;
  }
}

/// What one operation of a call does.
struct script {
  duration lasts;
  duration lingers;  // after it was asked to end
  bool succeeds;
  bool heeds;
  std::optional<duration> again_after;
};

/// How a call is to end: with the result of an operation, the failure of one, or as cancelled.
struct ending {
  enum class kind { result, failed, aborted } how = kind::aborted;
  std::uint32_t number = 0;
  time_point when{};
};

constexpr std::size_t most_operations = 6;

struct call {
  std::size_t id = 0;
  duration starts{};
  std::array<script, most_operations> scripts;
  std::optional<duration> cancelled_at;
  time_point deadline = time_point::max();
  canigo::retry_policy policy;
  duration after{};          // of a hedge
  std::uint32_t copies = 0;  // the same

  // What the judge knows of it.
  std::uint32_t begun = 0;
  std::uint32_t running = 0;
  time_point next_start = time_point::max();
  bool is_cancelled = false;
  bool has_result = false;
  std::optional<ending> last;  // of its operations
  std::optional<ending> expected;
  bool has_ended = false;
  net::cancellation_signal signal;
};

/// Calls that share a budget, and what must become of each. A judge knows the rules of a retry or of a hedge.
class repeat_world {
 public:
  repeat_world(std::uint64_t seed, const char* name)
      : name_{name}, dice_{seed ^ 0x726570656174}, context_{std::in_place, seed} {
    budget_options_ = {.percent = static_cast<std::uint32_t>(dice_.roll(3) * 40),
                       .reserve = static_cast<std::uint32_t>(dice_.roll(5)),
                       .most = static_cast<std::uint32_t>(4 + dice_.roll(3))};
    budget_.emplace(budget_options_);
    balance_ = budget_options_.reserve * 100;
  }

  verdict play() {
    const std::size_t many = 2 + dice_.roll(5);
    for (std::size_t i = 0; i < many; ++i) make_call(i);
    for (auto& c : calls_) {
      at(c->starts, [this, c = c.get()] { begin(*c); });
      if (c->cancelled_at) at(*c->cancelled_at, [this, c = c.get()] { cancel(*c); });
    }
    while (verdict_.is_good) {
      time_point next = time_point::max();
      for (const auto& c : calls_) next = std::min(next, c->next_start);
      if (next == time_point::max()) break;
      context_->run_until(next);
      settle(next);
      if (context_->elapsed() > 1h) fail("it never ends");
    }
    context_->run();
    for (const auto& c : calls_) {
      if (!c->has_ended) fail(*c, "never ends");
    }
    if (budget_->left() != balance_ / 100) {
      fail("the budget has " + std::to_string(budget_->left()) + ", not " + std::to_string(balance_ / 100));
    }
    if (!canigo::time_source::of(context_->get_executor()).idle()) fail("something is left armed");
    verdict_.simulated = context_->elapsed();
    return verdict_;
  }

 protected:
  virtual ~repeat_world() { context_.reset(); }
  virtual void choose(call& c) = 0;
  virtual net::awaitable<std::uint32_t> operation(call& c) = 0;
  /// An operation has ended, and counts no more.
  virtual void judge_end(call& c, const ending& e, const script& s) = 0;
  /// Nothing has begun at the instant at which something was to.
  virtual void judge_no_start(call& c) = 0;
  virtual void judge_cancel(call& c) = 0;

  void fail(const std::string& what) {
    if (!verdict_.is_good) return;
    verdict_.is_good = false;
    verdict_.what = std::string{name_} + ": " + what + ", at " + canigo::to_string(context_->elapsed());
  }
  void fail(const call& c, const std::string& what) { fail("call " + std::to_string(c.id) + " " + what); }

  time_point now() const { return context_->now(); }

  void pay_in() {
    const std::uint64_t most = budget_options_.most * 100;
    if (balance_ < most) balance_ = std::min<std::uint64_t>(balance_ + budget_options_.percent, most);
  }
  bool take_out() {
    if (balance_ < 100) return false;
    balance_ -= 100;
    return true;
  }

  void expect(call& c, ending::kind how, std::uint32_t number = 0) { c.expected = ending{how, number, now()}; }

  /// The n-th operation of a call, from 1.
  static net::awaitable<std::uint32_t> work(repeat_world& w, call& c, std::uint32_t n) {
    w.begins(c, n);
    const script& s = c.scripts.at(n - 1);
    co_await net::this_coro::throw_if_cancelled(false);  // it hears of it from what it waits for
    if (s.heeds) {
      bool is_asked_to_end = false;
      try {
        co_await canigo::sleep_for(s.lasts);
      } catch (const std::system_error&) {
        is_asked_to_end = true;
      }
      if (is_asked_to_end) {
        if (s.lingers > 0ns) co_await unheeded(s.lingers);
        co_await net::this_coro::throw_if_cancelled(true);
        w.ends(c, ending::kind::aborted, n, s);
        throw std::system_error{net::error::operation_aborted};
      }
    } else {
      co_await unheeded(s.lasts);
    }
    co_await net::this_coro::throw_if_cancelled(true);
    w.ends(c, s.succeeds ? ending::kind::result : ending::kind::failed, n, s);
    if (!s.succeeds) throw failure{n, s.again_after};
    co_return n;
  }

  /// Takes its time whether it is cancelled or not.
  static net::awaitable<void> unheeded(duration d) {
    const auto executor = co_await net::this_coro::executor;
    co_await net::co_spawn(executor, canigo::sleep_for(d),
                           net::bind_cancellation_slot(net::cancellation_slot{}, net::use_awaitable));
  }

  dice& rolled() { return dice_; }
  canigo::retry_budget& budget() { return *budget_; }

 private:
  template <class Function>
  void at(duration d, Function f) {
    const auto wait = [](duration t, Function then) -> net::awaitable<void> {
      co_await canigo::sleep_for(t);
      then();
    };
    net::co_spawn(context_->get_executor(), wait(d, std::move(f)), net::detached);
  }

  void make_call(std::size_t i) {
    call& c = *calls_.emplace_back(std::make_unique<call>());
    c.id = i;
    const duration own{static_cast<std::int64_t>(i)};
    c.starts = ms(8) + own;
    for (std::size_t n = 0; n < most_operations; ++n) {
      const auto apart = static_cast<std::int64_t>(n) + 1;
      c.scripts[n] = {.lasts = ms(12) + duration{100 * apart},
                      .lingers = dice_.one_in(4) ? ms(6) + duration{10 * apart} : duration{},
                      .succeeds = dice_.one_in(3),
                      .heeds = !dice_.one_in(4),
                      .again_after = dice_.one_in(6) ? std::nullopt : std::optional{dice_.one_in(4) ? ms(9) : 0ns}};
    }
    if (dice_.one_in(3)) c.cancelled_at = c.starts + ms(20) + 500us;
    c.next_start = now() + c.starts;
    choose(c);
  }

  void begin(call& c) {
    c.next_start = now();
    net::co_spawn(context_->get_executor(), operation(c),
                  net::bind_cancellation_slot(
                      c.signal.slot(), [this, &c](const std::exception_ptr& e, std::uint32_t n) { told(c, e, n); }));
  }

  void cancel(call& c) {
    if (c.has_ended || c.is_cancelled) return;
    c.is_cancelled = true;
    judge_cancel(c);
    c.signal.emit(net::cancellation_type::terminal);
  }

  void begins(call& c, std::uint32_t n) {
    ++verdict_.acquires;
    if (n != c.begun + 1) return fail(c, "begins its operation " + std::to_string(n));
    if (c.expected) fail(c, "begins another operation, though it is to end");
    if (now() != c.next_start) {
      fail(c,
           "begins operation " + std::to_string(n) +
               (c.next_start == time_point::max() ? " although there is to be none"
                                                  : ", not at " + canigo::to_string(c.next_start.time_since_epoch())));
    }
    c.next_start = time_point::max();
    ++c.begun;
    ++c.running;
    judge_start(c);
  }
  virtual void judge_start(call& c) = 0;

  void ends(call& c, ending::kind how, std::uint32_t n, const script& s) {
    --c.running;
    c.last = ending{how, n, now()};
    if (how == ending::kind::aborted && !c.is_cancelled && !c.has_result) fail(c, "asks an operation to end");
    judge_end(c, *c.last, s);
  }

  /// All has happened that is to happen until `t`.
  void settle(time_point t) {
    for (const auto& c : calls_) {
      if (c->next_start <= t) judge_no_start(*c);
    }
  }

  void told(call& c, const std::exception_ptr& e, std::uint32_t n) {
    ending how{.how = ending::kind::result, .number = n, .when = now()};
    try {
      if (e) std::rethrow_exception(e);
    } catch (const failure& f) {
      how = {ending::kind::failed, f.number, now()};
    } catch (const std::system_error&) {
      how = {ending::kind::aborted, 0, now()};
    }
    verdict_.hash =
        (verdict_.hash ^ (c.id << 32 | static_cast<std::uint64_t>(how.how) << 16 | how.number)) * 0x100000001b3;
    verdict_.hash ^= static_cast<std::uint64_t>(context_->elapsed().count());
    if (c.has_ended) fail(c, "ends twice");
    c.has_ended = true;
    c.next_start = time_point::max();
    if (!c.expected) return fail(c, "ends, though it is to go on");
    const bool is_same =
        how.how == c.expected->how && (how.how == ending::kind::aborted || how.number == c.expected->number);
    if (!is_same) fail(c, "does not end as its operations did");
    if (how.when != c.expected->when) fail(c, "ends too late or too early");
    if (c.running > 0) fail(c, "ends while an operation runs");
  }

 protected:
  duration ms(std::uint64_t bound) { return static_cast<std::int64_t>(dice_.roll(bound) + 1) * 1ms; }

 private:
  const char* const name_;
  dice dice_;
  verdict verdict_;
  canigo::retry_budget::options budget_options_;
  std::optional<canigo::retry_budget> budget_;
  std::uint64_t balance_ = 0;  // in hundredths
  std::vector<std::unique_ptr<call>> calls_;
  std::optional<canigo::testing::simulation> context_;
};

// ---- retry ----

class retry_world final : public repeat_world {
 public:
  explicit retry_world(std::uint64_t seed) : repeat_world{seed, "retry"} {}

 private:
  void choose(call& c) override {
    dice& d = rolled();
    c.policy.attempts = static_cast<std::uint32_t>(d.roll(most_operations));
    c.policy.backoff = {.first = ms(4),
                        .factor = static_cast<std::uint32_t>(1 + d.roll(3)),
                        .cap = 20ms,
                        .jitter = canigo::jitter::none};
    if (!d.one_in(3)) c.policy.budget = &budget();
    c.policy.retry_if = [](const std::exception_ptr& e) { return is_worth(e); };
    if (d.one_in(2)) c.deadline = now() + c.starts + ms(60);
  }

  net::awaitable<std::uint32_t> operation(call& c) override {
    return canigo::retry([this, &c](std::uint32_t n) { return work(*this, c, n); }, c.policy, c.deadline);
  }

  void judge_start(call& c) override {
    if (c.begun == 1 && c.policy.budget != nullptr) pay_in();
  }

  void judge_end(call& c, const ending& e, const script& s) override {
    if (e.how != ending::kind::failed || c.is_cancelled) return expect(c, e.how, e.number);
    const std::uint32_t attempts = c.policy.attempts == 0 ? 3 : c.policy.attempts;
    duration delay = c.policy.backoff.first;
    for (std::uint32_t n = 1; n < e.number; ++n) delay = std::min<duration>(delay * c.policy.backoff.factor, 20ms);
    const time_point at = now() + std::max(delay, s.again_after.value_or(0ns));
    const bool goes_on = e.number < attempts && s.again_after && at < c.deadline;
    if (!goes_on || (c.policy.budget != nullptr && !take_out())) return expect(c, e.how, e.number);
    c.next_start = at;
  }

  void judge_no_start(call& c) override { fail(c, "does not try again"); }

  void judge_cancel(call& c) override {
    if (c.running > 0 || c.expected || c.begun == 0) return;
    c.next_start = time_point::max();
    expect(c, ending::kind::aborted);
  }
};

// ---- hedge ----

class hedge_world final : public repeat_world {
 public:
  explicit hedge_world(std::uint64_t seed) : repeat_world{seed, "hedge"} {}

 private:
  void choose(call& c) override {
    c.after = ms(8);
    c.copies = static_cast<std::uint32_t>(1 + rolled().roll(most_operations - 1));
  }

  net::awaitable<std::uint32_t> operation(call& c) override {
    return canigo::hedge([this, &c](std::uint32_t n) { return work(*this, c, n); },
                         {.after = c.after, .copies = c.copies, .budget = &budget()});
  }

  void judge_start(call& c) override {
    if (c.begun == 1) {
      pay_in();
    } else if (!take_out()) {
      fail(c, "begins a copy that the budget does not have");
    }
    if (c.begun <= c.copies && !c.is_cancelled && !c.has_result) c.next_start = now() + c.after;
  }

  void judge_end(call& c, const ending& e, const script&) override {
    if (e.how == ending::kind::result && !c.has_result) {
      c.has_result = true;
      c.next_start = time_point::max();
      winner_[c.id] = e.number;
    }
    if (c.running > 0) return;
    c.next_start = time_point::max();
    if (c.has_result) return expect(c, ending::kind::result, winner_[c.id]);
    expect(c, e.how, e.number);
  }

  /// Only if the budget had none for it; then no more is started.
  void judge_no_start(call& c) override {
    c.next_start = time_point::max();
    if (take_out()) fail(c, "begins no copy, though the budget has one");
  }

  void judge_cancel(call& c) override {
    if (c.begun > 0) c.next_start = time_point::max();
  }

  std::array<std::uint32_t, 8> winner_{};
};

}  // namespace

verdict play_retries(std::uint64_t seed) { return retry_world{seed}.play(); }

verdict play_hedges(std::uint64_t seed) { return hedge_world{seed}.play(); }

}  // namespace simulated
