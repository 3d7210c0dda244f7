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

/// The client's engine around curl's multi interface. It needs no strand: a thread that has an event for curl also does
/// curl's work.
///
/// Each event (a new request, a cancellation, a ready socket, an expired timer) is added to a mailbox under a short
/// lock. One thread at a time reads the mailbox and calls curl, without holding a lock. If no thread is working when an
/// event comes, a thread of the event loop begins to work immediately; any other thread posts the work. So two threads
/// are never in curl at the same time, and no thread waits for another one.
class engine final : public std::enable_shared_from_this<engine>,
                     private socket_listener,
                     private canigo::detail::context_member {
 public:
  /// Makes an engine. Precondition: the options were checked.
  static std::shared_ptr<engine> open(const net::any_io_executor& executor, const client_options& options);

  void start(transfer& t) noexcept;
  void cancel(transfer& t) noexcept;
  /// Starts the wait `w` of a caller for the next step of `s`, such as the next bytes of the body. Precondition: `s`
  /// has been started.
  void ask(stream& s, step& w) noexcept;
  /// Cancels the wait `w` of a caller. Has no effect if the caller was already notified.
  void cancel(stream& s, const step& w) noexcept;
  /// Called when the deadline of a transfer has come.
  void time_is_up(transfer& t) noexcept;
  void close() noexcept;

  client_stats stats() const noexcept;
  const net::any_io_executor& executor() const noexcept { return executor_; }
  std::size_t most_per_host() const noexcept { return queue_.most_per_host(); }

  // Called when the head of the response of a stream has arrived. Threads: the working thread.
  void head_came(transfer& t) noexcept;
  /// Disables the timeout of the transfer. From now on, its duration depends on how fast its caller reads or writes.
  void time_of_caller_begins(transfer& t) noexcept;
  /// Returns the step of the stream for which a caller waits; null if no caller waits.
  step* waiting_step(const stream& s) const noexcept;
  /// Makes the engine notify the caller of the transfer at the end of the current round of work.
  void has_news(transfer& t) noexcept { undelivered_.push(t); }
  /// If a caller waits for the next step of `s`, and the step is complete, notifies the caller. If there is no memory
  /// for the notification, throws, and the caller continues to wait.
  void tell(stream& s);

 private:
  struct on_work;
  engine(const net::any_io_executor& executor, const client_options& options);
  ~engine() = default;

  // The following functions handle the end of the engine and of its context. Another thread may destroy the context.
  void unreferenced() noexcept;
  void context_shutdown() noexcept override;
  void let_go_of_context() noexcept;

  // The following functions may be called on any thread.
  template <class Put>
  void bring(Put&& put) noexcept;
  void alarm_called() noexcept;
  void socket_fired(socket_watch& w, int what, std::error_code ec) noexcept override;
  std::shared_ptr<socket_listener> share() noexcept override { return {shared_from_this(), this}; }
  bool claim_work() noexcept;
  void post_work() noexcept;
  /// Posts the engine's work to the event loop. If there is no memory for the post, does the work on this thread.
  /// Precondition: context_use_ is held, and the context exists.
  void post_or_work() noexcept;

  // Only the working thread calls the following functions.
  void work() noexcept;
  /// Does a part of the engine's work. Returns true if no work is left.
  bool turn() noexcept;
  bool read_one() noexcept;
  bool nothing_left() noexcept;
  void note_stats() noexcept;
  void read_results() noexcept;
  void close_curl() noexcept;

  // The following functions handle the phases of a transfer, from its start to its end.
  void begin(transfer& t) noexcept;
  void start_waiting_ones() noexcept;
  std::error_code hand_to_curl(transfer& t);
  void set_deadline(transfer& t) noexcept;
  /// Starts the timeout of the transfer, counted from `begin`.
  void set_timeout(transfer& t, time_point begin) noexcept;
  /// If a time limit of the transfer has passed, ends the transfer and returns true. Otherwise sets the next deadline.
  bool deadline_passed(transfer& t) noexcept;
  void resume(transfer& t) noexcept;
  /// Returns a text with the time limit that has passed, and the step that the transfer was waiting for. Returns an
  /// empty text if there is no memory.
  std::string passed_limit(const transfer& t) const noexcept;
  /// Returns the text of an error: the host, the problem, and whether the transfer was still in the queue.
  static std::string with_place(const transfer& t, std::error_code ec) noexcept;
  /// Ends the transfer for its caller. If request::linger is set and the whole request was sent, the transfer continues
  /// without the caller. Any other transfer ends.
  void give_up(transfer& t, std::error_code ec) noexcept;
  void finish(transfer& t, std::error_code ec) noexcept;
  void hand_over(transfer& t) noexcept;
  void deliver() noexcept;

  void set_alarm() noexcept;

  const client_options options_;
  time_source* time_;
  canigo::detail::context_service* context_;
  net::any_io_executor executor_;
  // the executor of the event loop, without the strand of the client's executor: the engine's work needs no strand
  net::any_io_executor loop_executor_;
  canigo::detail::fixed_memory<128> work_memory_;

  // Held by a thread that uses the context outside of the context's own handlers. The destruction of the context waits
  // for this lock.
  canigo::detail::mutex context_use_;
  // Whether the last reference to this engine was released during the shutdown of the context. If so,
  // context_shutdown() deletes this engine.
  bool is_left_to_context_ = false;

  // The following members are guarded by mutex_.
  mutable canigo::detail::mutex mutex_;
  linked_list<transfer, in_engine> transfers_;  // all transfers whose callers have not been notified of the end
  linked_list<transfer, in_mail> transfer_mail_;
  linked_list<socket_watch, in_mail> socket_mail_;
  bool alarm_called_ = false;
  bool has_mail_ = false;  // whether the mailbox may contain unread events
  bool closing_ = false;
  bool context_gone_ = false;  // whether the context was destroyed; written with context_use_ and mutex_ held
  bool busy_ = false;          // whether a thread does the engine's work, or the work is posted
  client_stats stats_;

  // The following members are used only by the working thread.
  multi multi_;
  host_queue queue_;
  // transfers whose callers must be notified, including transfers whose notification failed for lack of memory
  linked_list<transfer, in_delivery> undelivered_;
  net::any_io_executor work_guard_;  // keeps the loop running; set while any transfer is pending
  canigo::detail::shared_alarm<engine> alarm_;
};

}  // namespace canigo::http::detail
