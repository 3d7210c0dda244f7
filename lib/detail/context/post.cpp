#include "canigo/detail/context/post.hpp"

#include "canigo/detail/context/marked_executor.hpp"
#include "canigo/detail/stealing/stealing_executor.hpp"

namespace canigo::detail {

net::any_io_executor context_executor(const net::any_io_executor& executor) {
  if (const auto* s = target_of<net::strand<net::io_context::executor_type>>(executor)) return s->get_inner_executor();
  if (const auto* s = target_of<net::strand<work_stealing_executor>>(executor)) return s->get_inner_executor();
  if (const auto* s = target_of<net::strand<net::any_io_executor>>(executor)) {
    return context_executor(s->get_inner_executor());
  }
  if (const auto* m = target_of<marked_executor>(executor)) return context_executor(m->mark()->inner);
  return executor;
}

}  // namespace canigo::detail
