#pragma once

#include "canigo/net.hpp"

#include "gateway/call/config_snapshot.hpp"
#include "gateway/call/request_list.hpp"
#include "gateway/wire/disconnect_watch.hpp"

#include <asio/io_context.hpp>

#include <cstddef>
#include <memory>

namespace canigo::gateway {

/// The part of the gateway on one thread: its events, the clients that it watches, and its calls.
struct call_loop {
  explicit call_loop(std::size_t n) : index{n}, requests{n} {}

  const std::size_t index;
  net::io_context io{1};
  disconnect_watch watch{io};
  /// The configuration that new calls go by. Each loop counts its own uses of it, so that loops share no counter in the
  /// hot path.
  std::shared_ptr<const config_snapshot> now;
  request_list requests;
};

}  // namespace canigo::gateway
