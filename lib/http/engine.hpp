#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/context_service.hpp"
#include "canigo/detail/context/post.hpp"
#include "canigo/detail/context/shared_alarm.hpp"
#include "canigo/http/client.hpp"
#include "canigo/time_source.hpp"

#include "host_queue.hpp"
#include "multi.hpp"
#include "stream.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <system_error>

namespace canigo::http::detail {

/// curl's multi interface. The thread that has news for curl also does curl's work.
///
/// Each event (a new request, a cancellation, a socket that is ready, a time that has come) goes into the mail under a
/// short lock. One thread at a time reads the mail and works on curl, with no lock held. If no thread works when mail
/// comes, a thread of the event loop begins to work, and any other thread posts the work. So curl is never entered
/// twice, no thread waits for it, and one thread pays for no strand.
class engine final : public std::enable_shared_from_this<engine>,
                     private socket_listener,
                     private canigo::detail::context_member {
 public:
  /// The options are checked.
  static std::shared_ptr<engine> open(const net::any_io_executor& executor, const client_options& options);

  void start(transfer& t) noexcept;
  void cancel(transfer& t) noexcept;
  /// Lets a caller wait for the next step of an exchange that was started.
  void ask(stream& s, step& w) noexcept;
  /// The caller of that step wants to cancel. Has no effect if it was told already.
  void cancel(stream& s, const step& w) noexcept;
  /// Called for the deadline of a transfer, whose time has come.
  void time_is_up(transfer& t) noexcept;
  void close() noexcept;

  client_stats stats() const noexcept;
  const net::any_io_executor& executor() const noexcept { return executor_; }
  std::size_t most_per_host() const noexcept { return queue_.most_per_host(); }

  // Called for a stream, on the thread that works.
  void head_came(transfer& t) noexcept;
  /// From here on the timeout does not count: the caller of the transfer may take any time.
  void time_of_caller_begins(transfer& t) noexcept;
  /// The step of this stream that waits; null if no step waits.
  step* waiting_step(const stream& s) const noexcept;
  /// Has the caller of the transfer told at the end of this round.
  void has_news(transfer& t) noexcept { undelivered_.push(t); }
  /// Tells the caller that waits for the next step, if that step is complete. Throws if there is no memory; nothing has
  /// happened then.
  void tell(stream& s);

 private:
  struct on_work;
  engine(const net::any_io_executor& executor, const client_options& options);
  ~engine() = default;

  // The end of the engine, and that of its context, which may go on another thread.
  void unreferenced() noexcept;
  void context_shutdown() noexcept override;
  void let_go_of_context() noexcept;

  // These may be called from any thread.
  template <class Put>
  void bring(Put&& put) noexcept;
  void alarm_called() noexcept;
  void socket_fired(socket_watch& w, int what, std::error_code ec) noexcept override;
  std::shared_ptr<socket_listener> share() noexcept override { return {shared_from_this(), this}; }
  bool claim_work() noexcept;
  void post_work() noexcept;
  /// Like post_work(), with context_use_ held and the context there.
  void post_or_work() noexcept;

  // From here on, only the thread that works calls the members.
  void work() noexcept;
  /// Whether nothing is left to do.
  bool turn() noexcept;
  bool read_one() noexcept;
  bool nothing_left() noexcept;
  void note_stats() noexcept;
  void read_results() noexcept;
  void close_curl() noexcept;

  // A transfer's way through.
  void begin(transfer& t) noexcept;
  void start_waiting_ones() noexcept;
  std::error_code hand_to_curl(transfer& t);
  void set_deadline(transfer& t) noexcept;
  /// Lets the timeout of the transfer count from `begin` on.
  void set_timeout(transfer& t, time_point begin) noexcept;
  /// If a time limit of the transfer has passed, gives the transfer up and returns true. Otherwise waits for the next
  /// one.
  bool deadline_passed(transfer& t) noexcept;
  void resume(transfer& t) noexcept;
  /// Names the time limit that the transfer has passed, and the step that it still waited for; empty without memory.
  std::string passed_limit(const transfer& t) const noexcept;
  /// A text of two parts: the host, with a note if the transfer still waits for a place there, and the problem.
  static std::string with_place(const transfer& t, std::error_code ec) noexcept;
  /// Ends the transfer for its caller. If it lingers, it goes on without the caller; otherwise it ends, too.
  void give_up(transfer& t, std::error_code ec) noexcept;
  void finish(transfer& t, std::error_code ec) noexcept;
  void hand_over(transfer& t) noexcept;
  void deliver() noexcept;

  void set_alarm() noexcept;

  const client_options options_;
  time_source* time_;
  canigo::detail::context_service* context_;
  net::any_io_executor executor_;
  net::any_io_executor loop_executor_;  // without a strand around it: the work needs none
  canigo::detail::fixed_memory<128> work_memory_;

  // Held by a thread that uses the context outside of the context's own handlers, because the context might go
  // meanwhile. The end of the context waits for this lock.
  canigo::detail::mutex context_use_;
  bool is_left_to_context_ = false;  // the last reference went during the shutdown: context_shutdown() deletes this

  // Guarded by mutex_.
  mutable canigo::detail::mutex mutex_;
  linked_list<transfer, in_engine> transfers_;  // all transfers that have not been handed over
  linked_list<transfer, in_mail> transfer_mail_;
  linked_list<socket_watch, in_mail> socket_mail_;
  bool alarm_called_ = false;
  bool has_mail_ = false;  // some mail may not have been read
  bool closing_ = false;
  bool context_gone_ = false;  // written with both locks held
  bool busy_ = false;          // a thread works, or work is posted
  client_stats stats_;

  // Only for the thread that works.
  multi multi_;
  host_queue queue_;
  linked_list<transfer, in_delivery> undelivered_;  // with news for their callers, or without the memory to end
  net::any_io_executor work_guard_;                 // while any transfer is pending
  canigo::detail::shared_alarm<engine> alarm_;
};

}  // namespace canigo::http::detail
