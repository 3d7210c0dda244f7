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

/// Reads calls and makes them: as many ahead as there is room for, at the rate that is allowed, the important first.
class fetcher {
 public:
  fetcher(asio::io_context& io, const options& o, report& r);

  /// Ends when the input has, and every call has been reported.
  asio::awaitable<void> run();
  /// The signal that ended it early; 0: none did.
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
  canigo::limiter limits_;  // rate and connections in one step
  canigo::http::client http_;
  const canigo::backoff backoff_;  // of a call that was not told when to come back
  std::mt19937_64 random_{std::random_device{}()};
  std::optional<journal> journal_;
  std::optional<output_dir> folder_;  // for bodies
  notice news_;                       // for let_go(): a call, a place, the end
  notice room_;                       // for read_lines()
  canigo::cancel_source over_;        // ends what only runs beside the calls
  std::size_t running_ = 0;
  std::size_t calls_read_ = 0;  // with those that were done before
  bool has_read_all_ = false;
  int signal_ = 0;
};

}  // namespace fetch
