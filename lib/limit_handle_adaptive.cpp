#include "canigo/adaptive_limit.hpp"

#include "limit_handle.hpp"

namespace canigo {

template class limit_handle<detail::adaptive_waiter>;

}  // namespace canigo
