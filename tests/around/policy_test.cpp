#include "canigo/policy.hpp"

#include "canigo/algorithms/latency_window.hpp"
#include "canigo/cancel.hpp"
#include "canigo/error.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/task_group.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"
#include "support/refusal.hpp"

#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

using namespace canigo;
using namespace std::chrono_literals;

namespace policy_tests {

const circuit_breaker_options small_breaker{
    .failures = 50, .least_calls = 4, .window = 10s, .open_for = 5s, .probes = 1};

net::awaitable<int> fails_after(duration d) {
  co_await sleep_for(d);
  throw std::runtime_error{"upstream fell over"};
}

/// One rate of ten a second that starts with `tokens`, and a cap.
limiter_options ten_a_second(std::uint64_t tokens, std::uint64_t concurrency = unlimited) {
  return {.rates = {{rate::per_second(10), 10, tokens}}, .concurrency = concurrency, .priorities = 3};
}

}  // namespace policy_tests

using namespace policy_tests;

TEST_CASE("a policy without parts runs the operation", "[policy]") {
  limits_run run;
  policy p{run.io, {}};
  bool ran = false;
  run.go([&]() -> net::awaitable<void> {
    const int answer = co_await p.run([] { return answer_after(10ms); });
    CHECK(answer == 42);
    co_await p.run([&ran]() -> net::awaitable<void> {
      ran = true;
      co_return;
    });
    auto moved = co_await p.run([](std::uint32_t number) -> net::awaitable<std::unique_ptr<std::uint32_t>> {
      co_return std::make_unique<std::uint32_t>(number);
    });
    CHECK(*moved == 1);
    const std::string what = co_await outcome_of_any(p.run([] { return fails_after(10ms); }));
    CHECK(what == "upstream fell over");
  });
  run.time.run();
  CHECK(ran);
  CHECK(p.breaker() == nullptr);
  CHECK(p.limits() == nullptr);
  const policy_stats s = p.stats();
  CHECK(s.succeeded == 3);
  CHECK(s.failed == 1);
  CHECK(s.operations == 4);
  CHECK(s.under_way == 0);
  CHECK(s.took.count() == 3);
  p.stop();
}

TEST_CASE("each attempt of a policy enters its limits anew, behind those that wait", "[policy]") {
  limits_run run;
  policy p{run.io,
           {.retry = retry_policy{.attempts = 3, .backoff = backoff::constant(1ms)}, .limits = ten_a_second(1)}};
  run.go([&]() -> net::awaitable<void> {
    const int answer = co_await p.run([&run](std::uint32_t number) -> net::awaitable<int> {
      run.note("attempt " + std::to_string(number));
      if (number < 3) throw std::runtime_error{"not yet"};
      co_return 1;
    });
    CHECK(answer == 1);
  });
  run.go([&]() -> net::awaitable<void> {
    co_await p.run([&run]() -> net::awaitable<void> {
      run.note("other");
      co_return;
    });
  });
  run.time.run();
  CHECK(run.log == log_lines{"attempt 1@0", "other@100", "attempt 2@200", "attempt 3@300"});
  CHECK(p.stats().operations == 4);
  CHECK(p.stats().succeeded == 2);
}

TEST_CASE("a policy retries by default what says something about the upstream, and nothing else", "[policy]") {
  limits_run run;
  policy p{run.io, {.retry = retry_policy{.attempts = 4, .backoff = backoff::constant(1ms)}}};
  int calls = 0;
  const auto ending = [&calls](std::error_code code) {
    return [&calls, code]() -> net::awaitable<void> {
      ++calls;
      throw std::system_error{code};
      co_return;
    };
  };
  run.go([&]() -> net::awaitable<void> {
    std::error_code how = co_await outcome_of(p.run(ending(make_error_code(errc::overloaded))));
    CHECK(how == errc::overloaded);
    CHECK(std::exchange(calls, 0) == 4);
    for (const errc own : {errc::queue_full, errc::shed, errc::too_many_keys}) {
      how = co_await outcome_of(p.run(ending(make_error_code(own))));
      CHECK(how == own);
      CHECK(std::exchange(calls, 0) == 1);
    }
  });
  run.time.run();
}

