#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/call/request_view.hpp"

#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace canigo::gateway {

class service;

/// The requests of all loops, as they were at about one moment.
struct loop_look {
  /// By number: the requests that were asked for and still exist.
  std::unordered_map<std::uint64_t, request_view> asked;
  /// By upstream: the running requests that came first.
  std::map<std::string, std::vector<request_view>> running;
  /// By upstream: those that came first of the requests that wait outside of its queue.
  std::map<std::string, std::vector<request_view>> outside;
  /// By upstream: how many requests run.
  std::map<std::string, std::size_t> running_in_all;
  /// By upstream and class: the arrival of the request that has waited longest.
  std::map<std::pair<std::string, std::string>, time_point> oldest;
};

/// Asks each loop on its own thread, so that no request takes a lock for the sake of a page.
///
/// `numbers`: the requests to put into loop_look::asked. `most`: how many requests of an upstream `running` and
/// `outside` have at most.
net::awaitable<loop_look> look_at_loops(service& s, std::vector<std::uint64_t> numbers, std::size_t most);

/// Ends the request with this X-Request-Id, on its loop. False if there is no such request.
net::awaitable<bool> end_request(service& s, std::string id);

}  // namespace canigo::gateway
