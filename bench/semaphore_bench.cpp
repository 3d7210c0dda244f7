// What a permit costs: free (B5), handed from one coroutine to the next (B6), and with two threads (B6b). Beside each,
// what bare Asio or the machine need for the least part of it.

#include "canigo/detail/base/mutex.hpp"
#include "canigo/limiter.hpp"
#include "canigo/semaphore.hpp"

#include "loops.hpp"

#include <asio/async_result.hpp>
#include <asio/post.hpp>
#include <asio/recycling_allocator.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <memory>
#include <mutex>

namespace net = canigo::net;
using canigo::permit;
using canigo::semaphore;

namespace {

constexpr int repetitions = 7;
constexpr std::int64_t many = 1'000'000;
constexpr int contenders = 64;
constexpr std::int64_t rounds = 3'000;

// A token a nanosecond: the bucket is never empty.
const canigo::limiter_options plenty{
    .rates = {{canigo::rate{1, std::chrono::nanoseconds{1}}, 1'000'000'000, 1'000'000'000}}, .concurrency = 8};

/// Two steps of a lock-free count: the least that taking and giving back can be.
void take_and_give(std::atomic<std::int64_t>& count) {
  std::int64_t seen = count.load(std::memory_order_relaxed);
  while (!count.compare_exchange_weak(seen, seen - 1)) {
  }
  count.fetch_add(1);
}

void free_permits() {
  net::io_context io;
  semaphore s{io, {.permits = 8}};
  std::atomic<std::int64_t> count{8};

  bench::match{"B5", "acquire and release, free, awaited"}
      .add("semaphore.acquire",
           [] {
             return bench::in_coroutine(many, []() -> net::awaitable<void> {
               semaphore mine{co_await net::this_coro::executor, {.permits = 8}};
               for (auto i = many; i > 0; --i) {
                 const permit p = co_await mine.acquire();
               }
             });
           })
      .add("semaphore.try_acquire, or else acquire",
           [] {
             return bench::in_coroutine(many, []() -> net::awaitable<void> {
               semaphore mine{co_await net::this_coro::executor, {.permits = 8}};
               for (auto i = many; i > 0; --i) {
                 auto p = mine.try_acquire();
                 if (!p) p = co_await mine.acquire();
               }
             });
           })
      .add("floor: two atomic steps, empty coroutine",
           [&] {
             return bench::in_coroutine(many, [&]() -> net::awaitable<void> {
               for (auto i = many; i > 0; --i) {
                 co_await bench::child();
                 take_and_give(count);
               }
             });
           })
      .add("limiter.acquire, a rate and a cap",
           [] {
             return bench::in_coroutine(many, []() -> net::awaitable<void> {
               canigo::limiter mine{co_await net::this_coro::executor, plenty};
               for (auto i = many; i > 0; --i) {
                 const permit p = co_await mine.acquire();
               }
             });
           })
      .run(repetitions);

  bench::match{"B5t", "try_acquire and release, free"}
      .add("semaphore.try_acquire", [&] { return bench::repeated(many, [&] { (void)s.try_acquire(); }); })
      .add("floor: two atomic steps", [&] { return bench::repeated(many, [&] { take_and_give(count); }); })
      .run(repetitions);

  bench::match{"B5u", "try_acquire and release by two threads"}
      .add("semaphore.try_acquire", [&] { return bench::by_two_threads(many, [&] { (void)s.try_acquire(); }); })
      .add("floor: two atomic steps", [&] { return bench::by_two_threads(many, [&] { take_and_give(count); }); })
      .run(repetitions);
}

using io_executor = net::io_context::executor_type;

/// All contenders take a permit in turn, and yield while they hold it. Their coroutines are of this executor.
template <class Executor, class Acquire>
bench::sample contended(std::uint64_t permits, int threads, Acquire acquire) {
  net::io_context io{threads};
  semaphore s{io, {.permits = permits}};
  for (int c = 0; c < contenders; ++c) {
    net::co_spawn(
        io,
        [&]() -> net::awaitable<void, Executor> {
          for (auto i = rounds; i > 0; --i) {
            const permit p = co_await acquire(s);
            co_await net::post(net::use_awaitable_t<Executor>{});
          }
        },
        net::detached);
  }
  return bench::run_by(threads, io, contenders * rounds);
}

/// The least that a semaphore of coroutines comes to: a count, and a list of who waits, under the same lock; who gives
/// back posts the first. It knows no classes, no deadlines, no cancellation and no end.
class bare_semaphore {
 public:
  explicit bare_semaphore(std::uint64_t permits) : free_{permits} {}

