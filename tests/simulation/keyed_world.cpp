#include "keyed_world.hpp"

#include "canigo/keyed.hpp"
#include "canigo/rate.hpp"
#include "canigo/testing/simulation.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include "end_of.hpp"
#include "model.hpp"
#include "plan.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/this_coro.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace simulated {

namespace net = canigo::net;
using canigo::errc;

namespace {

using limits = canigo::keyed_scheduler<int>;

struct caller {
  net::cancellation_signal signal;
  request wanted;
  int key = 0;
  bool tells_by_code = false;
  bool has_begun = false;
  bool has_ended = false;
  bool may_be_refused = false;  // as its key may be new
  bool must_be_refused = false;
};

class keyed_world {
 public:
  explicit keyed_world(std::uint64_t seed) : dice_{seed ^ 0x6b657973}, context_{std::in_place, seed} {
    const std::int64_t token = token_times[dice_.roll(std::size(token_times))];
    const auto burst = static_cast<std::int64_t>(1 + dice_.roll(4));
    rules_.rates.push_back({token, burst, 0});
    rules_.priorities = static_cast<int>(1 + dice_.roll(3));
    rules_.queue_limit = dice_.one_in(3) ? 1 + dice_.roll(3) : 1000;
    rules_.on_overflow = static_cast<canigo::overflow>(dice_.roll(3));
    if (dice_.one_in(3)) rules_.ageing = duration{static_cast<std::int64_t>(1 + dice_.roll(4)) * token / 2 + 1};
    keys_ = static_cast<int>(1 + dice_.roll(6));
    most_keys_ = dice_.one_in(2) ? 100 : 1 + dice_.roll(static_cast<std::uint64_t>(keys_));
    for (int k = 0; k < keys_; ++k) models_.push_back(std::make_unique<model>(rules_));
    limit_.emplace(context_->get_executor(), canigo::keyed_scheduler_options{.rate = canigo::rate{1, duration{token}},
                                                                             .burst = static_cast<std::uint64_t>(burst),
                                                                             .most_keys = most_keys_,
                                                                             .priorities = rules_.priorities,
                                                                             .queue_limit = rules_.queue_limit,
                                                                             .on_overflow = rules_.on_overflow,
                                                                             .ageing = rules_.ageing});
  }
  ~keyed_world() {
    is_over_ = true;
    limit_.reset();
    context_.reset();
  }

  verdict play() {
    const std::uint64_t many = 10 + dice_.roll(90);
    for (std::uint64_t i = 0; i < many && verdict_.is_good; ++i) {
      verdict_.step = static_cast<std::size_t>(i);
      pass();
      act(static_cast<int>(i));
      compare();
    }
    finish();
    verdict_.simulated = context_->elapsed();
    return verdict_;
  }

 private:
  void fail(const std::string& what) {
    if (!verdict_.is_good) return;
    verdict_.is_good = false;
    verdict_.what = "keyed: " + what + ", at " + canigo::to_string(context_->elapsed()) + ", of " +
                    std::to_string(keys_) + " keys, at most " + std::to_string(most_keys_);
  }

  std::int64_t token() const { return rules_.rates.front().token; }
  model& of(int key) { return *models_[static_cast<std::size_t>(key)]; }

  void pass() {
    if (dice_.one_in(2)) {
      for (std::uint64_t n = dice_.roll(4); n > 0; --n) context_->step();
      return;
    }
    const std::uint64_t most = static_cast<std::uint64_t>(token()) * 4;
    pass_until(context_->now() + duration{static_cast<std::int64_t>(dice_.one_in(3) ? most / 4 : dice_.roll(most))});
  }

  void pass_until(time_point t) {
    context_->poll();
    move_models(context_->now());
    context_->run_until(context_->now());
    for (time_point next = next_event(); next < t && verdict_.is_good; next = next_event()) {
      move_models(next);
      context_->run_until(next);
      compare();
    }
    move_models(t);
    context_->run_until(t);
  }

