// Measures an operation in a pool: short ones (B7), awaited one at a time (B8), from other threads (B9), long ones with
// a timeout (B10), and the start of a pool (B13). For comparison, it measures the simplest solution with bare Asio.

#include "canigo/detail/base/block_cache.hpp"
#include "canigo/detail/base/fetch.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/strand_pool.hpp"

#include "loops.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace net = canigo::net;
using namespace std::chrono_literals;

namespace {

constexpr int repetitions = 7;
constexpr std::int64_t many = 500'000;
constexpr std::int64_t burst = 64;

std::uint64_t work = 0;
void operation() { ++work; }

/// Submits `burst` operations in each turn of the loop, until `many` are done.
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

/// The simplest possible pool: a list of operations, and one post for all in it.
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
      .add("strand_pool(1).try_post", [&] { return fed(io, [&] { (void)one.try_post(operation); }); })
      .add("strand_pool(8).try_post", [&] { return fed(io, [&] { (void)eight.try_post(operation); }); })
      .add("bare: a list and one post", [&] { return fed(io, [&] { list.push(operation); }); })
      .add("bare: asio::post each", [&] { return fed(io, [&] { net::post(io, operation); }); })
      .add("bare: co_spawn each", [&] { return fed(io, [&] { net::co_spawn(io, coroutine(), net::detached); }); })
      .run(repetitions);
}

template <class Step>
bench::sample one_by_one(net::io_context& io, std::int64_t n, Step step) {
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
      .add("strand_pool.run", [&] { return one_by_one(io, many, [&] { return pool.run(operation); }); })
      .add("floor: two posts",
           [&] {
             return one_by_one(io, many, [&]() -> net::awaitable<void> {
               co_await net::post(strand, net::use_awaitable);
               operation();
             });
           })
      .add("bare: co_spawn on a strand, awaited",
           [&] { return one_by_one(io, many, [&] { return net::co_spawn(strand, coroutine(), net::use_awaitable); }); })
      .run(repetitions);
}

/// The max number of waiting operations before the producer must wait. Go's channel is fastest with 64, a pool with
/// more.
constexpr std::int64_t most_waiting = 1024;

/// Measures `many` operations from a thread that runs no loop. `post` returns false if there is no space.
template <class Post>
bench::sample fed_from_outside(Post post) {
  // On its own cache lines, because the workers write it while the producer runs.
  alignas(128) std::atomic<std::int64_t> done{0};
  alignas(128) const auto operation = [&done] { done.fetch_add(1, std::memory_order_relaxed); };
  return bench::measure(many, [&] {
    for (std::int64_t i = 0; i < many; ++i) {
      while (!post(operation, [&] { return i - done.load(std::memory_order_relaxed); })) std::this_thread::yield();
    }
    while (done.load(std::memory_order_relaxed) < many) std::this_thread::yield();
  });
}

bench::sample pool_fed_from_outside(std::size_t queue_limit) {
  net::io_context io;
  auto guard = net::make_work_guard(io);
  canigo::strand_pool pool{io, {.concurrency = 2, .queue_limit = queue_limit}};
  std::thread a{[&] { io.run(); }}, b{[&] { io.run(); }};
  const auto s = fed_from_outside([&](const auto& f, const auto&) { return pool.try_post(f); });
  guard.reset();
  a.join();
  b.join();
  return s;
}

bench::sample thread_pool_fed_from_outside() {
  net::thread_pool pool{2};
  const auto s = fed_from_outside([&](const auto& f, const auto& waiting) {
    if (waiting() >= most_waiting) return false;
    net::post(pool, f);
    return true;
  });
  pool.join();
  return s;
}

