// The alarm of a shared object under every order of what the clock and its owner do.

#include "canigo/detail/context/shared_alarm.hpp"

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <asio/any_io_executor.hpp>

#include <chrono>
#include <memory>
#include <mutex>

namespace net = canigo::net;
using canigo::detail::shared_alarm;
using interleaving::world;
using namespace std::chrono_literals;

namespace {

/// An engine that has nothing but an alarm, and gets the news of a call under its lock.
struct woken : std::enable_shared_from_this<woken> {
  explicit woken(const net::any_io_executor& executor)
      : alarm{canigo::time_source::of(executor), [](woken& own) { own.called(); }} {}
  void called() {
    const std::lock_guard lock{mutex};
    ++calls;
    alarm.was_called();
  }
  void set(canigo::time_point t) {
    const std::lock_guard lock{mutex};
    alarm.set(t, *this);
  }

  canigo::detail::mutex mutex;
  int calls = 0;
  shared_alarm<woken> alarm;
};

}  // namespace

TEST_CASE("an alarm that is moved while it is called comes as late as the last setting says", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    auto owner = std::make_shared<woken>(net::any_io_executor{home});
    const std::weak_ptr<woken> watch = owner;
    owner->set(w.after(1s));
    int calls = 0;
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("moves it", [&] {
      owner->set(w.after(2s));
      owner->set(w.after(1s));
      const std::lock_guard lock{owner->mutex};
      calls = owner->calls;
    });
    w.run();
    w.expect(calls > 0 || owner->calls > 0, "nobody was called");
    owner.reset();
    w.expect(watch.expired(), "the alarm keeps it for nothing");
  });
}

TEST_CASE("an alarm that is taken back while it is called keeps nothing", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop");
    auto owner = std::make_shared<woken>(net::any_io_executor{home});
    const std::weak_ptr<woken> watch = owner;
    owner->set(w.after(1s));
    bool was_armed = false;
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("takes it back", [&] { was_armed = owner->alarm.disarm() != nullptr; });
    w.run();
    w.expect(was_armed == (owner->calls == 0), "it was called and taken back, or neither");
    owner.reset();
    w.expect(watch.expired(), "the alarm keeps it for nothing");
  });
}
