#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::redis {

/// The address of a Redis server, and the user for the login. A URL contains both:
///
///     redis://[[user]:password@]host[:port][/database]
///     rediss://…                                            the same with TLS
///     unix:[//[[user]:password@]]/path/of/socket[?db=N]
///     redis+sentinel://[[user]:password@]host[:port][,host[:port]…]/master[/database]
///
/// User and password are percent-decoded. An IPv6 address is written in brackets. The default port is 6379, and 26379
/// for sentinels.
struct endpoint {
  struct address {
    std::string host;
    std::string port;
  };

  std::vector<address> addresses;  ///< one address; several for sentinels, if `master` is set; none for a Unix socket
  std::string path;                ///< the path of a Unix domain socket
  std::string master;              ///< the name of the master that the sentinels are asked for
  std::string user;
  std::string password;
  std::uint32_t database = 0;
  bool tls = false;

  /// Parses a URL. Errors: errc::invalid_argument. The message names the invalid part, but never the password.
  static endpoint parse(std::string_view url);

  /// Returns the URL without user and password.
  std::string to_string() const;
};

}  // namespace canigo::redis