TEST_CASE("retries and copies of a policy have a budget where none is named", "[policy]") {
  limits_run run;
  policy p{
      run.io,
      {.hedge = hedge_options{.after = 1s}, .retry = retry_policy{.attempts = 10, .backoff = backoff::constant(1ms)}}};
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 100; ++i) (void)co_await outcome_of_any(p.run([] { return fails_after(1ms); }));
  });
  run.time.run();
  // 100 calls pay in 20 retries; 10 were there.
  CHECK(p.stats().operations == 130);
}

TEST_CASE("an open breaker of a policy refuses before anything waits or is used", "[policy]") {
  limits_run run;
  policy p{run.io, {.breaker = small_breaker, .limits = ten_a_second(10)}};
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 4; ++i) (void)co_await outcome_of_any(p.run([] { return fails_after(0ms); }));
    CHECK(p.breaker()->state() == circuit_state::open);
    const auto tokens = p.limits()->stats().tokens.at(0);
    const std::error_code how = co_await outcome_of(p.run([] { return answer_after(0ms); }));
    CHECK(how == errc::circuit_open);
    CHECK(p.limits()->stats().tokens.at(0) == tokens);
    co_await sleep_for(5s);
    const int answer = co_await p.run([] { return answer_after(1ms); });
    CHECK(answer == 42);
    CHECK(p.breaker()->state() == circuit_state::closed);
  });
  run.time.run();
  const policy_stats s = p.stats();
  CHECK(s.failed == 4);
  CHECK(s.circuit_open == 1);
  CHECK(s.succeeded == 1);
  CHECK(s.operations == 5);
}

TEST_CASE("a timeout under way is a failure for the breaker of a policy, one in the queue is no sample", "[policy]") {
  limits_run run;
  policy p{run.io, {.timeout = 50ms, .breaker = small_breaker, .limits = ten_a_second(4)}};
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 4; ++i) {
      const std::error_code how = co_await outcome_of(p.run([] { return answer_after(1h); }));
      CHECK(how == errc::timed_out);
    }
    CHECK(p.breaker()->stats().failed == 4);
    CHECK(p.breaker()->state() == circuit_state::open);
    p.breaker()->reset();
    p.limits()->pause();
    for (int i = 0; i < 4; ++i) {
      const std::error_code how = co_await outcome_of(p.run([] { return answer_after(1h); }));
      CHECK(how == errc::timed_out);
    }
    CHECK(p.breaker()->stats().failed == 4);
    CHECK(p.breaker()->state() == circuit_state::closed);
  });
  run.time.run();
  CHECK(p.stats().timed_out == 8);
  CHECK(p.stats().operations == 4);
}

TEST_CASE("an operation that says timed_out before the deadline of its call has failed by itself", "[policy]") {
  limits_run run;
  policy p{run.io, {.breaker = small_breaker}};
  const auto gives_up = [](duration after) -> net::awaitable<int> {
    co_await sleep_for(after);
    throw std::system_error{make_error_code(errc::timed_out)};
  };
  run.go([&]() -> net::awaitable<void> {
    std::error_code how =
        co_await outcome_of(p.run([&] { return gives_up(1ms); }, {.deadline = run.time.now() + 1ms + 1ns}));
    CHECK(how == errc::timed_out);
    CHECK(p.stats().failed == 1);
    CHECK(p.stats().timed_out == 0);
    how = co_await outcome_of(p.run([&] { return gives_up(1h); }, {.deadline = run.time.now() + 1ms}));
    CHECK(how == errc::timed_out);
    CHECK(p.stats().timed_out == 1);
  });
  run.time.run();
  CHECK(p.stats().failed == 1);
}

TEST_CASE("a call that was let in at the end of its time is no sample for the breaker of a policy", "[policy]") {
  limits_run run;
  policy p{run.io, {.timeout = 50ms, .breaker = small_breaker, .limits = limiter_options{.concurrency = 1}}};
  for (const auto waits : {24ms, 26ms}) {
    permit out = p.limits()->try_acquire().value();
    run.go([&]() -> net::awaitable<void> {
      const std::error_code how = co_await outcome_of(p.run([] { return answer_after(1h); }));
      CHECK(how == errc::timed_out);
    });
    run.time.run_for(waits);
    out.release();
    run.time.run();
    CHECK(p.breaker()->stats().failed == 1);  // of the one that had 26 ms of 50
  }
  CHECK(p.breaker()->stats().unreported == 1);
  CHECK(p.stats().operations == 2);
}

