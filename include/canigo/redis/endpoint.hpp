#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::redis {

/// The address of a Redis, and the user to log in as. A URL names both:
///
///     redis://[[user]:password@]host[:port][/database]
///     rediss://…                                            the same with TLS
///     unix:[//[[user]:password@]]/path/of/socket[?db=N]
///     redis+sentinel://[[user]:password@]host[:port][,host[:port]…]/master[/database]
///
/// User and password are percent-decoded. An IPv6 address stands in brackets. The default port is 6379, that of
/// sentinels 26379.
struct endpoint {
  struct address {
    std::string host;
    std::string port;
  };

  std::vector<address> addresses;  ///< one; those of the sentinels if there is a `master`; none for a socket
  std::string path;                ///< the path of a Unix domain socket
  std::string master;              ///< the name by which sentinels know it
  std::string user;
  std::string password;
  std::uint32_t database = 0;
  bool tls = false;

  /// Errors: errc::invalid_argument. It names the part that is wrong, and never shows the password.
  static endpoint parse(std::string_view url);

  /// The URL without user and password.
  std::string to_string() const;
};

}  // namespace canigo::redis
