#include "canigo/channel.hpp"

#include "canigo/cancel_after.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/strand.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

using words = channel<std::string>;
using int_box = std::unique_ptr<int>;

std::uint64_t length_of(const std::string& s) { return s.size(); }

channel_options<std::string> holding(std::uint64_t values) { return {.capacity = values, .priorities = 3}; }

/// All values that are there, in one text.
std::string drained(words& c) {
  std::string all;
  while (std::optional<std::string> v = c.try_receive()) all += *v;
  return all;
}

/// A coroutine that sends, and notes how that ended.
auto text_sender(limits_run& run, words& c, std::string text, int priority = 0) {
  return [&run, &c, text, priority]() -> net::awaitable<void> {
    std::string value = text;
    std::error_code error;
    co_await c.send(value, priority, error);
    run.note(text + (error ? "=" + error.message() : ""));
  };
}

/// A coroutine that receives, and notes what, or how that ended.
auto text_receiver(limits_run& run, words& c, std::string name) {
  return [&run, &c, name]() -> net::awaitable<void> {
    std::error_code error;
    const std::optional<std::string> v = co_await c.receive(error);
    run.note(name + (error ? "=" + error.message() : "<" + *v));
  };
}

/// Calls `when_moved` once, when it is moved the next time.
struct hooked {
  explicit hooked(int i) : id{i} {}
  hooked(hooked&& from) noexcept {
    if (const auto call = std::exchange(when_moved, nullptr)) call();
    id = std::exchange(from.id, 0);
  }
  ~hooked() = default;
  hooked(const hooked&) = delete;
  hooked& operator=(const hooked&) = delete;
  hooked& operator=(hooked&&) = delete;

  static inline std::function<void()> when_moved;
  int id = 0;
};

std::string word_of(errc code) { return make_error_code(code).message(); }

}  // namespace

TEST_CASE("values come out in the order in which they went in", "[channel]") {
  limits_run run;
  words c{run.io, holding(3)};
  run.go([&]() -> net::awaitable<void> {
    for (const char* text : {"a", "b", "c", "d", "e"}) co_await c.send(std::string{text});
    run.note("sent");
    c.close();
  });
  run.go([&]() -> net::awaitable<void> {
    co_await sleep_for(1ms);
    CHECK(c.stats().items == 3);
    std::error_code end;
    while (std::optional<std::string> v = co_await c.receive(end)) {
      run.note(*v);
      co_await sleep_for(1ms);
    }
    CHECK(end == errc::closed);
  });
  run.time.run();
  CHECK(run.log == log_lines{"a@1", "b@2", "sent@2", "c@3", "d@4", "e@5"});
}

TEST_CASE("a value that goes in or comes out at once does not pass through the event loop", "[channel]") {
  limits_run run;
  words c{run.io, holding(100)};
  run.go([&]() -> net::awaitable<void> {
    net::post(run.io, [&] { run.note("another"); });
    for (int i = 0; i < 60; ++i) {
      co_await c.send(std::string{"x"});
      const std::string got = co_await c.receive();
      CHECK(got == "x");
    }
    run.note("done");
    for (int i = 0; i < 60; ++i) {
      co_await c.send(std::string{"x"});
      const std::string got = co_await c.receive();
      CHECK(got == "x");
    }
    run.note("all done");
  });
  run.time.run();
  CHECK(run.log == log_lines{"done@0", "another@0", "all done@0"});  // the 129th call let another handler go
}

TEST_CASE("the most important value comes first, and of a class the first one that came in", "[channel]") {
  net::io_context io;
  words c{io, holding(10)};
  for (const auto& [text, priority] :
       std::vector<std::pair<std::string, int>>{{"c", 2}, {"a", 0}, {"b", 1}, {"D", 2}, {"A", 0}, {"B", 1}}) {
    CHECK(c.try_send(text, priority));
  }
  CHECK(drained(c) == "aAbBcD");
}