  void move_models(time_point t) {
    resolve();
    for (const auto& m : models_) m->pass_to(t);
  }
  time_point next_event() {
    resolve();
    time_point next = time_point::max();
    for (const auto& m : models_) next = std::min(next, m->next_event());
    return next;
  }

  /// Whether a key can't be told from a new one.
  bool is_as_new(int key) { return of(key).waiting() == 0 && of(key).tokens().front() == rules_.rates.front().burst; }

  /// Whether the limit may have no place for a key. It may not have noticed that others are as new.
  bool may_be_refused(int key) { return is_as_new(key) && known_.size() - known_.count(key) >= most_keys_; }
  /// Whether it has none for sure: so many others are known, and not as new.
  bool must_be_refused(int key) {
    std::size_t others = 0;
    for (int k = 0; k < keys_; ++k) others += k != key && !is_as_new(k);
    return is_as_new(key) && others >= most_keys_;
  }

  bool is_anybody_waiting() const {
    return std::ranges::any_of(models_, [](const auto& m) { return m->waiting() != 0; });
  }

  void act(int id) {
    switch (dice_.roll(9)) {
      case 0:
      case 1:
        return try_at_once();
      case 2:
        return cancel(static_cast<int>(dice_.roll(static_cast<std::uint64_t>(id) + 1)));
      default:
        return ask(id);
    }
  }

  request some_request() {
    request r{.priority = static_cast<int>(dice_.roll(static_cast<std::uint64_t>(rules_.priorities))),
              .tokens = dice_.one_in(2) ? 1 : 1 + dice_.roll(static_cast<std::uint64_t>(rules_.rates.front().burst))};
    if (dice_.one_in(40)) r.priority = rules_.priorities;
    if (dice_.one_in(40)) r.tokens = static_cast<std::uint64_t>(rules_.rates.front().burst) + 1;
    if (dice_.one_in(3)) {
      r.deadline = context_->now() + duration{static_cast<std::int64_t>(dice_.roll(6)) * token() +
                                              static_cast<std::int64_t>(dice_.roll(3))};
    }
    return r;
  }
  int some_key() { return static_cast<int>(dice_.roll(static_cast<std::uint64_t>(keys_))); }

  void ask(int id) {
    caller& c = *callers_.emplace(id, std::make_unique<caller>()).first->second;
    c.wanted = some_request();
    c.key = some_key();
    c.tells_by_code = dice_.one_in(2);
    ++verdict_.acquires;
    net::co_spawn(context_->get_executor(), asking(*this, id, c),
                  net::bind_cancellation_slot(c.signal.slot(), net::detached));
  }

  static net::awaitable<void> asking(keyed_world& w, int id, caller& c) {
    // Asio may bring it later than emit() (docs/decisions/0071), so the model is told of it when the limit is.
    const auto seen = [&w, id, &c](net::cancellation_type type) {
      if (!w.is_over_ && c.has_begun) {
        w.resolve();
        w.of(c.key).cancel(id);
      }
      return type;
    };
    co_await net::this_coro::reset_cancellation_state(seen, net::enable_total_cancellation());
    c.has_begun = true;
    std::error_code ec;
    w.begins(id, c);
    try {
      if (c.tells_by_code) {
        co_await w.limit_->acquire(c.key, c.wanted, ec);
      } else {
        co_await w.limit_->acquire(c.key, c.wanted);
      }
    } catch (const std::system_error& e) {
      if (c.tells_by_code) w.fail("an error code is thrown");
      ec = e.code();
    }
    w.ended(id, c, ec);
  }

  /// Between this and the limit nothing else runs. A refusal of a new key is told before anything else runs, too.
  void begins(int id, caller& c) {
    resolve();
    newcomer_ = id;
    c.may_be_refused = may_be_refused(c.key);
    c.must_be_refused = must_be_refused(c.key);
  }

