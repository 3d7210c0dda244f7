#include "canigo/detail/context/marked_executor.hpp"

#include "canigo/detail/context/post.hpp"

#include <asio/strand.hpp>

#include <vector>

namespace canigo::detail {

namespace {

/// Returns the outermost executor_mark of an executor; null if there is none. The mark names the object for which the
/// executor's work runs.
std::shared_ptr<executor_mark> first_mark(const net::any_io_executor& executor) {
  if (const auto* marked = target_of<marked_executor>(executor)) return marked->mark();
  if (const auto* strand = target_of<net::strand<net::any_io_executor>>(executor)) {
    const net::any_io_executor inner = strand->get_inner_executor();
    return first_mark(inner);
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<executor_mark> mark_of(const net::any_io_executor& executor, const void* maker) {
  auto mark = first_mark(executor);
  while (mark != nullptr && mark->maker != maker) mark = first_mark(mark->inner);
  return mark;
}

kept_places::kept_places(const net::any_io_executor& executor) {
  for (auto mark = first_mark(executor); mark != nullptr; mark = first_mark(mark->inner)) marks_.push_back(mark);
  std::erase_if(marks_, [](const auto& mark) { return !mark->keep(); });
}

kept_places::~kept_places() {
  for (const auto& mark : marks_) mark->let_go();
}

}  // namespace canigo::detail
