#pragma once

#include <cstdint>
#include <string_view>

namespace canigo {

/// The state of a task in a pool.
enum class task_state : std::uint8_t { queued, delayed, running, succeeded, failed, cancelled, timed_out, stopped };

constexpr bool has_ended(task_state s) noexcept { return s >= task_state::succeeded; }

constexpr std::string_view to_string(task_state s) noexcept {
  switch (s) {
    case task_state::queued:
      return "queued";
    case task_state::delayed:
      return "delayed";
    case task_state::running:
      return "running";
    case task_state::succeeded:
      return "succeeded";
    case task_state::failed:
      return "failed";
    case task_state::cancelled:
      return "cancelled";
    case task_state::timed_out:
      return "timed_out";
    case task_state::stopped:
      return "stopped";
  }
  return "?";
}

}  // namespace canigo
