#include "canigo/channel.hpp"

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/channel/channel_core.hpp"
#include "canigo/detail/channel/channel_group.hpp"
#include "canigo/error.hpp"

#include <string>
#include <utility>

namespace canigo {

namespace {

void check_bound(std::string_view field, std::uint64_t bound) {
  if (bound < 1) detail::throw_invalid(field, bound, "1 or more");
}

detail::channel_group* open_capacity(const net::any_io_executor& executor, const channel_capacity_options& o) {
  check_bound("channel_capacity_options.capacity", o.capacity);
  check_bound("channel_capacity_options.bytes", o.bytes);
  if (o.capacity == unlimited && o.bytes == unlimited) {
    detail::throw_invalid("channel_capacity_options.capacity", "unlimited", "a bound, or one for .bytes");
  }
  return detail::channel_group::open(executor, {o.capacity, o.bytes});
}

}  // namespace

channel_capacity::channel_capacity(const net::any_io_executor& executor, const channel_capacity_options& options)
    : group_{open_capacity(executor, options)} {}

channel_capacity::channel_capacity(const channel_capacity& other) noexcept : group_{other.group_} { group_->add_ref(); }

channel_capacity& channel_capacity::operator=(const channel_capacity& other) noexcept {
  other.group_->add_ref();
  std::exchange(group_, other.group_)->release_ref();
  return *this;
}

channel_capacity::~channel_capacity() { group_->release_ref(); }

channel_capacity_stats channel_capacity::stats() const noexcept {
  const detail::group_counts c = group_->counts();
  return {.items = c.used.items,
          .bytes = c.used.bytes,
          .channels = c.channels,
          .senders = c.senders,
          .capacity = group_->limit().items,
          .most_bytes = group_->limit().bytes};
}

namespace detail {

namespace {

void check_setup(const net::any_io_executor& executor, const channel_setup& s) {
  check_bound("channel_options.capacity", s.capacity);
  check_bound("channel_options.bytes", s.bytes);
  if (s.shared == nullptr) {
    if (s.capacity == unlimited && s.bytes == unlimited) {
      throw_invalid("channel_options.capacity", "unlimited", "a bound, or one for .bytes, or a .shared capacity");
    }
    if (s.reserved_capacity != 0)
      throw_invalid("channel_options.reserved_capacity", s.reserved_capacity, "0 without .shared");
    if (s.reserved_bytes != 0) throw_invalid("channel_options.reserved_bytes", s.reserved_bytes, "0 without .shared");
  } else if (s.shared->executor() != executor) {
    throw_invalid("channel: executor", "another one", "that of the shared capacity");
  }
  const auto check_reserved = [](std::string_view field, std::uint64_t reserved, std::uint64_t limit) {
    if (reserved > limit) throw_invalid(field, reserved, "0 to the channel's own bound of " + std::to_string(limit));
  };
  check_reserved("channel_options.reserved_capacity", s.reserved_capacity, s.capacity);
  check_reserved("channel_options.reserved_bytes", s.reserved_bytes, s.bytes);
  const bool is_measured = s.bytes != unlimited || (s.shared != nullptr && s.shared->limit().bytes < shared_room::most);
  if (is_measured && !s.has_size) {
    throw_invalid("channel_options.size_of", "empty", "a function, as bytes have a bound");
  }
  if (s.priorities < 1 || s.priorities > wait_queue::max_priorities) {
    throw_invalid("channel_options.priorities", s.priorities, "1 to 1024");
  }
  if (s.queue_limit < 1) throw_invalid("channel_options.queue_limit", s.queue_limit, "1 or more");
}

}  // namespace

channel_port* open_channel(const net::any_io_executor& executor, const channel_setup& s) {
  check_setup(executor, s);
  channel_terms terms{.limit = {s.capacity, s.bytes},
                      .reserved = {s.reserved_capacity, s.reserved_bytes},
                      .priorities = s.priorities,
                      .queue_limit = s.queue_limit,
                      .name = make_name(*s.name)};
  channel_group* group = s.shared;
  if (group != nullptr) {
    group->add_ref();
  } else {
    group = channel_group::open(executor, {s.capacity, s.bytes});
  }
  try {
    return channel_core::open(*group, terms);
  } catch (...) {
    group->release_ref();
    throw;
  }
}

bool try_send_node(channel_port& c, owned_node& n, int priority) {
  if (n == nullptr) throw std::system_error{make_error_code(errc::not_enough_memory)};
  const std::uint64_t bytes = n->tokens;
  const outcome o = static_cast<channel_core&>(c).try_send(n, priority);
  if (o == outcome::granted) return true;
  n->restore();
  c.keep_node(std::move(n));
  if (o == to_outcome(errc::invalid_priority) || o == to_outcome(errc::too_large)) {
    static_cast<channel_core&>(c).check(bytes, priority);
  }
  return false;
}

}  // namespace detail

}  // namespace canigo
