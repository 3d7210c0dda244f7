#include "pool_flow_world.hpp"

#include "canigo/algorithms/backoff.hpp"
#include "canigo/error.hpp"
#include "canigo/flow.hpp"
#include "canigo/rate.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/testing/simulation.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"
#include "canigo/timeout.hpp"

#include "model.hpp"
#include "plan.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace simulated {

namespace net = canigo::net;
using namespace std::chrono_literals;
using canigo::errc;

namespace {

struct task_failure {};

struct task {
  int id = 0;
  std::size_t flow = 0;
  int priority = 0;
  duration lasts{};
  std::uint32_t attempts = 1;
  bool fails = false;
  net::cancellation_signal signal;

  // What the judge knows of it.
  std::uint32_t begun = 0;
  bool waits = false;  // in its flow, since:
  time_point handed_over{};
  time_point since{};
  time_point came{};           // the same of the attempt that began last
  bool waited_before = false;  // already when the last millisecond was over
  bool is_running = false;
  bool has_ended = false;
  bool may_be_cancelled = false;
};

/// A tenant, and what the judge knows of it.
struct tenant {
  std::unique_ptr<canigo::flow> flow;  // none: the nameless flow, or it has gone
  flow_terms terms;
  std::uint64_t running = 0;
  time_point changed_at = time_point::min();  // its cap, or its pause
  time_point paused_until = time_point::min();
  bool has_paused = false;

  bool can_be_held() const { return terms.places || terms.rate || has_paused; }
};

/// What one flow got beyond its share, compared with another, since both began to compete.
struct comparison {
  std::int64_t ahead = 0, least = 0, most = 0;
};

constexpr int classes = 2;

class pool_flow_world {
 public:
  explicit pool_flow_world(std::uint64_t seed) : dice_{seed ^ 0x666c6f77706f6f6c}, context_{std::in_place, seed} {
    workers_ = 1 + dice_.roll(4);
    canigo::strand_pool_options o{.concurrency = workers_, .priorities = classes};
    if (dice_.one_in(3)) o.queue_limit = 2 + dice_.roll(8);
    queue_limit_ = o.queue_limit;
    constexpr canigo::overflow policies[] = {canigo::overflow::reject_new, canigo::overflow::reject_new,
                                             canigo::overflow::evict_oldest, canigo::overflow::evict_least_important};
    o.on_overflow = on_overflow_ = policies[dice_.roll(std::size(policies))];
    pool_.emplace(context_->get_executor(), o);
    tenants_.resize(2 + dice_.roll(3));
    for (std::size_t i = 1; i < tenants_.size(); ++i) {
      tenants_[i].terms = some_terms();
      make_flow(tenants_[i]);
    }
    has_classes_ = dice_.one_in(2);
    has_cancels_ = dice_.one_in(2);
  }
  ~pool_flow_world() {
    is_over_ = true;
    tenants_.clear();
    pool_.reset();
    context_.reset();
  }

  verdict play() {
    const std::uint64_t many = 15 + dice_.roll(30);
    for (std::uint64_t i = 0; i < many && verdict_.is_good; ++i) {
      verdict_.step = static_cast<std::size_t>(i);
      for (std::uint64_t n = dice_.roll(5); n > 0; --n) act();
      if (dice_.one_in(3)) {
        for (std::uint64_t n = dice_.roll(6); n > 0; --n) context_->step();
      } else {
        pass_ms(1 + dice_.roll(3));
      }
    }
    finish();
    verdict_.simulated = context_->elapsed();
    return verdict_;
  }

 private:
  void fail(const std::string& what) {
    if (!verdict_.is_good) return;
    verdict_.is_good = false;
    verdict_.what = "pool flows: " + what + ", at " + canigo::to_string(context_->elapsed()) + ", with " +
                    std::to_string(workers_) + " workers";
  }
  static std::string name_of(const task& t) {
    return "task " + std::to_string(t.id) + " of flow " + std::to_string(t.flow) + ", class " +
           std::to_string(t.priority) + ", attempt " + std::to_string(t.begun) + ", there since " +
           canigo::to_string(t.since.time_since_epoch()) + ", ";
  }

  flow_terms some_terms() {
    flow_terms t;
    t.weight = flow_weights[dice_.roll(std::size(flow_weights))];
    if (dice_.one_in(3)) {
      const auto burst = static_cast<std::int64_t>(1 + dice_.roll(3));
      t.rate = bucket{static_cast<std::int64_t>(1 + dice_.roll(4)) * 1'000'000, burst, 0};
    }
    if (dice_.one_in(3)) t.places = 1 + dice_.roll(workers_);
    t.queue_limit = dice_.one_in(3) ? 1 + dice_.roll(3) : 1000;
    return t;
  }

