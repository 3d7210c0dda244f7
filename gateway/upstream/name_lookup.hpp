#pragma once

#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace canigo::gateway {

/// Asks the system for the addresses of names, on some threads of its own.
///
/// Asio's resolver asks for one name after the other, and for each as long as the system likes. A name whose server is
/// silent would then hold up all others. Here it takes one thread of several, and its caller waits no longer than it
/// wants to.
/// Threads: any.
class name_lookup {
 public:
  explicit name_lookup(std::size_t threads = 8) : pool_{threads} {}
  /// Waits for what the system has been asked.
  ~name_lookup() { pool_.stop(); }
  name_lookup(const name_lookup&) = delete;
  name_lookup& operator=(const name_lookup&) = delete;

  /// The addresses of a host, which may be an address itself.
  ///
  /// While it waits, `waiting` is what to cancel so that it ends early.
  /// Errors: errc::timed_out after `limit`; operation_aborted; no_buffer_space if 10,000 questions wait already; the
  /// system's.
  net::awaitable<std::vector<net::ip::tcp::endpoint>> find(std::string host, std::uint16_t port, duration limit,
                                                           net::steady_timer*& waiting, error_code& error);

 private:
  std::atomic<std::size_t> questions_{0};
  net::thread_pool pool_;
};

}  // namespace canigo::gateway
