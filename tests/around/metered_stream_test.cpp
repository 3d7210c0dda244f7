#include "canigo/metered_stream.hpp"

#include "canigo/cancel_after.hpp"
#include "canigo/flow.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/local/connect_pair.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// A stream in memory. It reads what was fed, up to `piece` bytes at once, and notes what is written.
class memory_stream {
 public:
  using executor_type = net::any_io_executor;
  using lowest_layer_type = memory_stream;

  explicit memory_stream(net::io_context& io) : executor_{io.get_executor()} {}
  memory_stream(const memory_stream&) = delete;
  memory_stream& operator=(const memory_stream&) = delete;

  executor_type get_executor() const { return executor_; }
  memory_stream& lowest_layer() { return *this; }
  const memory_stream& lowest_layer() const { return *this; }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return net::async_initiate<Token, void(std::error_code, std::size_t)>(
        [this](auto handler, const Buffers& to) {
          const std::string some = come.substr(0, piece);
          const std::size_t n = net::buffer_copy(to, net::buffer(some));
          come.erase(0, n);
          ++reads;
          finish(std::move(handler), n == 0 && net::buffer_size(to) != 0 ? net::error::eof : fails, n);
        },
        token, buffers);
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return net::async_initiate<Token, void(std::error_code, std::size_t)>(
        [this](auto handler, const Buffers& from) {
          std::string all(net::buffer_size(from), ' ');
          net::buffer_copy(net::buffer(all), from);
          all.resize(std::min(all.size(), piece));
          if (fails) all.resize(std::min<std::size_t>(all.size(), 3));
          gone += all;
          ++writes;
          finish(std::move(handler), fails, all.size());
        },
        token, buffers);
  }

  std::string come, gone;
  std::size_t piece = std::numeric_limits<std::size_t>::max();
  std::error_code fails;
  int reads = 0, writes = 0;

 private:
  template <class Handler>
  void finish(Handler handler, std::error_code error, std::size_t n) {
    net::post(executor_, [h = std::move(handler), error, n]() mutable { std::move(h)(error, n); });
  }

  executor_type executor_;
};

using metered = metered_stream<memory_stream&>;

scheduler_options bytes(std::uint64_t a_second, std::uint64_t burst) {
  return {.rate = rate::per_second(a_second), .burst = burst, .initial_tokens = burst, .priorities = 2};
}

}  // namespace

TEST_CASE("bytes that are written take tokens, and wait for them", "[metered_stream]") {
  limits_run run;
  scheduler limit{run.io, bytes(100, 50)};
  memory_stream under{run.io};
  metered s{under, {.write = {.limit = &limit}, .chunk = 20}};
  const std::string text(150, 'x');
  run.go([&]() -> net::awaitable<void> {
    const std::size_t n1 = co_await net::async_write(s, net::buffer(text), net::use_awaitable);
    CHECK(n1 == 150);
    run.note("written");
  });
  run.time.run_for(1ms);
  CHECK(under.gone.size() == 40);  // two chunks of the burst; a third waits for 10 tokens
  run.time.run_for(99ms);
  CHECK(under.gone.size() == 60);
  run.time.run();
  CHECK(run.log == std::vector<std::string>{"written@1000"});
  CHECK((under.gone == text && under.writes == 8));
}

TEST_CASE("bytes that are read are handed out when their tokens are there", "[metered_stream]") {
  limits_run run;
  scheduler limit{run.io, bytes(100, 50)};
  memory_stream under{run.io};
  under.come = std::string(150, 'x');
  metered s{under, {.read = {.limit = &limit}, .chunk = 20}};
  run.go([&]() -> net::awaitable<void> {
    std::array<char, 150> room;
    const std::size_t n2 = co_await s.async_read_some(net::buffer(room));
    CHECK(n2 == 20);
    const std::size_t n3 =
        co_await net::async_read(s, net::buffer(room), net::transfer_exactly(100), net::use_awaitable);
    CHECK(n3 == 100);
    run.note("120");
    const std::size_t n4 =
        co_await net::async_read(s, net::buffer(room), net::transfer_exactly(30), net::use_awaitable);
    CHECK(n4 == 30);
    run.note("150");
    std::error_code end;
    co_await s.async_read_some(net::buffer(room), net::redirect_error(net::use_awaitable, end));
    CHECK(end == net::error::eof);
  });
  run.time.run();
  CHECK(run.log == std::vector<std::string>{"120@700", "150@1000"});
}

