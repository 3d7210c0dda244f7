#include "cause.hpp"

#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <asio/ssl/error.hpp>

#include <algorithm>

namespace canigo::redis::detail {

bool is_conflict(std::error_code ec) noexcept { return ec.category() == form_category() || ec == error::other_shape; }

bool is_permanent(std::error_code ec, std::string_view text) noexcept {
  if (is_conflict(ec) || ec.category() == net::error::get_ssl_category()) return true;
  // A file for TLS that can't be read, or is wrong.
  if (ec == errc::invalid_argument) return true;
  if (ec == error::wrong_password || ec == error::auth_required || ec == error::no_permission ||
      ec == error::wrong_type) {
    return true;
  }
  // All else that begins with ERR may be over soon: too many clients, a proxy that has lost the server.
  constexpr std::string_view for_good[] = {"nknown command", "nknown Redis command", "DB index",
                                           "SELECT is not allowed"};
  return ec == error::command_failed && std::ranges::any_of(for_good, [text](std::string_view part) {
           return text.find(part) != std::string_view::npos;
         });
}

bool wants_other_server(error e, bool has_sentinels) noexcept {
  // Such a master still answers reads. Without sentinels the next connection would lead to it again.
  if (e == error::no_replicas) return has_sentinels;
  return e == error::read_only || e == error::loading || e == error::master_down || e == error::cluster_down;
}

bool is_of_the_node(std::error_code ec) noexcept {
  return ec == errc::store_unavailable || ec == errc::timed_out || ec == error::connection_lost ||
         (ec.category() == error_category() && wants_other_server(static_cast<error>(ec.value()), true));
}

}  // namespace canigo::redis::detail
