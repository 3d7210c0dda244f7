#include "canigo/detail/pool/pool_options.hpp"

#include "canigo/detail/queue/wait_queue.hpp"
#include "canigo/error.hpp"

#include <string>

namespace canigo::detail {

const pool_core_options& checked(const pool_core_options& o) {
  const auto field = [&](const char* name) { return std::string{o.type}.append("_options.").append(name); };
  check_concurrency(o.concurrency, o.type, "_options.concurrency");
  if (o.priorities < 1 || o.priorities > wait_queue::max_priorities)
    throw_invalid(field("priorities"), o.priorities, "1 to 1024");
  if (o.queue_limit < 1) throw_invalid(field("queue_limit"), o.queue_limit, "1 or more");
  if (o.timeout <= duration::zero()) throw_invalid(field("timeout"), o.timeout, "more than 0");
  if (o.restart.limit > 10'000) throw_invalid(field("restart.limit"), o.restart.limit, "0 to 10000");
  if (o.restart.within <= duration::zero()) throw_invalid(field("restart.within"), o.restart.within, "more than 0");
  if (o.on_overflow < overflow::reject_new || o.on_overflow > overflow::wait) {
    throw_invalid(field("on_overflow"), static_cast<int>(o.on_overflow),
                  "reject_new, evict_oldest, evict_least_important, wait");
  }
  check(o.retry.backoff, field("retry.backoff"));
  check(o.restart.backoff, field("restart.backoff"));
  return o;
}

void check_concurrency(std::size_t concurrency, std::string_view type, std::string_view field) {
  if (concurrency < 1 || concurrency > 100'000)
    throw_invalid(std::string{type}.append(field), concurrency, "1 to 100000");
}

void check_stop(stop_mode mode) {
  if (mode < stop_mode::drain || mode > stop_mode::cancel_all) {
    throw_invalid("pool.stop: mode", static_cast<int>(mode), "drain, finish_running, cancel_all");
  }
}

void check_task(const task_options& o, int priorities) {
  if (o.priority < 0 || o.priority >= priorities) {
    throw_invalid("task_options.priority", o.priority, "0 to " + std::to_string(priorities - 1),
                  errc::invalid_priority);
  }
  if (o.timeout && *o.timeout <= duration::zero()) throw_invalid("task_options.timeout", *o.timeout, "more than 0");
  if (o.delay < duration::zero()) throw_invalid("task_options.delay", o.delay, "0 or more");
  if (o.retry.attempts > 1) check(o.retry.backoff, "task_options.retry.backoff");
}

}  // namespace canigo::detail