  net::awaitable<void> acquire() {
    if (try_acquire()) co_return;
    co_await net::async_initiate<const net::use_awaitable_t<>&, void()>(
        [this](auto handler) { wait(std::move(handler)); }, net::use_awaitable);
  }
  void release() {
    waiter* w = nullptr;
    {
      const std::lock_guard guard{lock_};
      w = first_;
      if (w == nullptr) {
        ++free_;
        return;
      }
      first_ = w->next;
    }
    w->post();
  }

 private:
  struct waiter {
    virtual void post() = 0;
    waiter* next = nullptr;

   protected:
    ~waiter() = default;
  };
  template <class Handler>
  struct waiter_of final : waiter {
    explicit waiter_of(Handler h) : handler{std::move(h)} {}
    void post() override {
      Handler h = std::move(handler);
      allocator memory;
      std::destroy_at(this);
      memory.deallocate(this, 1);
      net::post(std::move(h));
    }
    using allocator = net::recycling_allocator<waiter_of>;
    Handler handler;
  };

  bool try_acquire() {
    const std::lock_guard guard{lock_};
    if (free_ == 0) return false;
    --free_;
    return true;
  }
  template <class Handler>
  void wait(Handler handler) {
    typename waiter_of<Handler>::allocator memory;
    waiter* w = std::construct_at(memory.allocate(1), std::move(handler));
    {
      const std::lock_guard guard{lock_};
      if (free_ == 0) {
        (first_ == nullptr ? first_ : last_->next) = w;
        last_ = w;
        return;
      }
      --free_;
    }
    w->post();
  }

  canigo::detail::mutex lock_;
  std::uint64_t free_;
  waiter* first_ = nullptr;
  waiter* last_ = nullptr;
};

bench::sample contended_bare(std::uint64_t permits, int threads) {
  net::io_context io{threads};
  bare_semaphore s{permits};
  for (int c = 0; c < contenders; ++c) {
    net::co_spawn(
        io,
        [&]() -> net::awaitable<void> {
          for (auto i = rounds; i > 0; --i) {
            co_await s.acquire();
            co_await net::post(net::use_awaitable);
            s.release();
          }
        },
        net::detached);
  }
  return bench::run_by(threads, io, contenders * rounds);
}

auto acquire(semaphore& s) { return s.acquire(); }
auto acquire_typed(semaphore& s) { return s.async_acquire({}, net::use_awaitable_t<io_executor>{}); }

/// `posts` in a row by as many coroutines as run at a time.
template <class Executor>
bench::sample posting(int coroutines, int posts, int threads) {
  net::io_context io{threads};
  const std::int64_t each = contenders * rounds / coroutines;
  for (int c = 0; c < coroutines; ++c) {
    net::co_spawn(
        io,
        [=]() -> net::awaitable<void, Executor> {
          for (auto i = each * posts; i > 0; --i) co_await net::post(net::use_awaitable_t<Executor>{});
        },
        net::detached);
  }
  return bench::run_by(threads, io, each * coroutines);
}

void contended_permits() {
  using any = net::any_io_executor;
  bench::match{"B6", "semaphore(1), 64 coroutines, each yields while it holds"}
      .add("semaphore.acquire", [] { return contended<any>(1, 1, acquire); })
      .add("bare Asio: the yield, and a post to hand over", [] { return posting<any>(1, 2, 1); })
      .add("bare Asio: the yield alone", [] { return posting<any>(1, 1, 1); })
      .add("bare: a list under the same lock, and a post", [] { return contended_bare(1, 1); })
      .run(repetitions);

  bench::match{"B6t", "the same in coroutines whose executor is io_context::executor_type"}
      .add("semaphore.async_acquire", [] { return contended<io_executor>(1, 1, acquire_typed); })
      .add("bare Asio: the yield, and a post to hand over", [] { return posting<io_executor>(1, 2, 1); })
      .add("bare Asio: the yield alone", [] { return posting<io_executor>(1, 1, 1); })
      .run(repetitions);

  bench::match{"B6b", "semaphore(8), 64 coroutines, two threads on one io_context"}
      .add("semaphore.acquire", [] { return contended<any>(8, 2, acquire); })
      .add("floor: a list under the same lock, and a post", [] { return contended_bare(8, 2); })
      .add("bare Asio: the yield, and a post to hand over", [] { return posting<any>(8, 2, 2); })
      .add("bare Asio: the yield alone, 8 coroutines", [] { return posting<any>(8, 1, 2); })
      .run(repetitions);
}

}  // namespace

int main() {
  const bench::second_thread sleeps;
  free_permits();
  contended_permits();
}