TEST_CASE("streams share a limit by priority, and each flow has a rate of its own", "[metered_stream]") {
  limits_run run;
  scheduler limit{run.io, bytes(100, 10)};
  flow slow{limit, {.rates = {{rate::per_second(10), 10}}}};
  memory_stream a{run.io}, b{run.io}, c{run.io};
  const auto sends = [&](memory_stream& to, request r, std::size_t n, std::string name) {
    run.go([&run, &limit, &to, r, n, name]() -> net::awaitable<void> {
      metered s{to, {.write = {.limit = &limit, .request = r}, .chunk = 10}};
      co_await net::async_write(s, net::buffer(std::string(n, 'x')), net::use_awaitable);
      run.note(name);
    });
  };
  sends(a, {.priority = 1}, 50, "batch");
  sends(b, {.priority = 0}, 50, "important");
  sends(c, {.flow = &slow}, 30, "slow");
  run.time.run();
  REQUIRE(run.log.size() == 3);
  CHECK(run.log[0].starts_with("important@"));
  CHECK(run.log.back() == "slow@3000");
}

TEST_CASE("what a write has taken and not written is given back", "[metered_stream]") {
  limits_run run;
  scheduler limit{run.io, bytes(1, 100)};
  memory_stream under{run.io};
  under.piece = 7;
  metered s{under, {.write = {.limit = &limit}, .chunk = 50}};
  const std::string text(50, 'x');
  run.go([&]() -> net::awaitable<void> {
    const std::size_t n5 = co_await s.async_write_some(net::buffer(text));
    CHECK(n5 == 7);
    CHECK(limit.stats().tokens == 93);
    under.fails = net::error::broken_pipe;
    std::error_code error;
    const std::size_t n6 =
        co_await s.async_write_some(net::buffer(text), net::redirect_error(net::use_awaitable, error));
    CHECK(n6 == 3);
    CHECK(error == net::error::broken_pipe);
    CHECK(limit.stats().tokens == 90);
    const std::size_t n7 =
        co_await s.async_write_some(net::buffer(text, 0), net::redirect_error(net::use_awaitable, error));
    CHECK(n7 == 0);
    CHECK(limit.stats().tokens == 90);
  });
  run.time.run();
}

TEST_CASE("a write that is cancelled in the queue writes nothing and takes no token", "[metered_stream]") {
  limits_run run;
  scheduler limit{run.io, bytes(1, 10)};
  memory_stream under{run.io};
  metered s{under, {.write = {.limit = &limit}, .chunk = 10}};
  const auto how =
      GENERATE(net::cancellation_type::terminal, net::cancellation_type::partial, net::cancellation_type::total);
  net::cancellation_signal signal;
  std::error_code ended;
  std::size_t written = 99;
  run.go([&]() -> net::awaitable<void> {
    co_await s.async_write_some(net::buffer(std::string(10, 'x')));
    s.async_write_some(net::buffer("0123456789", 10),
                       net::bind_cancellation_slot(signal.slot(), [&](std::error_code e, std::size_t n) {
                         ended = e;
                         written = n;
                       }));
    co_await sleep_for(3s);
    signal.emit(how);
  });
  run.time.run();
  CHECK((ended == net::error::operation_aborted && written == 0));
  CHECK((under.gone.size() == 10 && limit.stats().tokens == 3 && limit.stats().waiting == 0));
}

