// What an operation costs in a pool: short ones handed over and done (B7), awaited one at a time (B8), from other
// threads (B9), long ones with a timeout (B10), and starting up (B13). Beside each, what bare Asio or the least
// machinery need for it.

#include "canigo/scheduler.hpp"
#include "canigo/strand_pool.hpp"

#include "harness.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

namespace net = canigo::net;
using namespace std::chrono_literals;

namespace {

constexpr int repetitions = 7;
constexpr std::int64_t many = 500'000;
constexpr std::int64_t burst = 64;

std::uint64_t work = 0;
void operation() { ++work; }

/// Hands over `burst` operations in each turn of the loop, until `many` are done.
template <class Post>
struct feeder {
  net::io_context& io;
  Post post;
  std::int64_t left = many;

  void operator()() {
    for (std::int64_t i = 0; i < burst; ++i) post();
    if ((left -= burst) > 0) net::post(io, std::ref(*this));
  }
};

template <class Post>
bench::sample fed(net::io_context& io, Post post) {
  feeder<Post> f{io, std::move(post)};
  return bench::measure(many, [&] {
    net::post(io, std::ref(f));
    io.restart();
    io.run();
  });
}

/// The least that could be called a pool: operations in a list, one post for all that are in it.
class bare_list {
 public:
  explicit bare_list(net::io_context& io) : io_{io} {}
  void push(void (*f)()) {
    node* n = free_ != nullptr ? std::exchange(free_, free_->next) : new node{};
    n->f = f;
    n->next = nullptr;
    (last_ != nullptr ? last_->next : first_) = n;
    last_ = n;
    if (!std::exchange(posted_, true)) net::post(io_, [this] { drain(); });
  }

