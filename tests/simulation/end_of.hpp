#pragma once

#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include "model.hpp"

#include <asio/error.hpp>

#include <system_error>

namespace simulated {

/// Converts the error code that a caller got to the end that the model uses.
inline end end_of(std::error_code ec) {
  using canigo::errc;
  if (!ec) return end::granted;
  if (ec == canigo::net::error::operation_aborted) return end::cancelled;
  if (ec == errc::timed_out) return end::timed_out;
  if (ec == errc::deadline_unreachable) return end::unreachable;
  if (ec == errc::queue_full) return end::queue_full;
  if (ec == errc::evicted) return end::evicted;
  if (ec == errc::stopped) return end::stopped;
  if (ec == errc::shed) return end::shed;
  if (ec == errc::too_large) return end::too_large;
  if (ec == errc::invalid_priority) return end::invalid_priority;
  if (ec == errc::invalid_argument) return end::invalid_argument;
  if (ec == errc::not_enough_memory) return end::no_memory;
  return end::waiting;
}

}  // namespace simulated
