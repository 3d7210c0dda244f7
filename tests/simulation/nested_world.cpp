#include "nested_world.hpp"

#include "canigo/error.hpp"
#include "canigo/limiter.hpp"
#include "canigo/net.hpp"
#include "canigo/policy.hpp"
#include "canigo/testing/simulation.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include "plan.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/error.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/multiple_exceptions.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
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

/// A call, and what its operation does: works, makes the inner calls, and works again.
struct call {
  std::size_t id = 0;
  std::size_t policy = 0;
  duration before{}, after{};
  std::optional<duration> deadline;  // from its start
  bool is_side_by_side = false;      // the inner calls
  bool passes_on = false;            // an error of theirs
  bool may_be_cancelled = false;
  std::vector<std::unique_ptr<call>> inner;

  // What the judge knows of it.
  bool waits = false;  // for a place, or has just been given one
  bool runs = false;   // its operation
};

// With Asio 1.23 to 1.28.0 a cancellation on its way points into the operation of a co_spawn, whose coroutine may end
// first. With 1.26 to 1.30.0 a coroutine may be cancelled only once it has begun and was suspended, and Asio's operator
// && does not care (docs/decisions/0071).
#if ASIO_VERSION < 102300 || ASIO_VERSION > 103000
constexpr bool may_cancel = true;
#else
constexpr bool may_cancel = false;
#endif

struct root {
  std::unique_ptr<call> top;
  bool has_begun = false;
  bool has_ended = false;
  net::cancellation_signal signal;
};

/// True while it lives.
class during {
 public:
  explicit during(bool& b) noexcept : b_{&b} { b = true; }
  ~during() { *b_ = false; }
  during(const during&) = delete;
  during& operator=(const during&) = delete;

 private:
  bool* b_;
};

bool waits_inside(const call& c, std::size_t policy) {
  for (const auto& i : c.inner) {
    if ((i->policy == policy && i->waits) || waits_inside(*i, policy)) return true;
  }
  return false;
}

std::size_t held_up(const call& c, std::size_t policy) {
  std::size_t n = c.policy == policy && c.runs && waits_inside(c, policy);
  for (const auto& i : c.inner) n += held_up(*i, policy);
  return n;
}

