#pragma once

#include "canigo/net.hpp"

#include "gateway/call/config_snapshot.hpp"
#include "gateway/call/request_list.hpp"
#include "gateway/wire/disconnect_watch.hpp"

#include <asio/io_context.hpp>

#include <cstddef>
#include <memory>

namespace canigo::gateway {

/// The part of the gateway that belongs to one thread: its event loop, the clients that it watches, and its calls.
struct call_loop {
  explicit call_loop(std::size_t n) : index{n}, requests{n} {}

  const std::size_t index;
  net::io_context io{1};
  disconnect_watch watch{io};
  /// The configuration that new calls use. Each loop has a reference count of its own for the configuration, so loops
  /// do not contend for one counter.
  std::shared_ptr<const config_snapshot> now;
  request_list requests;
};

}  // namespace canigo::gateway
