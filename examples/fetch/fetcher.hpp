#pragma once

#include <canigo/cancel.hpp>
#include <canigo/http/client.hpp>
#include <canigo/limiter.hpp>
#include <canigo/semaphore.hpp>

#include "call.hpp"
#include "input.hpp"
#include "options.hpp"
#include "report.hpp"

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>

#include <cstddef>

namespace fetch {

/// Reads calls and makes them: as many ahead as there is room for, at the rate that is allowed, the important first.
class fetcher {
 public:
  fetcher(asio::io_context& io, const options& o, report& r);

  /// Ends when the input has, and every call has been reported.
  asio::awaitable<void> run();
  bool was_interrupted() const noexcept { return interruptions_ > 0; }

 private:
  asio::awaitable<void> make(call c, canigo::permit place);
  asio::awaitable<void> attempt(call& c);
  asio::awaitable<void> obey_signals();
  asio::awaitable<void> show_progress();
  void pause(canigo::duration wait);
  void give_up_after(canigo::duration grace);

  asio::io_context& io_;
  const options& options_;
  report& report_;
  line_reader input_;
  canigo::semaphore room_;  // what is read ahead: reading waits for it, so memory is bounded
  canigo::limiter limits_;  // rate and connections in one step, by priority
  canigo::time_point paused_until_ = canigo::time_point::min();
  canigo::http::client http_;
  canigo::cancel_source over_;  // ends what only runs beside the calls
  int interruptions_ = 0;
};

}  // namespace fetch