 private:
  struct node {
    void (*f)();
    node* next;
  };
  void drain() {
    posted_ = false;
    while (node* n = first_) {
      if ((first_ = n->next) == nullptr) last_ = nullptr;
      n->f();
      n->next = std::exchange(free_, n);
    }
  }
  net::io_context& io_;
  node* first_ = nullptr;
  node* last_ = nullptr;
  node* free_ = nullptr;
  bool posted_ = false;
};

net::awaitable<void> coroutine() {
  operation();
  co_return;
}

void short_operations() {
  net::io_context io{1};
  canigo::strand_pool one{io, {.concurrency = 1}};
  canigo::strand_pool eight{io, {.concurrency = 8}};
  bare_list list{io};
  bench::match{"B7", "a short operation, posted to done, one thread, 64 at a time"}
      .add("strand_pool(1).try_post", [&] { return fed(io, [&] { one.try_post(operation); }); })
      .add("strand_pool(8).try_post", [&] { return fed(io, [&] { eight.try_post(operation); }); })
      .add("bare: a list and one post", [&] { return fed(io, [&] { list.push(operation); }); })
      .add("bare: asio::post each", [&] { return fed(io, [&] { net::post(io, operation); }); })
      .add("bare: co_spawn each", [&] { return fed(io, [&] { net::co_spawn(io, coroutine(), net::detached); }); })
      .run(repetitions);
}

template <class Step>
bench::sample in_coroutine(net::io_context& io, std::int64_t n, Step step) {
  net::co_spawn(
      io,
      [n, step]() mutable -> net::awaitable<void> {
        for (auto i = n; i > 0; --i) co_await step();
      },
      net::detached);
  return bench::measure(n, [&] {
    io.restart();
    io.run();
  });
}

void awaited() {
  net::io_context io{1};
  canigo::strand_pool pool{io, {.concurrency = 8}};
  const auto strand = net::make_strand(io.get_executor());
  bench::match{"B8", "co_await run(short), one at a time"}
      .add("strand_pool.run", [&] { return in_coroutine(io, many, [&] { return pool.run(operation); }); })
      .add("bare: co_spawn on a strand, awaited",
           [&] {
             return in_coroutine(io, many, [&] { return net::co_spawn(strand, coroutine(), net::use_awaitable); });
           })
      .add("floor: two posts",
           [&] {
             return in_coroutine(io, many, [&]() -> net::awaitable<void> {
               co_await net::post(strand, net::use_awaitable);
               operation();
             });
           })
      .run(repetitions);
}

void from_outside() {
  constexpr std::int64_t n = many;
  bench::match{"B9", "a short operation from another thread, two threads run the loop"}
      .add("strand_pool(2).try_post",
           [] {
             net::io_context io;
             auto guard = net::make_work_guard(io);
             canigo::strand_pool pool{io, {.concurrency = 2, .queue_limit = 1'000'000}};
             std::thread a{[&] { io.run(); }}, b{[&] { io.run(); }};
             std::atomic<std::int64_t> done{0};
             const auto s = bench::measure(n, [&] {
               for (std::int64_t i = 0; i < n; ++i)
                 pool.try_post([&done] { done.fetch_add(1, std::memory_order_relaxed); });
               while (done.load(std::memory_order_relaxed) < n) std::this_thread::yield();
             });
             guard.reset();
             a.join();
             b.join();
             return s;
           })
      .add("bare: asio::thread_pool(2)",
           [] {
             net::thread_pool pool{2};
             std::atomic<std::int64_t> done{0};
             const auto s = bench::measure(n, [&] {
               for (std::int64_t i = 0; i < n; ++i)
                 net::post(pool, [&done] { done.fetch_add(1, std::memory_order_relaxed); });
               while (done.load(std::memory_order_relaxed) < n) std::this_thread::yield();
             });
             pool.join();
             return s;
           })
      .run(repetitions);
}

void long_operations() {
  net::io_context io{1};
  canigo::strand_pool pool{io, {.concurrency = 8}};
  const auto op = [] { return coroutine(); };
  const auto suspends = []() -> net::awaitable<void> {
    co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
  };
  bench::match{"B10", "a coroutine operation, 64 at a time"}
      .add("try_post, does not suspend, timeout", [&] { return fed(io, [&] { pool.try_post(op, {.timeout = 1s}); }); })
      .add("try_post, does not suspend", [&] { return fed(io, [&] { pool.try_post(op); }); })
      .add("try_post, suspends once, timeout",
           [&] { return fed(io, [&] { pool.try_post(suspends, {.timeout = 1s}); }); })
      .add("bare: co_spawn, does not suspend",
           [&] { return fed(io, [&] { net::co_spawn(io, coroutine(), net::detached); }); })
      .add("bare: co_spawn, suspends, and a steady_timer",
           [&] {
             return fed(io, [&] {
               net::co_spawn(
                   io,
                   [&]() -> net::awaitable<void> {
                     net::steady_timer timer{io, 1s};
                     timer.async_wait([](std::error_code) {});
                     co_await suspends();
                   },
                   net::detached);
             });
           })
      .run(repetitions);
}

void start_up() {
  bench::match{"B13", "an io_context with a scheduler and a pool of 8, made and destroyed"}
      .add("scheduler, strand_pool(8)",
           [] {
             return bench::measure(1000, [] {
               for (int i = 0; i < 1000; ++i) {
                 net::io_context io{1};
                 canigo::scheduler scheduler{io, {.rate = canigo::rate::per_second(5)}};
                 canigo::strand_pool pool{io, {.concurrency = 8}};
               }
             });
           })
      .add("strand_pool(8)",
           [] {
             return bench::measure(1000, [] {
               for (int i = 0; i < 1000; ++i) {
                 net::io_context io{1};
                 canigo::strand_pool pool{io, {.concurrency = 8}};
               }
             });
           })
      .add("bare: an io_context",
           [] {
             return bench::measure(1000, [] {
               for (int i = 0; i < 1000; ++i) net::io_context io{1};
             });
           })
      .run(repetitions);
}

}  // namespace

int main() {
  short_operations();
  awaited();
  from_outside();
  long_operations();
  start_up();
}