TEST_CASE("senders wait by class, and inside a class by arrival", "[channel]") {
  limits_run run;
  words c{run.io, holding(1)};
  CHECK(c.try_send("first", 2));
  run.go(text_sender(run, c, "l", 2));
  run.go(text_sender(run, c, "m", 1));
  run.go(text_sender(run, c, "i", 0));
  run.go(text_sender(run, c, "n", 1));
  run.time.run();
  CHECK(c.stats().senders == 4);
  CHECK_FALSE(c.try_send("no", 0));  // never before one that waits
  for (const char* expected : {"first", "i", "m", "n", "l"}) CHECK(c.try_receive() == expected);
  CHECK_FALSE(c.try_receive());
  run.time.run();
  CHECK(run.names() == "imnl");
}

TEST_CASE("a value goes in when room is made, wherever its sender runs", "[channel]") {
  limits_run run;
  net::io_context elsewhere;  // that does not run
  words c{run.io, holding(1)};
  CHECK(c.try_send("a"));
  std::error_code how = errc::stopped;
  c.async_send("b", net::bind_executor(elsewhere, [&](std::error_code e) { how = e; }));
  CHECK(c.try_receive() == "a");
  CHECK_FALSE(c.try_send("c"));
  CHECK(c.try_receive() == "b");
  CHECK(c.try_send("c"));
  CHECK(how == errc::stopped);
  elsewhere.run();
  CHECK_FALSE(how);
}

TEST_CASE("bytes have a bound, and a smaller value does not overtake a larger one", "[channel]") {
  limits_run run;
  words c{run.io, {.bytes = 10, .size_of = length_of, .priorities = 2}};
  run.go(text_sender(run, c, "sixsix"));
  run.go(text_sender(run, c, "seven77"));
  run.go(text_sender(run, c, "a"));
  run.time.run();
  CHECK((c.stats().items == 1 && c.stats().bytes == 6 && c.stats().senders == 2));
  run.go(text_sender(run, c, "i", 0));
  run.time.run();
  CHECK(c.stats().senders == 3);
  CHECK_FALSE(c.try_send(""));
  CHECK(c.try_receive() == "sixsix");
  CHECK((c.stats().bytes == 9 && c.stats().senders == 0));
  CHECK(drained(c) == "seven77ai");
}

TEST_CASE("a more important sender goes before one whose large value waits", "[channel]") {
  limits_run run;
  words c{run.io, {.bytes = 10, .size_of = length_of, .priorities = 2}};
  CHECK(c.try_send("sixsix", 1));
  run.go(text_sender(run, c, "large", 1));
  run.go(text_sender(run, c, "i", 0));
  run.time.run();
  CHECK(run.log == log_lines{"i@0"});
  CHECK(c.try_receive() == "i");
  run.time.run();
  CHECK(c.stats().bytes == 6);
  CHECK(drained(c) == "sixsixlarge");
}

TEST_CASE("a value that can never go in is refused at once, and the text says why", "[channel]") {
  limits_run run;
  words c{run.io, {.capacity = 4, .bytes = 10, .size_of = length_of, .priorities = 2, .name = "rows"}};
  const std::string eleven(11, 'x');
  const std::string large = "channel.send: size of the value is 11; allowed: 0 to 10";
  CHECK(reason_of([&] { (void)c.try_send(eleven); }) == large);
  CHECK(reason_of([&] { (void)c.try_send("x", 2); }) == "channel.send: priority is 2; allowed: 0 to 1");
  CHECK(reason_of([&] { (void)c.try_send("x", -1); }) == "channel.send: priority is -1; allowed: 0 to 1");
  run.go([&]() -> net::awaitable<void> {
    const std::string what = co_await outcome_of_any(c.send(eleven));
    CHECK(what == large + ": " + word_of(errc::too_large));
    std::error_code e;
    std::string kept = eleven;
    co_await c.send(kept, 0, e);
    CHECK((e == errc::too_large && kept == eleven));
    co_await c.send(kept, 7, e);
    CHECK((e == errc::invalid_priority && kept == eleven));
    c.close();
    const std::string closed = co_await outcome_of_any(c.send(std::string{"x"}));
    CHECK(closed == "rows: " + word_of(errc::closed));
    const std::string ended = co_await outcome_of_any(c.receive());
    CHECK(ended == "rows: " + word_of(errc::closed));
  });
  std::error_code how;
  c.async_send(eleven, [&](std::error_code e) { how = e; });
  CHECK_FALSE(how);  // by a post
  run.time.run();
  CHECK(how == errc::too_large);
  CHECK(c.stats().refused == 8);
}

