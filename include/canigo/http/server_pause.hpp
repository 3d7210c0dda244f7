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

/// Pauses a limit for as long as a server asks for. So all calls wait, not only the call that the server refused.
///
///     canigo::http::server_pause pause{*api.limits()};
///     auto r = co_await api.run([&] { return pause.send_checked(client, {"GET", url}); });
///
/// If several answers ask for a pause, the latest end is used. Calls whose deadline is before that end are refused
/// immediately. If limiter::pause() or pause_until() has set a longer pause, that pause stays.
///
/// Threads: any thread may call any member at any time.
class server_pause {
 public:
  /// `most`: the longest pause that a server can cause. Throws errc::invalid_argument unless `most` is more than 0.
  /// `limit` must outlive this object.
  explicit server_pause(limiter& limit, duration most = std::chrono::minutes{5});

  /// Pauses the limit for the time that an answer asks for; see http::asked_wait(). Returns that time, or zero if the
  /// answer asks for no wait.
  duration obey(const response& answer);

  /// Like http::send_checked(), but also calls obey() with each answer, even if the answer is a failure.
  net::awaitable<response> send_checked(client& c, request r);

 private:
  limiter& limit_;
  const duration most_;
};

}  // namespace canigo::http
