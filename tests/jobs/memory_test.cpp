// What the store in memory keeps of jobs that are gone: nothing. Replaces the heap, so it is a program of its own.

#include "canigo/jobs/memory_store.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t few = 10;  // Asio keeps some for later
using step = std::function<net::awaitable<void>(jobs::memory_store&, const std::string&)>;

/// Claims all jobs that are due, and ends them.
net::awaitable<void> run_all(jobs::memory_store& store) {
  for (;;) {
    jobs::claim_request r{.limit = 100, .lease = 1min};
    const std::vector<jobs::claimed_job> due = co_await store.claim(std::move(r));
    if (due.empty()) co_return;
    for (const jobs::claimed_job& j : due) {
      std::string result = "done";
      co_await store.complete(j.lease, std::move(result));
    }
  }
}

/// How many more blocks of the heap are in use after a thousand rounds, each with a name of its own. All jobs are
/// removed after each round.
std::int64_t kept_of(const step& one) {
  net::io_context io;
  jobs::memory_store store{io};
  std::int64_t first = 0, last = 0;
  const auto rounds = [&]() -> net::awaitable<void> {
    for (int i = 0; i < 1100; ++i) {
      if (i == 100) first = allocations::live;
      const std::string name = "a name of its own, too long to be kept in place: " + std::to_string(i);
      co_await one(store, name);
      jobs::trim_request r{.older_than = duration::zero(), .keep = 0};
      while (co_await store.trim(r) > 0) {
      }
      jobs::list_request all;
      const std::vector<jobs::job_info> left = co_await store.list(std::move(all));
      if (!left.empty()) throw std::logic_error{"a round has left a job behind"};
    }
    last = allocations::live;
  };
  std::exception_ptr failed;
  net::co_spawn(io, rounds(), [&](std::exception_ptr e) { failed = e; });
  io.run();
  if (failed) std::rethrow_exception(failed);
  return last - first;
}

}  // namespace

TEST_CASE("the store in memory keeps nothing of jobs that have ended and were removed", "[jobs]") {
  const step plain = [](jobs::memory_store& store, const std::string& name) -> net::awaitable<void> {
    std::vector<jobs::new_job> list{{.kind = "kind", .payload = name, .unique_key = name}};
    co_await store.put_all(std::move(list));
    co_await run_all(store);
  };
  CHECK(kept_of(plain) <= few);
}

TEST_CASE("the store in memory keeps nothing of batches that are over", "[jobs]") {
  const auto put = [](jobs::memory_store& store, const std::string& name) -> net::awaitable<jobs::job_id> {
    std::vector<jobs::new_job> list{{.kind = "kind", .batch = name}, {.kind = "kind", .after_batch = name}};
    const std::vector<jobs::put_answer> answers = co_await store.put_all(std::move(list));
    co_return answers.back().id;
  };
  const step ended = [&](jobs::memory_store& store, const std::string& name) -> net::awaitable<void> {
    co_await put(store, name);
    co_await run_all(store);
  };
  const step cancelled = [&](jobs::memory_store& store, const std::string& name) -> net::awaitable<void> {
    const jobs::job_id waiter = co_await put(store, name);
    co_await store.cancel(waiter);
    co_await run_all(store);
  };
  const step removed = [&](jobs::memory_store& store, const std::string& name) -> net::awaitable<void> {
    const jobs::job_id waiter = co_await put(store, name);
    co_await store.remove(waiter);
    co_await run_all(store);
  };
  CHECK(kept_of(ended) <= few);
  CHECK(kept_of(cancelled) <= few);
  CHECK(kept_of(removed) <= few);
}
