#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::redis {

/// Where a Redis is, and as whom to speak to it: what a URL says.
///
///     redis://[[user]:password@]host[:port][/database]
///     rediss://…                                            the same with TLS
///     unix:[//[[user]:password@]]/path/of/socket[?db=N]
///     redis+sentinel://[[user]:password@]host[:port][,host[:port]…]/master[/database]
///
/// User and password are percent-decoded, an IPv6 address stands in brackets, and the ports are 6379 and, of
/// sentinels, 26379 by default.
struct endpoint {
  struct address {
    std::string host;
    std::string port;
  };

  std::vector<address> addresses;  ///< one; the sentinels where there is a `master`; none for a socket
  std::string path;                ///< of a Unix domain socket
  std::string master;              ///< the name by which sentinels know it
  std::string user;
  std::string password;
  std::uint32_t database = 0;
  bool tls = false;

  /// Errors: errc::invalid_argument, naming the part that is wrong, and never the password.
  static endpoint parse(std::string_view url);

  /// The URL again, without user and password.
  std::string to_string() const;
};

}  // namespace canigo::redis