TEST_CASE("what size_of throws comes out of the call, and nothing is sent", "[channel]") {
  net::io_context io;
  words c{io, {.bytes = 10, .size_of = [](const std::string& s) -> std::uint64_t {
                 if (s == "bad") throw std::runtime_error{"no size"};
                 return s.size();
               }}};
  std::string bad = "bad";
  CHECK_THROWS_AS(c.try_send(std::move(bad)), std::runtime_error);
  CHECK(bad == "bad");
  CHECK_THROWS_AS(c.send(bad), std::runtime_error);
  CHECK_THROWS_AS(c.async_send(bad, net::detached), std::runtime_error);
  CHECK((c.stats().items == 0 && c.stats().sent == 0));
}

TEST_CASE("what try_send does not send keeps its value", "[channel]") {
  net::io_context io;
  channel<int_box> c{io, {.capacity = 1}};
  auto one = std::make_unique<int>(1);
  int* const at = one.get();
  CHECK(c.try_send(std::move(one)));
  CHECK(one == nullptr);
  auto two = std::make_unique<int>(2);
  CHECK_FALSE(c.try_send(std::move(two)));
  CHECK((two != nullptr && *two == 2));
  CHECK(c.try_receive()->get() == at);
  c.close();
  CHECK_FALSE(c.try_send(std::move(two)));
  CHECK((two != nullptr && c.is_closed()));
}

namespace {

/// Moves only by construction, as its number never changes.
struct unchanging {
  explicit unchanging(int n) : number{std::make_unique<const int>(n)} {}
  unchanging(unchanging&&) noexcept = default;
  unchanging& operator=(unchanging&&) = delete;
  std::unique_ptr<const int> number;
};

}  // namespace

TEST_CASE("a type that can't be assigned, copied or made from nothing can be sent", "[channel]") {
  limits_run run;
  channel<unchanging> c{run.io, {.capacity = 1}};
  CHECK(c.try_send(unchanging{1}));
  unchanging two{2};
  CHECK_FALSE(c.try_send(std::move(two)));
  REQUIRE(two.number != nullptr);
  CHECK(*two.number == 2);
  run.go([&]() -> net::awaitable<void> {
    std::error_code e;
    co_await c.send(two, 0, e);
    CHECK((!e && two.number == nullptr));
  });
  run.go([&]() -> net::awaitable<void> {
    const unchanging one = co_await c.receive();
    CHECK(*one.number == 1);
    std::error_code e;
    const std::optional<unchanging> next = co_await c.receive(e);
    CHECK((!e && *next->number == 2));
  });
  run.time.run();
}

// The nodes of both values are free already, and not yet empty.
TEST_CASE("a value whose move uses the channel is not met by another one in its place", "[channel]") {
  net::io_context io;
  channel<hooked> c{io, {.capacity = 4}};
  REQUIRE(c.try_send(hooked{1}));
  REQUIRE(c.try_send(hooked{2}));
  std::optional<hooked> second;
  bool is_sent = false;
  hooked::when_moved = [&] {
    hooked::when_moved = [&] { is_sent = c.try_send(hooked{3}); };
    second.emplace(*c.try_receive());
  };
  const std::optional<hooked> first = c.try_receive();
  REQUIRE((first && second));
  CHECK(first->id == 1);
  CHECK(second->id == 2);
  CHECK(is_sent);
  const std::optional<hooked> third = c.try_receive();
  REQUIRE(third);
  CHECK(third->id == 3);
}

TEST_CASE("receivers are served by arrival", "[channel]") {
  limits_run run;
  words c{run.io, holding(2)};
  run.go(text_receiver(run, c, "r"));
  run.go(text_receiver(run, c, "s"));
  run.time.run();
  CHECK(c.stats().receivers == 2);
  CHECK(c.try_send("1"));
  CHECK(c.try_send("2"));
  CHECK_FALSE(c.try_receive());  // both are on their way
  run.time.run();
  CHECK(run.log == log_lines{"r<1@0", "s<2@0"});
  CHECK((c.stats().sent == 2 && c.stats().received == 2 && c.stats().receivers == 0));
}

