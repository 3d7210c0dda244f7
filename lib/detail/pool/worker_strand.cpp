#include "canigo/detail/pool/worker_strand.hpp"

#include "canigo/detail/context/marked_executor.hpp"
#include "canigo/detail/context/post.hpp"

#include "strand_on.hpp"

#include <asio/io_context.hpp>
#include <asio/strand.hpp>

#include <memory>

namespace canigo::detail {

namespace {

using io_strand = net::strand<net::io_context::executor_type>;
using any_strand = net::strand<net::any_io_executor>;

}  // namespace

std::unique_ptr<worker_strand> worker_strand::make(const net::any_io_executor& base, const void* owner,
                                                   const void* home) {
  const net::any_io_executor inner = context_executor(base);
  if (const auto* io = target_of<net::io_context::executor_type>(inner)) {
    return std::make_unique<strand_on<net::io_context::executor_type>>(*io, owner, home);
  }
  if (const auto* stealing = target_of<work_stealing_executor>(inner)) {
    return make_stealing_strand(*stealing, owner, home);
  }
  return std::make_unique<strand_on<net::any_io_executor>>(inner, owner, home);
}

net::any_io_executor worker_strand::of_no_worker(const net::any_io_executor& base) {
  if (const auto* io = target_of<net::io_context::executor_type>(base)) {
    return worker_executor<io_strand>{std::make_shared<strand_of_worker<io_strand>>(*io, nullptr, nullptr), 0, false};
  }
  if (const auto* s = target_of<work_stealing_executor>(base)) return stealing_strand_of_no_worker(*s);
  return worker_executor<any_strand>{std::make_shared<strand_of_worker<any_strand>>(base, nullptr, nullptr), 0, false};
}

bool worker_strand::is_one(const net::any_io_executor& executor) noexcept {
  return target_of<worker_executor<io_strand>>(executor) || target_of<worker_executor<stealing_strand>>(executor) ||
         target_of<worker_executor<any_strand>>(executor);
}

/// Returns the worker and the operation to which an executor belongs; nothing for other executors. Each check of a type
/// compares type names. Most callers use an executor of io_context, so that type is checked first.
worker_strand::mark worker_strand::mark_of(const net::any_io_executor& executor) noexcept {
  if (target_of<net::io_context::executor_type>(executor)) return {};
  if (const auto* w = target_of<worker_executor<io_strand>>(executor)) return w->mark();
  if (const auto* w = target_of<worker_executor<stealing_strand>>(executor)) return w->mark();
  if (const auto* w = target_of<worker_executor<any_strand>>(executor)) return w->mark();
  if (const auto* s = target_of<any_strand>(executor)) {
    const net::any_io_executor inner = s->get_inner_executor();
    return mark_of(inner);
  }
  if (const auto* m = target_of<marked_executor>(executor)) return mark_of(m->mark()->inner);
  return {};
}

}  // namespace canigo::detail
