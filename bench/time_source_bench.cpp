// Measures a million deadlines: setting them, cancelling them, and the memory of each (B11). For comparison, it
// measures one steady_timer for each.

#include "canigo/time_source.hpp"

#include "harness.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <deque>
#include <tuple>

namespace net = canigo::net;
using namespace std::chrono_literals;

namespace {

constexpr int million = 1'000'000;

/// Returns delays between one and two hours, in no particular order.
canigo::duration delay(int i) { return 1h + std::chrono::milliseconds{std::int64_t{i} * 7919 % 3'600'000}; }

struct entry : canigo::deadline {
  entry() : deadline{[](deadline&, canigo::due) noexcept {}} {}
};

bench::sample deadlines(bool cancel) {
  net::io_context io{1};
  auto& time = canigo::time_source::of(io.get_executor());
  std::deque<entry> all(million);
  bench::sample r = bench::measure(million, [&] {
    int i = 0;
    // The clock is read for each deadline, as sleep_for() does.
    for (auto& d : all) time.arm(d, time.now() + delay(i++));
  });
  const bench::sample c = bench::measure(million, [&] {
    for (auto& d : all) std::ignore = time.cancel(d);
  });
  if (cancel) r = c;
  r.bytes_per_operation = sizeof(entry);
  return r;
}

bench::sample timers(bool cancel) {
  net::io_context io{1};
  std::deque<net::steady_timer> all;
  const auto before = bench::bytes_in_use();
  bench::sample r = bench::measure(million, [&] {
    for (int i = 0; i < million; ++i) all.emplace_back(io, delay(i)).async_wait([](std::error_code) {});
  });
  r.bytes_per_operation = static_cast<double>(bench::bytes_in_use() - before) / million;
  const bench::sample c = bench::measure(million, [&] {
    for (auto& t : all) t.cancel();
  });
  return cancel ? c : r;
}

}  // namespace

int main() {
  bench::match{"B11", "a million deadlines: to arm one"}
      .add("time_source.arm", [] { return deadlines(false); })
      .add("bare Asio: steady_timer.async_wait", [] { return timers(false); })
      .run(7);
  bench::match{"B11c", "a million deadlines: to take one back"}
      .add("time_source.cancel", [] { return deadlines(true); })
      .add("bare Asio: steady_timer.cancel", [] { return timers(true); })
      .run(7);
}
