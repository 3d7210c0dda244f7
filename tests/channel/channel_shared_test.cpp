// Channels that share a capacity.

#include "canigo/channel.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/strand.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

using namespace canigo;

namespace {

using words = channel<std::string>;

std::uint64_t bytes_of(const std::string& s) { return s.size(); }

channel_options<std::string> sharing(const channel_capacity& shared, std::uint64_t reserved_bytes = 0) {
  return {.size_of = bytes_of, .shared = shared, .reserved_bytes = reserved_bytes, .priorities = 2};
}

/// Sends by a callback, and notes in `log` when the value has come in.
void send_text(words& c, std::string text, std::string& log, int priority = 0) {
  c.async_send(text, priority, [text, &log](std::error_code e) { log += e ? "(" + text + ")" : text; });
}

}  // namespace

TEST_CASE("all channels of a capacity together hold no more than it", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.capacity = 3, .bytes = 10}};
  words a{io, sharing(memory)}, b{io, sharing(memory)};
  CHECK((a.try_send("4444") && b.try_send("4444")));
  CHECK_FALSE(a.try_send("333"));
  CHECK(b.try_send("22"));
  CHECK_FALSE(a.try_send(""));
  const channel_capacity_stats s = memory.stats();
  CHECK((s.items == 3 && s.bytes == 10 && s.channels == 2 && s.senders == 0));
  CHECK((s.capacity == 3 && s.most_bytes == 10));
  CHECK(a.try_receive() == "4444");
  CHECK(a.try_send(""));
  CHECK_FALSE(b.try_send("7777777"));
}

TEST_CASE("a copy of a capacity is the same one, and it may go before its channels", "[channel]") {
  net::io_context io;
  auto memory = std::make_unique<channel_capacity>(io, channel_capacity_options{.bytes = 5});
  channel_capacity copy{*memory};
  words a{io, sharing(*memory)};
  auto b = std::make_unique<words>(io, sharing(copy));
  copy = *memory;
  copy = channel_capacity{io, {.bytes = 1}};
  memory.reset();
  CHECK(a.try_send("4444"));
  CHECK_FALSE(b->try_send("22"));
  CHECK(b->try_send("1"));
  b.reset();
  CHECK(a.try_send("1"));
  CHECK_FALSE(a.try_send("1"));
}

TEST_CASE("a value that is taken lets senders of other channels go, by class and then in turn", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.capacity = 2}};
  words a{io, sharing(memory)}, b{io, sharing(memory)}, c{io, sharing(memory)};
  std::string log;
  CHECK((a.try_send("x") && a.try_send("y")));
  for (const char* text : {"1", "2", "3"}) send_text(a, text, log);
  for (const char* text : {"4", "5"}) send_text(b, text, log);
  send_text(c, "l", log, 1);
  send_text(c, "i", log);
  io.poll();
  CHECK(log.empty());
  CHECK(memory.stats().senders == 7);
  const auto take = [&](words& from) {
    CHECK(from.try_receive());
    io.restart();
    io.poll();
  };
  take(a);
  take(a);
  CHECK(log == "14");  // of each channel one
  take(a);
  CHECK(log == "14i");
  take(b);
  CHECK(log == "14i2");
  take(c);
  CHECK(log == "14i25");
  take(a);
  CHECK(log == "14i253");
  take(b);
  CHECK(log == "14i253l");  // the least important last
}

TEST_CASE("channels that compete get the same part of the capacity, in bytes", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.bytes = 30}};
  words small{io, sharing(memory)}, large{io, sharing(memory)};
  std::string log;
  CHECK(small.try_send(std::string(30, 'x')));
  for (int i = 0; i < 300; ++i) send_text(small, "s", log);
  for (int i = 0; i < 300; ++i) send_text(large, "LLLLLLLLLL", log);
  CHECK(small.try_receive());
  for (int i = 0; i < 10; ++i) {
    while (small.try_receive() || large.try_receive()) {
    }
  }
  const std::uint64_t of_small = small.stats().received - 1;
  const std::uint64_t of_large = large.stats().received;
  io.poll();
  CHECK((of_small > 100 || of_large == 300));
  // While both had waiters, bytes differ by no more than the largest value of each.
  std::uint64_t bytes_small = 0, bytes_large = 0;
  std::size_t waits_small = 300;
  for (const char c : log) {
    (c == 's' ? bytes_small : bytes_large) += 1;
    if (c == 's') --waits_small;
    if (waits_small == 0) break;
    CHECK(bytes_small + 11 >= bytes_large / 10 * 10);
    CHECK(bytes_large + 11 >= bytes_small);
  }
}