TEST_CASE("what a call waited for its limits does not make it slow for the breaker", "[policy]") {
  limits_run run;
  circuit_breaker_options by_slowness = small_breaker;
  by_slowness.slow = 20ms;
  policy p{run.io, {.breaker = by_slowness, .limits = ten_a_second(0)}};
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 4; ++i) co_await p.run([] { return answer_after(10ms); });
    CHECK(p.breaker()->stats().slow == 0);
    co_await p.run([] { return answer_after(30ms); });
    CHECK(p.breaker()->stats().slow == 1);
  });
  run.time.run();
}

TEST_CASE("the deadline of a request ends a whole call, in the queue, under way and between attempts", "[policy]") {
  limits_run run;
  policy p{run.io,
           {.timeout = 10s,
            .retry = retry_policy{.attempts = 100, .backoff = backoff::constant(40ms)},
            .limits = ten_a_second(10)}};
  run.go([&]() -> net::awaitable<void> {
    std::error_code how =
        co_await outcome_of(p.run([] { return answer_after(1h); }, {.deadline = run.time.now() + 100ms}));
    CHECK(how == errc::timed_out);
    CHECK(run.ms() == 100);
    const std::string what =
        co_await outcome_of_any(p.run([] { return fails_after(1ms); }, {.deadline = run.time.now() + 100ms}));
    CHECK(what == "upstream fell over");  // the wait before another attempt would have passed the deadline
    CHECK(run.ms() < 200);
    p.limits()->pause();
    how = co_await outcome_of(p.run([] { return answer_after(1h); }, {.deadline = run.time.now() + 100ms}));
    CHECK(how == errc::timed_out);
  });
  run.time.run();
  CHECK(p.stats().timed_out == 2);
  CHECK(p.stats().failed == 1);
}

TEST_CASE("a slow attempt of a policy ends by attempt_timeout, and is tried again", "[policy]") {
  limits_run run;
  policy p{run.io,
           {.retry = retry_policy{.attempts = 2, .backoff = backoff::constant(1ms)},
            .limits = ten_a_second(0),
            .attempt_timeout = 30ms}};
  run.go([&]() -> net::awaitable<void> {
    const int answer = co_await p.run([](std::uint32_t number) { return answer_after(number == 1 ? 1h : 10ms); });
    CHECK(answer == 42);
    CHECK(run.ms() == 210);  // the waits of 100 ms and nearly 100 ms do not count
  });
  run.time.run();
}

TEST_CASE("each copy of a hedged call takes its own place, and the losers give theirs back", "[policy]") {
  limits_run run;
  policy p{run.io, {.hedge = hedge_options{.after = 20ms}, .limits = ten_a_second(10, 2)}};
  run.go([&]() -> net::awaitable<void> {
    const int answer = co_await p.run([&](std::uint32_t number) -> net::awaitable<int> {
      CHECK(p.limits()->stats().held == number);
      co_await sleep_for(number == 1 ? 1h : 10ms);
      co_return static_cast<int>(number);
    });
    CHECK(answer == 2);
    CHECK(run.ms() == 30);
    CHECK(p.limits()->stats().held == 0);
  });
  run.time.run();
  CHECK(p.stats().operations == 2);
  CHECK(p.stats().succeeded == 1);
}

