#include "canigo/detail/context/marked_executor.hpp"

#include "canigo/detail/context/post.hpp"

#include <asio/strand.hpp>

namespace canigo::detail {

marked_executor::marked_executor(const net::any_io_executor& inner, std::shared_ptr<executor_mark> mark)
    : own_{std::make_shared<const shared>(
          shared{inner, net::require(inner, net::execution::blocking.never), std::move(mark)})} {}

std::shared_ptr<executor_mark> mark_of(const net::any_io_executor& executor, const void* maker) {
  if (const auto* marked = target_of<marked_executor>(executor)) {
    return marked->mark()->maker == maker ? marked->mark() : mark_of(marked->inner(), maker);
  }
  if (const auto* strand = target_of<net::strand<net::any_io_executor>>(executor)) {
    const net::any_io_executor inner = strand->get_inner_executor();
    return mark_of(inner, maker);
  }
  return nullptr;
}

}  // namespace canigo::detail