  void make_flow(tenant& t) {
    canigo::flow_options o{.weight = t.terms.weight};
    if (t.terms.queue_limit < 1000) o.queue_limit = t.terms.queue_limit;
    if (t.terms.places) o.concurrency = *t.terms.places;
    if (t.terms.rate) {
      t.terms.rate->missing = 0;
      o.rates.push_back({canigo::rate{1, duration{t.terms.rate->token}},
                         static_cast<std::uint64_t>(t.terms.rate->burst),
                         static_cast<std::uint64_t>(t.terms.rate->burst)});
    }
    t.flow = std::make_unique<canigo::flow>(*pool_, o);
  }

  // ---- deeds ----

  void act() {
    const std::uint64_t of_hundred = dice_.roll(100);
    const std::size_t who = dice_.roll(tenants_.size());
    if (of_hundred < 80) return hand_over(who);
    if (of_hundred < 88) return has_cancels_ ? cancel() : hand_over(who);
    if (who == 0) return;
    tenant& t = tenants_[who];
    if (of_hundred < 94) {
      // A flow that is told from others by its cap alone keeps having one.
      if (t.flow == nullptr || !t.terms.places) return;
      t.terms.places = 1 + dice_.roll(workers_);
      t.changed_at = context_->now();
      t.flow->set_concurrency(*t.terms.places);
    } else if (of_hundred < 96) {
      change_flow(who);
    } else if (of_hundred < 98) {
      pause(t, dice_.one_in(3) ? time_point::max() : context_->now() + static_cast<std::int64_t>(dice_.roll(6)) * 1ms);
    } else {
      pause(t, time_point::min());
    }
  }

  void pause(tenant& t, time_point until) {
    if (t.flow == nullptr) return;
    t.has_paused = true;
    t.paused_until = until;
    t.changed_at = context_->now();
    t.flow->pause_until(until);
  }

  /// It goes with all that wait, or comes anew.
  void change_flow(std::size_t who) {
    tenant& t = tenants_[who];
    if (t.flow != nullptr) {
      for (task* x : active_) x->may_be_cancelled = x->may_be_cancelled || x->flow == who;
      t.flow.reset();
      return;
    }
    if (std::ranges::any_of(active_, [=](const task* x) { return x->flow == who; })) return;
    t.terms = some_terms();
    t.paused_until = time_point::min();
    t.has_paused = false;
    make_flow(t);
    compared_.clear();
  }

  void hand_over(std::size_t who) {
    if (who != 0 && tenants_[who].flow == nullptr) return;
    task& t = *tasks_.emplace_back(std::make_unique<task>());
    active_.push_back(&t);
    t.id = static_cast<int>(tasks_.size());
    t.flow = who;
    t.priority = has_classes_ ? static_cast<int>(dice_.roll(classes)) : 0;
    t.lasts = static_cast<std::int64_t>(dice_.roll(6)) * 1ms;
    t.fails = dice_.one_in(4);
    t.attempts = dice_.one_in(4) ? 2 : 1;
    const duration delay = dice_.one_in(6) ? static_cast<std::int64_t>(1 + dice_.roll(4)) * 1ms : 0ms;
    canigo::task_options o{.priority = t.priority, .delay = delay, .flow = tenants_[who].flow.get()};
    if (t.attempts > 1) o.retry = {.attempts = t.attempts, .backoff = canigo::backoff::constant(1ms)};
    ++verdict_.acquires;
    t.handed_over = context_->now();
    t.since = context_->now() + delay;
    t.waits = true;
    pool_->async_run(
        [this, &t](canigo::task_context&) { return work(*this, t); }, o,
        net::bind_cancellation_slot(t.signal.slot(), [this, &t](const std::exception_ptr& e) { told(t, e); }));
  }

  void cancel() {
    if (active_.empty()) return;
    task& t = *active_[dice_.roll(active_.size())];
    if (t.has_ended) return;
    t.may_be_cancelled = true;
    t.signal.emit(net::cancellation_type::terminal);
  }

  // ---- what happens ----

  static net::awaitable<void> work(pool_flow_world& w, task& t) {
    w.begins(t);
    const struct end {
      ~end() { world.ends(of); }
      pool_flow_world& world;
      task& of;
    } at_end{w, t};
    co_await canigo::sleep_for(t.lasts);
    if (t.fails) throw task_failure{};
  }

