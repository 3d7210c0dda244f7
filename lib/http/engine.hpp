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
  /// Makes a caller wait for the next step of an exchange that was started.
  void ask(stream& s, step& w) noexcept;
  /// Cancels the wait of the caller of step `w`. It has no effect after the caller was notified.
  void cancel(stream& s, const step& w) noexcept;
  /// Called when the deadline of a transfer has come.
  void time_is_up(transfer& t) noexcept;
  void close() noexcept;

  client_stats stats() const noexcept;
  const net::any_io_executor& executor() const noexcept { return executor_; }
  std::size_t most_per_host() const noexcept { return queue_.most_per_host(); }

  // Called when the head of the response of a stream has arrived. Threads: the working thread.
  void head_came(transfer& t) noexcept;
  /// Disables the timeout of the transfer, because from now on its caller determines the duration.
  void time_of_caller_begins(transfer& t) noexcept;
  /// Returns the waiting step of this stream; null if no step waits.
  step* waiting_step(const stream& s) const noexcept;
  /// Makes the engine notify the caller of the transfer at the end of this round.
  void has_news(transfer& t) noexcept { undelivered_.push(t); }
  /// Notifies the caller that waits for the next step, if that step is complete. Throws, without a change, if there is
  /// no memory.
  void tell(stream& s);

 private:
  struct on_work;
  engine(const net::any_io_executor& executor, const client_options& options);
  ~engine() = default;

  // The following functions handle the end of the engine and of its context, which may be destroyed on another thread.
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
  /// Posts the work to the event loop; does it on this thread if there is no memory for the post. Precondition:
  /// context_use_ is held, and the context exists.
  void post_or_work() noexcept;

  // Only the working thread calls the following functions.
  void work() noexcept;
  /// Does a part of the work. Returns whether all of it is done.
  bool turn() noexcept;
  bool read_one() noexcept;
  bool nothing_left() noexcept;
  void note_stats() noexcept;
  void read_results() noexcept;
  void close_curl() noexcept;

  // The following functions lead a transfer from its start to its end.
  void begin(transfer& t) noexcept;
  void start_waiting_ones() noexcept;
  std::error_code hand_to_curl(transfer& t);
  void set_deadline(transfer& t) noexcept;
  /// Starts the timeout of the transfer at `begin`.
  void set_timeout(transfer& t, time_point begin) noexcept;
  /// If a time limit of the transfer has passed, ends the transfer and returns true. Otherwise sets the next deadline.
  bool deadline_passed(transfer& t) noexcept;
  void resume(transfer& t) noexcept;
  /// Names the time limit that has passed, and the step that the transfer was waiting for; empty if there is no memory.
  std::string passed_limit(const transfer& t) const noexcept;
  /// Builds the text of an error: the host, with a note if the transfer is still in the queue, and the problem.
  static std::string with_place(const transfer& t, std::error_code ec) noexcept;
  /// Ends the transfer for its caller. A lingering transfer continues without the caller; any other transfer is ended.
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
  // Whether the last reference ended during the shutdown of the context. Then context_shutdown() deletes this engine.
  bool is_left_to_context_ = false;

  // The following members are guarded by mutex_.
  mutable canigo::detail::mutex mutex_;
  linked_list<transfer, in_engine> transfers_;  // all transfers that have not been handed to their callers
  linked_list<transfer, in_mail> transfer_mail_;
  linked_list<socket_watch, in_mail> socket_mail_;
  bool alarm_called_ = false;
  bool has_mail_ = false;  // whether the mailbox may contain unread events
  bool closing_ = false;
  bool context_gone_ = false;  // whether the context was destroyed; written with context_use_ and mutex_ held
  bool busy_ = false;          // whether a thread is working, or work is posted
  client_stats stats_;

  // The following members are used only by the working thread.
  multi multi_;
  host_queue queue_;
  // transfers whose callers must be notified, and those whose notification failed for lack of memory
  linked_list<transfer, in_delivery> undelivered_;
  net::any_io_executor work_guard_;  // keeps the loop running; set while any transfer is pending
  canigo::detail::shared_alarm<engine> alarm_;
};

}  // namespace canigo::http::detail
