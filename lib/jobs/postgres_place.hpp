#pragma once

#include <libpq-fe.h>

#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace canigo::jobs::detail {

/// A server and a database, as a user names them.
class postgres_place {
 public:
  /// Throws errc::invalid_argument. The text does not have the URL, which may hold a password.
  explicit postgres_place(const std::string& url);

  /// A name for texts: the URL without the password.
  const std::string& name() const noexcept { return name_; }
  /// All settings that a connection is made with.
  const std::vector<std::pair<std::string, std::string>>& settings() const noexcept { return settings_; }

 private:
  std::vector<std::pair<std::string, std::string>> settings_;
  std::string name_;
};

/// An error that the server told of, or a connection that could not be made.
class postgres_error : public std::system_error {
 public:
  postgres_error(std::error_code code, const std::string& text, std::string state)
      : std::system_error{code, text}, state_{std::move(state)} {}

  /// The SQLSTATE; empty: there is none.
  const std::string& state() const noexcept { return state_; }
  /// Whether another attempt would fail, too.
  bool is_for_good() const noexcept;
  /// Whether two transactions were in each other's way, and this one may succeed if it is done again.
  bool is_conflict() const noexcept;
  /// Whether the process of the server has other prepared statements or portals than this connection has made: a proxy
  /// lends it, or all clients have one session.
  bool is_about_names() const noexcept { return state_ == "42P05" || state_ == "26000" || state_ == "34000"; }
  /// Whether the connection is of no use any more.
  bool ends_connection() const noexcept;

 private:
  std::string state_;
};

/// A connection that broke while a step waited.
class postgres_lost : public std::system_error {
 public:
  postgres_lost(const std::string& text, bool is_unknown);

  /// Whether the step may have been carried out.
  bool is_unknown;
};

/// The error in an answer.
postgres_error error_of(const std::string& place, const PGresult* answer);
/// Why a connection could not be made.
postgres_error error_of(const std::string& place, PGconn* connection);
/// The error in a text of libpq in its verbose form. Libpq has no other way to tell the SQLSTATE of a connection that
/// was refused.
postgres_error error_of_verbose(const std::string& place, std::string_view text, bool needs_password);
/// The error in a text of libpq, which may name a SQLSTATE.
postgres_error error_of(const std::string& place, std::string_view state, std::string_view message);

}  // namespace canigo::jobs::detail
