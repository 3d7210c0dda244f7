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

/// What the loops know of their requests, at about one moment.
struct loop_look {
  std::unordered_map<std::uint64_t, request_view> asked;  ///< by number: those that were asked for, and still are there
  std::map<std::string, std::vector<request_view>> running;  ///< by upstream: those that began first
  std::map<std::string, std::vector<request_view>> outside;  ///< the same, of those that wait outside of the line
  std::map<std::string, std::size_t> running_in_all;         ///< by upstream
  std::map<std::pair<std::string, std::string>, time_point> oldest;  ///< arrival, by upstream and class, of the waiters
};

/// Asks all loops, each on its thread: nothing in the way of a request takes a lock for the sake of a page.
///
/// `numbers`: of the requests to look up. `most`: of each upstream, of those that run and of those outside.
net::awaitable<loop_look> look_at_loops(service& s, std::vector<std::uint64_t> numbers, std::size_t most);

/// Ends the request with this X-Request-Id, on its loop. False: there is none.
net::awaitable<bool> end_request(service& s, std::string id);

}  // namespace canigo::gateway
