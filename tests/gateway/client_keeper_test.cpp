#include "gateway/call/client_keeper.hpp"

#include "canigo/error.hpp"
#include "canigo/timeout.hpp"

#include "gateway/kept_run.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using canigo::sleep_for;
using canigo::gateway::client_keeper;
namespace net = canigo::net;
using times_of_texts = std::vector<long>;

namespace {

/// More than a socket takes at once.
const std::string long_text(std::size_t{8} << 20, 'x');

net::awaitable<bool> granted_after(canigo::duration d) {
  co_await sleep_for(d);
  co_return true;
}

net::awaitable<bool> broken_after(canigo::duration d) {
  co_await sleep_for(d);
  throw std::bad_alloc{};
}

/// A body of a call that waits once.
auto one_wait(net::awaitable<bool> (*wait)(canigo::duration), canigo::duration d, kept_run& k) {
  return [wait, d, &k](client_keeper& keeper) -> net::awaitable<void> {
    auto waiting = keeper.keep_during(wait(d));
    const bool is_granted = co_await std::move(waiting);
    k.results.push_back(is_granted);
  };
}

}  // namespace

TEST_CASE("texts come after a while, and then again and again until the wait is over", "[client_keeper]") {
  kept_run k;
  k.go({.after = 2s, .every = 3s}, one_wait(granted_after, 10s, k));
  k.run->time.run();
  CHECK(k.made_at == times_of_texts{2'000, 5'000, 8'000});
  CHECK(k.take() == 3);
  CHECK(k.results == std::vector<bool>{true});
  CHECK(k.run->ms() == 10'000);
  CHECK(k.lost == 0);
}

TEST_CASE("a wait that is over before the first text is due ends at once", "[client_keeper]") {
  const canigo::duration wait = GENERATE(-1'000ms, 0ms, 1'000ms, 1'999ms);
  kept_run k;
  k.go({.after = 2s, .every = 3s}, one_wait(granted_after, wait, k));
  k.run->time.run();
  CHECK(k.made_at.empty());
  CHECK(k.results.size() == 1);
  CHECK(k.run->time.elapsed() == std::max(wait, canigo::duration{}));
  CHECK(k.take() == 0);
}

TEST_CASE("what a wait returns is returned, without a suspension, too", "[client_keeper]") {
  const bool result = GENERATE(false, true);
  kept_run k;
  const auto at_once = [](bool r) -> net::awaitable<bool> { co_return r; };
  k.go({.after = 2s, .every = 3s}, [&](client_keeper& keeper) -> net::awaitable<void> {
    auto waiting = keeper.keep_during(at_once(result));
    const bool is_granted = co_await std::move(waiting);
    k.results.push_back(is_granted);
  });
  k.run->time.run();
  CHECK(k.results == std::vector<bool>{result});
  CHECK(k.made_at.empty());
}

TEST_CASE("the times of the texts go on in a later wait", "[client_keeper]") {
  kept_run k;
  k.go({.after = 2s, .every = 3s}, [&k](client_keeper& keeper) -> net::awaitable<void> {
    for (const canigo::duration between : {500ms, 7'000ms, 0ms}) {
      auto waiting = keeper.keep_during(granted_after(2'500ms));
      const bool is_granted = co_await std::move(waiting);
      k.results.push_back(is_granted);
      co_await sleep_for(between);
    }
  });
  k.run->time.run();
  // From 0 to 2.5 s, from 3 s to 5.5 s, and from 12.5 s on, when the text of 8 s is overdue.
  CHECK(k.made_at == times_of_texts{2'000, 5'000, 12'500});
  CHECK(k.results.size() == 3);
}

TEST_CASE("there are no more texts than allowed, in all waits together", "[client_keeper]") {
  kept_run k;
  k.go({.after = 1s, .every = 1s, .most = 3}, [&k](client_keeper& keeper) -> net::awaitable<void> {
    for (int i = 0; i < 3; ++i) {
      auto waiting = keeper.keep_during(granted_after(2'500ms));
      const bool is_granted = co_await std::move(waiting);
      k.results.push_back(is_granted);
    }
  });
  k.run->time.run();
  CHECK(k.made_at == times_of_texts{1'000, 2'000, 3'000});
  CHECK(k.results.size() == 3);
  CHECK(k.run->ms() == 7'500);
}

TEST_CASE("a wait ends only when the text that is being written is whole, whatever ended it", "[client_keeper]") {
  kept_run k;
  k.text = long_text;
  SECTION("its turn has come") { k.go({.after = 1s, .every = 3s}, one_wait(granted_after, 2s, k)); }
  SECTION("it throws") { k.go({.after = 1s, .every = 3s}, one_wait(broken_after, 2s, k)); }
  SECTION("it is cancelled") {
    k.go({.after = 1s, .every = 3s}, one_wait(granted_after, 1h, k));
    k.run->time.run_for(2s);
    k.stop.emit(net::cancellation_type::terminal);
  }
  SECTION("it is cancelled when its turn has come") {
    k.go({.after = 1s, .every = 3s}, one_wait(granted_after, 2s, k));
    k.run->time.run_for(2s);
    k.stop.emit(net::cancellation_type::terminal);
  }
  k.run->time.run_for(10s);
  CHECK(k.made_at == times_of_texts{1'000});
  CHECK_FALSE(k.has_ended);
  CHECK(k.take_all() == long_text.size());
  CHECK(k.has_ended);
  CHECK(k.lost == 0);
}

TEST_CASE("what ended a wait is told behind the last text", "[client_keeper]") {
  kept_run k;
  k.go({.after = 1s, .every = 3s}, one_wait(broken_after, 2s, k));
  SECTION("an exception") {
    k.run->time.run();
    CHECK(k.ended == code_of(std::make_exception_ptr(std::bad_alloc{})));
  }
  SECTION("a cancellation before the first text") {
    k.run->time.run_for(500ms);
    k.stop.emit(net::cancellation_type::terminal);
    k.run->time.run();
    CHECK(k.ended == net::error::operation_aborted);
    CHECK(k.run->ms() == 500);
  }
  SECTION("a cancellation between two texts") {
    k.run->time.run_for(1'500ms);
    k.stop.emit(net::cancellation_type::terminal);
    k.run->time.run();
    CHECK(k.ended == net::error::operation_aborted);
    CHECK(k.run->ms() == 1'500);
    CHECK(k.take() == 1);
  }
  CHECK(k.has_ended);
  CHECK(k.results.empty());
}

TEST_CASE("a call that was cancelled in its wait is so behind it", "[client_keeper]") {
  kept_run k;
  k.go({.after = 1s, .every = 3s}, [&k](client_keeper& keeper) -> net::awaitable<void> {
    k.results.push_back(!co_await outcome_of(keeper.keep_during(granted_after(1h))));
    co_await sleep_for(1h);
  });
  k.run->time.run_for(2s);
  k.stop.emit(net::cancellation_type::terminal);
  k.run->time.run();
  CHECK(k.results == std::vector<bool>{false});
  CHECK(k.ended == net::error::operation_aborted);
  CHECK(k.run->ms() == 2'000);
}

TEST_CASE("a client that has gone is told of once, and gets no more texts", "[client_keeper]") {
  kept_run k;
  k.go({.after = 1s, .every = 1s}, one_wait(granted_after, 10s, k));
  k.run->time.run_for(1'500ms);
  k.leave();
  k.run->time.run_for(400ms);
  CHECK(k.lost == 0);
  k.run->time.run();
  CHECK(k.lost == 1);
  CHECK(k.made_at == times_of_texts{1'000, 2'000});
  CHECK(k.results.size() == 1);
  CHECK(k.run->ms() == 10'000);
}

TEST_CASE("a client for whom a text can't be made is lost only if it has had one", "[client_keeper]") {
  kept_run k;
  k.makes = GENERATE(std::size_t{0}, std::size_t{2});
  k.go({.after = 1s, .every = 1s}, one_wait(granted_after, 10s, k));
  k.run->time.run();
  CHECK(k.made_at.size() == k.makes);
  CHECK(k.lost == (k.makes == 0 ? 0 : 1));
  CHECK(k.results.size() == 1);
  CHECK(k.run->ms() == 10'000);
}

TEST_CASE("a client that takes nothing of a text for a while is lost", "[client_keeper]") {
  kept_run k;
  k.text = long_text;
  k.stall = 5s;
  k.go({.after = 1s, .every = 1s}, one_wait(granted_after, 20s, k));
  k.run->time.run_for(5'999ms);
  CHECK(k.lost == 0);
  k.run->time.run_for(1ms);
  CHECK(k.lost == 1);
  k.run->time.run();
  CHECK(k.lost == 1);
  CHECK(k.made_at == times_of_texts{1'000});
  CHECK(k.run->ms() == 20'000);
}

TEST_CASE("a wait that ends during a text that the client does not take ends with that", "[client_keeper]") {
  kept_run k;
  k.text = long_text;
  k.stall = 5s;
  k.go({.after = 1s, .every = 1s}, one_wait(granted_after, 2s, k));
  k.run->time.run();
  CHECK(k.run->ms() == 6'000);
  CHECK(k.lost == 1);
  CHECK(k.results.size() == 1);
}

TEST_CASE("a loop that is destroyed takes the call and its keeper with it", "[client_keeper]") {
  kept_run k;
  k.text = GENERATE(std::string{"."}, long_text);
  k.go({.after = 1s, .every = 1s}, one_wait(granted_after, 2'500ms, k));
  // Before it begins, while the first text is not due, while it is written or the next one is not due, and when the
  // call waits for the end of a text.
  const canigo::duration passed = GENERATE(-1ms, 0ms, 500ms, 1'500ms, 3'000ms);
  if (passed >= canigo::duration{}) k.run->time.run_for(passed);
  const bool was_over = k.has_ended;
  CHECK(was_over == (passed == 3s && k.text.size() == 1));
  k.run.reset();
  CHECK(k.has_ended == (was_over || passed >= canigo::duration{}));
  CHECK(k.lost == 0);
}
