// How to limit calls of asio-grpc: docs/adapters.md. An alarm stands for the call, so that no server is needed.
#include <canigo/policy.hpp>
#include <canigo/semaphore.hpp>
#include <canigo/timeout.hpp>
#include <canigo/with_limit.hpp>

#include <agrpc/alarm.hpp>
#include <agrpc/grpc_context.hpp>
#include <asio.hpp>
#include <fmt/core.h>

#include <chrono>
#include <exception>
#include <system_error>

using namespace std::chrono_literals;

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

asio::awaitable<int> answer_in(std::chrono::milliseconds time, agrpc::GrpcContext& calls) {
  agrpc::Alarm alarm{calls};
  // A cancelled alarm returns false, and a cancelled call of asio-grpc returns a status. Both need an exception here.
  const bool is_over = co_await alarm.wait(std::chrono::system_clock::now() + time, asio::use_awaitable);
  if (!is_over) throw std::system_error{asio::error::operation_aborted};
  co_return 42;
}

asio::awaitable<void> call(const char* who, int priority, agrpc::GrpcContext& calls, canigo::semaphore& slots) {
  const int answer = co_await canigo::with_limit(answer_in(5ms, calls), slots, {.priority = priority});
  fmt::print("{}: {}, on the thread of the context: {}\n", who, answer, calls.get_executor().running_in_this_thread());
}

asio::awaitable<void> call_in_a_hurry(canigo::permit& taken, agrpc::GrpcContext& calls, canigo::semaphore& slots,
                                      canigo::policy& upstream) {
  try {
    co_await canigo::with_timeout(canigo::with_limit(answer_in(5ms, calls), slots), 10ms);
  } catch (const std::system_error& e) {
    fmt::print("in a hurry: {}, waiting: {}\n", e.code().message(), slots.stats().waiting);
  }
  taken.release();
  try {
    co_await upstream.run([&calls] { return answer_in(1h, calls); });
  } catch (const std::system_error& e) {
    fmt::print("a slow call by a policy: {}\n", e.code().message());
  }
}

int main() {
  agrpc::GrpcContext calls;
  canigo::semaphore slots{calls, {.permits = 1, .priorities = 2}};
  canigo::policy upstream{calls, {.timeout = 500ms}};
  canigo::permit taken = *slots.try_acquire();
  asio::co_spawn(calls, call("batch", 1, calls, slots), rethrow);
  asio::co_spawn(calls, call("user", 0, calls, slots), rethrow);
  asio::co_spawn(calls, call_in_a_hurry(taken, calls, slots, upstream), rethrow);
  calls.run();
  fmt::print("free in the end: {}\n", slots.try_acquire().has_value());
}