TEST_CASE("a read that is cancelled while its bytes wait hands them out, and the limit has a debt",
          "[metered_stream]") {
  limits_run run;
  scheduler limit{run.io, bytes(1, 10)};
  memory_stream under{run.io};
  under.come = std::string(20, 'x');
  metered s{under, {.read = {.limit = &limit}, .chunk = 10}};
  net::cancellation_signal signal;
  std::error_code ended = net::error::already_started;
  std::size_t got = 0;
  std::array<char, 20> room;
  const bool stops = GENERATE(false, true);
  run.go([&]() -> net::awaitable<void> {
    const std::size_t n8 = co_await s.async_read_some(net::buffer(room));
    CHECK(n8 == 10);
    s.async_read_some(net::buffer(room),
                      net::bind_cancellation_slot(signal.slot(), [&](std::error_code e, std::size_t n) {
                        ended = e;
                        got = n;
                      }));
    co_await sleep_for(3s);
    stops ? limit.stop() : signal.emit(net::cancellation_type::total);
    co_await sleep_for(0s);
    CHECK((!ended && got == 10));
    if (!stops) CHECK(limit.stats().tokens == -7);
    if (stops) {
      under.come = "more";
      co_await s.async_read_some(net::buffer(room), net::redirect_error(net::use_awaitable, ended));
      CHECK(ended == errc::stopped);
      CHECK(under.come == "more");
    }
  });
  run.time.run();
}

TEST_CASE("a stream without a limit passes on what it gets", "[metered_stream]") {
  limits_run run;
  memory_stream under{run.io};
  under.come = std::string(100, 'y');
  metered s{under, {.chunk = 1}};
  run.go([&]() -> net::awaitable<void> {
    std::array<char, 100> room;
    const std::size_t n9 = co_await s.async_write_some(net::buffer(room));
    CHECK(n9 == 100);
    const std::size_t n10 = co_await s.async_read_some(net::buffer(room));
    CHECK(n10 == 100);
  });
  run.time.run();
  CHECK((under.writes == 1 && under.reads == 1));
}

TEST_CASE("a stream whose steps could never go is refused", "[metered_stream]") {
  net::io_context io;
  scheduler limit{io, bytes(100, 50)}, other{io, bytes(100, 50)};
  flow foreign{other, {}};
  memory_stream under{io};
  const auto text = [&](const metered_stream_options& o) { return refusal_of([&] { metered s{under, o}; }); };
  CHECK(text({.chunk = 0}) == "metered_stream_options.chunk is 0; allowed: 1 or more: invalid argument");
  CHECK(
      text({.read = {.limit = &limit}, .chunk = 51}) ==
      "metered_stream_options.chunk is 51; allowed: 1 to the burst of the limit of read: larger than the limit allows");
  CHECK(text({.write = {.limit = &limit, .request = {.priority = 2}}, .chunk = 50}) ==
        "metered_stream_options.write.request.priority is 2; allowed: a class of the limit: invalid priority");
  CHECK_THAT(text({.read = {.limit = &limit, .request = {.flow = &foreign}}, .chunk = 50}),
             Catch::Matchers::StartsWith("metered_stream_options.read.request is one that the limit never grants: "));
}

TEST_CASE("the token that shows a debt to be paid is one of the next read's", "[metered_stream]") {
  limits_run run;
  scheduler limit{run.io, bytes(1, 10)};
  memory_stream under{run.io};
  under.come = std::string(25, 'x');
  metered s{under, {.read = {.limit = &limit}, .chunk = 10}};
  run.go([&]() -> net::awaitable<void> {
    std::array<char, 10> room;
    std::size_t all = co_await s.async_read_some(net::buffer(room));  // the burst
    all += co_await s.async_read_some(net::buffer(room), canigo::cancel_after(3s));
    run.note(std::to_string(all));  // 7 bytes of it are not paid
    all += co_await s.async_read_some(net::buffer(room));
    run.note(std::to_string(all));
  });
  run.time.run();
  CHECK(run.log == std::vector<std::string>{"20@3000", "25@15000"});
}