TEST_CASE("an adaptive limit of a policy counts operations from their start, and learns from their ends", "[policy]") {
  limits_run run;
  policy p{run.io,
           {.adaptive = adaptive_limit_options{.initial = 2, .algorithm = aimd{.target = 50ms}, .priorities = 3},
            .limits = ten_a_second(0),
            .attempt_timeout = 30ms}};
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 100; ++i) co_await p.run([] { return answer_after(10ms); });
    CHECK(p.adaptive()->stats().latency > 5ms);
    CHECK(p.adaptive()->stats().latency < 20ms);  // without the waits of 90 ms
    CHECK(p.adaptive()->stats().succeeded == 100);
    const std::error_code how = co_await outcome_of(p.run([] { return answer_after(1h); }));
    CHECK(how == errc::timed_out);
    CHECK(p.adaptive()->stats().dropped == 1);
    p.limits()->pause();
    const std::error_code late =
        co_await outcome_of(p.run([] { return answer_after(1ms); }, {.deadline = run.time.now() + 1s}));
    CHECK(late == errc::timed_out);
    CHECK(p.adaptive()->stats().dropped == 1);  // it never reached the callee
    CHECK(p.adaptive()->stats().held == 0);
  });
  run.time.run();
}

TEST_CASE("callers in a hurry do not open the breaker of a policy, and a callee that hangs does", "[policy]") {
  limits_run run;
  const auto state_after = [&](policy_options o, duration within, auto op) {
    o.breaker = small_breaker;
    if (o.attempt_timeout == 7ms) o.breaker->slow = std::exchange(o.attempt_timeout, std::nullopt).value();
    policy p{run.io, o};
    run.go([&]() -> net::awaitable<void> {
      for (int i = 0; i < 20; ++i) {
        (void)co_await outcome_of(p.run(op, {.deadline = run.time.now() + within}));
      }
    });
    run.time.run();
    return p.breaker()->state();
  };
  const auto usual = [] { return answer_after(10ms); };
  const auto hangs = [] { return answer_after(1h); };
  CHECK(state_after({.timeout = 2s}, 1ms, usual) == circuit_state::closed);
  CHECK(state_after({.timeout = 2s}, 999ms, hangs) == circuit_state::closed);
  CHECK(state_after({.timeout = 2s}, 1s, hangs) == circuit_state::open);
  CHECK(state_after({.timeout = 2s}, 1h, hangs) == circuit_state::open);
  CHECK(state_after({.attempt_timeout = 50ms}, 1ms, usual) == circuit_state::closed);
  CHECK(state_after({.attempt_timeout = 50ms}, 25ms, hangs) == circuit_state::open);
  // Here 7 ms stand for what counts as slow.
  CHECK(state_after({.timeout = 2s, .attempt_timeout = 7ms}, 6ms, usual) == circuit_state::closed);
  CHECK(state_after({.timeout = 2s, .attempt_timeout = 7ms}, 7ms, usual) == circuit_state::open);
  CHECK(state_after({}, 1ms, usual) == circuit_state::open);  // nothing says what is too slow
}

namespace policy_tests {

/// A policy whose adaptive limit has one place and knows that a call takes 100 ms.
struct one_place {
  explicit one_place(limits_run& r)
      : run{r},
        p{run.io,
          {.timeout = 1s,
           .breaker = small_breaker,
           .retry = retry_policy{.attempts = 5, .backoff = backoff::constant(10ms), .budget = &budget},
           .adaptive = adaptive_limit_options{.initial = 1, .least = 1, .most = 1, .algorithm = aimd{.target = 1s}}}} {
    run.go([this]() -> net::awaitable<void> {
      for (int i = 0; i < 60; ++i) co_await p.run([] { return answer_after(100ms); });
    });
    run.time.run();
    saved = budget.left();
  }

  limits_run& run;
  retry_budget budget;
  policy p;
  std::uint32_t saved = 0;
};

}  // namespace policy_tests

TEST_CASE("a call of a policy ends where too little time is left for an operation, and tries no further", "[policy]") {
  limits_run run;
  one_place one{run};
  adaptive_permit out = one.p.adaptive()->try_acquire(0).value();
  const long start = run.ms();
  run.go([&]() -> net::awaitable<void> {
    const std::error_code how = co_await outcome_of(one.p.run([] { return answer_after(1ms); }));
    CHECK(how == errc::timed_out);
    CHECK(run.ms() - start > 700);
    CHECK(run.ms() - start < 850);
  });
  run.time.run_for(900ms);
  CHECK(one.p.stats().timed_out == 1);
  CHECK(one.p.stats().refused == 0);
  CHECK(one.p.stats().under_way == 0);
  CHECK(one.budget.left() == one.saved);
  out.release();
  run.time.run();
}