TEST_CASE("a receiver that goes on takes the most important value that is there then", "[channel]") {
  limits_run run;
  words c{run.io, holding(3)};
  run.go(text_receiver(run, c, "r"));
  run.time.run();
  CHECK(c.try_send("late", 2));
  CHECK(c.try_send("important", 0));
  run.time.run();
  CHECK(run.log == log_lines{"r<important@0"});
  CHECK(drained(c) == "late");
}

TEST_CASE("room comes back when a receiver takes its value, not before", "[channel]") {
  limits_run run;
  words c{run.io, holding(1)};
  run.go(text_receiver(run, c, "r"));
  run.time.run();
  CHECK(c.try_send("a"));
  CHECK_FALSE(c.try_send("b"));  // "a" is promised, and still in it
  CHECK(c.stats().items == 1);
  run.time.run();
  CHECK(c.try_send("b"));
}

TEST_CASE("close ends senders at once, and receivers when no value is left", "[channel]") {
  limits_run run;
  words c{run.io, holding(2)};
  CHECK((c.try_send("a") && c.try_send("b")));
  run.go(text_sender(run, c, "late"));
  run.time.run();
  c.close();
  c.close();
  CHECK(c.is_closed());
  run.time.run();
  CHECK(run.log == log_lines{"late=" + word_of(errc::closed) + "@0"});
  CHECK_FALSE(c.try_send("x"));
  run.go(text_receiver(run, c, "r"));
  run.go(text_receiver(run, c, "s"));
  run.go(text_receiver(run, c, "t"));
  run.time.run();
  CHECK(run.names() == "late=" + word_of(errc::closed) + "r<as<bt=" + word_of(errc::closed));
}

TEST_CASE("close ends receivers that wait", "[channel]") {
  limits_run run;
  words c{run.io, holding(2)};
  run.go(text_receiver(run, c, "r"));
  run.go(text_receiver(run, c, "s"));
  run.time.run();
  CHECK(c.try_send("last"));
  c.close();
  run.time.run();
  CHECK(run.names() == "r<lasts=" + word_of(errc::closed));
}

TEST_CASE("a send that is cancelled has sent nothing, and those behind it go", "[channel]") {
  limits_run run;
  words c{run.io, {.bytes = 10, .size_of = length_of}};
  CHECK(c.try_send("sixsix"));
  net::cancellation_signal cancel;
  std::error_code ended;
  std::string kept = "seven77";
  run.go(
      [&]() -> net::awaitable<void> {
        std::error_code e;
        co_await c.send(kept, 0, e);
        CHECK(e == net::error::operation_aborted);
        CHECK(kept == "seven77");
        throw std::system_error{e};
      },
      cancel, ended);
  run.go(text_sender(run, c, "four"));
  run.time.run();
  CHECK((c.stats().senders == 2 && kept.empty()));
  cancel.emit(net::cancellation_type::terminal);
  CHECK((c.stats().senders == 0 && c.stats().bytes == 10 && c.stats().cancelled == 1));
  run.time.run();
  CHECK(ended == net::error::operation_aborted);
  CHECK(run.log == log_lines{"four@0"});
}

TEST_CASE("any kind of cancellation ends a send and a receive, and consumes nothing", "[channel]") {
  for (const auto type :
       {net::cancellation_type::terminal, net::cancellation_type::partial, net::cancellation_type::total}) {
    limits_run run;
    words c{run.io, holding(1)};
    net::cancellation_signal cancel;
    std::vector<std::error_code> ends;
    c.async_receive(net::bind_cancellation_slot(cancel.slot(), [&](std::error_code e, std::optional<std::string> v) {
      CHECK_FALSE(v);
      ends.push_back(e);
    }));
    cancel.emit(type);
    CHECK((ends.empty() && c.stats().receivers == 0));  // by a post
    run.time.run();
    CHECK(c.try_send("a"));
    c.async_send("b", net::bind_cancellation_slot(cancel.slot(), [&](std::error_code e) { ends.push_back(e); }));
    cancel.emit(type);
    run.time.run();
    CHECK(ends == std::vector<std::error_code>(2, net::error::operation_aborted));
    CHECK(drained(c) == "a");
    CHECK((c.stats().senders == 0 && c.stats().cancelled == 2));
  }
}