  void begins(task& t) {
    if (!t.waits || t.has_ended) fail(name_of(t) + "begins, though it does not wait");
    if (context_->now() < t.since) fail(name_of(t) + "begins too early");
    if (++t.begun > t.attempts) fail(name_of(t) + "is tried too often");
    t.waits = false;
    t.came = t.since;
    t.is_running = true;
    tenant& f = tenants_[t.flow];
    ++f.running;
    if (++running_ > workers_) fail("too many run at once");
    if (f.terms.places && f.running > *f.terms.places && f.changed_at < context_->now() && f.flow != nullptr) {
      fail(name_of(t) + "is one too many of its flow");
    }
    if (context_->now() < f.paused_until && f.changed_at < context_->now() && f.flow != nullptr) {
      fail(name_of(t) + "begins, though its flow is paused");
    }
    if (f.terms.rate && f.flow != nullptr) {
      if (f.terms.rate->wait_for(1) > 0) fail(name_of(t) + "begins before the rate of its flow lets it");
      f.terms.rate->charge(1);
    }
    begun_.push_back(&t);
    verdict_.hash = (verdict_.hash ^ static_cast<std::uint64_t>(t.id)) * 0x100000001b3;
    verdict_.hash ^= static_cast<std::uint64_t>(context_->elapsed().count());
  }

  void ends(task& t) {
    if (is_over_) return;
    t.is_running = false;
    --running_;
    --tenants_[t.flow].running;
    if (t.fails && t.begun < t.attempts && !t.may_be_cancelled) {
      t.waits = true;
      t.since = context_->now() + 1ms;
      t.waited_before = false;
    }
  }

  void told(task& t, const std::exception_ptr& e) {
    if (is_over_) return;
    if (t.has_ended) fail(name_of(t) + "is told twice");
    t.has_ended = true;
    t.waits = false;
    try {
      if (e) std::rethrow_exception(e);
      if (t.fails || t.begun == 0) fail(name_of(t) + "succeeds");
    } catch (const task_failure&) {
      if (t.begun < t.attempts && !t.may_be_cancelled && !may_stop_) fail(name_of(t) + "is not tried again");
    } catch (const std::system_error& error) {
      if (!may_end_with(t, error.code())) fail(name_of(t) + "ends with " + error.code().message());
    }
  }

  bool may_end_with(const task& t, std::error_code e) const {
    const bool has_limit = queue_limit_ < 100 || tenants_[t.flow].terms.queue_limit < 1000;
    if (e == net::error::operation_aborted || e == errc::stopped) return t.may_be_cancelled || may_stop_;
    if (e == errc::queue_full) return t.begun == 0 && has_limit;
    if (e == errc::evicted) return has_limit && on_overflow_ != canigo::overflow::reject_new;
    return false;
  }

  // ---- judging ----

  void pass_ms(std::uint64_t n) {
    for (; n > 0 && verdict_.is_good; --n) {
      context_->poll();
      settle();
      const time_point next = context_->now() + 1ms;
      for (tenant& f : tenants_) {
        if (f.terms.rate) f.terms.rate->pass(1'000'000);
      }
      context_->run_until(next);
      settle();
    }
  }

  bool allows(const tenant& f) const {
    if (context_->now() < f.paused_until) return false;
    return (!f.terms.places || f.running < *f.terms.places) && (!f.terms.rate || f.terms.rate->wait_for(1) == 0);
  }

  bool waits_now(const task& t) const { return t.waits && t.since <= context_->now(); }

  /// All that is to happen at this instant has happened.
  void settle() {
    if (!verdict_.is_good) return;
    check_order();
    if (!has_cancels_) check_shares();                           // one who is cancelled just before he begins has paid
    std::map<std::size_t, std::pair<std::size_t, int>> waiting;  // of each flow, how many, and who came last
    std::erase_if(active_, [](const task* t) { return t->has_ended; });
    for (task* t : active_) {
      if (!t->waits) continue;
      if (t->begun == 0) {
        auto& [n, last] = waiting[t->flow];
        ++n;
        last = std::max(last, t->id);
      }
      t->waited_before = waits_now(*t);
      if (!t->waited_before) continue;
      const bool may_be_held = has_cancels_ && tenants_[t->flow].terms.rate;  // for the same reason
      if (running_ < workers_ && !may_be_held && (t->flow == 0 || allows(tenants_[t->flow]))) {
        fail(name_of(*t) + "waits beside a free worker");
      }
    }
    if (on_overflow_ != canigo::overflow::reject_new)
      waiting.clear();  // one goes for one that comes, whatever came back
    for (const auto& [flow, all] : waiting) {
      const auto [n, last] = all;
      const time_point came = tasks_[static_cast<std::size_t>(last) - 1]->handed_over;
      // Nobody has come, or he was let in by another cap.
      if (came < context_->now() || came <= tenants_[flow].changed_at) continue;
      if (flow != 0 && n > tenants_[flow].terms.queue_limit + taken_away(flow, last)) {
        fail(std::to_string(n) + " of flow " + std::to_string(flow) + " wait, at most " +
             std::to_string(tenants_[flow].terms.queue_limit));
      }
    }
    begun_.clear();
  }

