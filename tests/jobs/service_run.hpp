#pragma once

#include "canigo/jobs/error.hpp"
#include "canigo/jobs/memory_store.hpp"
#include "canigo/jobs/service.hpp"
#include "canigo/timeout.hpp"

#include "support/limits_run.hpp"
#include "support/outcome.hpp"
#include "support/said_by.hpp"
#include "worlds.hpp"

#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

/// A store whose operations can fail, be slow, or lack memory, as a test demands.
class troubled_store : public store_around {
 public:
  using store_around::store_around;

  std::map<std::string, std::error_code> fails;  // for each operation: the error with which it fails
  // for each operation: the numbers of the calls that fail, counted from 1
  std::map<std::string, std::set<int>> fails_at;
  std::map<std::string, canigo::duration> delays;  // for each operation: the delay before it is carried out
  std::map<std::string, int> calls;
  std::string lacks_memory_once;  // the operation that fails once for lack of memory
  bool claims_nothing_once = false;
  bool tells_changes = true;

  awaitable<std::vector<canigo::jobs::claimed_job>> claim(canigo::jobs::claim_request r) override {
    co_await begin("claim");
    if (std::exchange(claims_nothing_once, false)) co_return std::vector<canigo::jobs::claimed_job>{};
    co_return co_await store_around::claim(std::move(r));
  }
  awaitable<canigo::jobs::verdict> complete(canigo::jobs::lease l, std::string result) override {
    co_await begin("complete");
    const auto v = co_await store_around::complete(l, std::move(result));
    verdicts.push_back(v);
    co_return v;
  }
  awaitable<canigo::jobs::verdict> fail(canigo::jobs::lease l, std::string text, canigo::duration d) override {
    co_await begin("fail");
    co_return co_await store_around::fail(l, std::move(text), d);
  }
  awaitable<canigo::jobs::extension> extend(canigo::jobs::lease l, canigo::duration d,
                                            std::optional<std::string> progress) override {
    co_await begin("extend");
    co_return co_await store_around::extend(l, d, std::move(progress));
  }
  awaitable<canigo::duration> next_due(std::string queue) override {
    co_await begin("next_due");
    co_return co_await store_around::next_due(std::move(queue));
  }
  awaitable<canigo::jobs::instant> clock() override {
    co_await begin("clock");
    co_return co_await store_around::clock();
  }
  awaitable<std::size_t> trim(canigo::jobs::trim_request r) override {
    co_await begin("trim " + r.queue);
    co_return co_await store_around::trim(std::move(r));
  }
  awaitable<std::vector<canigo::jobs::queue_count>> count() override {
    co_await begin("count");
    co_return co_await store_around::count();
  }
  awaitable<std::uint64_t> changed(std::uint64_t seen) override {
    co_await begin("changed");
    if (!tells_changes) co_await canigo::sleep_for(std::chrono::hours{1000});
    co_return co_await store_around::changed(seen);
  }

  std::vector<canigo::jobs::verdict> verdicts;  // the verdicts about reported results

 private:
  awaitable<void> begin(const std::string step) {
    ++calls[step];
    if (step == lacks_memory_once) {
      lacks_memory_once.clear();
      throw std::bad_alloc{};
    }
    if (const auto slow = delays.find(step); slow != delays.end()) co_await canigo::sleep_for(slow->second);
    if (fails_at[step].contains(calls[step])) throw std::system_error{make_error_code(canigo::jobs::error::io), step};
    if (const auto failing = fails.find(step); failing != fails.end()) throw std::system_error{failing->second, step};
  }
};

/// A service on a troubled_store around a memory store in virtual time.
struct service_run : limits_run {
  explicit service_run(canigo::jobs::store_policy policy = {}) : memory{io, policy}, store{memory} {}

  canigo::jobs::memory_store memory;
  troubled_store store;

  /// Returns the result of an operation that completes without a wait.
  template <class T>
  T now(canigo::net::awaitable<T> call) {
    std::optional<T> result;
    std::exception_ptr error;
    canigo::net::co_spawn(io, take(std::move(call), result), [&](std::exception_ptr e) { error = e; });
    time.poll();
    if (error) std::rethrow_exception(error);
    return std::move(result.value());
  }
  canigo::jobs::job_info look(canigo::jobs::job_id id) { return now(memory.look(id)).value(); }
  canigo::jobs::job_state state(canigo::jobs::job_id id) { return look(id).state; }

  canigo::jobs::put_answer put(canigo::jobs::new_job j) { return now(memory.put(std::move(j))); }
  /// Notes how result() ends: the result, or the error and its text.
  void note_result(canigo::jobs::service& s, canigo::jobs::job_id id) {
    go([this, &s, id]() -> canigo::net::awaitable<void> {
      try {
        note(co_await s.result(id));
      } catch (const std::system_error& e) {
        note(said_by(e));
      }
    });
  }

 private:
  template <class T>
  static canigo::net::awaitable<void> take(canigo::net::awaitable<T> call, std::optional<T>& result) {
    result.emplace(co_await std::move(call));
  }
};

/// Returns options with one queue, whose jobs are retried without a delay.
inline canigo::jobs::service_options one_queue(std::size_t concurrency = 1) {
  canigo::jobs::service_options o;
  o.queues.push_back({.concurrency = concurrency, .retry = canigo::backoff::constant(std::chrono::seconds{5})});
  return o;
}

/// Returns a handler that sleeps for `d`, and notes how the sleep ended.
inline auto noted_sleep(service_run& run, canigo::duration d) {
  return [&run, d](canigo::jobs::job& j) -> canigo::net::awaitable<std::string> {
    const auto ec = co_await outcome_of(canigo::sleep_for(d));
    run.note(j.payload() + (ec ? " is cancelled" : " is over"));
    if (ec) throw std::system_error{ec};
    co_return "by token " + std::to_string(j.lease().token);
  };
}
