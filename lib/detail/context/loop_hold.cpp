#include "canigo/detail/context/loop_hold.hpp"

#include "canigo/detail/context/post.hpp"

#include <asio/execution/outstanding_work.hpp>
#include <asio/prefer.hpp>

#include <utility>

namespace canigo::detail {

void loop_hold::hold(const net::any_io_executor& executor) noexcept {
  try {
    work_ = net::prefer(context_executor(executor), net::execution::outstanding_work.tracked);
    is_held_ = true;
  } catch (...) {
  }
}

net::any_io_executor loop_hold::let_go() noexcept { return is_over() ? give_up() : net::any_io_executor{}; }

net::any_io_executor loop_hold::give_up() noexcept {
  is_held_ = false;
  return std::exchange(work_, {});
}

}  // namespace canigo::detail