TEST_CASE("waits between the operations of a call are no time that the upstream has had", "[policy]") {
  limits_run run;
  for (const auto first : {1ms, 600ms}) {
    one_place one{run};
    adaptive_permit out;
    run.go([&]() -> net::awaitable<void> {
      const std::error_code how = co_await outcome_of(one.p.run([&, first] { return fails_after(first); }));
      CHECK(how == errc::timed_out);
    });
    run.time.run_for(first);
    out = one.p.adaptive()->try_acquire(0).value();  // before the second attempt
    run.time.run_for(1s);
    CHECK(one.p.stats().timed_out == 1);
    CHECK(one.p.stats().failed == 0);
    CHECK(one.p.stats().operations == 61);
    CHECK(one.p.breaker()->stats().failed == (first == 1ms ? 0 : 1));
    out.release();
    run.time.run();
  }
}

TEST_CASE("an adaptive limit of a policy has the classes of its limits", "[policy]") {
  limits_run run;
  const std::string text = refusal([&] {
    const policy p{run.io, {.adaptive = adaptive_limit_options{}, .limits = limiter_options{.priorities = 2}}};
  });
  CHECK(text.find("policy_options.adaptive.priorities is 1; allowed: 2, as those of the limits") != std::string::npos);
}

TEST_CASE("a policy learns by itself when a copy is worth it", "[policy]") {
  limits_run run;
  policy p{run.io, {.hedge = hedge_options{.after = quantile{0.9}}}};
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 50; ++i) co_await p.run([] { return answer_after(10ms); });
    const long before = run.ms();
    co_await p.run([](std::uint32_t number) { return answer_after(number == 1 ? 1h : 10ms); });
    CHECK(run.ms() - before < 30);
  });
  run.time.run();
}

TEST_CASE("cancelling a call of a policy at any moment gives everything back", "[policy]") {
  for (long after = 0; after < 160; after += 5) {
    CAPTURE(after);
    limits_run run;
    policy p{run.io,
             {.timeout = 1h,
              .breaker = small_breaker,
              .hedge = hedge_options{.after = 20ms},
              .retry = retry_policy{.attempts = 5, .backoff = backoff::constant(7ms)},
              .limits = ten_a_second(1, 2),
              .attempt_timeout = 1s}};
    net::cancellation_signal signal;
    std::error_code ended;
    run.go(
        [&]() -> net::awaitable<void> {
          co_await p.run([](std::uint32_t number) { return number < 2 ? fails_after(15ms) : answer_after(1h); });
        },
        signal, ended);
    run.time.run_for(std::chrono::milliseconds{after});
    signal.emit(net::cancellation_type::terminal);
    run.time.run_for(1s);
    CHECK(ended == net::error::operation_aborted);
    CHECK(p.limits()->stats().held == 0);
    CHECK(p.limits()->stats().waiting == 0);
    CHECK(p.breaker()->stats().failed == 0);
    const policy_stats s = p.stats();
    CHECK(s.cancelled == 1);
    CHECK(s.under_way == 0);
  }
}

TEST_CASE("stop ends the calls of a policy that wait, and lets those under way end", "[policy]") {
  limits_run run;
  policy p{run.io, {.retry = retry_policy{.attempts = 5}, .limits = ten_a_second(10, 1)}};
  const auto call = [&](std::string name) {
    return [&run, &p, name]() -> net::awaitable<void> {
      const std::error_code how = co_await outcome_of(p.run([] { return answer_after(50ms); }));
      run.note(name + "=" + how.message());
    };
  };
  run.go(call("one"));
  run.go(call("two"));
  run.time.run_for(10ms);
  p.stop();
  run.go(call("three"));
  run.time.run();
  CHECK(run.log == log_lines{"two=stopped@10", "three=stopped@10", "one=Success@50"});
  CHECK(p.stats().refused == 2);
  CHECK(p.stats().succeeded == 1);
}

