#pragma once

#include "canigo/net.hpp"

#include <asio/cancellation_type.hpp>

namespace canigo::detail {

/// An operation may get several requests to end. An end_request records which of them came first. The first request
/// decides how the operation ends.
///
/// by_owner() records a request of the operation's owner: a time limit, a cancel_source or a group. by_cancellation()
/// records a request from any other source, which comes as a cancellation by Asio.
/// Threads: one thread at a time.
class end_request {
 public:
  void by_owner() noexcept {
    if (from_ == who::none) from_ = who::owner;
  }
  /// Records a cancellation. Only a terminal cancellation is a request to end.
  void by_cancellation(net::cancellation_type type) noexcept {
    const bool is_terminal = (type & net::cancellation_type::terminal) != net::cancellation_type::none;
    if (is_terminal && from_ == who::none) from_ = who::other;
  }
  bool is_of_owner() const noexcept { return from_ == who::owner; }

 private:
  enum class who : unsigned char { none, owner, other };
  who from_ = who::none;
};

}  // namespace canigo::detail
