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

/// Two attempts for the same request, of which one answers. On one loop.
class race {
 public:
  /// `next` takes the response of the attempt that answers.
  race(const net::any_io_executor& loop, exchange& first, response_sink& next);
  ~race() { lanes_[0].of->beside = nullptr; }
  race(const race&) = delete;
  race& operator=(const race&) = delete;

  /// The second attempt begins. Its exchange belongs to the race.
  exchange& enter();
  /// The sink of an attempt, 0 or 1.
  response_sink& sink(std::size_t i) noexcept { return lanes_[i]; }
  /// The completion of an attempt.
  auto ending(std::size_t i) {
    return [this, i](const std::exception_ptr& error, attempt_end end) {
      lanes_[i].end = error ? attempt_end::lost : end;
      last_ = i;
      bell_.cancel();
    };
  }

  /// Until something happens, and no longer than `limit`.
  net::awaitable<void> wait(duration limit);
  /// No attempt has a response yet, and none has failed.
  bool is_open() const noexcept { return winner_ == nullptr && !lanes_[0].end; }
  bool is_running() const noexcept { return lanes_[0].runs() || lanes_[1].runs(); }
  bool has_second_won() const noexcept { return winner_ == &lanes_[1]; }
  /// The attempt whose end is that of the race, 0 or 1: the one that answers. Without an answer, an attempt that the
  /// upstream has seen says more than one that it has not.
  std::size_t decisive() const noexcept;
  attempt_end end_of_other() const noexcept { return *lanes_[1 - decisive()].end; }
  /// The end of the race; the first attempt's exchange then says the same of the response.
  attempt_end take_result();

 private:
  /// One attempt's way to the sink of both.
  struct lane final : response_sink {
    race* home = nullptr;
    exchange* of = nullptr;  // null: it has not begun
    std::optional<attempt_end> end;
    bool is_put_back = false;  // a response of it came, and does not go to the client
    bool made_way = false;     // because the other one was still on

    bool runs() const noexcept { return of != nullptr && !end; }
    void see_head(const message_head& h, std::string_view body) override { home->next_.see_head(h, body); }
    bool drops(const message_head& h, std::string_view body) override { return home->drops(*this, h, body); }
    bool may_answer() override { return home->claim(*this); }
    std::string head_for_client(const message_head& h) override { return home->next_.head_for_client(h); }
    void see_piece(std::string_view piece) override { home->next_.see_piece(piece); }
    void begin_tunnel() override { home->next_.begin_tunnel(); }
  };

  lane& other_than(const lane& l) noexcept { return &l == &lanes_[0] ? lanes_[1] : lanes_[0]; }
  bool drops(lane& l, const message_head& h, std::string_view body);
  bool claim(lane& l);

  net::steady_timer bell_;
  response_sink& next_;
  std::array<lane, 2> lanes_;
  std::optional<exchange> second_;
  std::size_t last_ = 0;
  const lane* winner_ = nullptr;
};

}  // namespace canigo::gateway
