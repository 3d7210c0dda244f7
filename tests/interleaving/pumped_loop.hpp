#pragma once

#include "canigo/detail/stealing/stealing_executor.hpp"
#include "canigo/detail/stealing/stealing_service.hpp"

#include "world.hpp"

#include <stdexcept>

namespace interleaving {

/// A loop of the world that several threads run, with work_stealing: its pumps are operations of the loop.
class pumped_loop final : public canigo::detail::stealing_service {
 public:
  using executor_type = canigo::detail::work_stealing_executor;

  pumped_loop(world& w, int threads) : pumped_loop{w, w.make_loop("loop", threads)} {}

  executor_type get_executor() noexcept { return executor_type{*this}; }
  /// Shuts the context down: remaining functions are destroyed without being called.
  void shut_down() {
    world_.shut_down();
    go();
  }
  void expect_no_late_push() { world_.expect(!was_pushed_to_late(), "pushed to a context that is gone"); }

 private:
  pumped_loop(world& w, loop_executor loop)
      : stealing_service{loop.query(net::execution::context)}, world_{w}, loop_{loop} {}

  void bring(canigo::detail::pump& p) noexcept override {
    loop_.execute([this, &p] {
      try {
        run(p);
      } catch (const std::runtime_error&) {
        // Notes that the function has left the loop's queue.
      }
    });
  }

  world& world_;
  loop_executor loop_;
};

}  // namespace interleaving