/// The simplest solution for three threads: a bounded list of functions in order of arrival, under the same lock as a
/// pool's. Each function is in memory that one thread allocates and another one frees. A thread that finds no work
/// polls.
class bounded_list {
 public:
  template <class F>
  bool push(const F& f) {
    auto* n = ::new (canigo::detail::allocate_block(sizeof(node))) node{f};
    {
      const std::lock_guard guard{lock_};
      if (size_ < most_waiting) {
        ++size_;
        (last_ != nullptr ? last_->next : first_) = n;
        last_ = n;
        return true;
      }
    }
    free(n);
    return false;
  }
  void work_until(const std::atomic<bool>& is_over) {
    while (!is_over.load(std::memory_order_relaxed)) {
      if (node* n = pop()) {
        n->f();
        free(n);
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  struct node {
    std::function<void()> f;
    node* next = nullptr;
  };
  node* pop() {
    const std::lock_guard guard{lock_};
    node* n = first_;
    if (n == nullptr) return nullptr;
    first_ = n->next;
    if (first_ == nullptr) {
      last_ = nullptr;
    } else {
      canigo::detail::fetch(first_, sizeof(node));
    }
    --size_;
    return n;
  }
  static void free(node* n) {
    n->~node();
    canigo::detail::deallocate_block(n, sizeof(node));
  }

  canigo::detail::mutex lock_;
  node* first_ = nullptr;
  node* last_ = nullptr;
  std::int64_t size_ = 0;
};

bench::sample list_fed_from_outside() {
  bounded_list list;
  alignas(128) std::atomic<bool> is_over{false};
  std::thread a{[&] { list.work_until(is_over); }}, b{[&] { list.work_until(is_over); }};
  const auto s = fed_from_outside([&](const auto& f, const auto&) { return list.push(f); });
  is_over = true;
  a.join();
  b.join();
  return s;
}

/// Measures one word that goes to another thread and back. Passing single items between threads can't be faster.
bench::sample there_and_back() {
  constexpr std::int64_t rounds = 20'000;
  alignas(128) std::atomic<std::int64_t> word{0};
  const auto wait_for = [&](std::int64_t value) {
    while (word.load(std::memory_order_acquire) != value) {
    }
  };
  std::thread other{[&] {
    for (std::int64_t i = 0; i < rounds; ++i) {
      wait_for(2 * i + 1);
      word.store(2 * i + 2, std::memory_order_release);
    }
  }};
  const auto s = bench::measure(rounds, [&] {
    for (std::int64_t i = 0; i < rounds; ++i) {
      word.store(2 * i + 1, std::memory_order_release);
      wait_for(2 * i + 2);
    }
  });
  other.join();
  return s;
}

/// Measures the time from a post to an idle, sleeping loop until the function has run.
bench::sample woken_by_a_post() {
  constexpr std::int64_t rounds = 10'000;
  net::io_context io;
  auto guard = net::make_work_guard(io);
  std::thread loop{[&] { io.run(); }};
  std::atomic<bool> done{false};
  const auto s = bench::measure(rounds, [&] {
    for (std::int64_t i = 0; i < rounds; ++i) {
      done.store(false, std::memory_order_relaxed);
      net::post(io, [&] {
        done.store(true, std::memory_order_release);
        done.notify_one();
      });
      done.wait(false);
    }
  });
  guard.reset();
  loop.join();
  return s;
}

void from_outside() {
  bench::match{"B9", "a short operation from another thread, two threads run the loop, 1024 wait at most"}
      .add("strand_pool(2).try_post", [] { return pool_fed_from_outside(most_waiting); })
      .add("strand_pool(2).try_post, a million may wait", [] { return pool_fed_from_outside(1'000'000); })
      .add("floor: a list under the same lock", list_fed_from_outside)
      .add("bare: asio::thread_pool(2)", thread_pool_fed_from_outside)
      .add("bare: asio::post to a loop that sleeps, and the answer", woken_by_a_post)
      .add("floor: a word to another thread and back", there_and_back)
      .run(repetitions);
}

/// Runs `burst` operations at a time, until `many` are done. The next ones are submitted when all of these have ended.
template <class Give>
class joined {
 public:
  joined(net::io_context& io, Give give) : io_{io}, give_(std::move(give)) {}

  bench::sample measured() {
    return bench::measure(many, [&] {
      net::post(io_, [this] { next(); });
      io_.restart();
      io_.run();
    });
  }
  void ended() {
    if (--under_way_ == 0 && (left_ -= burst) > 0) net::post(io_, [this] { next(); });
  }

 private:
  void next() {
    under_way_ = burst;
    for (std::int64_t i = 0; i < burst; ++i) give_(*this);
  }

  net::io_context& io_;
  Give give_;
  std::int64_t left_ = many;
  std::int64_t under_way_ = 0;
};

template <class Give>
bench::sample joined_bursts(net::io_context& io, Give give) {
  return joined<Give>{io, std::move(give)}.measured();
}

/// Returns an operation that suspends once, and then reports its end.
template <class Joined>
auto suspending(Joined& j) {
  return [&j]() -> net::awaitable<void> {
    co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
    j.ended();
  };
}

void long_operations() {
  net::io_context io{1};
  canigo::strand_pool pool{io, {.concurrency = 8}};
  const auto op = [] { return coroutine(); };
  bench::match{"B10", "a coroutine operation, 64 at a time"}
      .add("try_post, does not suspend, timeout",
           [&] { return fed(io, [&] { (void)pool.try_post(op, {.timeout = 1s}); }); })
      .add("try_post, does not suspend", [&] { return fed(io, [&] { (void)pool.try_post(op); }); })
      .add("bare: co_spawn, does not suspend",
           [&] { return fed(io, [&] { net::co_spawn(io, coroutine(), net::detached); }); })
      .run(repetitions);

  bench::match{"B10s", "a coroutine operation that suspends once, 64 at a time"}
      .add("try_post, timeout",
           [&] { return joined_bursts(io, [&](auto& j) { (void)pool.try_post(suspending(j), {.timeout = 1s}); }); })
      .add("try_post", [&] { return joined_bursts(io, [&](auto& j) { (void)pool.try_post(suspending(j)); }); })
      .add("bare: co_spawn and a steady_timer",
           [&] {
             return joined_bursts(io, [&](auto& j) {
               net::co_spawn(
                   io,
                   [&]() -> net::awaitable<void> {
                     net::steady_timer timer{io, 1s};
                     timer.async_wait([](std::error_code) {});
                     co_await suspending(j)();
                   },
                   net::detached);
             });
           })
      .add("bare: co_spawn",
           [&] { return joined_bursts(io, [&](auto& j) { net::co_spawn(io, suspending(j), net::detached); }); })
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
