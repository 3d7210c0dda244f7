// What a channel needs of the heap: nothing once it has been as full as it gets, and no allocation whose failure loses
// a value or a caller. A program of its own, as it replaces the heap.

#include "canigo/channel.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

using namespace allocations;
using namespace canigo;

namespace {

struct item {
  std::uint64_t id;
  std::uint64_t bytes[12];
};

std::uint64_t size_of(const item&) { return 8; }

constexpr int turns = 2000;

/// Notes what was allocated in the second half of the turns, all inside one run of the loop: Asio's caches last so
/// long.
class half_way {
 public:
  void turn() {
    ++turns_;
    if (turns_ == turns / 2) counted_.emplace();
    if (turns_ == turns) made_ = counted_->so_far();
  }
  std::int64_t made() const { return made_; }

 private:
  int turns_ = 0;
  std::optional<counted> counted_;
  std::int64_t made_ = -1;
};

void rethrow(std::exception_ptr e) {
  if (e) std::rethrow_exception(e);
}

/// Sends until the channel is closed.
net::awaitable<void> send_on(channel<item>& c) {
  std::error_code e;
  for (int i = 0; !e; ++i) {
    item t{};
    co_await c.send(t, i % 2, e);
  }
}

}  // namespace

TEST_CASE("a channel with room and values allocates nothing", "[memory]") {
  net::io_context io;
  channel<item> c{io, {.capacity = 8, .bytes = 64, .size_of = size_of, .priorities = 2}};
  half_way by_coroutine, by_trying;
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        std::error_code e;
        for (int i = 0; i < turns; ++i) {
          item t{};
          co_await c.send(std::move(t), i % 2);
          co_await c.send(t, 0, e);
          [[maybe_unused]] const item one = co_await c.receive();
          [[maybe_unused]] const std::optional<item> two = co_await c.receive(e);
          by_coroutine.turn();
        }
        for (int i = 0; i < turns; ++i) {
          bool sent = true;
          for (int k = 0; k < 9; ++k) sent = c.try_send(item{}, k % 2);
          CHECK_FALSE(sent);
          while (c.try_receive()) {
          }
          by_trying.turn();
        }
      },
      rethrow);
  io.run();
  CHECK(by_coroutine.made() == 0);
  CHECK(by_trying.made() == 0);
}

TEST_CASE("senders and receivers that wait allocate nothing", "[memory]") {
  for (const std::uint64_t capacity : {1u, 5u}) {
    for (const bool receiver_first : {false, true}) {
      net::io_context io;
      const channel_capacity shared{io, {.capacity = capacity}};
      channel<item> c{io, {.shared = shared, .priorities = 2}};
      half_way turns_of_receiver;
      const auto receive = [&]() -> net::awaitable<void> {
        for (int i = 0; i < turns; ++i) {
          [[maybe_unused]] const item one = co_await c.receive();
          turns_of_receiver.turn();
        }
        c.close();
      };
      if (receiver_first) net::co_spawn(io, receive, rethrow);
      net::co_spawn(io, send_on(c), rethrow);
      if (!receiver_first) net::co_spawn(io, receive, rethrow);
      io.run();
      CHECK(turns_of_receiver.made() == 0);
    }
  }
}

TEST_CASE("callbacks that send and receive allocate nothing", "[memory]") {
  net::io_context io;
  channel<item> c{io, {.capacity = 2}};
  half_way turns_of_receiver;
  struct send_again {
    channel<item>& c;
    int& left;
    void operator()(std::error_code) const {
      if (--left > 0) c.async_send(item{}, send_again{c, left});
    }
  };
  struct receive_again {
    channel<item>& c;
    int& left;
    half_way& noted;
    void operator()(std::error_code, const std::optional<item>&) const {
      noted.turn();
      if (--left > 0) c.async_receive(receive_again{c, left, noted});
    }
  };
  int to_send = turns, to_receive = turns;
  c.async_receive(receive_again{c, to_receive, turns_of_receiver});
  c.async_send(item{}, send_again{c, to_send});
  io.run();
  CHECK((to_send == 0 && to_receive == 0));
  CHECK(turns_of_receiver.made() == 0);
}

TEST_CASE("whatever allocation fails, each value is received or reported, and no caller is lost", "[memory]") {
  const std::int64_t before = live;
  const std::int64_t tried = for_every_allocation([&](std::int64_t k) {
    int sent = 0, failed = 0, thrown = 0, received = 0, ended = 0, told = 0;
    bool has_failed = false;
    {
      net::io_context io;
      channel<std::unique_ptr<int>> c{io, {.capacity = 2, .priorities = 2}};
      const auto count = [&](std::error_code e) {
        ++told;
        CHECK((!e || e == errc::not_enough_memory || e == errc::closed));
        if (!e) ++sent;
        if (e == errc::not_enough_memory) ++failed;
      };
      const auto take = [&](std::error_code e, std::optional<std::unique_ptr<int>> v) {
        ++told;
        CHECK(v.has_value() == !e);
        CHECK((!e || e == errc::not_enough_memory || e == errc::closed));
        ++(v ? received : ended);
      };
      int asked = 0;
      std::vector<std::unique_ptr<int>> values;
      for (int i = 0; i < 8; ++i) values.push_back(std::make_unique<int>(i));
      {
        failing f{k, all, 1};
        for (int i = 0; i < 6; ++i) {
          if (!attempt([&] { c.async_send(std::move(values[static_cast<std::size_t>(i)]), i % 2, count); })) {
            ++thrown;
          } else {
            ++asked;
          }
        }
        for (int i = 0; i < 4; ++i) {
          if (attempt([&] { c.async_receive(take); })) ++asked;
        }
        while (!attempt([&] { io.poll(); })) {
        }
        try {
          if (c.try_send(std::move(values[6]))) ++sent;
        } catch (const std::system_error& e) {
          CHECK(e.code() == errc::not_enough_memory);
          CHECK(values[6] != nullptr);
        }
        c.close();
        while (!attempt([&] { io.run(); })) {
        }
        while (c.try_receive()) ++received;
        has_failed = f.stop();
      }
      CHECK(told == asked);
      CHECK(received == sent);
      if (!has_failed) CHECK((thrown == 0 && failed == 0));
      CHECK(c.stats().items == 0);
    }
    return has_failed;
  });
  CHECK(tried > 5);
  CHECK((live == before || !blocks_are_cached));
}
