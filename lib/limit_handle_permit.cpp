#include "canigo/detail/admission/permit_grant.hpp"

#include "limit_handle.hpp"

namespace canigo {

template class limit_handle<detail::permit_waiter>;

}  // namespace canigo
