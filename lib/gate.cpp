#include "canigo/gate.hpp"

#include "canigo/detail/admission/permit_grant.hpp"
#include "canigo/error.hpp"

#include <utility>

namespace canigo {

gate::gate(const net::any_io_executor& executor) : admission_{detail::open_idle(executor)} {}

gate::~gate() { admission_->close(); }

permit gate::enter() {
  if (auto inside = try_enter()) return std::move(*inside);
  throw std::system_error{make_error_code(errc::stopped)};
}

std::optional<permit> gate::try_enter() noexcept { return detail::occupy_place(*admission_); }

net::awaitable<void> gate::close() {
  shut();
  return detail::wait_for<detail::plain_waiter>(admission_);
}

void gate::shut() {
  admission_->change_supplies([](detail::supplies& s, time_point) { s.close(); });
}

std::uint64_t gate::count() const { return admission_->occupied(); }

}  // namespace canigo