  /// Who asked last was not refused: its key is known.
  void resolve() {
    if (newcomer_ < 0) return;
    const int id = std::exchange(newcomer_, -1);
    caller& c = *callers_.at(id);
    known_.insert(c.key);
    of(c.key).acquire(id, c.wanted);
    const end how = of(c.key).fates().at(id).how;
    if (c.must_be_refused && (how == end::granted || how == end::waiting)) fail("more keys are known than may be");
  }

  void ended(int id, caller& c, std::error_code ec) {
    if (is_over_) return;
    const std::string who = "#" + std::to_string(id) + " of key " + std::to_string(c.key) + " ";
    if (c.has_ended) fail(who + "ends twice");
    c.has_ended = true;
    verdict_.hash = (verdict_.hash ^ static_cast<std::uint64_t>(id)) * 0x100000001b3;
    verdict_.hash ^= static_cast<std::uint64_t>(context_->elapsed().count()) + static_cast<unsigned>(ec.value());
    if (ec == errc::too_many_keys) {
      if (newcomer_ != id || !c.may_be_refused) fail(who + "is refused as a new key");
      newcomer_ = -1;
      return;
    }
    resolve();
    const auto& expected = of(c.key).fates().at(id);
    if (end_of(ec) != expected.how) {
      fail(who + "ends as " + (ec ? ec.message() : "granted") + ", not as " + name_of(expected.how));
    } else if (context_->now() != expected.when) {
      fail(who + "ends too early or too late");
    }
  }

  void try_at_once() {
    resolve();
    const int key = some_key();
    const request r = some_request();
    const bool may_refuse = may_be_refused(key), must_refuse = must_be_refused(key);
    bool granted = false;
    try {
      granted = limit_->try_acquire(key, r);
    } catch (const std::system_error&) {
    }
    ++verdict_.acquires;
    if (!granted && may_refuse) return;
    if (granted && must_refuse) fail("more keys are known than may be");
    if (granted) known_.insert(key);
    if (granted != of(key).try_acquire(r)) fail("try_acquire says " + std::to_string(granted));
    if (!granted) known_.insert(key);
  }

  void cancel(int id) {
    resolve();
    const auto found = callers_.find(id);
    if (found == callers_.end() || !found->second->has_begun || found->second->has_ended) return;
    found->second->signal.emit(net::cancellation_type::total);
  }

  void compare() {
    resolve();
    if (!verdict_.is_good) return;
    std::size_t waiting = 0, known = 0;
    for (int k = 0; k < keys_; ++k) {
      waiting += of(k).waiting();
      known += !is_as_new(k);
    }
    const auto s = limit_->stats();
    if (s.waiting < waiting) fail("somebody does not wait who should");
    if (s.keys > most_keys_) fail("it has too many keys");
    if (s.keys < known) fail("it has forgotten a key");
  }

  void finish() {
    pass_until(context_->now() + duration{token() * 40});
    compare();
    if (dice_.one_in(2)) {
      for (const auto& m : models_) m->stop();
      limit_->stop();
    }
    while (verdict_.is_good && is_anybody_waiting()) pass_until(context_->now() + duration{token() * 40});
    context_->run();
    move_models(context_->now());
    for (const auto& [id, c] : callers_) {
      if (!c->has_ended) fail("#" + std::to_string(id) + " never ends");
    }
    if (const auto s = limit_->stats(); s.waiting != 0 || s.keys_with_waiters != 0) fail("it is not at rest");
    if (!canigo::time_source::of(context_->get_executor()).idle()) fail("something is left armed");
  }

  dice dice_;
  verdict verdict_;
  options rules_;
  int keys_ = 1;
  std::size_t most_keys_ = 1;
  bool is_over_ = false;
  int newcomer_ = -1;    // has asked, and may still be refused
  std::set<int> known_;  // keys that it has known, some of which it may have forgotten
  std::vector<std::unique_ptr<model>> models_;
  std::map<int, std::unique_ptr<caller>> callers_;
  std::optional<canigo::testing::simulation> context_;
  std::optional<limits> limit_;
};

}  // namespace

verdict play_keys(std::uint64_t seed) { return keyed_world{seed}.play(); }

}  // namespace simulated
