#pragma once

#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace canigo::gateway {

/// Resolves host names by the system's resolver, on several threads of its own.
///
/// Asio's resolver resolves one name after the other, without a time limit, so a name whose server does not answer
/// would delay all other names. Here each name occupies one thread, however many callers wait for it. At most half of
/// the threads resolve names of one zone; a zone is the last two labels of a name, such as "example.com". Each caller
/// has its own time limit. Threads: any.
class name_lookup {
 public:
  /// Throws std::system_error if the system can't start a thread.
  explicit name_lookup(std::size_t threads = 8);
  /// Blocks until all running look-ups have ended.
  ~name_lookup();
  name_lookup(const name_lookup&) = delete;
  name_lookup& operator=(const name_lookup&) = delete;

  /// Returns the addresses of a host. An IP address is returned unchanged.
  ///
  /// `waiting`: points to a timer during the wait, and is null afterwards; cancelling the timer ends the wait. Errors:
  /// errc::timed_out after `limit`; operation_aborted; no_buffer_space if 10,000 callers wait already; the errors of
  /// the system's resolver.
  net::awaitable<std::vector<net::ip::tcp::endpoint>> find(std::string host, std::uint16_t port, duration limit,
                                                           net::steady_timer*& waiting, error_code& error);

 private:
  struct question;
  struct look_up;
  struct zone {
    std::size_t threads = 0;                      // the number of threads that now work for this zone
    std::list<std::shared_ptr<look_up>> waiting;  // the look-ups that no thread has begun yet
  };
  using questions = std::vector<std::shared_ptr<question>>;

  bool enter(const std::string& host, const std::shared_ptr<question>& q);
  void leave(const std::string& host, const std::shared_ptr<question>& q);
  std::shared_ptr<look_up> next_of(std::string_view zone_name);
  questions end(const look_up& l);
  void work(const std::string& zone_name);
  void end_threads() noexcept;

  const std::size_t most_of_a_zone_;
  std::mutex mutex_;
  std::size_t waiting_ = 0;  // the number of callers that wait
  std::map<std::string, std::shared_ptr<look_up>, std::less<>> by_host_;
  std::map<std::string, zone, std::less<>> zones_;  // only the zones with a look-up that waits or runs
  net::io_context work_;
  net::executor_work_guard<net::io_context::executor_type> keeps_on_;
  std::vector<std::thread> threads_;
};

}  // namespace canigo::gateway