TEST_CASE("a policy names the part, the field, the value and the range of what it can't use", "[policy]") {
  net::io_context io;
  const auto making = [&](const policy_options& o) { return refusal([&] { policy{io, o}; }); };
  CHECK(making({.timeout = 0ns}).find("policy_options.timeout is 0") == 0);
  CHECK(making({.attempt_timeout = -1ns}).find("policy_options.attempt_timeout is -1") == 0);
  task_group group{io};
  CHECK(
      making({.hedge = hedge_options{.group = &group}}).find("policy_options.hedge.group is a group; allowed: null") ==
      0);
  CHECK_FALSE(making({.hedge = hedge_options{.copies = 0}}).empty());
  CHECK_FALSE(making({.retry = retry_policy{.backoff = {.first = -1ms}}}).empty());
  CHECK_FALSE(making({.breaker = circuit_breaker_options{.failures = 0}}).empty());
  CHECK_FALSE(making({.limits = limiter_options{}}).empty());
}

namespace policy_tests {

/// What a call says that fails, without the code's own words.
template <class T>
net::awaitable<std::string> text_of(net::awaitable<T> call) {
  try {
    (void)co_await std::move(call);
  } catch (const std::system_error& e) {
    const std::string text = said_by(e);
    co_return text.substr(0, text.rfind(": "));
  }
  co_return "";
}

}  // namespace policy_tests

TEST_CASE("the error of a late call says whose it is, where it was, and where its time went", "[policy]") {
  limits_run run;
  const auto late = [&](policy_options o, duration takes) {
    policy p{run.io, o};
    std::string text;
    // The first call has the only place for 900 ms.
    run.go([&]() -> net::awaitable<void> { co_await text_of(p.run([] { return answer_after(900ms); })); });
    run.time.poll();
    run.go([&]() -> net::awaitable<void> { text = co_await text_of(p.run([=] { return answer_after(takes); })); });
    run.time.run();
    return text;
  };
  const limiter_options one{.concurrency = 1};
  const limiter_options slots{.concurrency = 1, .name = "slots"};
  CHECK(late({.timeout = 500ms, .limits = one, .name = "crm"}, 0s) ==
        "policy crm: 500ms of waits, 0s of operations, ended in the queue of crm");
  CHECK(late({.timeout = 1s, .limits = one, .name = "crm"}, 3s) == "policy crm: 900ms of waits, 100ms of operations");
  CHECK(late({.timeout = 500ms, .limits = slots, .name = "crm"}, 0s) ==
        "policy crm: 500ms of waits, 0s of operations, ended in the queue of slots");
  CHECK(late({.timeout = 500ms, .limits = one}, 0s) ==
        "policy: 500ms of waits, 0s of operations, ended in the queue of a limit");
  CHECK(late({.timeout = 500ms, .adaptive = adaptive_limit_options{.initial = 1}, .name = "crm"}, 0s) ==
        "policy crm: 500ms of waits, 0s of operations, ended in the queue of crm");
}

TEST_CASE("an operation of a policy that knows its place tells it at the timeout", "[policy]") {
  limits_run run;
  policy p{run.io, {.timeout = 1s, .name = "crm"}};
  semaphore rows{run.io, {.name = "rows"}};
  const auto held = rows.try_acquire();
  std::string text, kept;
  run.go([&]() -> net::awaitable<void> {
    text = co_await text_of(p.run([&] { return rows.acquire(); }));
    kept = co_await text_of(p.run([&]() -> net::awaitable<void> {
      co_await sleep_for(1s);
      throw circuit_open_error{1s, "other"};
    }));
  });
  run.time.run();
  CHECK(text == "policy crm: 0s of waits, 1s of operations, ended in the queue of rows");
  CHECK(kept == "policy crm: 0s of waits, 1s of operations");
}

TEST_CASE("an open breaker of a policy says whose it is", "[policy]") {
  limits_run run;
  policy p{run.io, {.breaker = small_breaker, .name = "crm"}};
  p.breaker()->force_open();
  std::string text;
  run.go([&]() -> net::awaitable<void> { text = co_await text_of(p.run([] { return answer_after(1ms); })); });
  run.time.run();
  CHECK(text == "circuit_breaker crm: forced open");
}