TEST_CASE("a read that a time limit ends owes, and the next reads wait until that is paid", "[metered_stream]") {
  limits_run run;
  scheduler limit{run.io, bytes(100, 20)};
  memory_stream under{run.io};
  under.come = std::string(100'000, 'x');
  metered s{under, {.read = {.limit = &limit}, .chunk = 20}};
  std::size_t all = 0;
  int timeouts = 0;
  run.go([&]() -> net::awaitable<void> {
    std::array<char, 20> room;
    while (run.ms() < 10'000) {
      std::error_code error;
      std::size_t n = 0;
      try {
        n = co_await s.async_read_some(net::buffer(room), canigo::cancel_after(30ms));
      } catch (const std::system_error& e) {
        error = e.code();
      }
      all += n;
      if (error) {
        CHECK(error == errc::timed_out);
        ++timeouts;
      }
    }
  });
  run.time.run();
  CHECK(all <= 20 + 1'000 + 20);
  CHECK(all >= 900);
  CHECK(timeouts > 100);
}

TEST_CASE("reads that the limit refuses keep the rate, and are told why", "[metered_stream]") {
  limits_run run;
  auto options = bytes(100, 20);
  options.queue_limit = 1;
  scheduler limit{run.io, options};
  memory_stream one{run.io}, other{run.io};
  std::size_t all = 0;
  int refused = 0;
  const auto reads = [&](memory_stream& under) {
    under.come = std::string(100'000, 'x');
    run.go([&]() -> net::awaitable<void> {
      metered s{under, {.read = {.limit = &limit}, .chunk = 20}};
      std::array<char, 20> room;
      while (run.ms() < 10'000) {
        std::error_code error;
        all += co_await s.async_read_some(net::buffer(room), net::redirect_error(net::use_awaitable, error));
        if (error) {
          CHECK(error == errc::queue_full);
          ++refused;
          co_await sleep_for(10ms);
        }
      }
    });
  };
  reads(one);
  reads(other);
  run.time.run();
  CHECK(all <= 20 + 1'000 + 40 + 40);  // what the last reads owe, and what they wait for
  CHECK(all >= 900);
  CHECK(refused > 0);
}

TEST_CASE("a burst below the chunk slows a reader down, and lets it read on", "[metered_stream]") {
  limits_run run;
  scheduler limit{run.io, bytes(100, 20)};
  memory_stream under{run.io};
  under.come = std::string(100'000, 'x');
  metered s{under, {.read = {.limit = &limit}, .chunk = 20}};
  limit.set_burst(10);
  std::size_t all = 0;
  run.go([&]() -> net::awaitable<void> {
    std::array<char, 20> room;
    while (run.ms() < 10'000) all += co_await s.async_read_some(net::buffer(room));
  });
  run.time.run();
  CHECK((all >= 900 && all <= 1'060));
}

TEST_CASE("the first bytes of a sequence of buffers", "[metered_stream]") {
  const std::vector<net::const_buffer> parts{net::buffer("abc", 3), net::buffer("", 0), net::buffer("defg", 4)};
  const auto sizes = [](const auto& prefix) {
    std::vector<std::size_t> found;
    for (const net::const_buffer& b : prefix) found.push_back(b.size());
    return found;
  };
  CHECK(sizes(detail::prefix_of<net::const_buffer>(parts, 5)) == std::vector<std::size_t>{3, 2});
  CHECK(sizes(detail::prefix_of<net::const_buffer>(parts, 3)) == std::vector<std::size_t>{3});
  CHECK(sizes(detail::prefix_of<net::const_buffer>(parts, 0)).empty());
  CHECK(sizes(detail::prefix_of<net::const_buffer>(parts, 99)) == std::vector<std::size_t>{3, 4});
  const std::vector<net::const_buffer> many(20, net::buffer("x", 1));
  CHECK(sizes(detail::prefix_of<net::const_buffer>(many, 99)).size() == 16);
}

TEST_CASE("a metered stream is a stream of Asio, over a socket and over another", "[metered_stream][realtime]") {
  net::io_context io;
  using socket = net::local::stream_protocol::socket;
  socket one{io}, other{io};
  net::local::connect_pair(one, other);
  scheduler limit{io, bytes(100'000'000, 65'536)};
  scheduler inner{io, bytes(100'000'000, 65'536)};
  metered_stream<metered_stream<socket>> s{metered_stream<socket>{std::move(one), {.write = {.limit = &inner}}},
                                           {.write = {.limit = &limit}, .chunk = 4'096}};
  const std::string text(1'000'000, 'z');
  std::string got(text.size(), ' ');
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        co_await net::async_write(s, net::buffer(text), net::use_awaitable);
        s.lowest_layer().close();
      },
      net::detached);
  net::async_read(other, net::buffer(got), [](std::error_code, std::size_t) {});
  io.run();
  CHECK(got == text);
  CHECK((limit.stats().granted >= 244 && inner.stats().granted >= 244));
}
