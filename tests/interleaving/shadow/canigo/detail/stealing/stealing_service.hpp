#pragma once

// Replaces the library's service, whose pumps are operations of an io_context. Asio has thread-local state, which a
// fiber would see although it belongs to another fiber.

#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/stealing/pump_crew.hpp"
#include "canigo/net.hpp"

#include "explorer.hpp"

#include <asio/execution_context.hpp>

#include <array>
#include <utility>

namespace canigo::detail {

class stealing_service : private pump_crew {
 public:
  explicit stealing_service(net::execution_context& context) noexcept : context_{context} {}

  net::execution_context& context() const noexcept { return context_; }
  void push(work_item& item, bool is_continuation) noexcept {
    if (is_gone_) was_pushed_to_late_ = true;
    pump_crew::push(at_[interleaving::explorer::this_thread()], item, is_continuation);
  }

 protected:
  ~stealing_service() = default;

  void run(pump& p) {
    struct back {
      pump*& at;
      pump* outer;
      ~back() { at = outer; }
    };
    pump*& at = at_[interleaving::explorer::this_thread()];
    const back at_the_end_or_a_throw{at, std::exchange(at, &p)};
    turn(p);
  }
  /// Called when the context is destroyed.
  void go() noexcept {
    is_gone_ = true;
    item_list<work_item> lost = take_all();
    while (work_item* const item = lost.pop()) item->destroy();
  }
  bool was_pushed_to_late() const noexcept { return was_pushed_to_late_; }

 private:
  bool is_loop_stopped() const noexcept override { return false; }

  net::execution_context& context_;
  std::array<pump*, 16> at_{};
  bool is_gone_ = false;
  bool was_pushed_to_late_ = false;
};

}  // namespace canigo::detail