TEST_CASE("a cancellation that comes too late changes nothing", "[channel]") {
  limits_run run;
  words c{run.io, holding(1)};
  net::cancellation_signal cancel_receive, cancel_send;
  std::optional<std::string> got;
  c.async_receive(
      net::bind_cancellation_slot(cancel_receive.slot(), [&](std::error_code e, std::optional<std::string> v) {
        CHECK_FALSE(e);
        got = std::move(v);
      }));
  CHECK(c.try_send("a"));
  std::error_code how = errc::stopped;
  c.async_send("b", net::bind_cancellation_slot(cancel_send.slot(), [&](std::error_code e) { how = e; }));
  cancel_receive.emit(net::cancellation_type::terminal);
  run.time.run();
  CHECK(got == "a");
  CHECK_FALSE(how);
  cancel_send.emit(net::cancellation_type::terminal);
  CHECK(drained(c) == "b");
}

TEST_CASE("a receiver that is destroyed when it has a value promised leaves it to the next", "[channel]") {
  limits_run run;
  words c{run.io, holding(2)};
  auto elsewhere = std::make_unique<net::io_context>();
  bool called = false;
  c.async_receive(net::bind_executor(*elsewhere, [&](std::error_code, std::optional<std::string>) { called = true; }));
  run.go(text_receiver(run, c, "next"));
  run.time.run();
  CHECK(c.try_send("a"));
  run.time.run();
  CHECK(run.log.empty());
  elsewhere.reset();
  run.time.run();
  CHECK_FALSE(called);
  CHECK(run.log == log_lines{"next<a@0"});

  elsewhere = std::make_unique<net::io_context>();
  c.async_receive(net::bind_executor(*elsewhere, [&](std::error_code, std::optional<std::string>) { called = true; }));
  CHECK(c.try_send("b"));
  CHECK_FALSE(c.try_receive());
  elsewhere.reset();
  CHECK(c.try_receive() == "b");
}

TEST_CASE("a time limit ends a send and a receive", "[channel]") {
  limits_run run;
  words c{run.io, holding(1)};
  run.go([&]() -> net::awaitable<void> {
    const std::error_code none = co_await outcome_of(c.async_receive(canigo::cancel_after(20ms)));
    CHECK(none == errc::timed_out);
    co_await c.send(std::string{"a"});
    const std::error_code full = co_await outcome_of(c.async_send("b", canigo::cancel_after(10ms)));
    CHECK(full == errc::timed_out);
    const std::error_code again = co_await outcome_of(with_timeout(c.send(std::string{"b"}), 10ms));
    CHECK(again == errc::timed_out);
    run.note("over");
  });
  run.time.run();
  CHECK(run.log == log_lines{"over@40"});
  CHECK(drained(c) == "a");
}

TEST_CASE("only so many may wait", "[channel]") {
  limits_run run;
  words c{run.io, {.capacity = 1, .queue_limit = 2}};
  for (const char* name : {"r", "s", "t"}) run.go(text_receiver(run, c, name));
  run.time.run();
  CHECK(run.log == log_lines{"t=" + word_of(errc::queue_full) + "@0"});
  CHECK((c.try_send("1") && c.stats().receivers == 1));
  run.time.run();
  c.close();
  run.time.run();
  run.log.clear();

  words d{run.io, {.capacity = 1, .queue_limit = 2}};
  for (const char* text : {"a", "b", "c", "d"}) run.go(text_sender(run, d, text));
  run.time.run();
  CHECK(run.log == log_lines{"a@0", "d=" + word_of(errc::queue_full) + "@0"});
  CHECK(d.stats().refused == 1);
}

