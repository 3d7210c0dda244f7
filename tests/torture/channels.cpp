// Channels, with a capacity of their own and with a shared one.

#include "canigo/channel.hpp"
#include "canigo/timeout.hpp"

#include "stage.hpp"

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace torture {

using namespace canigo;
using namespace std::chrono_literals;

namespace {

using words = channel<std::string>;

std::uint64_t size_of(const std::string& s) { return s.size(); }

/// The text needs the heap.
std::string text(int n) { return std::string(static_cast<std::size_t>(30 + n), 'x'); }

void stops(stage& t, words& c) {
  t.can_stop([&c](stop_mode) { c.close(); });
}

/// What was sent was received, or is still there.
void expect_balanced(stage& t, words& c) {
  while (c.try_receive()) {
  }
  const channel_stats s = c.stats();
  t.expect(s.sent == s.received, "a value is lost");
  t.expect(s.items == 0 && s.bytes == 0 && s.senders == 0, "the channel is not empty");
}

void coroutines_send_and_receive(stage& t) {
  words c{t.io(), {.capacity = 2, .bytes = 80, .size_of = size_of, .priorities = 2}};
  stops(t, c);
  for (int i = 0; i < 4; ++i) {
    t.spawn([&t, &c, i]() -> net::awaitable<void> {
      co_await c.send(text(i), i % 2);
      std::string again = text(i);
      std::error_code e;
      co_await c.send(again, 0, e);
      t.expect(again.empty() == !e, "the value did not come back");
    });
  }
  for (int i = 0; i < 2; ++i) {
    t.spawn([&c]() -> net::awaitable<void> {
      for (int k = 0; k < 2; ++k) co_await c.receive();
      std::error_code e;
      while (co_await c.receive(e)) {
      }
    });
  }
  t.play([&] { t.pass(10ms); }, [&] { c.close(); }, [&] { t.pass(10ms); });
  t.expect_all_ended();
  expect_balanced(t, c);
}

void callbacks_send_and_receive(stage& t) {
  words c{t.io(), {.capacity = 1, .priorities = 2, .queue_limit = 2}};
  stops(t, c);
  const auto send = [&](int priority) {
    return [&t, &c, priority] { c.async_send(text(priority), priority, t.handler()); };
  };
  const auto receive = [&t, &c] { c.async_receive(t.handler()); };
  t.play(
      receive, send(1), send(0), send(1), [&] { t.pass(1ms); }, send(0), send(0), send(7), receive, receive,
      [&] { t.pass(1ms); }, receive, receive, receive /* queue_full */, send(1), [&] { c.close(); },
      [&] { t.pass(1ms); }, send(0), receive, [&] { t.pass(1ms); });
  t.expect_all_ended();
  expect_balanced(t, c);
}

void channels_share_a_capacity(stage& t) {
  const channel_capacity shared{t.io(), {.capacity = 3, .bytes = 100}};
  words a{t.io(), {.size_of = size_of, .shared = shared, .reserved_capacity = 1, .reserved_bytes = 31}};
  words b{t.io(), {.capacity = 2, .size_of = size_of, .shared = shared, .priorities = 2}};
  stops(t, a);
  stops(t, b);
  t.spawn([&]() -> net::awaitable<void> {
    for (int i = 0; i < 4; ++i) co_await b.send(text(i), 1);
  });
  t.spawn([&]() -> net::awaitable<void> {
    for (int i = 0; i < 3; ++i) co_await a.receive();
  });
  t.play([&] { t.pass(2ms); }, [&] { a.async_send(text(1), t.handler()); }, [&] { b.async_send(text(2), t.handler()); },
         [&] { a.async_send(text(1), t.handler()); }, [&] { b.async_receive(t.handler()); }, [&] { t.pass(2ms); },
         [&] { b.async_receive(t.handler()); }, [&] { a.async_send(text(0), t.handler()); }, [&] { t.pass(2ms); });
  a.close();
  b.close();
  t.pass(1ms);
  t.expect_all_ended();
  expect_balanced(t, a);
  expect_balanced(t, b);
  t.expect(shared.stats().items == 0 && shared.stats().bytes == 0, "the capacity is not free");
}

void a_channel_is_destroyed_under_all(stage& t) {
  auto c = std::make_unique<words>(t.io(), channel_options<std::string>{.capacity = 1});
  for (int i = 0; i < 2; ++i) {
    t.spawn([&c, i]() -> net::awaitable<void> {
      if (c != nullptr) co_await c->send(text(i));
    });
    t.spawn([&c]() -> net::awaitable<void> {
      if (c != nullptr) co_await c->receive();
    });
  }
  t.play([&] { c->async_send(text(1), t.handler()); }, [&] { c->async_send(text(2), t.handler()); },
         [&] { c->async_receive(t.handler([&c] { c.reset(); })); }, [&] { t.pass(2ms); });
  c.reset();
  t.pass(1ms);
  t.expect_all_ended();
}

void a_channel_of_a_capacity_goes_and_one_comes(stage& t) {
  const channel_capacity shared{t.io(), {.bytes = 100}};
  auto a = std::make_unique<words>(t.io(), channel_options<std::string>{.size_of = size_of, .shared = shared});
  words b{t.io(), {.size_of = size_of, .shared = shared}};
  std::optional<words> late;
  stops(t, b);
  t.play([&] { a->async_send(text(50), t.handler()); }, [&] { a->async_send(text(0), t.handler()); },
         [&] { b.async_send(text(60), t.handler()); }, [&] { b.async_send(text(9), t.handler()); },
         [&] {
           late.emplace(t.io(),
                        channel_options<std::string>{.size_of = size_of, .shared = shared, .reserved_bytes = 40});
         },
         [&] { t.pass(1ms); }, [&] { a.reset(); },
         [&] {
           if (late) late->async_send(text(0), t.handler());
         },
         [&] { t.pass(1ms); });
  a.reset();
  late.reset();
  b.close();
  t.pass(1ms);
  t.expect_all_ended();
  expect_balanced(t, b);
  t.expect(shared.stats().items == 0 && shared.stats().bytes == 0, "the capacity is not free");
}

}  // namespace

std::vector<scenario> scenarios_of_channels() {
  return {
      {"coroutines send and receive", coroutines_send_and_receive},
      {"callbacks send and receive", callbacks_send_and_receive},
      {"channels share a capacity", channels_share_a_capacity},
      {"a channel is destroyed under all", a_channel_is_destroyed_under_all},
      {"a channel of a capacity goes and one comes", a_channel_of_a_capacity_goes_and_one_comes},
  };
}

}  // namespace torture
