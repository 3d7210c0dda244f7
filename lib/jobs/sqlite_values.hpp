#pragma once

#include "canigo/jobs/job_info.hpp"
#include "canigo/time.hpp"

#include "sqlite_db.hpp"
#include "table.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

// Converts the values of a job to and from SQLite columns.
namespace canigo::jobs::detail {

inline std::int64_t number(instant t) noexcept { return t.time_since_epoch().count(); }
inline std::int64_t number(job_state s) noexcept { return static_cast<std::int64_t>(s); }
inline instant instant_of(std::int64_t n) noexcept { return instant{std::chrono::microseconds{n}}; }
inline std::optional<std::int64_t> number_unless(bool is_none, instant t) noexcept {
  return is_none ? std::nullopt : std::optional{number(t)};
}
inline std::optional<instant> instant_at(const sqlite_statement& s, int column) noexcept {
  return s.is_null(column) ? std::nullopt : std::optional{instant_of(s.integer(column))};
}

}  // namespace canigo::jobs::detail
