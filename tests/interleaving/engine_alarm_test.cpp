// An engine's alarm under every order of what the clock and its users do.

#include "canigo/detail/context/engine_alarm.hpp"

#include "canigo/detail/context/delivery.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <asio/any_io_executor.hpp>

#include <chrono>

namespace net = canigo::net;
using canigo::detail::delivery;
using canigo::detail::engine_alarm;
using interleaving::world;
using namespace std::chrono_literals;

namespace {

/// An engine that has nothing but an alarm.
class alarmed final : public delivery {
 public:
  alarmed(const net::any_io_executor& executor, bool& is_gone)
      : delivery{executor}, is_gone_{is_gone}, alarm_{*this, [](delivery&, engine_alarm&) noexcept {}} {
    join();
  }
  ~alarmed() override { is_gone_ = true; }
  void set(canigo::time_point t) {
    const change c{*this};
    alarm_.arm(t);
  }

 private:
  void end_with_context() noexcept override { let_go_of_context(); }
  bool& is_gone_;
  engine_alarm alarm_;
};

}  // namespace

TEST_CASE("an engine whose alarm is late when the next ones are set goes with its last reference", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    bool is_gone = false;
    auto* const engine = new alarmed{net::any_io_executor{home}, is_gone};
    engine->set(w.after(1s));
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("sets it anew", [&] {
      engine->set(w.after(1s));
      engine->set(w.after(1s));
      engine->release_ref();
    });
    w.run();
    w.expect(is_gone, "it has a reference to itself");
  });
}
