#include "canigo/http/server_pause.hpp"

#include "canigo/error.hpp"
#include "canigo/http/asked_wait.hpp"
#include "canigo/http/call_error.hpp"
#include "canigo/time_source.hpp"

#include <chrono>
#include <utility>

namespace canigo::http {

server_pause::server_pause(limiter& limit, duration most) : limit_{limit}, most_{most} {
  if (most <= duration::zero()) canigo::detail::throw_invalid("server_pause most", most, "more than 0");
}

duration server_pause::obey(const response& answer) {
  const auto wait = asked_wait(answer, std::chrono::system_clock::now(), most_);
  if (!wait || *wait <= duration::zero()) return duration::zero();
  const time_point until = saturating_add(time_source::of(limit_.get_executor()).now(), *wait);
  limit_.extend_pause(until);
  return *wait;
}

net::awaitable<response> server_pause::send_checked(client& c, request r) {
  try {
    response answer = co_await http::send_checked(c, std::move(r));
    obey(answer);
    co_return answer;
  } catch (const call_error& e) {
    obey(e.response());
    throw;
  }
}

}  // namespace canigo::http
