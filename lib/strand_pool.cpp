#include "canigo/strand_pool.hpp"

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/error.hpp"

namespace canigo {

namespace detail {

bool cancel_task(pool_task& t) noexcept { return t.home().cancel(t); }

void throw_no_task() { throw_invalid("task", "empty", "a task of a pool"); }

}  // namespace detail

strand_pool::strand_pool(const net::any_io_executor& executor, const strand_pool_options& o)
    : pool_handle{executor, detail::to_core_options(o, "strand_pool"), nullptr} {}

}  // namespace canigo