  /// How many workers have been taken by others at this instant that could be counted on when the last of a flow came:
  /// by those that came later, or whose flow has got a larger cap or no pause any more.
  std::size_t taken_away(std::size_t flow, int last) const {
    return static_cast<std::size_t>(std::ranges::count_if(begun_, [&](const task* t) {
      const bool is_later = t->id > last || t->handed_over < context_->now();
      const bool is_let_go = tenants_[t->flow].changed_at == context_->now();
      return t->flow != flow && (is_let_go || (t->came == context_->now() && is_later));
    }));
  }

  /// Who has waited since before this instant, and still does, has not been overtaken: in its class of its flow by one
  /// that came later, nor by a less important one, unless it may have been held.
  void check_order() {
    for (const task* t : begun_) {
      for (const task* other : active_) {
        if (!other->waits || !other->waited_before || other == t) continue;
        const bool is_same_flow = other->flow == t->flow;
        if (is_same_flow && other->priority < t->priority) fail(name_of(*t) + "goes before " + name_of(*other));
        if (is_same_flow && other->priority == t->priority && other->since < t->came) {
          fail(name_of(*t) + "overtakes " + name_of(*other));
        }
        if (!is_same_flow && !tenants_[other->flow].can_be_held() && other->priority < t->priority) {
          fail(name_of(*t) + "goes before " + name_of(*other));
        }
      }
    }
  }

  /// The class in which a flow has competed all through this instant, or -1.
  int competed_in(std::size_t flow) const {
    if (tenants_[flow].can_be_held()) return -1;
    int least = classes, least_of_old = classes;
    for (const task* t : active_) {
      if (t->flow != flow) continue;
      const bool is_new = std::find(begun_.begin(), begun_.end(), t) != begun_.end();
      if (is_new || waits_now(*t)) least = std::min(least, t->priority);
      if (t->waits && t->waited_before) least_of_old = std::min(least_of_old, t->priority);
    }
    return least == least_of_old && least < classes ? least : -1;
  }

  void check_shares() {
    std::vector<int> in(tenants_.size());
    std::vector<std::int64_t> got(tenants_.size());
    for (std::size_t i = 0; i < tenants_.size(); ++i) in[i] = competed_in(i);
    for (const task* t : begun_) ++got[t->flow];
    for (std::size_t i = 0; i < tenants_.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        comparison& c = compared_[{i, k}];
        if (in[i] < 0 || in[i] != in[k]) {
          c = {};
          continue;
        }
        const auto weight_i = static_cast<std::int64_t>(tenants_[i].terms.weight);
        const auto weight_k = static_cast<std::int64_t>(tenants_[k].terms.weight);
        c.ahead += got[i] * weight_k - got[k] * weight_i;
        c.least = std::min(c.least, c.ahead);
        c.most = std::max(c.most, c.ahead);
        if (c.most - c.least > weight_i + weight_k) {
          fail("flows " + std::to_string(k) + " and " + std::to_string(i) + " do not share by " +
               std::to_string(weight_k) + " and " + std::to_string(weight_i));
        }
      }
    }
  }

  void finish() {
    for (tenant& t : tenants_) pause(t, time_point::min());
    if (dice_.one_in(2)) {
      may_stop_ = true;
      pool_->request_stop(static_cast<canigo::stop_mode>(1 + dice_.roll(3)));
    }
    for (int n = 0; n < 500 && !active_.empty() && verdict_.is_good; ++n) pass_ms(10);
    for (const auto& t : tasks_) {
      if (!t->has_ended) fail(name_of(*t) + "never ends");
    }
    if (running_ != 0) fail("something still runs");
    for (const tenant& t : tenants_) {
      if (t.flow == nullptr) continue;
      const auto s = t.flow->stats();
      if (s.held != 0 || s.waiting != 0) fail("a flow is not at rest");
    }
  }

  dice dice_;
  verdict verdict_;
  std::size_t workers_ = 1;
  std::size_t queue_limit_ = 0;
  canigo::overflow on_overflow_ = canigo::overflow::reject_new;
  bool has_classes_ = false;
  bool has_cancels_ = false;
  bool may_stop_ = false;
  bool is_over_ = false;
  std::size_t running_ = 0;
  std::vector<std::unique_ptr<task>> tasks_;
  std::vector<task*> active_;  // those that have not ended
  std::vector<task*> begun_;   // since the last instant was settled
  std::map<std::pair<std::size_t, std::size_t>, comparison> compared_;
  std::optional<canigo::testing::simulation> context_;
  std::optional<canigo::strand_pool> pool_;
  std::vector<tenant> tenants_;
};

}  // namespace

verdict play_pool_flows(std::uint64_t seed) { return pool_flow_world{seed}.play(); }

}  // namespace simulated
