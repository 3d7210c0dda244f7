#pragma once

#include "canigo/jobs/conformance.hpp"
#include "canigo/jobs/store.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace canigo::jobs::conformance {

using place = std::source_location;

[[noreturn]] void fail(const std::string& text, const place& at);

template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<int>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_convertible_v<T, std::string_view>) {
    const std::string_view text = value;
    return text.size() <= 80 ? '"' + std::string{text} + '"' : std::to_string(text.size()) + " bytes";
  } else if constexpr (std::is_convertible_v<T, duration>) {
    return canigo::to_string(duration{value});
  } else {
    return "another value";
  }
}

inline void expect(bool is_so, std::string_view what, const place& at = place::current()) {
  if (!is_so) fail("it does not hold that " + std::string{what}, at);
}

template <class T>
void same(const T& came, const std::type_identity_t<T>& wanted, const place& at = place::current()) {
  if (!(came == wanted)) fail("wanted " + text_of(wanted) + ", and " + text_of(came) + " came", at);
}

/// Makes a store synchronous: each function waits for the end of the store's operation.
class tool {
 public:
  explicit tool(world& w) : world_{w}, store_{w.open()} {}

  template <class T>
  T wait(net::awaitable<T> call) {
    std::optional<T> result;
    world_.run(into(std::move(call), result));
    return std::move(*result);
  }
  void wait(net::awaitable<void> call) { world_.run(std::move(call)); }
  /// Carries out the operation and returns its error; no error if the operation succeeds.
  template <class T>
  std::error_code error_of(net::awaitable<T> call) {
    std::error_code error;
    world_.run(into_error(std::move(call), error));
    return error;
  }

  jobs::store& operator*() noexcept { return *store_; }

  job_id put(new_job j) {
    if (j.kind.empty()) j.kind = "kind";
    return wait(store_->put(std::move(j))).id;
  }
  std::vector<claimed_job> claim(std::size_t limit, std::string queue = "default");
  /// Claims one job of the queue "default". The case fails if no job is due.
  claimed_job claim_one(const place& at = place::current()) { return claim_one_of("default", at); }
  claimed_job claim_one_of(std::string queue, const place& at = place::current());
  /// Calls claim(), because each claim makes the store end expired leases and deadlines. The claim names a queue
  /// without jobs, so it gets no job.
  void reap() { same(claim(1, "nobody knows it").size(), 0u); }
  /// Claims jobs of the queue, and returns their numbers.
  std::vector<job_id> ids(std::size_t limit, std::string queue = "default");
  verdict complete(lease l, std::string result = {}) { return wait(store_->complete(l, std::move(result))); }
  verdict fail_run(lease l, duration retry_in = duration::zero()) {
    return wait(store_->fail(l, "it broke", retry_in));
  }
  verdict snooze(lease l, duration d) { return wait(store_->snooze(l, d)); }
  verdict give_back(lease l) { return wait(store_->give_back(l)); }
  extension extend(lease l, duration d) { return wait(store_->extend(l, d, std::nullopt)); }
  cancel_answer cancel(job_id id) { return wait(store_->cancel(id)); }
  requeue_answer requeue(job_id id) { return wait(store_->requeue(id)); }
  remove_answer remove(job_id id) { return wait(store_->remove(id)); }
  duration next_due(std::string queue = "default") { return wait(store_->next_due(std::move(queue))); }
  job_info look(job_id id, const place& at = place::current());
  job_state state(job_id id, const place& at = place::current()) { return look(id, at).state; }
  void advance(duration d) { world_.advance(d); }

 private:
  template <class T>
  static net::awaitable<void> into(net::awaitable<T> call, std::optional<T>& result) {
    result.emplace(co_await std::move(call));
  }
  template <class T>
  static net::awaitable<void> into_error(net::awaitable<T> call, std::error_code& error) {
    try {
      co_await std::move(call);
    } catch (const std::system_error& e) {
      error = e.code();
    }
  }

  world& world_;
  std::shared_ptr<jobs::store> store_;
};

// Each of the following functions adds cases to the list.
void add_lease_cases(std::vector<test_case>& list);
void add_order_cases(std::vector<test_case>& list);
void add_failure_cases(std::vector<test_case>& list);
void add_change_cases(std::vector<test_case>& list);
void add_unique_cases(std::vector<test_case>& list);
void add_content_cases(std::vector<test_case>& list);
void add_batch_cases(std::vector<test_case>& list);

}  // namespace canigo::jobs::conformance
