#pragma once

#include <libpq-fe.h>

#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace canigo::jobs::detail {

/// A PostgreSQL server and a database, parsed from the URL that the user has given.
class postgres_place {
 public:
  /// Throws errc::invalid_argument if the URL is invalid. The error's text does not contain the URL, because the URL
  /// may contain a password.
  explicit postgres_place(const std::string& url);

  /// A name for error texts: the URL without the password.
  const std::string& name() const noexcept { return name_; }
  /// The settings with which connections are made.
  const std::vector<std::pair<std::string, std::string>>& settings() const noexcept { return settings_; }

 private:
  std::vector<std::pair<std::string, std::string>> settings_;
  std::string name_;
};

/// An error that the server has reported, or a failed connection.
class postgres_error : public std::system_error {
 public:
  postgres_error(std::error_code code, const std::string& text, std::string state)
      : std::system_error{code, text}, state_{std::move(state)} {}

  /// The SQLSTATE of the error; empty if there is none.
  const std::string& state() const noexcept { return state_; }
  /// Whether another attempt would fail with the same error.
  bool is_for_good() const noexcept;
  /// Whether this transaction conflicted with another one, so that it may succeed if it is repeated.
  bool is_conflict() const noexcept;
  /// Whether the server process has other prepared statements or portals than this connection has made. That happens if
  /// a proxy lends the process to several clients, or if all clients share one session.
  bool is_about_names() const noexcept { return state_ == "42P05" || state_ == "26000" || state_ == "34000"; }
  /// Whether the connection can't be used after this error.
  bool ends_connection() const noexcept;

 private:
  std::string state_;
};

/// Thrown if the connection breaks during an operation.
class postgres_lost : public std::system_error {
 public:
  postgres_lost(const std::string& text, bool is_unknown);

  /// Whether the outcome is unknown: the server may or may not have carried out the operation.
  bool is_unknown;
};

/// Returns the error in an answer of the server.
postgres_error error_of(const std::string& place, const PGresult* answer);
/// Returns the reason why a connection could not be made.
postgres_error error_of(const std::string& place, PGconn* connection);
/// Returns the error of a refused connection. `text`: the verbose error text of libpq, because only this text contains
/// the SQLSTATE.
postgres_error error_of_verbose(const std::string& place, std::string_view text, bool needs_password);
/// Makes an error from a text of libpq and an optional SQLSTATE.
postgres_error error_of(const std::string& place, std::string_view state, std::string_view message);

}  // namespace canigo::jobs::detail
