#pragma once

#include "canigo/detail/coro/doorbell.hpp"
#include "canigo/detail/coro/repeatable.hpp"
#include "canigo/hedge_options.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/cancellation_state.hpp>
#include <asio/co_spawn.hpp>
#include <asio/error.hpp>
#include <asio/this_coro.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace canigo::detail {

/// The copies of one hedge(), and the coroutine that starts, ends and awaits them. All of them run on one strand.
class hedge_race : public std::enable_shared_from_this<hedge_race>, private doorbell {
 public:
  /// Ends when all copies have ended, or when the task group has taken over the copies that lost.
  static net::awaitable<void> run(std::shared_ptr<hedge_race> self);

 protected:
  /// A running copy of the operation. It exists from the start of the copy to the destruction of its completion
  /// handler.
  class running {
   public:
    running(std::shared_ptr<hedge_race> race, std::size_t index) noexcept : race_{std::move(race)}, index_{index} {}
    running(running&&) noexcept = default;
    running& operator=(running&&) = delete;
    ~running() = default;
    void operator()(const std::exception_ptr& failure) noexcept {
      const permit last = race_->ended(index_, failure);
      // race_ is reset before the permit `last` is destroyed. When the permit of the last copy is destroyed, the task
      // group may release the objects that the operation uses.
      race_.reset();
    }

   private:
    std::shared_ptr<hedge_race> race_;
    std::size_t index_;
  };

  hedge_race(const net::any_io_executor& strand, const hedge_options& options);
  ~hedge_race() = default;

  /// Starts the copy of the operation with this index, counted from 0.
  virtual void start(std::size_t index) = 0;
  net::cancellation_slot slot_of(std::size_t index) { return signals_[index]->slot(); }
  /// Whether the copies must end, because one copy has a result or the caller was cancelled.
  bool is_over() const noexcept { return has_winner_ || is_cancelled_; }
  bool has_winner() const noexcept { return has_winner_; }
  void note_winner(std::size_t index) noexcept;
  const std::exception_ptr& last_failure() const noexcept { return failure_; }

  const net::any_io_executor strand_;

 private:
  void start_next() noexcept;
  permit ended(std::size_t index, const std::exception_ptr& failure) noexcept;
  void cancelled() noexcept override;
  void end_all() noexcept;
  void note_latency() noexcept;
  time_point next_start();

  const hedge_options options_;
  // one cancellation signal for each copy; null if there was no memory for it
  std::vector<std::unique_ptr<net::cancellation_signal>> signals_;
  std::vector<bool> runs_;
  std::size_t running_ = 0;
  time_point started_at_{};  // when the first copy was started
  time_point last_start_{};
  bool is_first_noted_ = false;
  bool may_start_ = true;
  bool has_winner_ = false;
  bool is_cancelled_ = false;
  std::exception_ptr failure_;  // the failure of the copy that failed last
  permit in_group_;             // keeps the task group waiting for the copies that lost
};

/// A hedge_race with its operation and its result.
template <class Make>
class hedge_race_of final : public hedge_race {
  using result = result_of_repeatable<Make>;
  struct nothing {};
  using value = std::conditional_t<std::is_void_v<result>, nothing, result>;

 public:
  hedge_race_of(const net::any_io_executor& strand, Make make, const hedge_options& options)
      : hedge_race{strand, options}, make_{std::move(make)} {}

  /// The result of the copy that won. If no copy has a result, throws the last failure. Call it once the race is over.
  result take() {
    if (!has_winner()) std::rethrow_exception(last_failure());
    if constexpr (!std::is_void_v<result>) return std::move(*value_);
  }

 private:
  void start(std::size_t index) override {
    const auto self = std::static_pointer_cast<hedge_race_of>(shared_from_this());
    net::co_spawn(strand_, copy(self, index), net::bind_cancellation_slot(slot_of(index), running{self, index}));
  }

  static net::awaitable<void> copy(std::shared_ptr<hedge_race_of> race, std::size_t index) {
    co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
    if (race->is_over()) throw std::system_error{net::error::operation_aborted};
    const auto number = static_cast<std::uint32_t>(index + 1);
    if constexpr (std::is_void_v<result>) {
      co_await call_repeatable(race->make_, number);
    } else {
      result own = co_await call_repeatable(race->make_, number);
      if (!race->has_winner()) race->value_.emplace(std::move(own));
    }
    race->note_winner(index);
  }

  Make make_;
  std::optional<value> value_;
};

}  // namespace canigo::detail
