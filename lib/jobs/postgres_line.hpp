#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/jobs/postgres_store.hpp"
#include "canigo/wait_group.hpp"

#include "changes.hpp"
#include "gathering.hpp"
#include "knocker.hpp"
#include "postgres_link.hpp"
#include "postgres_place.hpp"
#include "postgres_query.hpp"
#include "postgres_rows.hpp"

#include <asio/any_io_executor.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace canigo::jobs {

/// An operation that a caller waits for. It may outlive the caller, and the caller's context.
struct postgres_store::order {
  explicit order(const net::any_io_executor& executor) : done{executor} { done.add(); }
  std::vector<new_job> jobs = {};  // the jobs, which own the texts to which the queries refer
  std::string text = {};           // a text to which the queries refer
  std::string batch = {};
  // Whether the operation's effect must survive a crash of the server. If so, the operation fails when the connection
  // breaks and the outcome is unknown. Any other operation is then repeated.
  bool is_durable = false;
  bool tells = false;  // whether to notify other processes, because their callers may wait for this change
  bool is_claim = false;
  bool reads_much = false;  // whether the operation is a read that may take long
  std::vector<detail::postgres_query> queries;
  std::vector<detail::postgres_query> undo;  // the queries to carry out before the operation is repeated
  std::function<void(std::span<const detail::postgres_rows>)> read = {};
  // Reads this operation's part of the answer to a statement that several operations share; null: this operation can't
  // share a statement.
  std::function<void(std::span<const put_answer>)> read_put = {};
  std::function<void(verdict)> read_end = {};
  lease ends = {};  // the lease of the run that this operation ends; `text` is the result of the run
  bool is_shared = false;
  /// Whether a lock that blocks this operation also blocks `other`.
  bool waits_with(const order& other) const noexcept;
  std::exception_ptr error;
  time_point asked_at = {};
  time_point lock_end = {};  // when the operation's wait for locks ends
  bool is_held = false;      // whether the operation waits for a lock, and will be tried again
  wait_group done;
};

/// The worker thread of a postgres_store. Callers add operations to a list. The thread carries out all operations of
/// the list in one transaction. Long reads have a second thread, so that claims and renewals do not wait for them. That
/// thread is started for the first such read, and is connected only while there are such reads.
class postgres_store::line {
 public:
  using orders = std::vector<std::shared_ptr<order>>;

  enum class type : std::uint8_t { main, reads };

  line(const net::any_io_executor& executor, const std::string& url, const postgres_store_options& options,
       type t = type::main);
  ~line();

  /// Adds an operation. Throws errc::stopped after stop().
  void push(std::shared_ptr<order> o);
  void stop() noexcept;
  /// Returns a new number to identify a claim.
  std::int64_t mark();

  const net::any_io_executor& executor() const noexcept { return executor_; }
  const std::string& where() const noexcept { return place_.name(); }
  std::string_view commit_wait() const noexcept { return commit_wait_; }
  const postgres_store_options& options() const noexcept { return options_; }
  const std::shared_ptr<detail::changes>& news() const noexcept { return news_; }
  store_facts facts() const;

 private:
  line& reads();
  void wait(duration most) noexcept;
  std::size_t waiting() const noexcept;

  // The following functions run on the worker thread.
  void run() noexcept;
  void carry_out(orders list);
  bool try_once(orders& list);
  time_point give_up_at(const order& o) const noexcept;
  void lose_link() noexcept;
  static std::vector<orders> parts_of(const orders& list, bool was_locked);
  bool has_held(const std::shared_ptr<order>& o, const std::exception_ptr& e);
  void hold_back(orders& list);
  void retry_held();
  void perform(orders& list);
  struct shared_statement;
  static shared_statement share_puts(const orders& list);
  static shared_statement share_ends(const orders& list);
  void open(time_point give_up);
  void connect(duration most);
  std::unique_ptr<detail::postgres_link> dial(duration most);
  void note_hearing() noexcept;
  duration poll() const noexcept;
  void hear() noexcept;
  void look_around();
  duration pause() const noexcept;

  const type type_;
  const net::any_io_executor executor_;
  const std::string url_;
  const detail::postgres_place place_;
  const postgres_store_options options_;
  const std::string commit_wait_;  // the longest time that a commit waits for a lock, in milliseconds
  const std::shared_ptr<detail::changes> news_;
  detail::knocker knocker_;

  mutable canigo::detail::mutex mutex_;
  orders box_;
  std::uint64_t marks_;
  bool is_stopped_ = false;
  std::unique_ptr<line> reads_;
  std::string engine_;
  bool is_lent_ = false;
  std::atomic<bool> is_ending_ = false;

  // The following members are used on the worker thread only.
  std::unique_ptr<detail::postgres_link> link_;
  bool has_names_ = true;  // whether the server keeps prepared statements for this connection
  time_point lost_at_ = std::chrono::steady_clock::now();  // when the last connection was lost
  time_point look_at_ = {};
  detail::gathering gathering_;
  orders held_;  // the operations that wait for locks of other connections
  time_point retry_at_ = {};

  std::thread thread_;
};

}  // namespace canigo::jobs
