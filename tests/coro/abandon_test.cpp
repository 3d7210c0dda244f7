#include "canigo/cancel.hpp"
#include "canigo/task_group.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"
#include "support/pool_run.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/strand.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

using log_lines = std::vector<std::string>;

/// Ends with a value after `d`, whether it is cancelled or not, and notes that.
net::awaitable<int> stubborn_answer(limits_run& run, duration d) {
  co_await pool_run::stubborn(d);
  run.note("the rest has ended");
  co_return 42;
}

net::awaitable<void> stubborn_failure(duration d) {
  co_await pool_run::stubborn(d);
  throw std::runtime_error{"broken"};
}

net::awaitable<int> failure_after(duration d) {
  co_await sleep_for(d);
  throw std::runtime_error{"broken"};
}

/// Notes what `op` has come to: its value, or its failure.
template <class T>
net::awaitable<void> noted(limits_run& run, net::awaitable<T> op) {
  std::string text = "nothing";
  try {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(op);
      text = "done";
    } else {
      text = std::to_string(co_await std::move(op));
    }
  } catch (const std::system_error& e) {
    text = e.code() == errc::timed_out                 ? "timed_out"
           : e.code() == net::error::operation_aborted ? "aborted"
                                                       : e.code().message();
  } catch (const std::exception& e) {
    text = e.what();
  }
  run.note(text);
}

}  // namespace

TEST_CASE("an operation that ignores its cancellation is left to the group when its time is over", "[abandon]") {
  limits_run run;
  task_group group{run.io};
  run.go([&]() -> net::awaitable<void> {
    co_await noted(run, with_timeout(stubborn_answer(run, 5s), 1s, abandon_to{group}));
    CHECK(group.running() == 1);
    co_await group.join();
    run.note("joined");
  });
  run.time.run();
  CHECK(run.log == log_lines{"timed_out@1000", "the rest has ended@5000", "joined@5000"});
}

TEST_CASE("what comes in time of an operation that might be left is the caller's", "[abandon]") {
  limits_run run;
  task_group group{run.io};
  const auto at = [&](auto op, duration limit) {
    run.log.clear();
    run.go([&]() -> net::awaitable<void> {
      co_await noted(run, with_timeout(std::move(op), limit, abandon_to{group}));
      co_await group.join();
      run.note("joined");
    });
    const long before = run.ms();
    run.time.run();
    CHECK(run.log.back() == "joined@" + std::to_string(run.ms()));
    return run.log.front().substr(0, run.log.front().find('@')) + " after " + std::to_string(run.ms() - before);
  };
  CHECK(at(answer_after(1s), 2s) == "42 after 1000");
  CHECK(at(sleep_for(1s), 2s) == "done after 1000");
  CHECK(at(failure_after(1s), 2s) == "broken after 1000");
  CHECK(at(answer_after(1s), duration::max()) == "42 after 1000");
  CHECK(at(answer_after(2s), 1s) == "timed_out after 1000");
  CHECK(at(failure_after(2s), 1s) == "timed_out after 1000");
  CHECK(at(stubborn_failure(3s), 1s) == "timed_out after 3000");  // and join() has thrown nothing
  CHECK(at(answer_after(1s), 0s) == "timed_out after 0");
  CHECK(at(stubborn_answer(run, 1s), -1s) == "timed_out after 1000");
}

TEST_CASE("the caller's cancellation leaves the operation behind at once", "[abandon]") {
  limits_run run;
  task_group group{run.io};
  net::cancellation_signal signal;
  std::error_code how;
  run.go([&]() -> net::awaitable<void> { co_await with_timeout(stubborn_answer(run, 5s), 3s, abandon_to{group}); },
         signal, how);
  run.go([&]() -> net::awaitable<void> {
    co_await sleep_for(1s);
    signal.emit(net::cancellation_type::terminal);
    co_await sleep_for(1ms);
    CHECK(how == net::error::operation_aborted);
    CHECK(group.running() == 1);
    co_await group.join();
    run.note("joined");
  });
  run.time.run();
  CHECK(run.log == log_lines{"the rest has ended@5000", "joined@5000"});
}

