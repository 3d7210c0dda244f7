#pragma once

#include <canigo/algorithms/backoff.hpp>
#include <canigo/cancel.hpp>
#include <canigo/http/client.hpp>
#include <canigo/http/exchange.hpp>
#include <canigo/limiter.hpp>

#include "call.hpp"
#include "call_queue.hpp"
#include "input.hpp"
#include "journal.hpp"
#include "notice.hpp"
#include "options.hpp"
#include "output_dir.hpp"
#include "report.hpp"

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>

namespace fetch {

/// Reads calls from the input, as far ahead as the queue allows, and makes them within the rate. The most important
/// calls come first.
class fetcher {
 public:
  fetcher(asio::io_context& io, const options& o, report& r);

  /// Makes all calls. Returns when the input has ended and every call was reported.
  asio::awaitable<void> run();
  /// Returns the number of the signal that ended the run early; 0: no signal came.
  int signal() const noexcept { return signal_; }

 private:
  asio::awaitable<void> read_lines();
  asio::awaitable<void> let_go();
  asio::awaitable<void> make(call c, canigo::permit may_go);
  asio::awaitable<void> obey_signals();
  asio::awaitable<void> show_progress();
  progress how_far() const;
  canigo::http::request begin(call& c);
  std::optional<std::system_error> obstacle_of(const call& c) const;
  bool refuse_hopeless();
  void answered(call c, const canigo::http::response& r);
  std::optional<canigo::time_point> told_to_wait(const call& c, server& s, const canigo::http::response& r);
  bool may_try_again(const call& c) const;
  canigo::time_point after_backoff(const call& c);
  bool is_led_on(call& c, const canigo::http::response& r) const;
  static void give_back_place(call& c);
  std::string name_file(call& c) const;
  asio::awaitable<canigo::http::response> download(call& c, canigo::http::request request);
  asio::awaitable<std::uint64_t> copy(canigo::http::exchange& from, output_dir::part* to) const;
  void give_up_after(canigo::duration grace);
  bool is_stopping() const noexcept { return signal_ != 0; }
  bool is_over() const noexcept;

  asio::io_context& io_;
  const options& options_;
  report& report_;
  line_reader input_;
  call_queue queue_;
  canigo::limiter limits_;  // grants a token of the rate and a connection together
  canigo::http::client http_;
  const canigo::backoff backoff_;  // computes the delay of a retry if the server has named no wait
  std::mt19937_64 random_{std::random_device{}()};
  std::optional<journal> journal_;
  std::optional<output_dir> folder_;  // the folder for the bodies of responses; none: bodies are dropped
  notice news_;                       // wakes let_go() when a call was read, when a call ended, and when the run ends
  notice room_;                       // wakes read_lines() when the queue has space
  // at the end of all calls, cancels the other coroutines, such as the display of progress
  canigo::cancel_source over_;
  std::size_t running_ = 0;
  std::size_t calls_read_ = 0;  // the number of calls read so far, including those that succeeded in an earlier run
  bool has_read_all_ = false;
  int signal_ = 0;
};

}  // namespace fetch
