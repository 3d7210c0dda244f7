#include "retry.hpp"

#include <canigo/error.hpp>
#include <canigo/http/asked_wait.hpp>
#include <canigo/http/error.hpp>

#include "request.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <system_error>

namespace fetch {

namespace {

using canigo::http::error;

bool is_one_of(std::error_code code, std::initializer_list<error> some) {
  return std::ranges::any_of(some, [&](error e) { return code == e; });
}

}  // namespace

bool is_refused(const canigo::http::response& r) {
  return r.status == 429 || r.status == 503 || r.status == 529 || (r.status == 403 && canigo::http::asked_wait(r));
}

bool is_final(const canigo::http::response& r) { return r.headers.find("x-should-retry") == "false"; }

bool is_worth_another(const call& c, std::string_view method) {
  if (c.is_final) return false;
  if (c.is_refused) return true;
  if (!c.error) {
    constexpr int may_pass[] = {408, 500, 502, 504};
    return is_idempotent(method) && std::ranges::find(may_pass, c.status) != std::end(may_pass);
  }
  const bool was_not_reached =
      is_one_of(c.error, {error::could_not_connect, error::could_not_resolve_host, error::could_not_resolve_proxy});
  if (was_not_reached || c.error == std::errc::too_many_files_open) return true;
  const bool broke =
      c.error == canigo::errc::timed_out ||
      is_one_of(c.error, {error::no_response, error::partial_response, error::send_failed, error::receive_failed,
                          error::http2_failed, error::http2_stream_failed, error::tls_connect_failed});
  return broke && is_idempotent(method);
}

}  // namespace fetch