TEST_CASE("options of a channel that are wrong are named", "[channel]") {
  net::io_context io;
  using o = channel_options<std::string>;
  const auto made = [&](const o& options) { return reason_of([&] { words{io, options}; }); };
  CHECK(made(o{}) ==
        "channel_options.capacity is unlimited; allowed: a bound, or one for .bytes, or a .shared capacity");
  CHECK(made(o{.capacity = 0}) == "channel_options.capacity is 0; allowed: 1 or more");
  CHECK(made(o{.bytes = 0}) == "channel_options.bytes is 0; allowed: 1 or more");
  CHECK(made(o{.bytes = 5}) == "channel_options.size_of is empty; allowed: a function, as bytes have a bound");
  CHECK(made(o{.capacity = 5, .priorities = 0}) == "channel_options.priorities is 0; allowed: 1 to 1024");
  CHECK(made(o{.capacity = 5, .priorities = 1025}) == "channel_options.priorities is 1025; allowed: 1 to 1024");
  CHECK(made(o{.capacity = 5, .queue_limit = 0}) == "channel_options.queue_limit is 0; allowed: 1 or more");
  CHECK(made(o{.capacity = 5, .reserved_capacity = 1}) ==
        "channel_options.reserved_capacity is 1; allowed: 0 without .shared");
  CHECK(made(o{.capacity = 5, .reserved_bytes = 1}) ==
        "channel_options.reserved_bytes is 1; allowed: 0 without .shared");
  CHECK(made(o{.capacity = 5, .priorities = 1024}).empty());
  CHECK(reason_of([&] { channel_capacity(io, {}); }) ==
        "channel_capacity_options.capacity is unlimited; allowed: a bound, or one for .bytes");
  CHECK(reason_of([&] { channel_capacity(io, {.capacity = 0}); }) ==
        "channel_capacity_options.capacity is 0; allowed: 1 or more");
  CHECK(reason_of([&] { channel_capacity(io, {.bytes = 0}); }) ==
        "channel_capacity_options.bytes is 0; allowed: 1 or more");
}

TEST_CASE("a channel takes any completion token", "[channel]") {
  net::io_context io;
  words c{io, holding(4)};
  std::future<void> sent = c.async_send("a", 1, net::use_future);
  std::future<std::optional<std::string>> got = c.async_receive(net::use_future);
  sent.get();  // use_future has threads of its own
  CHECK(got.get() == "a");
  c.async_send("b", net::detached);
  io.run();
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        const std::optional<std::string> b = co_await c.async_receive();
        CHECK(b == "b");
        co_await c.async_send("c");
        co_await c.async_send("d", 2);
      },
      net::detached);
  io.restart();
  io.run();
  CHECK(drained(c) == "cd");
}

TEST_CASE("handlers are called on their executor, and never inside the call", "[channel]") {
  net::io_context io;
  auto strand = net::make_strand(io);
  words c{io, holding(1)};
  int calls = 0;
  const auto on_strand = [&](std::error_code e) {
    CHECK((!e && strand.running_in_this_thread()));
    ++calls;
  };
  c.async_send("a", net::bind_executor(strand, on_strand));
  c.async_send("b", net::bind_executor(strand, on_strand));
  c.async_receive(net::bind_executor(strand, [&](std::error_code e, std::optional<std::string> v) {
    CHECK((!e && v && strand.running_in_this_thread()));
    ++calls;
  }));
  CHECK(calls == 0);
  io.run();
  CHECK(calls == 3);
  net::co_spawn(
      strand,
      [&]() -> net::awaitable<void> {
        const std::string b = co_await c.receive();
        CHECK((b == "b" && strand.running_in_this_thread()));
        const std::string d = co_await c.receive();
        CHECK((d == "d" && strand.running_in_this_thread()));
        ++calls;
      },
      net::detached);
  net::co_spawn(io, [&]() -> net::awaitable<void> { co_await c.send(std::string{"d"}); }, net::detached);
  io.restart();
  io.run();
  CHECK(calls == 4);
}

TEST_CASE("a waiting callback keeps the loop running, and one without company does not", "[channel]") {
  net::io_context io;
  words c{io, holding(1)};
  bool called = false;
  c.async_receive([&](std::error_code, std::optional<std::string>) { called = true; });
  CHECK(io.poll() == 0);
  CHECK_FALSE(io.stopped());
  CHECK(c.try_send("a"));
  io.run();
  CHECK(called);
  CHECK(io.stopped());
}