/// An operation calls its own policy or one that comes after it. Else operations of two policies could wait for each
/// other, which no policy knows.
class nested_world {
 public:
  explicit nested_world(std::uint64_t seed) : dice_{seed ^ 0x6e657374}, context_{std::in_place, seed} {
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      caps_[i] = 1 + dice_.roll(3);
      policies_[i].emplace(context_->get_executor(), options(caps_[i]));
    }
  }

  verdict play() {
    const std::size_t many = 1 + dice_.roll(4);
    for (std::size_t i = 0; i < many; ++i) plan_root();
    const bool is_abandoned = dice_.one_in(8);
    if (is_abandoned) {
      context_->run_until(context_->now() + ms(30));
      verdict_.simulated = context_->elapsed();
      context_.reset();
    } else {
      context_->run();
      verdict_.simulated = context_->elapsed();
      for (const auto& r : roots_) {
        if (!r->has_ended) fail(*r->top, "never ends");
      }
      if (!canigo::time_source::of(context_->get_executor()).idle()) fail("something is left armed");
    }
    for (const auto& p : policies_) {
      if (p->stats().under_way != 0) fail("a call is counted for good");
      if (is_abandoned || p->limits() == nullptr) continue;
      if (p->limits()->stats().held != 0 || p->limits()->stats().waiting != 0) fail("a place is lost");
    }
    return verdict_;
  }

 private:
  canigo::policy_options options(std::uint64_t cap) {
    const std::uint64_t kind = dice_.roll(3);
    if (kind == 0) return {.adaptive = canigo::adaptive_limit_options{.initial = cap, .least = cap, .most = cap}};
    if (kind == 1) return {.limits = canigo::limiter_options{.share = canigo::shared_cap{{.permits = cap}}}};
    return {.limits = canigo::limiter_options{.concurrency = cap}};
  }

  duration ms(std::uint64_t bound) { return static_cast<std::int64_t>(dice_.roll(bound) + 1) * 1ms; }

  void plan_root() {
    root& r = *roots_.emplace_back(std::make_unique<root>());
    const bool is_cancelled = dice_.one_in(4) && may_cancel;
    r.top = plan_call(dice_.roll(policies_.size()), 4, is_cancelled);
    at(ms(10), [this, &r] {
      net::co_spawn(context_->get_executor(), begun(r),
                    net::bind_cancellation_slot(r.signal.slot(), [this, &r](const std::exception_ptr&) {
                      r.has_ended = true;
                      note(r.top->id);
                    }));
    });
    if (!is_cancelled) return;
    at(ms(40), [&r] {
      if (r.has_begun) r.signal.emit(net::cancellation_type::terminal);
    });
  }

  std::unique_ptr<call> plan_call(std::size_t policy, std::uint64_t depth, bool may_be_cancelled) {
    auto c = std::make_unique<call>();
    c->id = next_id_++;
    c->policy = policy;
    c->before = ms(10);
    c->after = ms(10);
    if (dice_.one_in(5)) c->deadline = ms(30);
    c->is_side_by_side = dice_.one_in(3) && may_cancel;
    c->passes_on = dice_.one_in(2);
    c->may_be_cancelled = may_be_cancelled;
    const std::uint64_t inner = depth == 0 ? 0 : dice_.roll(3);
    for (std::uint64_t i = 0; i < inner; ++i) {
      const std::size_t other = policy + dice_.roll(policies_.size() - policy);
      c->inner.push_back(plan_call(other, depth - 1, may_be_cancelled || c->is_side_by_side || c->deadline));
    }
    return c;
  }

  template <class Function>
  void at(duration d, Function f) {
    const auto wait = [](duration t, Function then) -> net::awaitable<void> {
      co_await canigo::sleep_for(t);
      then();
    };
    net::co_spawn(context_->get_executor(), wait(d, std::move(f)), net::detached);
  }

  net::awaitable<void> begun(root& r) {
    r.has_begun = true;
    co_await made(*r.top);
  }

  net::awaitable<void> made(call& c) {
    const during waits{c.waits};
    const time_point deadline = c.deadline ? context_->now() + *c.deadline : time_point::max();
    try {
      const auto op = [this, &c] { return operation(c); };
      co_await policies_[c.policy]->run(op, {.deadline = deadline});
    } catch (const std::system_error& e) {
      judge(c, e.code(), deadline);
      throw;
    }
  }

  net::awaitable<void> made_inside(call& c, bool passes_on) {
    try {
      co_await made(c);
    } catch (const std::system_error&) {
      if (passes_on) throw;
    }
  }

  /// Beside another one, which may fail at once and so cancel it.
  net::awaitable<void> made_beside(call& c, bool passes_on) {
    co_await net::post(net::use_awaitable);
    co_await made_inside(c, passes_on);
  }

  net::awaitable<void> operation(call& c) {
    c.waits = false;
    const during runs{c.runs};
    const counted one{running_[c.policy]};
    ++verdict_.acquires;
    note(c.id);
    if (running_[c.policy] > caps_[c.policy]) fail(c, "is one too many");
    co_await canigo::sleep_for(c.before);
    if (c.is_side_by_side && c.inner.size() == 2) {
      using namespace net::experimental::awaitable_operators;
      try {
        co_await (made_beside(*c.inner[0], c.passes_on) && made_beside(*c.inner[1], c.passes_on));
      } catch (const net::multiple_exceptions& several) {
        std::rethrow_exception(several.first_exception());
      }
    } else {
      for (const auto& i : c.inner) co_await made_inside(*i, c.passes_on);
    }
    co_await canigo::sleep_for(c.after);
  }

  /// A call ends with `code`: an error of its own, or of a call inside its operation. One that has a deadline hears of
  /// its refusal later, when other places may wait.
  void judge(const call& c, std::error_code code, time_point deadline) {
    if (c.runs || !c.waits) return;  // the operation's
    if (code == std::errc::resource_deadlock_would_occur) {
      std::size_t held = 0;
      for (const auto& r : roots_) held += held_up(*r->top, c.policy);
      if (held < caps_[c.policy] && !c.deadline)
        fail(c, "is refused, though only " + std::to_string(held) + " places wait");
    } else if (code == canigo::errc::timed_out) {
      if (context_->now() < deadline) fail(c, "ends before its time is up");
    } else if (code != net::error::operation_aborted || !c.may_be_cancelled) {
      fail(c, "ends with " + code.message());
    }
  }

  struct counted {
    explicit counted(std::size_t& n) noexcept : count{n} { ++count; }
    ~counted() { --count; }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    std::size_t& count;
  };

  void note(std::size_t id) {
    verdict_.hash = (verdict_.hash ^ id) * 0x100000001b3;
    verdict_.hash ^= static_cast<std::uint64_t>(context_->elapsed().count());
  }
  void fail(const std::string& what) {
    if (!verdict_.is_good) return;
    verdict_.is_good = false;
    verdict_.what = "nested: " + what;
  }
  void fail(const call& c, const std::string& what) {
    fail("call " + std::to_string(c.id) + " " + what + ", at " + canigo::to_string(context_->elapsed()));
  }

  dice dice_;
  verdict verdict_;
  std::size_t next_id_ = 0;
  std::array<std::size_t, 2> caps_{}, running_{};
  std::array<std::optional<canigo::policy>, 2> policies_;
  std::vector<std::unique_ptr<root>> roots_;
  std::optional<canigo::testing::simulation> context_;  // goes first, with its coroutines
};

}  // namespace

verdict play_nested(std::uint64_t seed) { return nested_world{seed}.play(); }

}  // namespace simulated
