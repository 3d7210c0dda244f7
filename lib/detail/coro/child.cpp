#include "canigo/detail/coro/child.hpp"

#include "canigo/detail/context/marked_executor.hpp"
#include "canigo/detail/context/post.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/detail/pool/worker_strand.hpp"
#include "canigo/detail/stealing/stealing_executor.hpp"
#include "canigo/time_source.hpp"

#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/strand.hpp>

#include <mutex>
#include <system_error>
#include <utility>

namespace canigo::detail {

namespace {

using io_executor = net::io_context::executor_type;

bool is_strand(const net::any_io_executor& executor) {
  if (const auto* marked = target_of<marked_executor>(executor)) return is_strand(marked->mark()->inner);
  return target_of<net::strand<io_executor>>(executor) || target_of<net::strand<work_stealing_executor>>(executor) ||
         target_of<net::strand<net::any_io_executor>>(executor) || worker_strand::is_one(executor);
}

net::any_io_executor serialized(const net::any_io_executor& executor) {
  if (is_strand(executor)) return executor;
  if (const auto* io = target_of<io_executor>(executor)) return net::strand<io_executor>{*io};
  if (const auto* s = target_of<work_stealing_executor>(executor)) return net::strand<work_stealing_executor>{*s};
  return net::strand<net::any_io_executor>{executor};
}

}  // namespace

child::child(const net::any_io_executor& parent) : executor_{serialized(parent)} {}

void child::cancel(net::cancellation_type type, bool for_good) {
  net::any_io_executor strand;
  {
    const std::lock_guard lock{mutex_};
    strand = executor_;
  }
  if (!strand) return;
  net::post(strand, [self = shared_from_this(), type, for_good] {
    if (self->is_over_) return;
    if (for_good) self->request_.by_owner();
    self->request_.by_cancellation(type);
    if (self->is_started_) {
      self->signal_.emit(type);
    } else {
      self->is_cancelled_ = true;
    }
  });
}

void child::let_go_of_strand() noexcept {
  signal_.slot().clear();  // removes a handler of Asio that may refer to the strand
  net::any_io_executor strand;
  const std::lock_guard lock{mutex_};
  strand = std::move(executor_);
  executor_ = {};
}

child::life::life(child& c) : child_{c} {
  c.is_started_ = true;
  if (!c.is_cancelled_) return;
  c.is_over_ = true;
  throw std::system_error{net::error::operation_aborted};
}

timed_child::timed_child(const net::any_io_executor& parent)
    : child{parent}, alarm_{time_source::of(parent), [](child& c) { c.end(); }} {}

}  // namespace canigo::detail
