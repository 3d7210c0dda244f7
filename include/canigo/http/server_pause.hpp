#pragma once

#include "canigo/http/client.hpp"
#include "canigo/http/request.hpp"
#include "canigo/http/response.hpp"
#include "canigo/limiter.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <chrono>

namespace canigo::http {

/// Pauses a limit as long as a server asks: for all calls, and not only for the one that it has refused.
///
///     canigo::http::server_pause pause{*api.limits()};
///     auto r = co_await api.run([&] { return pause.send_checked(client, {"GET", url}); });
///
/// Of several answers the one that asks for the latest end counts. Calls whose deadline lies before that end are
/// refused at once. A limit has one pause: if limiter::pause() or pause_until() has set a longer one, that one stays.
///
/// Threads: any, all members, at once.
class server_pause {
 public:
  /// `most`: the longest pause that a server gets, more than 0. Throws errc::invalid_argument. `limit` must stay.
  explicit server_pause(limiter& limit, duration most = std::chrono::minutes{5});

  /// Pauses the limit for the http::asked_wait() of an answer. Returns that time; zero: the answer asks for no wait.
  duration obey(const response& answer);

  /// Like http::send_checked(), and obeys its answer, good or bad.
  net::awaitable<response> send_checked(client& c, request r);

 private:
  limiter& limit_;
  const duration most_;
};

}  // namespace canigo::http