TEST_CASE("a channel that sends rarely goes next", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.capacity = 1}};
  words busy{io, sharing(memory)}, calm{io, sharing(memory)};
  std::string log;
  CHECK(busy.try_send("x"));
  for (int i = 0; i < 100; ++i) send_text(busy, "b", log);
  for (int i = 0; i < 50; ++i) CHECK(busy.try_receive());
  send_text(calm, "c", log);
  CHECK(busy.try_receive());
  CHECK(calm.try_receive());
  io.poll();
  CHECK(log.substr(50) == "cb");
}

TEST_CASE("a large value at the head of a seat is not overtaken by smaller ones of other channels", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.bytes = 10}};
  words a{io, sharing(memory)}, b{io, sharing(memory)};
  std::string log;
  CHECK((a.try_send("55555") && a.try_send("4444")));
  send_text(a, "88888888", log);
  send_text(b, "1", log);
  CHECK_FALSE(b.try_send("1"));
  io.poll();
  CHECK(log.empty());
  CHECK(a.try_receive());
  io.poll();
  CHECK(log.empty());
  CHECK(a.try_receive());
  io.restart();
  io.poll();
  CHECK(log == "888888881");
}

TEST_CASE("reserved room is there for its channel, although others wait for room", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.bytes = 100}};
  words greedy{io, sharing(memory)}, modest{io, sharing(memory, 30)};
  std::string log;
  CHECK(greedy.try_send(std::string(70, 'x')));
  send_text(greedy, "w", log);
  CHECK_FALSE(modest.try_send(std::string(31, 'x')));
  CHECK(modest.try_send(std::string(20, 'm')));
  send_text(modest, std::string(10, 'n'), log);
  send_text(modest, "n", log);  // has to wait: its reserved room is full
  io.poll();
  CHECK(log == "nnnnnnnnnn");
  CHECK(modest.try_receive());  // which leaves room that is reserved, for "n" alone
  io.restart();
  io.poll();
  CHECK(log == "nnnnnnnnnnn");
  CHECK(greedy.try_receive());
  io.restart();
  io.poll();
  CHECK(log == "nnnnnnnnnnnw");
}

TEST_CASE("only so much can be reserved, and a channel that goes leaves it", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.capacity = 10, .bytes = 100}};
  auto a = std::make_unique<words>(io, sharing(memory, 60));
  CHECK(reason_of([&] { words{io, sharing(memory, 41)}; }) ==
        "channel_options.reserved_bytes is 41; allowed: 0 to 40, which is not reserved for another channel");
  CHECK(reason_of([&] { words{io, {.size_of = bytes_of, .shared = memory, .reserved_capacity = 11}}; }) ==
        "channel_options.reserved_capacity is 11; allowed: 0 to 10, which is not reserved for another channel");
  CHECK(reason_of([&] { words{io, {.bytes = 5, .size_of = bytes_of, .shared = memory, .reserved_bytes = 6}}; }) ==
        "channel_options.reserved_bytes is 6; allowed: 0 to the channel's own bound of 5");
  CHECK(reason_of([&] { words{io, {.shared = memory}}; }) ==
        "channel_options.size_of is empty; allowed: a function, as bytes have a bound");
  CHECK(reason_of([&] { words{net::make_strand(io), sharing(memory)}; }) ==
        "channel: executor is another one; allowed: that of the shared capacity");
  CHECK(memory.stats().channels == 1);
  words b{io, sharing(memory, 40)};
  std::string log;
  send_text(b, std::string(41, 'b'), log);
  io.poll();
  CHECK(log == "(" + std::string(41, 'b') + ")");
  a.reset();
  log.clear();
  send_text(b, std::string(41, 'b'), log);
  io.restart();
  io.poll();
  CHECK(log == std::string(41, 'b'));
  CHECK(memory.stats().channels == 1);
}

