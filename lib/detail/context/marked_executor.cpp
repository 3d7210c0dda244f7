#include "canigo/detail/context/marked_executor.hpp"

#include "canigo/detail/context/post.hpp"

#include <asio/strand.hpp>

namespace canigo::detail {

std::shared_ptr<executor_mark> mark_of(const net::any_io_executor& executor, const void* maker) {
  if (const auto* marked = target_of<marked_executor>(executor)) {
    return marked->mark()->maker == maker ? marked->mark() : mark_of(marked->mark()->inner, maker);
  }
  if (const auto* strand = target_of<net::strand<net::any_io_executor>>(executor)) {
    const net::any_io_executor inner = strand->get_inner_executor();
    return mark_of(inner, maker);
  }
  return nullptr;
}

}  // namespace canigo::detail
