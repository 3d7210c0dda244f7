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

/// A view of the requests of all event loops. Each event loop is read at a slightly different time.
struct loop_look {
  /// The requests that the caller of look_at_loops() has asked for, by their numbers. Requests that have ended are
  /// missing.
  std::unordered_map<std::uint64_t, request_view> asked;
  /// The oldest running requests of each upstream, by the upstream's name.
  std::map<std::string, std::vector<request_view>> running;
  /// For each upstream, by its name: the oldest requests that wait outside of the upstream's queue.
  std::map<std::string, std::vector<request_view>> outside;
  /// The number of running requests of each upstream, by the upstream's name.
  std::map<std::string, std::size_t> running_in_all;
  /// The arrival time of the request that has waited longest, by the names of its upstream and its priority class.
  std::map<std::pair<std::string, std::string>, time_point> oldest;
};

/// Collects the view of all event loops. On each event loop, a coroutine reads the requests of that loop, so requests
/// need no lock.
///
/// `numbers`: the requests to put into loop_look::asked. `most`: the max number of requests per upstream in `running`
/// and in `outside`.
net::awaitable<loop_look> look_at_loops(service& s, std::vector<std::uint64_t> numbers, std::size_t most);

/// Ends the request with this X-Request-Id, on the event loop that handles it. Returns false if there is no such
/// request.
net::awaitable<bool> end_request(service& s, std::string id);

}  // namespace canigo::gateway
