#include "canigo/detail/channel/channel_waiter.hpp"

#include "canigo/detail/channel/channel_core.hpp"
#include "canigo/detail/channel/channel_group.hpp"

namespace canigo::detail {

channel_waiter::channel_waiter(channel_core& c, bool at_home, bool holds_work, owned_node* value) noexcept
    : channel_{&c}, group_{&c.group()}, value_{value}, at_home_{at_home}, holds_work_{holds_work} {}

void channel_waiter::request_cancel() noexcept { group_->cancel(*this); }

const net::any_io_executor& channel_waiter::home_executor() const noexcept { return group_->executor(); }

void channel_waiter::let_go_of_engine() noexcept {
  if ((!at_home_ || group_->pushes()) && state_ == state::ending) group_->release_ref();
}

void channel_waiter::abandon() noexcept {
  const bool has_promise = value_ == nullptr && state_ == state::ending && outcome_ == outcome::granted;
  if (has_promise) channel_->drop_promise();
  let_go_of_engine();
}

}  // namespace canigo::detail
