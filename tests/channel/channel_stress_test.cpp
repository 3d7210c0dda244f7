// Many threads on channels that share a capacity: each value that was sent is received exactly once, and no bound is
// passed. Nothing here looks at how long anything takes.

#include "canigo/channel.hpp"

#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace canigo;

namespace {

constexpr int rounds_of_numbers = is_sanitized ? 2'000 : 20'000;  // of each thread

using number = std::unique_ptr<std::uint32_t>;
using numbers = channel<number>;

std::uint64_t size_of_number(const number& n) { return *n % 5; }

channel_options<number> numbers_in(const channel_capacity& shared, std::uint64_t reserved) {
  return {.size_of = size_of_number,
          .shared = shared,
          .reserved_capacity = reserved,
          .reserved_bytes = 4 * reserved,
          .priorities = 2};
}

/// How often each number was sent, and received.
class number_book {
 public:
  explicit number_book(std::uint32_t most) : sent_(most), received_(most) {}

  number next() { return std::make_unique<std::uint32_t>(next_++); }
  void sent(std::uint32_t n) { ++sent_[n]; }
  void received(const number& n) { ++received_[*n]; }
  bool is_balanced() const {
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      if (sent_[i] > 1 || sent_[i] != received_[i]) return false;
    }
    return true;
  }
  /// Like is_balanced(), if some senders were destroyed and not told.
  bool is_kept() const {
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      if (received_[i] > 1 || sent_[i] > received_[i]) return false;
    }
    return true;
  }
  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& n : received_) sum += n;
    return sum;
  }

 private:
  std::atomic<std::uint32_t> next_{0};
  std::vector<std::atomic<std::uint32_t>> sent_, received_;
};

/// Threads that run a context until join().
class number_loop {
 public:
  explicit number_loop(int threads) : guard_{io.get_executor()} {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { io.run(); });
  }
  ~number_loop() { join(); }
  void join() {
    guard_.reset();
    threads_.clear();
  }
  net::io_context io;

 private:
  net::executor_work_guard<net::io_context::executor_type> guard_;
  std::vector<std::jthread> threads_;
};

net::awaitable<void> send_some(numbers& c, number_book& book, int n) {
  for (int i = 0; i < n; ++i) {
    number v = book.next();
    const std::uint32_t which = *v;
    co_await c.send(std::move(v), i % 2);
    book.sent(which);
  }
}

net::awaitable<void> receive_all(numbers& c, number_book& book) {
  std::error_code end;
  while (const std::optional<number> v = co_await c.receive(end)) book.received(*v);
}

}  // namespace

TEST_CASE("threads that send and receive lose and double no value", "[channel]") {
  constexpr int senders = 4;
  number_book book{3 * senders * rounds_of_numbers};
  number_loop home{3}, elsewhere{2};
  const channel_capacity shared{home.io, {.capacity = 12, .bytes = 40}};
  std::array<std::unique_ptr<numbers>, 3> channels;
  for (std::uint64_t i = 0; i < 3; ++i) channels[i] = std::make_unique<numbers>(home.io, numbers_in(shared, i));
  std::atomic<int> open{3 * senders};
  std::atomic<bool> is_over{false}, is_exceeded{false}, has_thrown{false};
  for (const auto& c : channels) {
    for (int i = 0; i < senders; ++i) {
      auto& io = i % 2 == 0 ? home.io : elsewhere.io;
      net::co_spawn(io, send_some(*c, book, rounds_of_numbers), [&](std::exception_ptr e) {
        if (e) has_thrown = true;  // Catch counts its assertions on one thread
        if (--open > 0) return;
        for (const auto& each : channels) each->close();
      });
      net::co_spawn(i % 3 == 0 ? elsewhere.io : home.io, receive_all(*c, book), net::detached);
    }
  }
  std::jthread watch{[&] {
    while (!is_over) {
      const channel_capacity_stats s = shared.stats();
      if (s.items > 12 || s.bytes > 40) is_exceeded = true;
      for (const auto& c : channels) {
        const channel_stats one = c->stats();
        if (one.sent != one.received + one.items) is_exceeded = true;
      }
    }
  }};
  home.join();
  elsewhere.join();
  is_over = true;
  watch.join();
  CHECK_FALSE(has_thrown);
  CHECK_FALSE(is_exceeded);
  CHECK(book.is_balanced());
  CHECK(book.total() == 3 * senders * std::uint64_t{rounds_of_numbers});
  CHECK((shared.stats().items == 0 && shared.stats().senders == 0));
}

