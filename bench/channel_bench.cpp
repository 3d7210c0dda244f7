// Measures the cost of a value that passes through a channel: by calls that never wait (B27), also in a process of one
// thread (B27o), by one coroutine that always finds space and a value (B27c), from one coroutine to another (B27p), on
// two threads (B27t), and with eight channels that share a capacity in bytes (B27s). Asio's channels are measured for
// comparison.

#include "canigo/channel.hpp"

#include "loops.hpp"

#include <asio/experimental/channel.hpp>
#include <asio/experimental/concurrent_channel.hpp>
#include <asio/use_awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace net = canigo::net;

namespace {

constexpr int repetitions = 7;
constexpr std::int64_t many = 1'000'000;
constexpr std::size_t capacity = 64;

/// The value that passes through the channel: some words, and a unique_ptr.
struct job {
  std::unique_ptr<int> owner;
  std::uint64_t words[4] = {};
};

std::uint64_t size_of(const job&) { return sizeof(job); }

using ours = canigo::channel<job>;
using one_thread = net::experimental::channel<void(std::error_code, job)>;
using threads_safe = net::experimental::concurrent_channel<void(std::error_code, job)>;

template <class Channel>
bench::sample tried(Channel& c) {
  return bench::repeated(many, [&] {
    c.try_send(std::error_code{}, job{});
    c.try_receive([](std::error_code, const job&) {});
  });
}

bench::sample tried(ours& c) {
  return bench::repeated(many, [&] {
    const bool sent = c.try_send(job{});
    const std::optional<job> got = c.try_receive();
    if (!sent || !got) std::terminate();
  });
}

net::awaitable<void> send_all(ours& c) {
  for (auto i = many; i > 0; --i) {
    job j;
    co_await c.send(std::move(j));
  }
}
template <class Channel>
net::awaitable<void> send_all(Channel& c) {
  for (auto i = many; i > 0; --i) {
    job j;
    co_await c.async_send(std::error_code{}, std::move(j), net::use_awaitable);
  }
}

net::awaitable<void> receive_all(ours& c) {
  for (auto i = many; i > 0; --i) [[maybe_unused]]
    const job j = co_await c.receive();
}
template <class Channel>
net::awaitable<void> receive_all(Channel& c) {
  for (auto i = many; i > 0; --i) [[maybe_unused]]
    const job j = co_await c.async_receive(net::use_awaitable);
}

net::awaitable<void> send_and_receive_all(ours& c) {
  for (auto i = many; i > 0; --i) {
    job j;
    co_await c.send(std::move(j));
    [[maybe_unused]] const job got = co_await c.receive();
  }
}
template <class Channel>
net::awaitable<void> send_and_receive_all(Channel& c) {
  for (auto i = many; i > 0; --i) {
    job j;
    co_await c.async_send(std::error_code{}, std::move(j), net::use_awaitable);
    [[maybe_unused]] const job got = co_await c.async_receive(net::use_awaitable);
  }
}

/// Measures one coroutine that sends, and another one that receives.
template <class Channel>
bench::sample handed_over(Channel& c, net::io_context& io, int threads) {
  net::co_spawn(io, receive_all(c), net::detached);
  net::co_spawn(io, send_all(c), net::detached);
  return bench::run_by(threads, io, many);
}

template <class Channel>
bench::sample alone(Channel& c, net::io_context& io) {
  net::co_spawn(io, send_and_receive_all(c), net::detached);
  return bench::run_by(1, io, many);
}

/// Makes a canigo channel, and calls `f` with it and its context.
template <class Function>
auto with_ours(int threads, Function f) {
  return [threads, f] {
    net::io_context io{threads};
    ours c{io, {.capacity = capacity}};
    return f(c, io);
  };
}
template <class Channel, class Function>
auto with(int threads, Function f) {
  return [threads, f] {
    net::io_context io{threads};
    Channel c{io, capacity};
    return f(c, io);
  };
}

bench::sample shared_by(std::size_t channels) {
  net::io_context io{1};
  const canigo::channel_capacity shared{io, {.bytes = capacity * sizeof(job)}};
  std::vector<std::unique_ptr<ours>> all;
  for (std::size_t i = 0; i < channels; ++i) {
    all.push_back(std::make_unique<ours>(io, canigo::channel_options<job>{.size_of = size_of, .shared = shared}));
    net::co_spawn(io, receive_all(*all.back()), net::detached);
    net::co_spawn(io, send_all(*all.back()), net::detached);
  }
  return bench::run_by(1, io, many * static_cast<std::int64_t>(channels));
}

}  // namespace

int main() {
  // B27o runs first, because glibc's locks are cheaper only until the process has a second thread.
  const auto try_it = [](auto& c, net::io_context&) { return tried(c); };
  bench::match{"B27o", "channel: try_send and try_receive, in a process of one thread"}
      .add("channel", with_ours(1, try_it))
      .add("Asio: concurrent_channel", with<threads_safe>(1, try_it))
      .add("Asio: channel, without a lock", with<one_thread>(1, try_it))
      .run(repetitions);
  const auto try_it_beside = [](auto& c, net::io_context&) {
    const bench::second_thread sleeps;
    return tried(c);
  };
  bench::match{"B27", "channel: try_send and try_receive"}
      .add("channel", with_ours(1, try_it_beside))
      .add("Asio: concurrent_channel", with<threads_safe>(1, try_it_beside))
      .add("Asio: channel, without a lock", with<one_thread>(1, try_it_beside))
      .run(repetitions);
  const auto by_one = [](auto& c, net::io_context& io) { return alone(c, io); };
  bench::match{"B27c", "channel: one coroutine sends and receives in turn"}
      .add("channel", with_ours(1, by_one))
      .add("Asio: concurrent_channel", with<threads_safe>(1, by_one))
      .add("Asio: channel, without a lock", with<one_thread>(1, by_one))
      .run(repetitions);
  const auto by_two = [](auto& c, net::io_context& io) { return handed_over(c, io, 1); };
  bench::match{"B27p", "channel of 64: a coroutine sends, another one receives"}
      .add("channel", with_ours(1, by_two))
      .add("Asio: concurrent_channel", with<threads_safe>(1, by_two))
      .add("Asio: channel, without a lock", with<one_thread>(1, by_two))
      .run(repetitions);
  const auto on_threads = [](auto& c, net::io_context& io) { return handed_over(c, io, 2); };
  bench::match{"B27t", "the same on two threads of one loop"}
      .add("channel", with_ours(2, on_threads))
      .add("Asio: concurrent_channel", with<threads_safe>(2, on_threads))
      .run(repetitions);
  bench::match{"B27s", "channel with a shared capacity in bytes: a sender and a receiver each"}
      .add("8 channels", [] { return shared_by(8); })
      .add("1 channel", [] { return shared_by(1); })
      .run(repetitions);
}