TEST_CASE("a channel that joins late ends senders for whose values there is no room any more", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.bytes = 100}};
  words a{io, sharing(memory)};
  std::string log;
  CHECK(a.try_send(std::string(50, 'x')));
  send_text(a, std::string(80, 'y'), log);
  send_text(a, std::string(60, 'z'), log);
  words b{io, sharing(memory, 40)};
  io.poll();
  CHECK(log == "(" + std::string(80, 'y') + ")");
  CHECK(b.try_send(std::string(40, 'b')));
  CHECK(a.try_receive());
  io.restart();
  io.poll();
  CHECK(a.stats().bytes == 60);

  // All values of another capacity are reserved: nobody else can send.
  channel_capacity few{io, {.capacity = 2}};
  words c{io, {.shared = few}};
  CHECK((c.try_send("1") && c.try_send("2")));
  log.clear();
  send_text(c, "3", log);
  words d{io, {.shared = few, .reserved_capacity = 2}};
  io.restart();
  io.poll();
  CHECK(log == "(3)");
  CHECK_FALSE(d.try_send("4"));
  CHECK((c.try_receive() && d.try_send("4")));
  CHECK(reason_of([&] { (void)c.try_send("5"); }) ==
        "channel.send: values is 1; allowed: 0, as all is reserved for other channels");
}

TEST_CASE("late reserved room goes to its waiting senders before any other", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.capacity = 4}};
  words old{io, {.shared = memory}};
  for (int i = 0; i < 4; ++i) CHECK(old.try_send("o"));
  std::string log;
  send_text(old, "w", log);
  words late{io, {.shared = memory, .reserved_capacity = 2}};
  send_text(late, "1", log);
  send_text(late, "2", log);
  send_text(late, "3", log);
  io.poll();
  CHECK(log.empty());
  const auto take = [&](words& from) {
    CHECK(from.try_receive());
    io.restart();
    io.poll();
  };
  take(old);
  CHECK(log == "1");
  take(old);
  CHECK(log == "12");
  take(old);
  CHECK(log == "12w");
  take(late);
  CHECK(log == "12w3");
}

TEST_CASE("a channel's own bound holds up only its own senders", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.bytes = 100}};
  words narrow{io, {.capacity = 1, .bytes = 10, .size_of = bytes_of, .shared = memory}};
  words wide{io, sharing(memory)};
  std::string log;
  CHECK(narrow.try_send("n"));
  send_text(narrow, "N", log);
  CHECK(wide.try_send(std::string(50, 'w')));
  send_text(wide, std::string(50, 'W'), log);  // waits for room
  CHECK(narrow.stats().senders == 1);
  CHECK(reason_of([&] { (void)narrow.try_send(std::string(11, 'x')); }) ==
        "channel.send: size of the value is 11; allowed: 0 to 10");
  CHECK(wide.try_receive());
  CHECK(narrow.try_receive());
  io.poll();
  CHECK(log == std::string(50, 'W') + "N");
}

TEST_CASE("a waiting sender that leaves lets those of other channels go", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.bytes = 10}};
  auto a = std::make_unique<words>(io, sharing(memory));
  words b{io, sharing(memory)};
  std::string log;
  CHECK(b.try_send("55555"));
  net::cancellation_signal cancel;
  SECTION("it is cancelled") {
    a->async_send("88888888", net::bind_cancellation_slot(cancel.slot(), net::detached));
    send_text(b, "1", log);
    io.poll();
    CHECK(log.empty());
    cancel.emit(net::cancellation_type::total);
  }
  SECTION("its channel is closed") {
    a->async_send("88888888", net::detached);
    send_text(b, "1", log);
    io.poll();
    a->close();
  }
  SECTION("its channel is destroyed") {
    a->async_send("88888888", net::detached);
    send_text(b, "1", log);
    io.poll();
    a.reset();
  }
  SECTION("a channel that holds much is destroyed") {
    CHECK(a->try_send("4444"));
    send_text(b, "1", log);
    send_text(b, "4444", log);
    a.reset();
    io.poll();
    CHECK(log == "14444");
    log = "1";
  }
  io.restart();
  io.poll();
  CHECK(log == "1");
}

TEST_CASE("a more important sender behind others in its channel moves the seat up", "[channel]") {
  net::io_context io;
  channel_capacity memory{io, {.capacity = 1}};
  words a{io, sharing(memory)}, b{io, sharing(memory)};
  std::string log;
  CHECK(a.try_send("x"));
  send_text(a, "l", log, 1);
  send_text(b, "m", log, 1);
  send_text(b, "i", log, 0);
  for (int i = 0; i < 3; ++i) {
    CHECK((a.try_receive() || b.try_receive()));
    io.restart();
    io.poll();
  }
  CHECK(log == "ilm");
}
