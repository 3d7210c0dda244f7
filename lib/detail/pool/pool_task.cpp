#include "canigo/detail/pool/pool_task.hpp"

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_worker.hpp"
#include "canigo/error.hpp"

#include <asio/error.hpp>

#include <future>

namespace canigo::detail {

namespace {

constexpr const char* explanation = "every worker of the pool would wait for the pool itself";

}  // namespace

void pool_task::let_go() noexcept {
  delete extras_;
  if (home_ != nullptr) home_->release_ref();
}

bool pool_task::is_to_be_delayed() const noexcept { return extras_ != nullptr && extras_->delay > duration::zero(); }

int pool_task::code_of(task_state s) noexcept {
  switch (s) {
    case task_state::cancelled:
      return aborted;
    case task_state::timed_out:
      return static_cast<int>(errc::timed_out);
    case task_state::stopped:
      return static_cast<int>(errc::stopped);
    default:
      return no_code;
  }
}

task_event pool_task::event() const noexcept {
  const task_extras& x = *extras_;
  task_event e;
  e.id = id_;
  e.priority = priority;
  e.state = state();
  if (x.name != nullptr) e.name = x.name->name;
  e.group = x.group();
  e.attempt = x.attempts.load(std::memory_order_relaxed);
  if (e.attempt > 0) e.waited = time_between(x.queued_at, x.started_at);
  e.ran = x.ran;
  return e;
}

std::error_code pool_task::to_error_code(int code) noexcept {
  if (code == aborted) return net::error::operation_aborted;
  if (code == deadlock) return std::make_error_code(std::errc::resource_deadlock_would_occur);
  if (code == abandoned) return std::make_error_code(std::future_errc::broken_promise);
  return make_error_code(static_cast<errc>(code));
}

void pool_task::throw_failure() const {
  if (error_) std::rethrow_exception(error_);
  if (code_ == deadlock) throw std::system_error{to_error_code(code_), explanation};
  throw std::system_error{to_error_code(code_)};
}

std::exception_ptr pool_task::failure() const noexcept {
  if (error_ || code_ == no_code) return error_;
  try {
    throw_failure();
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace canigo::detail

namespace canigo {

using detail::pool_task;
using detail::pool_worker;

std::uint64_t task_context::id() const noexcept { return worker_->current_->id(); }

std::uint32_t task_context::attempt() const noexcept {
  const auto* x = worker_->current_->extras_;
  return x != nullptr ? x->attempts.load(std::memory_order_relaxed) : 1;
}

time_point task_context::deadline() const noexcept {
  const auto* x = worker_->current_->extras_;
  return x != nullptr ? x->due_at : time_point::max();
}

bool task_context::stop_requested() const noexcept {
  if (worker_->current_->is_to_end()) return true;
  const time_point end = deadline();
  return end != time_point::max() && worker_->home_->has_come(end);
}

const net::any_io_executor& task_context::executor() const noexcept {
  return worker_->strand_->executor_for(worker_->mark());
}

std::size_t task_context::worker() const noexcept { return worker_->index_; }

void* task_context::resource() const noexcept { return worker_->resource_.get(); }

}  // namespace canigo
