#pragma once

#include <string>

namespace redis_test {

/// What a server says to HELLO, in the form that Redis, Valkey and Redict share.
inline std::string hello_of(const std::string& mode) {
  return "*4\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$4\r\nmode\r\n$" + std::to_string(mode.size()) + "\r\n" + mode + "\r\n";
}

/// What one says that is no node of a cluster to the commands with which a client logs in: CLIENT SETNAME, HELLO, and
/// INFO, to which it says `info`.
inline std::string greeting_with(const std::string& info) {
  return "+OK\r\n" + hello_of("standalone") + "$" + std::to_string(info.size()) + "\r\n" + info + "\r\n";
}

inline const std::string usual_greeting = greeting_with("run_id:fake");
inline const std::string loading_greeting = "-LOADING a\r\n-LOADING a\r\n-LOADING a\r\n";

}  // namespace redis_test
