#include "postgres_place.hpp"

#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"

#include <algorithm>
#include <iterator>
#include <memory>

namespace canigo::jobs::detail {
namespace {

struct state_meaning {
  std::string_view state;  // the row is for all SQLSTATEs that begin with these characters
  error code;
  bool is_for_good;
  const char* advice;
};

// The meaning of a SQLSTATE is in the first row whose `state` is a prefix of the SQLSTATE.
constexpr state_meaning state_meanings[] = {
    {"28P01", error::cannot_open, true,
     "give the right password, in the URL, in PGPASSWORD or in the file of passwords"},
    {"28", error::cannot_open, true, "let this user in, by pg_hba.conf, or name another one"},
    {"3D000", error::cannot_open, true, "make the database, or name another one"},
    {"3F000", error::cannot_open, true, "name a schema in search_path that exists"},
    {"42501", error::cannot_open, true,
     "grant this user USAGE and CREATE on the schema, or all rights on the tables canigo_… and the sequence of "
     "canigo_job"},
    {"42P01", error::failed, true, "restore the table; without any table canigo_… the next call makes all of them"},
    {"42703", error::failed, true, "leave the tables canigo_… as the library made them"},
    {"25006", error::read_only, true, "name the primary server, or add target_session_attrs=read-write to the URL"},
    {"53100", error::full, true, "free space on the server's disk"},
    {"53300", error::cannot_open, false, "let the server have more connections: max_connections"},
    {"55P03", error::locked, true, "end long transactions of other connections, or raise lock_limit"},
    {"40", error::locked, true, "do the whole transaction again"},
    {"57014", error::locked, true, "raise answer_limit, or the server's statement_timeout"},
    {"57P0", error::cannot_open, false, "wait until the server is up again"},
    {"08", error::cannot_open, false, "look whether the server runs, and at its log"},
    {"58", error::io, true, "look at the server's disk and its log"},
    {"XX00", error::corrupt, true, "look at the server's log, and restore the database"},
    {"22021", error::failed, true, "use UTF-8 without NUL in the names of queues and kinds"},
    {"", error::failed, true, nullptr},
};

const state_meaning& meaning_of(std::string_view state) {
  return *std::ranges::find_if(state_meanings, [&](const state_meaning& m) { return state.starts_with(m.state); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

/// Joins the lines of the text by "; ", and drops tabs.
std::string in_one_line(std::string_view text) {
  std::string line;
  for (const char c : trimmed(text)) {
    if (c == '\n') {
      line += "; ";
    } else if (c != '\t') {
      line += c;
    }
  }
  return line;
}

bool is_state(std::string_view text) {
  constexpr std::string_view letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return text.find_first_not_of(letters) == 5 && text.substr(5).starts_with(": ");
}

}  // namespace

postgres_place::postgres_place(const std::string& url) {
  using canigo::detail::throw_invalid;
  constexpr const char* range = "a URL of PostgreSQL, such as postgresql://user@host/database";
  const auto free = [](PQconninfoOption* o) { ::PQconninfoFree(o); };
  char* complaint = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(free)> given{::PQconninfoParse(url.c_str(), &complaint), free};
  ::PQfreemem(complaint);  // the error message is not shown, because it may quote the password
  if (given == nullptr || url.find('\0') != std::string::npos) throw_invalid("postgres_store.url", "***", range);
  const std::unique_ptr<PQconninfoOption, decltype(free)> defaults{::PQconndefaults(), free};
  const auto set = [&](const std::string& key, const std::string& value, bool is_forced = false) {
    const auto there = std::ranges::find(settings_, key, &std::pair<std::string, std::string>::first);
    if (there == settings_.end()) {
      settings_.emplace_back(key, value);
    } else if (is_forced) {
      there->second = value;
    }
  };
  for (const auto* o = given.get(); o->keyword != nullptr; ++o) {
    if (o->val != nullptr && *o->val != '\0') set(o->keyword, o->val);
  }
  const auto part = [&](std::string_view key) -> std::string {
    for (const auto& [name, value] : settings_) {
      if (name == key) return value;
    }
    for (const auto* o = defaults.get(); o != nullptr && o->keyword != nullptr; ++o) {
      if (o->keyword == key && o->val != nullptr) return o->val;
    }
    return {};
  };
  const std::string host = !part("host").empty() ? part("host") : part("hostaddr");
  const std::string database = !part("dbname").empty() ? part("dbname") : part("user");
  name_ =
      "postgresql://" + part("user") + "@" + (host.empty() ? "localhost" : host) + ":" + part("port") + "/" + database;
  set("client_encoding", "UTF8", true);
  set("fallback_application_name", "canigo");
  // With keep-alive probes, a vanished server is detected even if nothing is sent.
  set("keepalives_idle", "30");
  set("keepalives_interval", "10");
  set("keepalives_count", "3");
}

bool postgres_error::is_for_good() const noexcept { return !state_.empty() && meaning_of(state_).is_for_good; }

bool postgres_error::is_conflict() const noexcept {
  return state_ == "40001" || state_ == "40P01" || state_ == "23505";
}

bool postgres_error::ends_connection() const noexcept {
  // Errors that a new connection may repair, because the library then makes the tables and prepares the statements
  // again.
  const std::string_view ends[] = {"57P0", "08", "42P01", "42703", "0A000", "25006", "XX00"};
  return std::ranges::any_of(ends, [&](std::string_view s) { return state_.starts_with(s); });
}

postgres_lost::postgres_lost(const std::string& text, bool is_unknown_)
    : std::system_error{make_error_code(is_unknown_ ? error::unknown_outcome : error::cannot_open), text},
      is_unknown{is_unknown_} {}

postgres_error error_of(const std::string& place, std::string_view state, std::string_view message) {
  std::string text =
      place + ": PostgreSQL's error " + (state.empty() ? "" : std::string{state} + ", ") + in_one_line(message);
  if (state.empty()) {
    text += "; look whether the server runs, and whether the URL names it";
    return {make_error_code(error::cannot_open), text, {}};
  }
  const state_meaning& m = meaning_of(state);
  if (m.advice != nullptr) text.append("; ").append(m.advice);
  return {make_error_code(m.code), text, std::string{state}};
}

postgres_error error_of(const std::string& place, const PGresult* answer) {
  const auto field = [&](int code) {
    const char* value = ::PQresultErrorField(answer, code);
    return std::string_view{value != nullptr ? value : ""};
  };
  const std::string_view state = field(PG_DIAG_SQLSTATE);
  const std::string_view message = field(PG_DIAG_MESSAGE_PRIMARY);
  return error_of(place, state, message.empty() ? std::string_view{::PQresultErrorMessage(answer)} : message);
}

postgres_error error_of(const std::string& place, PGconn* connection) {
  return error_of_verbose(place, ::PQerrorMessage(connection), ::PQconnectionNeedsPassword(connection) != 0);
}

postgres_error error_of_verbose(const std::string& place, std::string_view text, bool needs_password) {
  constexpr std::string_view before = ":  ";
  for (std::string_view rest = text; rest.find(before) != rest.npos;) {
    rest.remove_prefix(rest.find(before) + before.size());
    if (!is_state(rest)) continue;
    const std::string_view message = rest.substr(7);
    return error_of(place, rest.substr(0, 5), message.substr(0, message.find("\nLOCATION:")));
  }
  return error_of(place, needs_password ? "28P01" : "", text);
}

}  // namespace canigo::jobs::detail
