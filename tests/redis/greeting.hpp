#pragma once

#include <string>

namespace redis_test {

/// Returns the reply to HELLO, in the format that Redis, Valkey and Redict share.
inline std::string hello_of(const std::string& mode) {
  return "*4\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$4\r\nmode\r\n$" + std::to_string(mode.size()) + "\r\n" + mode + "\r\n";
}

/// Returns the replies of a server outside of a cluster to the login commands of a client: CLIENT SETNAME, HELLO and
/// INFO. `info` is the reply to INFO.
inline std::string greeting_with(const std::string& info) {
  return "+OK\r\n" + hello_of("standalone") + "$" + std::to_string(info.size()) + "\r\n" + info + "\r\n";
}

inline const std::string usual_greeting = greeting_with("run_id:fake");
inline const std::string loading_greeting = "-LOADING a\r\n-LOADING a\r\n-LOADING a\r\n";

}  // namespace redis_test