TEST_CASE("threads that cancel, try and destroy lose and double no value", "[channel]") {
  constexpr int threads = 4;
  number_book book{threads * rounds_of_numbers};
  number_loop home{2};
  auto elsewhere = std::make_unique<number_loop>(1);
  {
    const channel_capacity shared{home.io, {.capacity = 6, .bytes = 20}};
    numbers a{home.io, numbers_in(shared, 1)}, b{home.io, numbers_in(shared, 0)};
    {
      std::vector<std::jthread> all;
      for (unsigned t = 0; t < threads; ++t) {
        all.emplace_back([&, t] {
          std::minstd_rand random{t + 1};
          for (int i = 0; i < rounds_of_numbers; ++i) {
            numbers& c = random() % 2 == 0 ? a : b;
            // A signal and its operation belong to one strand.
            struct cancellable {
              explicit cancellable(net::io_context& io) : strand{net::make_strand(io)} {}
              net::strand<net::io_context::executor_type> strand;
              net::cancellation_signal signal;
            };
            const auto op = std::make_shared<cancellable>(random() % 2 == 0 ? home.io : elsewhere->io);
            const auto with = [&](auto handler) {
              return net::bind_cancellation_slot(op->signal.slot(), net::bind_executor(op->strand, std::move(handler)));
            };
            const bool receives = random() % 2 == 0;
            const bool tries = random() % 4 == 0;
            if (tries && receives) {
              if (const std::optional<number> v = c.try_receive()) book.received(*v);
              continue;
            }
            number v = book.next();
            const std::uint32_t which = *v;
            if (tries) {
              if (c.try_send(std::move(v), static_cast<int>(random() % 2))) book.sent(which);
              continue;
            }
            if (receives) {
              net::dispatch(op->strand, [&c, op, h = with([&book, op](std::error_code, std::optional<number> got) {
                                                   if (got) book.received(*got);
                                                 })]() mutable { c.async_receive(std::move(h)); });
            } else {
              net::dispatch(op->strand,
                            [&c, v = std::move(v), h = with([&book, op, which](std::error_code e) {
                                                     if (!e) book.sent(which);
                                                   })]() mutable { c.async_send(std::move(v), std::move(h)); });
            }
            if (random() % 2 == 0) {
              net::post(op->strand, [op] { op->signal.emit(net::cancellation_type::total); });
            }
          }
        });
      }
    }
    // All operations of threads are begun once the loops have nothing to do but to wait.
    std::atomic<int> quiet{0};
    while (quiet < 2) {
      a.close();
      b.close();
      const bool waits = a.stats().senders + a.stats().receivers + b.stats().senders + b.stats().receivers > 0;
      if (!waits) ++quiet;
      std::optional<number> v;
      while ((v = a.try_receive()) || (v = b.try_receive())) book.received(*v);
    }
    elsewhere->join();
    home.join();
    std::optional<number> v;
    while ((v = a.try_receive()) || (v = b.try_receive())) book.received(*v);
    CHECK(shared.stats().items == 0);
  }
  CHECK(book.is_balanced());
  CHECK(book.total() > 0);
}

TEST_CASE("a context that goes while others try to send and receive takes only its own", "[channel]") {
  for (int round = 0; round < rounds_of_numbers / 40; ++round) {
    number_book book{2'000};
    auto home = std::make_unique<number_loop>(1);
    numbers c{home->io, {.capacity = 3}};
    number_loop elsewhere{1};
    std::atomic<int> begun{0};
    for (int i = 0; i < 20; ++i) {
      net::post(elsewhere.io, [&, i] {
        if (i % 2 == round % 2) {
          number v = book.next();
          const std::uint32_t which = *v;
          c.async_send(std::move(v), net::bind_executor(elsewhere.io, [&, which](std::error_code e) {
                         if (!e) book.sent(which);
                       }));
        } else {
          c.async_receive(net::bind_executor(elsewhere.io, [&](std::error_code, std::optional<number> v) {
            if (v) book.received(*v);
          }));
        }
        ++begun;
      });
    }
    while (begun < 20) std::this_thread::yield();
    std::jthread other{[&] {
      for (int i = 0; i < 30; ++i) {
        number v = book.next();
        const std::uint32_t which = *v;
        if (c.try_send(std::move(v))) book.sent(which);
        if (const std::optional<number> got = c.try_receive()) book.received(*got);
      }
    }};
    home.reset();
    other.join();
    elsewhere.join();
    while (const std::optional<number> v = c.try_receive()) book.received(*v);
    REQUIRE(book.is_kept());
  }
}
