#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/jobs/detail/local_store.hpp"
#include "canigo/jobs/sqlite_store.hpp"
#include "canigo/wait_group.hpp"

#include "changes.hpp"
#include "gathering.hpp"
#include "knocker.hpp"
#include "sqlite_db.hpp"
#include "sqlite_table.hpp"
#include "wake_socket.hpp"

#include <asio/any_io_executor.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace canigo::jobs {

/// The worker thread of a sqlite_store. Callers add operations to a list. The thread carries out all operations of the
/// list in one transaction.
class sqlite_store::line {
 public:
  /// An operation that a caller waits for. The operation may outlive the caller, and the execution context of the
  /// caller.
  struct order {
    order(const net::any_io_executor& executor, weight w, step s) : how{w}, what{std::move(s)}, done{executor} {
      done.add();
    }
    weight how;
    step what;
    std::exception_ptr error;
    wait_group done;
  };
  using orders = std::vector<std::shared_ptr<order>>;

  line(const net::any_io_executor& executor, std::string file, const sqlite_store_options& options);
  ~line();

  /// Adds an operation. Throws errc::stopped after stop().
  std::shared_ptr<order> push(weight w, step s);
  void stop() noexcept;
  void want_ring() noexcept;

  instant now() const { return options_.clock ? options_.clock() : system_now(); }
  const std::string& file() const noexcept { return file_; }
  const sqlite_store_options& options() const noexcept { return options_; }
  const std::shared_ptr<detail::changes>& news() const noexcept { return news_; }

 private:
  struct connection;

  static instant system_now() noexcept;
  void wait(duration most) noexcept;
  std::size_t waiting() const noexcept;

  // The following functions run on the worker thread.
  void run() noexcept;
  bool try_all(const orders& list);
  void carry_out(const orders& list);
  void commit(const orders& list);
  void commit(weight how, const step& what);
  std::unique_ptr<connection> connect();
  void open();
  [[noreturn]] void throw_gone() const;
  void tell_others(bool has_news);
  void look_at_others();
  void hear_others() noexcept;

  const net::any_io_executor executor_;
  const std::string file_;
  const sqlite_store_options options_;
  const std::int64_t holder_;
  const std::shared_ptr<detail::changes> news_;
  detail::knocker knocker_;

  mutable canigo::detail::mutex mutex_;
  orders box_;
  bool is_stopped_ = false;
  bool is_ending_ = false;
  bool wants_ring_ = false;

  // The following members are used on the worker thread only.
  std::optional<detail::wake_socket> socket_;
  std::unique_ptr<connection> connection_;
  std::vector<std::int64_t> gone_;  // the ended processes whose leases must still be ended
  int wal_pages_ = 0;
  detail::gathering gathering_;

  std::thread thread_;
};

}  // namespace canigo::jobs