TEST_CASE("a group that is cancelled ends the operation, and its caller is told", "[abandon]") {
  limits_run run;
  std::optional<task_group> group{std::in_place, run.io};
  const bool destroys = GENERATE(false, true);
  run.go([&]() -> net::awaitable<void> { co_await noted(run, with_timeout(sleep_for(5s), 3s, abandon_to{*group})); });
  run.go([&]() -> net::awaitable<void> {
    co_await noted(run, with_timeout(failure_after(1s), 3s, abandon_to{*group}));
    destroys ? group.reset() : group->cancel();
    if (!destroys) co_await noted(run, with_timeout(answer_after(1s), 1s, abandon_to{*group}));
  });
  run.time.run();
  const log_lines ends{"broken@1000", "aborted@1000", "aborted@1000"};
  CHECK(run.log == (destroys ? log_lines{ends[0], ends[1]} : ends));
}

TEST_CASE("an exception by which an operation answers its group's cancellation counts as that", "[abandon]") {
  limits_run run;
  task_group group{run.io};
  const auto answers = []() -> net::awaitable<void> {
    try {
      co_await sleep_for(1h);
    } catch (const std::system_error&) {
    }
    throw std::runtime_error{"cancelled in words of its own"};
  };
  run.go([&]() -> net::awaitable<void> { co_await noted(run, with_timeout(answers(), 2h, abandon_to{group})); });
  run.time.run_for(1s);
  group.cancel();
  run.time.run();
  CHECK(run.log == log_lines{"aborted@1000"});
}

TEST_CASE("a result that comes too late is destroyed, and one that can only be moved comes through", "[abandon]") {
  limits_run run;
  task_group group{run.io};
  const auto late = std::make_shared<int>(7);
  run.go([&]() -> net::awaitable<void> {
    const auto make = [](std::shared_ptr<int> p, duration d) -> net::awaitable<std::unique_ptr<std::shared_ptr<int>>> {
      co_await pool_run::stubborn(d);
      co_return std::make_unique<std::shared_ptr<int>>(std::move(p));
    };
    auto in_time = co_await with_timeout(make(late, 1s), 2s, abandon_to{group});
    CHECK((**in_time == 7 && late.use_count() == 2));
    in_time.reset();
    bool is_late = false;
    try {
      co_await with_timeout(make(late, 2s), 1s, abandon_to{group});
    } catch (const std::system_error& e) {
      is_late = e.code() == errc::timed_out;
    }
    CHECK((is_late && late.use_count() == 2));
    co_await group.join();
    CHECK(late.use_count() == 1);
  });
  run.time.run();
  CHECK(run.ms() == 4000 - 1000);
}

TEST_CASE("a context goes while callers wait, and while operations that were left run", "[abandon]") {
  const auto witness = std::make_shared<int>();
  for (const duration until : {0s, 1s, 3s}) {
    limits_run run;
    task_group group{run.io};
    const auto holding = [](std::shared_ptr<int> p) -> net::awaitable<void> {
      co_await pool_run::stubborn(1h);
      (void)p;
    };
    for (int i = 0; i < 3; ++i) {
      run.go([&, p = witness]() -> net::awaitable<void> {
        co_await noted(run, with_timeout(holding(p), 2s, abandon_to{group}));
      });
    }
    run.time.run_for(until);
  }
  CHECK(witness.use_count() == 1);
}

TEST_CASE("operations that are left on many threads: each caller goes once, and the group ends", "[abandon]") {
  net::io_context io;
  auto guard = net::make_work_guard(io);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&io] { io.run(); });
  std::atomic<int> ended{0}, wrong{0}, rests{0};
  constexpr int many = 500;
  {
    task_group group{io};
    const auto rest = [&](int i) -> net::awaitable<int> {
      co_await pool_run::stubborn(std::chrono::microseconds{i % 5 * 20});
      ++rests;
      co_return i;
    };
    for (int i = 0; i < many; ++i) {
      const bool on_strand = i % 2 == 0;
      const net::any_io_executor executor =
          on_strand ? net::any_io_executor{net::make_strand(io)} : net::any_io_executor{io.get_executor()};
      net::co_spawn(executor, with_timeout(rest(i), 50us, abandon_to{group}), [&, i](std::exception_ptr e, int value) {
        if (e ? code_of(e) != errc::timed_out : value != i) ++wrong;
        ++ended;
      });
    }
    while (ended < many) std::this_thread::yield();
    std::atomic<bool> has_joined{false};
    net::co_spawn(io, group.join(), [&](std::exception_ptr e) {
      if (e) ++wrong;
      has_joined = true;
    });
    while (!has_joined) std::this_thread::yield();
    CHECK(group.running() == 0);
  }
  CHECK(wrong == 0);
  CHECK(rests <= many);
  guard.reset();
}
