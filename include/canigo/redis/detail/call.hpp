#pragma once

#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/context/timed_call.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/redis/reply.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

namespace canigo::redis::detail {

class engine;
class call;

/// The entry of a command in the list of commands to be sent, or in the list of commands to be answered.
struct call_place {
  call* whose;                             // the call that waits for the reply; null: its caller has stopped waiting
  time_point sent_at = time_point::max();  // when the command was sent; max: not sent yet
};

/// A caller that waits for the reply to a command.
class call : public canigo::detail::suspended {
 public:
  using results = std::tuple<std::error_code, reply>;

  call(std::shared_ptr<engine> e, const command& c);

  results take_results() noexcept { return {error_, std::move(reply_)}; }
  static results failed(errc code) noexcept { return {make_error_code(code), {}}; }
  void abandon() noexcept {}
  void request_cancel() noexcept;
  const net::any_io_executor& home_executor() const noexcept;
  /// Sets the error of a call before the call is passed to the engine.
  void fail(errc code) noexcept { error_ = code; }

 protected:
  ~call();

  std::error_code cause_;      // why there was no connection to send the command
  std::int64_t awake_at_ = 0;  // when the command was sent, on a clock that runs while the machine sleeps; 0: not sent

 private:
  friend class engine;
  friend class canigo::detail::timed_call<call>;
  friend void start(call& c) noexcept;
  void time_is_up(due why) noexcept;

  std::shared_ptr<engine> engine_;
  const std::string bytes_;
  const std::size_t run_id_at_;  // the position of the run id in the arguments; npos: none
  const bool asks_first_;        // whether ASKING is sent before the command
  const bool is_restated_;       // whether a later command repeats the content of this command if this command is lost
  const std::optional<duration> timeout_;
  reply reply_;
  std::error_code error_;
  canigo::detail::timed_call<call> deadline_;

  // Used only with the engine's lock held.
  std::list<call_place>::iterator place_;  // the entry in one of the engine's lists, unless the call has ended
  time_point sent_at_ = time_point::max();
};

/// The result of a call as one value. So use_awaitable does not throw the error; the caller throws it after adding a
/// text.
struct answer {
  std::error_code error;
  reply what;
  std::error_code cause = {};
  std::int64_t sent_at = 0;
};

class answered_call : public call {
 public:
  using call::call;
  using results = std::tuple<answer>;

  results take_results() noexcept {
    auto [ec, r] = call::take_results();
    return {answer{ec, std::move(r), cause_, awake_at_}};
  }
  static results failed(errc code) noexcept { return {answer{make_error_code(code), {}}}; }
};

void start(call& c) noexcept;
const net::any_io_executor& executor_of(const engine& e) noexcept;

/// Starts a call for a caller with a completion token.
template <class Call>
using start_call = canigo::detail::initiation<Call, engine>;

}  // namespace canigo::redis::detail
