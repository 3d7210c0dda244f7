#include "canigo/detail/around/adaptive_waiter.hpp"

#include "limit_handle.hpp"

namespace canigo {

template class limit_handle<detail::adaptive_waiter>;

}  // namespace canigo
