#include "limit_handle.hpp"

namespace canigo {

template class limit_handle<detail::plain_waiter>;

}  // namespace canigo
