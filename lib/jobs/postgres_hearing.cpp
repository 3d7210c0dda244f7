#include "postgres_hearing.hpp"

namespace canigo::jobs::detail {

bool postgres_hearing::hear(int pid, std::string_view payload) noexcept {
  if (state_ == state::unknown && payload == probe_) {
    state_ = state::works;
    // Another connection has sent the probe (a test notification). If the probe comes from the server process of this
    // connection, all clients share one session, as in PGlite. In this case `pid` does not show which client has sent a
    // notification.
    is_shared_ = pid == pid_;
  }
  const bool is_own = state_ == state::works && !is_shared_ && pid == pid_;
  return !is_own;
}

void postgres_hearing::note_process(int pid) noexcept {
  if (pid != pid_) state_ = state::lent;
}

void postgres_hearing::judge(time_point now) noexcept {
  if (state_ == state::unknown && now >= saturating_add(sent_at_, longest_way)) state_ = state::lent;
}

}  // namespace canigo::jobs::detail
