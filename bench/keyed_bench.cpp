// Measures a keyed limit with a million keys: a request of a known key by one thread and by two (B17, B17t), and of a
// new key (B17n). For comparison, it measures a map of schedulers behind a lock, which is the usual solution. It also
// measures what a flood of ten million keys does to a limit with space for one million (K2).

#include "canigo/keyed.hpp"
#include "canigo/scheduler.hpp"

#include "loops.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace net = canigo::net;
using namespace std::chrono_literals;
using canigo::rate;

namespace {

constexpr int repetitions = 7;
constexpr std::size_t keys = 1'000'000;
constexpr std::int64_t many = 1'000'000;

std::string name_of(std::size_t i) { return "client " + std::to_string(i); }

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made;
    for (std::size_t i = 0; i < keys; ++i) made.push_back(name_of(i));
    return made;
  }();
  return all;
}

/// Returns keys far apart from each other, so that the processor's caches do not contain the next one.
class walk {
 public:
  explicit walk(std::size_t start) : at_{start} {}
  const std::string& next(const std::vector<std::string>& all) {
    at_ = (at_ + 611'953) % keys;
    return all[at_];
  }

 private:
  std::size_t at_;
};

// The rate is so slow that no key is forgotten, and the burst so large that every request is granted.
const canigo::keyed_scheduler_options plenty{.rate = rate{1, 1h}, .burst = 1'000'000, .most_keys = keys};

/// The usual solution: a map of schedulers behind a lock.
class map_of_schedulers {
 public:
  explicit map_of_schedulers(net::io_context& io) : io_{io} {}
  bool try_acquire(const std::string& key) {
    const std::lock_guard lock{mutex_};
    auto& s = all_[key];
    if (!s) {
      s = std::make_unique<canigo::scheduler>(
          io_, canigo::scheduler_options{.rate = rate{1, 1h}, .burst = 1'000'000, .initial_tokens = 1'000'000});
    }
    return s->try_acquire();
  }

 private:
  net::io_context& io_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<canigo::scheduler>> all_;
};

template <class Limit>
bench::sample by_threads(int threads, Limit& limit) {
  const auto& all = names();
  std::atomic<std::size_t> start{0};
  const auto work = [&] {
    walk w{start.fetch_add(keys / 2)};
    for (auto i = many; i > 0; --i) (void)limit.try_acquire(w.next(all));
  };
  return bench::measure(threads * many, [&] {
    std::thread other{[&] {
      if (threads > 1) work();
    }};
    work();
    other.join();
  });
}

bench::sample new_keys() {
  const auto& all = names();
  net::io_context io;
  const auto before = bench::bytes_in_use();
  canigo::keyed_scheduler<std::string> limit{io, plenty};
  bench::sample s = bench::measure(static_cast<std::int64_t>(keys), [&] {
    for (const std::string& key : all) (void)limit.try_acquire(key);
  });
  s.bytes_per_operation = static_cast<double>(bench::bytes_in_use() - before) / static_cast<double>(keys);
  return s;
}

/// Requests ten times as many keys as the limit can store. The keys that it knew before must keep their debts.
bench::sample flood() {
  constexpr std::size_t old = 1'000, all = 10 * keys;
  const std::vector<std::string>& known = names();
  net::io_context io;
  const auto before = bench::bytes_in_use();
  canigo::keyed_scheduler<std::string> limit{io, {.rate = rate{1, 1h}, .burst = 2, .most_keys = keys}};
  for (std::size_t i = 0; i < old; ++i) {
    while (limit.try_acquire(known[i])) {
    }
  }
  std::string key;
  bench::sample s = bench::measure(static_cast<std::int64_t>(all), [&] {
    for (std::size_t i = 0; i < all; ++i) {
      key = "flood";
      key += std::to_string(i);
      (void)limit.try_acquire(key);
    }
  });
  s.bytes_per_operation = static_cast<double>(bench::bytes_in_use() - before) / static_cast<double>(keys);
  for (std::size_t i = 0; i < old; ++i) {
    if (limit.try_acquire(known[i])) throw std::logic_error{"K2: the flood has washed away " + known[i]};
  }
  const canigo::keyed_stats end = limit.stats();
  if (end.keys > keys || end.beyond < all - keys) throw std::logic_error{"K2: more keys than it may know"};
  return s;
}

}  // namespace

int main() {
  const bench::second_thread sleeps;
  net::io_context io;
  canigo::keyed_scheduler<std::string> limit{io, plenty};
  map_of_schedulers map{io};
  bool is_filled = false;
  for (const int threads : {1, 2}) {
    bench::match m{threads == 1 ? "B17" : "B17t",
                   threads == 1 ? "a million string keys, a known one asks" : "the same by two threads"};
    m.add("keyed_scheduler.try_acquire", [&] {
       return by_threads(threads, limit);
     }).add("C++: a map of schedulers and a lock", [&] { return by_threads(threads, map); });
    if (m.wanted() && !is_filled) {
      is_filled = true;
      for (const std::string& key : names()) {
        (void)limit.try_acquire(key);
        (void)map.try_acquire(key);
      }
    }
    m.run(repetitions);
  }
  bench::match{"B17n", "a million string keys, a new one asks"}.add("keyed_scheduler.try_acquire", new_keys).run(3);
  bench::match{"K2", "ten million keys, of which a million have room"}
      .add("keyed_scheduler.try_acquire", flood)
      .without_warm_up()
      .run(3);
}
