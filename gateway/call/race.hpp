#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/upstream/attempt_end.hpp"
#include "gateway/upstream/exchange.hpp"
#include "gateway/upstream/response_sink.hpp"
#include "gateway/wire/message.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Two concurrent attempts for one request. The response of one of them goes to the client. Both run on one event loop.
class race {
 public:
  /// `next` receives the response that goes to the client.
  race(const net::any_io_executor& loop, exchange& first, response_sink& next);
  ~race() { lanes_[0].of->beside = nullptr; }
  race(const race&) = delete;
  race& operator=(const race&) = delete;

  /// Returns a new exchange for the second attempt, a copy of the first attempt's exchange. This race owns the new
  /// exchange.
  exchange& enter();
  /// Returns the sink for the responses of attempt `i`, 0 or 1.
  response_sink& sink(std::size_t i) noexcept { return lanes_[i]; }
  /// Returns the completion handler for the coroutine of attempt `i`, 0 or 1.
  auto ending(std::size_t i) {
    return [this, i](const std::exception_ptr& error, attempt_end end) {
      lanes_[i].end = error ? attempt_end::lost : end;
      last_ = i;
      bell_.cancel();
    };
  }

  /// Waits until an attempt has a response or has ended, for at most `limit`.
  net::awaitable<void> wait(duration limit);
  /// Whether a second attempt may still help: no attempt has a response yet, and the first attempt has not ended.
  bool is_open() const noexcept { return winner_ == nullptr && !lanes_[0].end; }
  bool is_running() const noexcept { return lanes_[0].runs() || lanes_[1].runs(); }
  bool has_second_won() const noexcept { return winner_ == &lanes_[1]; }
  /// Returns the attempt, 0 or 1, whose end decides the result of the race. If the client gets the response of an
  /// attempt, that attempt decides. Otherwise, an attempt that the upstream may have received takes precedence over an
  /// attempt that was not sent. If these rules do not decide, the attempt that ended last does.
  std::size_t decisive() const noexcept;
  attempt_end end_of_other() const noexcept { return *lanes_[1 - decisive()].end; }
  /// Returns how the attempt decisive() ended. Copies the results of that attempt to the exchange of the first attempt.
  attempt_end take_result();

 private:
  /// Receives the response of one attempt, and passes it to `next_` unless the response is dropped.
  struct lane final : response_sink {
    race* home = nullptr;
    exchange* of = nullptr;  // the exchange of the attempt; null: the attempt has not started
    std::optional<attempt_end> end;
    bool is_put_back = false;  // the response of this attempt is dropped
    bool made_way = false;  // the response was dropped because it was a failure and the other attempt was still running

    bool runs() const noexcept { return of != nullptr && !end; }
    bool see_head(const message_head& h, std::string_view body, std::size_t target) override {
      return home->next_.see_head(h, body, target);
    }
    bool drops(const message_head& h, std::string_view body, std::size_t target) override {
      return home->drops(*this, h, body, target);
    }
    bool may_answer() override { return home->claim(*this); }
    std::string head_for_client(const message_head& h) override { return home->next_.head_for_client(h); }
    void see_piece(std::string_view piece) override { home->next_.see_piece(piece); }
    void begin_tunnel() override { home->next_.begin_tunnel(); }
    void watch_client(bool is_on) override { home->next_.watch_client(is_on); }
  };

  lane& other_than(const lane& l) noexcept { return &l == &lanes_[0] ? lanes_[1] : lanes_[0]; }
  bool drops(lane& l, const message_head& h, std::string_view body, std::size_t target);
  bool claim(lane& l);

  net::steady_timer bell_;
  response_sink& next_;
  std::array<lane, 2> lanes_;
  std::optional<exchange> second_;
  std::size_t last_ = 0;
  const lane* winner_ = nullptr;
};

}  // namespace canigo::gateway
