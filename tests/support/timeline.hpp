#pragma once

#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/request.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <string>
#include <system_error>
#include <utility>
#include <vector>

/// Returns how an operation ended, as one word: "stopped", "cancelled"; empty for success.
inline std::string word_for(std::error_code code) {
  if (!code) return "";
  if (code == canigo::net::error::operation_aborted) return "cancelled";
  if (code.category() != canigo::error_category()) return code.message();
  switch (static_cast<canigo::errc>(code.value())) {
    case canigo::errc::queue_full:
      return "queue_full";
    case canigo::errc::evicted:
      return "evicted";
    case canigo::errc::timed_out:
      return "timed_out";
    case canigo::errc::deadline_unreachable:
      return "unreachable";
    case canigo::errc::stopped:
      return "stopped";
    case canigo::errc::invalid_priority:
      return "invalid_priority";
    case canigo::errc::invalid_argument:
      return "invalid_argument";
    case canigo::errc::too_large:
      return "too_large";
    case canigo::errc::not_enough_memory:
      return "not_enough_memory";
    case canigo::errc::shed:
      return "shed";
    default:
      return code.message();
  }
}

using events = std::vector<std::string>;

/// An io_context in virtual time, with a log of what happened when: "a 200ms", "b timed_out 1s".
class timeline {
 public:
  canigo::net::io_context io;
  canigo::testing::virtual_time time{io};
  events log;

  canigo::time_point at(canigo::duration d) const { return canigo::time_point{} + d; }
  bool idle() { return canigo::time_source::of(io.get_executor()).idle(); }

  void note(const std::string& who, std::error_code how = {}) {
    const std::string word = word_for(how);
    log.push_back(who + (word.empty() ? " " : " " + word + " ") + canigo::to_string(time.elapsed()));
  }

  /// Starts a coroutine that waits for `r`, and logs how that ended.
  void acquire(canigo::scheduler& s, std::string who, canigo::request r = {}) {
    canigo::net::co_spawn(io, acquiring(*this, s, std::move(who), r), canigo::net::detached);
  }
  /// Starts such a coroutine for each name. All requests are made when this returns.
  void acquire_all(canigo::scheduler& s, const events& names, canigo::request r = {}) {
    for (const auto& name : names) acquire(s, name, r);
    time.poll();
  }

  events take_log() { return std::exchange(log, {}); }
  events poll() { return time.poll(), take_log(); }
  events run() { return time.run(), take_log(); }
  events run_for(canigo::duration d) { return time.run_for(d), take_log(); }
  events run_until(canigo::duration d) { return time.run_until(at(d)), take_log(); }

 private:
  static canigo::net::awaitable<void> acquiring(timeline& t, canigo::scheduler& s, std::string who, canigo::request r) {
    std::error_code how;
    try {
      co_await s.acquire(r);
    } catch (const std::system_error& e) {
      how = e.code();
    }
    t.note(who, how);
  }
};
