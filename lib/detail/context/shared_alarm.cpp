#include "canigo/detail/context/shared_alarm.hpp"

#include "canigo/time_source.hpp"

namespace canigo::detail {

time_point now_on(const net::any_io_executor& executor) { return time_source::of(executor).now(); }

time_point now_of(const time_source& time) noexcept { return time.now(); }

bool arm(time_source& time, deadline& d, time_point when) noexcept { return time.arm(d, when); }

bool cancel(time_source& time, deadline& d) noexcept { return time.cancel(d); }

}  // namespace canigo::detail
