#include "cause.hpp"

#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <asio/ssl/error.hpp>

#include <algorithm>

namespace canigo::redis::detail {

bool is_conflict(std::error_code ec) noexcept { return ec.category() == form_category() || ec == error::other_shape; }

bool is_permanent(std::error_code ec, std::string_view text) noexcept {
  if (is_conflict(ec) || ec.category() == net::error::get_ssl_category()) return true;
  // errc::invalid_argument means here that a TLS file is unreadable or invalid, so a retry is useless.
  if (ec == errc::invalid_argument) return true;
  if (ec == error::wrong_password || ec == error::auth_required || ec == error::no_permission ||
      ec == error::wrong_type) {
    return true;
  }
  // Some error replies have no specific code. Among these replies, only those with one of the following texts are
  // permanent errors. Other replies that begin with ERR may be temporary errors, such as too many clients, or a proxy
  // that has lost its server.
  constexpr std::string_view for_good[] = {"nknown command", "nknown Redis command", "DB index",
                                           "SELECT is not allowed"};
  return ec == error::command_failed && std::ranges::any_of(for_good, [text](std::string_view part) {
           return text.find(part) != std::string_view::npos;
         });
}

bool wants_other_server(error e, bool has_sentinels) noexcept {
  // A master without enough replicas still answers reads. So another connection is useful only if sentinels can lead
  // the client to another master.
  if (e == error::no_replicas) return has_sentinels;
  return e == error::read_only || e == error::loading || e == error::master_down || e == error::cluster_down;
}

bool is_of_the_node(std::error_code ec) noexcept {
  return ec == errc::store_unavailable || ec == errc::timed_out || ec == error::connection_lost ||
         (ec.category() == error_category() && wants_other_server(static_cast<error>(ec.value()), true));
}

}  // namespace canigo::redis::detail
