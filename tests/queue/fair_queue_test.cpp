#include "canigo/detail/queue/fair_queue.hpp"

#include "support/catch.hpp"
#include "support/refusal.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace fair_queue_tests {

using namespace std::chrono_literals;
using canigo::duration;
using canigo::rate;
using canigo::time_point;
using canigo::token_bucket;
using canigo::detail::fair_queue;
using canigo::detail::flow_terms;
using canigo::detail::int128;
using canigo::detail::supplies;
using canigo::detail::uint128;
using canigo::detail::wait_node;
using canigo::detail::wait_queue;

constexpr time_point epoch{1000s};
constexpr auto one = supplies::occupancy::one;

struct request_node : wait_node {
  explicit request_node(int of_class = 0, std::uint64_t wanted = 1) {
    priority = static_cast<std::uint16_t>(of_class);
    tokens = wanted;
  }
};

/// A queue, and who waits in it.
struct crowd {
  explicit crowd(int priorities = 1, duration ageing = duration::max(), supplies::occupancy o = one)
      : queue{priorities, ageing, o} {
    queue.advance(now);
  }
  request_node& push(std::uint32_t flow, int of_class = 0, std::uint64_t tokens = 1) {
    request_node& n = *nodes.emplace_back(std::make_unique<request_node>(of_class, tokens));
    queue.push(n, flow);
    return n;
  }
  void pass(duration d) { queue.advance(now += d); }
  /// Grants the next one; its flow, or -1.
  int next() {
    wait_node* n = queue.front(now);
    if (n == nullptr) return -1;
    const auto flow = static_cast<int>(n->flow());
    queue.grant(*n, now);
    return flow;
  }
  std::string order(int most = 1000) {
    std::string text;
    for (int i = 0; i < most; ++i) {
      const int flow = next();
      if (flow < 0) break;
      text += static_cast<char>('0' + flow);
    }
    return text;
  }

  time_point now = epoch;
  std::vector<std::unique_ptr<request_node>> nodes;
  fair_queue queue;
};

token_bucket bucket(rate r, std::uint64_t burst, std::uint64_t initial, time_point now) {
  return token_bucket{r, burst, initial, now};
}

}  // namespace fair_queue_tests

using namespace fair_queue_tests;

static_assert(sizeof(wait_node) == 48);

TEST_CASE("without a second flow a fair queue orders by class, then by arrival", "[fair_queue]") {
  crowd c{3};
  request_node& a = c.push(0, 2);
  request_node& b = c.push(0, 0);
  request_node& d = c.push(0, 1);
  request_node& e = c.push(0, 0);
  std::vector<wait_node*> order;
  while (wait_node* n = c.queue.front(c.now)) {
    order.push_back(n);
    c.queue.grant(*n, c.now);
  }
  CHECK(order == std::vector<wait_node*>{&b, &e, &d, &a});
  CHECK(c.queue.empty());
}

TEST_CASE("F1: two flows of weight 3 and 1 go three to one", "[fair_queue]") {
  crowd c;
  const auto gold = c.queue.add({.weight = 3}), plain = c.queue.add({});
  REQUIRE(gold == 1);
  for (int i = 0; i < 12; ++i) c.push(plain);
  for (int i = 0; i < 12; ++i) c.push(gold);
  CHECK(c.order(16) == "2111211121112111");
}

TEST_CASE("weights count by tokens, not by requests", "[fair_queue]") {
  crowd c;
  const auto heavy = c.queue.add({}), light = c.queue.add({});
  for (int i = 0; i < 3; ++i) c.push(heavy, 0, 4);
  for (int i = 0; i < 12; ++i) c.push(light);
  CHECK(c.order() == "122221222212222");
}

TEST_CASE("F2: beside a flood of 100,000 a newcomer goes next", "[fair_queue]") {
  crowd c;
  const auto flood = c.queue.add({.weight = 10'000}), calm = c.queue.add({});
  for (int i = 0; i < 100'000; ++i) c.push(flood);
  for (int i = 0; i < 1000; ++i) REQUIRE(c.next() == 1);
  c.push(calm);
  CHECK(c.next() == 2);
}

TEST_CASE("F4: an idle flow saves nothing up", "[fair_queue]") {
  crowd c;
  const auto busy = c.queue.add({}), idle = c.queue.add({});
  for (int i = 0; i < 100; ++i) c.push(busy);
  for (int i = 0; i < 50; ++i) c.next();
  for (int i = 0; i < 10; ++i) c.push(idle);
  CHECK(c.order(12) == "212121212121");
}

TEST_CASE("a flow that had more than others while they were idle owes them nothing afterwards", "[fair_queue]") {
  crowd c;
  const auto a = c.queue.add({}), b = c.queue.add({});
  for (int i = 0; i < 100; ++i) c.push(a);
  for (int i = 0; i < 99; ++i) c.next();
  c.push(b);
  c.push(a);
  c.push(b);
  CHECK(c.order() == "2121");
}

TEST_CASE("each class has a virtual time of its own", "[fair_queue]") {
  crowd c{2};
  const auto a = c.queue.add({}), b = c.queue.add({});
  // Only a has had class 0 for long; in class 1 it owes nothing for that.
  for (int i = 0; i < 100; ++i) c.push(a, 0);
  for (int i = 0; i < 4; ++i) c.push(b, 1);
  for (int i = 0; i < 100; ++i) REQUIRE(c.next() == 1);
  for (int i = 0; i < 4; ++i) c.push(a, 1);
  CHECK(c.order() == "21212121");
}

TEST_CASE("a cancelled waiter pays nothing", "[fair_queue]") {
  crowd c;
  const auto a = c.queue.add({}), b = c.queue.add({});
  request_node& heavy = c.push(a, 0, 1000);
  for (int i = 0; i < 3; ++i) c.push(b);
  c.push(a);
  c.push(a);
  c.queue.remove(heavy);
  CHECK(c.order() == "21212");
}

TEST_CASE("F3: a flow at its cap holds up nobody, and returns without credit", "[fair_queue]") {
  crowd c;
  const auto capped = c.queue.add({.cap = 1}), free = c.queue.add({});
  for (int i = 0; i < 5; ++i) c.push(capped);
  for (int i = 0; i < 8; ++i) c.push(free);
  CHECK(c.order(5) == "12222");
  CHECK(c.queue.is_held(capped));
  CHECK(c.queue.first_held()->flow() == capped);
  c.queue.release(capped, 1);
  CHECK(c.order(3) == "122");
  c.queue.set_cap(capped, 100);
  CHECK(c.order() == "11212");
}

TEST_CASE("a flow at its rate is back to the nanosecond, and the queue says when", "[fair_queue]") {
  crowd c;
  const auto slow = c.queue.add({.rates = {bucket(rate::per_second(1), 1, 1, epoch)}});
  c.push(slow);
  c.push(slow);
  CHECK(c.order() == "1");
  CHECK(c.queue.next_change() == epoch + 1s);
  c.pass(1s - 1ns);
  CHECK(c.next() == -1);
  c.pass(1ns);
  CHECK(c.next() == 1);
  CHECK(c.queue.next_change() == time_point::max());
}

TEST_CASE("a late wake-up takes the tokens of a flow as of when they were due", "[fair_queue]") {
  crowd c;
  const auto slow = c.queue.add({.rates = {bucket(rate::per_second(1000), 1, 1, epoch)}});
  for (int i = 0; i < 20; ++i) c.push(slow);
  CHECK(c.order() == "1");
  c.now += 3500us;
  int granted = 0;
  while (wait_node* n = c.queue.front(c.now)) {
    c.queue.grant(*n, c.now - 20ms);
    ++granted;
  }
  CHECK(granted == 3);
  CHECK(c.queue.next_change() == epoch + 4ms);
  // One that waited for its limit after it had returned has no such claim.
  c.pass(10ms);
  c.pass(5ms);
  CHECK(c.order() == "1");
  CHECK(c.queue.next_change() == c.now + 1ms);
}

TEST_CASE("with ageing a risen waiter competes in the class to which it has risen", "[fair_queue]") {
  crowd c{3, 10s};
  const auto a = c.queue.add({}), b = c.queue.add({});
  c.push(a, 2);
  c.pass(5s);
  c.push(b, 1);
  CHECK(c.queue.next_change() == epoch + 10s);
  CHECK(c.queue.front(c.now)->flow() == b);
  c.pass(5s);
  CHECK(c.queue.front(c.now)->flow() == a);  // both in class 1, and it came first
  c.pass(5s);
  CHECK(c.queue.front(c.now)->flow() == b);
  c.pass(5s);
  c.push(b, 0);
  CHECK(c.queue.front(c.now)->flow() == a);
  CHECK(c.queue.next_change() == time_point::max());
}

TEST_CASE("with all held, the rise of a lighter waiter is the next change", "[fair_queue]") {
  crowd c{2, 10s, supplies::occupancy::tokens};
  const auto a = c.queue.add({.cap = 2});
  c.queue.enter(a, 1);
  c.push(a, 1, 1);
  c.push(a, 0, 2);
  CHECK(c.next() == -1);
  CHECK(c.queue.next_change() == epoch + 10s);
  c.pass(10s);
  CHECK(c.queue.front(c.now)->tokens == 1);
}

TEST_CASE("who goes at once neither overtakes nor pays", "[fair_queue]") {
  crowd c;
  const auto a = c.queue.add({}), b = c.queue.add({.cap = 1});
  CHECK(c.queue.may_enter(a, 1));
  for (int i = 0; i < 10; ++i) c.queue.enter(a, 2);
  CHECK(c.queue.counts(a).granted == 10);
  CHECK(c.queue.counts(a).tokens == 20);
  c.push(a);
  c.push(a);
  c.push(0);
  c.push(0);
  CHECK(c.order() == "1010");
  c.queue.enter(b, 1);
  CHECK_FALSE(c.queue.may_enter(b, 1));
  c.push(b);
  CHECK(c.queue.may_enter(a, 1));  // who waits is held
  c.push(a);
  CHECK_FALSE(c.queue.may_enter(0, 1));
  CHECK_FALSE(c.queue.may_enter(a, 1));
}

TEST_CASE("a flow's number is used again when nothing of it is occupied", "[fair_queue]") {
  crowd c;
  const auto a = c.queue.add({.cap = 2});
  c.push(a);
  CHECK(c.next() == 1);
  c.queue.forget(a);
  CHECK(c.queue.add({}) == 2);
  c.queue.release(a, 1);
  const auto again = c.queue.add({.weight = 5});
  CHECK(again == a);
  CHECK(c.queue.weight(again) == 5);
  CHECK(c.queue.counts(again).granted == 0);
  CHECK(c.queue.ceiling(again).occupied() == 0);
}

TEST_CASE("a grant that was never used comes back to its flow only", "[fair_queue]") {
  crowd c;
  const auto a = c.queue.add({.rates = {bucket(rate::per_second(1), 5, 5, epoch)}, .cap = 4});
  request_node& n = c.push(a, 0, 3);
  CHECK(c.next() == 1);
  CHECK(c.queue.ceiling(a).rates().front().available(c.now) == 2);
  c.queue.undo(n);
  CHECK(c.queue.ceiling(a).rates().front().available(c.now) == 5);
  CHECK(c.queue.ceiling(a).occupied() == 0);
  c.queue.forget(a);
  c.queue.undo(n);  // nobody's
  const auto b = c.queue.add({.rates = {bucket(rate::per_second(1), 5, 0, epoch)}});
  REQUIRE(b == a);
  c.queue.undo(n);  // not this one's
  CHECK(c.queue.ceiling(b).rates().front().available(c.now) == 0);
}

TEST_CASE("what waits in a plain queue goes on as the nameless flow, in its order", "[fair_queue]") {
  wait_queue plain{2, 10s};
  std::vector<std::unique_ptr<request_node>> nodes;
  for (const int of_class : {1, 0, 1}) {
    plain.push(*nodes.emplace_back(std::make_unique<request_node>(of_class)), epoch);
  }
  fair_queue queue{2, plain.ageing(), one};
  queue.take_over(plain, epoch + 1s);
  CHECK(plain.empty());
  CHECK(queue.size() == 3);
  CHECK(queue.size(1) == 2);
  CHECK(queue.front(epoch + 1s) == nodes[1].get());
  CHECK(queue.front(epoch + 10s) == nodes[0].get());  // it has waited from before
  CHECK(queue.oldest() == nodes[0].get());
  CHECK(queue.youngest_of_least_important() == nodes[2].get());
}

TEST_CASE("who makes room is found in one flow or in all", "[fair_queue]") {
  crowd c{3};
  const auto a = c.queue.add({}), b = c.queue.add({});
  CHECK(c.queue.oldest() == nullptr);
  CHECK(c.queue.youngest_of_least_important_of(a) == nullptr);
  request_node& first = c.push(a, 1);
  request_node& second = c.push(b, 2);
  request_node& third = c.push(b, 0);
  request_node& last = c.push(a, 1);
  CHECK(c.queue.oldest() == &first);
  CHECK(c.queue.oldest_of(b) == &second);
  CHECK(c.queue.youngest_of_least_important() == &second);
  CHECK(c.queue.youngest_of_least_important_of(a) == &last);
  CHECK(c.queue.youngest_of_least_important_of(b) == &second);
  c.queue.remove(second);
  CHECK(c.queue.oldest_of(b) == &third);
  CHECK(c.queue.youngest_of_least_important() == &last);
}

TEST_CASE("ahead of a newcomer are its own flow, and the free flows of the classes above", "[fair_queue]") {
  crowd c{3, 10s};
  const auto a = c.queue.add({}), b = c.queue.add({}), capped = c.queue.add({.cap = 9});
  c.push(a, 0, 1);
  c.push(a, 2, 2);
  c.push(b, 0, 4);
  c.push(b, 1, 8);
  c.push(capped, 0, 16);
  const auto of_a = c.queue.tokens_ahead(a, 1, 1);
  CHECK(of_a.own == 1);
  CHECK(of_a.all == 5);
  const auto of_capped = c.queue.tokens_ahead(capped, 2, 2);
  CHECK(of_capped.own == 16);
  CHECK(of_capped.all == 29);
  c.queue.set_cap(capped, canigo::detail::flow_ceiling::no_cap);
  CHECK(c.queue.tokens_ahead(a, 1, 1).all == 21);
  CHECK(c.queue.tokens_ahead(a, 2, 1).own == 1);
  CHECK(c.queue.tokens_ahead(a, 2, 1).all == 29);
  CHECK(c.queue.tokens_ahead(a, 2, -1).all == 0);
  CHECK(c.queue.first_class_at(c.now, 2) == epoch + 20s);
  CHECK(crowd{2}.queue.first_class_at(epoch, 1) == time_point::max());
}

TEST_CASE("a paused flow is held, and for others it is not there", "[fair_queue]") {
  crowd c{2};
  const auto a = c.queue.add({}), b = c.queue.add({});
  c.push(a, 0, 4);
  c.push(a, 0, 4);
  c.queue.pause_until(a, c.now + 3ns);
  CHECK(c.queue.is_held(a));
  CHECK(c.queue.next_change() == c.now + 3ns);
  CHECK(c.queue.tokens_ahead(b, 1, 1).all == 0);
  CHECK(c.queue.may_enter(b, 1));
  CHECK_FALSE(c.queue.may_enter(a, 1));
  c.push(b, 1);
  CHECK(c.order() == "2");
  c.pass(2ns);
  CHECK(c.next() == -1);
  c.pass(1ns);
  CHECK(c.queue.tokens_ahead(b, 1, 1).all == 8);
  CHECK(c.order(1) == "1");
  c.queue.pause_until(a, time_point::max());
  CHECK(c.queue.next_change() == time_point::max());
  c.pass(1h);
  CHECK(c.next() == -1);
  c.queue.pause_until(a, c.now);  // that is over
  CHECK(c.queue.tokens_ahead(b, 1, 1).all == 4);
  CHECK(c.order() == "1");
}

TEST_CASE("requests for almost everything do not upset the tags", "[fair_queue]") {
  constexpr std::uint64_t most = token_bucket::max_burst;
  crowd c;
  const auto a = c.queue.add({}), b = c.queue.add({.weight = 2});
  for (int i = 0; i < 40; ++i) c.push(a, 0, most);
  for (int i = 0; i < 80; ++i) c.push(b, 0, most);
  int of_a = 0, of_b = 0;
  for (int i = 0; i < 120; ++i) {
    (c.next() == 1 ? of_a : of_b) += 1;
    if (of_a < 40) REQUIRE(std::abs(of_b - 2 * of_a) <= 3);
  }
  CHECK(of_b == 80);
}

TEST_CASE("a fair queue with impossible arguments is refused with field, value and range", "[fair_queue]") {
  CHECK(refusal([] { fair_queue{0, duration::max(), one}; }).find("fair_queue.priorities is 0; allowed: 1 to 1024") ==
        0);
  CHECK(refusal([] { fair_queue{1, 0s, one}; }).find("fair_queue.ageing is 0s; allowed: 1ns or more") == 0);
}

TEST_CASE("a repeat stands in its flow where its first arrival puts it", "[fair_queue]") {
  crowd c{3, 10s};
  const auto a = c.queue.add({}), b = c.queue.add({});
  request_node& first = c.push(a, 1);
  c.pass(2s);
  request_node& second = c.push(a, 1);
  request_node& third = c.push(a, 1);
  request_node between{1}, foremost{1}, in_future{1}, high{0}, risen{2};
  c.queue.push(between, a, epoch + 1s);
  c.queue.push(in_future, a, c.now + 1h);
  CHECK(in_future.since() == c.now);
  CHECK(c.queue.front() == &first);
  c.queue.push(foremost, a, epoch - 1s);
  CHECK(c.queue.front() == &foremost);
  CHECK(c.queue.oldest() == &foremost);
  c.queue.push(high, a, epoch - 10s);
  CHECK(c.queue.front() == &high);
  std::vector<const wait_node*> order;
  c.queue.for_each_of(a, [&order](const wait_node& n) { order.push_back(&n); });
  CHECK(order == std::vector<const wait_node*>{&high, &foremost, &first, &between, &second, &third, &in_future});
  // The age counts from then, too: it has risen to class 0 of its flow. Between the flows, shares decide.
  c.queue.push(risen, b, epoch - 18s);
  CHECK(c.queue.effective_class(risen) == 0);
  CHECK(c.next() == static_cast<int>(a));
  CHECK(c.next() == static_cast<int>(b));
  CHECK(c.next() == static_cast<int>(a));
  c.queue.for_each([&](wait_node& n) { c.queue.remove(n); });
}

// ---- against plainer words ----

namespace fair_queue_tests {

/// The rules as they are written, looked through from the start at every step.
class fair_model {
 public:
  fair_model(int priorities, duration ageing, supplies::occupancy o)
      : ageing_{ageing}, occupancy_{o}, time_(static_cast<std::size_t>(priorities)), finish_(time_) {
    flows_[0] = flow{1, {}, fair_queue::most_flows, 0, std::vector<uint128>(time_.size()), -1};
    flows_[0].cap = std::numeric_limits<std::uint64_t>::max();
  }

  struct waiter {
    wait_node* node;
    std::uint32_t flow;
    int priority;
    std::uint64_t tokens;
    std::uint64_t arrival;
    time_point since;
  };
  struct flow {
    std::uint32_t weight = 1;
    std::vector<token_bucket> rates;
    std::uint64_t cap = 0;
    std::uint64_t occupied = 0;
    std::vector<uint128> tags;
    int competes_in = -1;
    time_point paused_until = time_point::min();
  };

  void add(std::uint32_t number, std::uint32_t weight, std::vector<token_bucket> rates, std::uint64_t cap) {
    flows_[number] = flow{weight, std::move(rates), cap, 0, std::vector<uint128>(time_.size()), -1};
  }
  void erase(std::uint32_t number) { flows_.erase(number); }
  flow& at(std::uint32_t number) { return flows_.at(number); }

  void push(wait_node& n, std::uint32_t number, time_point since) {
    const waiter w{&n, number, n.priority, n.tokens, arrivals_++, std::min(since, now_)};
    waiting_.insert(std::ranges::upper_bound(waiting_, w.since, {}, &waiter::since), w);
    look();
  }
  void remove(wait_node& n) {
    std::erase_if(waiting_, [&](const waiter& w) { return w.node == &n; });
    look();
  }
  void advance(time_point now) {
    now_ = now;
    look();
  }
  void look() {
    bool somebody = false;
    for (auto& [number, f] : flows_) {
      const waiter* w = first_of(number);
      const int competes = w != nullptr && allows(f, w->tokens) ? class_of(*w) : -1;
      if (competes >= 0 && competes != f.competes_in) {
        uint128& tag = f.tags[static_cast<std::size_t>(competes)];
        tag = std::max(tag, time_[static_cast<std::size_t>(competes)]);
      }
      f.competes_in = competes;
      somebody = somebody || competes >= 0;
    }
    if (somebody) return;
    for (std::size_t c = 0; c < time_.size(); ++c) time_[c] = std::max(time_[c], finish_[c]);
  }
  const waiter* front() const {
    const waiter* best = nullptr;
    for (const auto& [number, f] : flows_) {
      if (f.competes_in < 0) continue;
      const waiter* w = first_of(number);
      if (best == nullptr || key(*w) < key(*best)) best = w;
    }
    return best;
  }
  void grant() {
    const waiter w = *front();
    flow& f = flows_.at(w.flow);
    const auto c = static_cast<std::size_t>(class_of(w));
    time_[c] = f.tags[c];
    f.tags[c] += uint128{w.tokens} * unit / f.weight;  // without a remainder, by these weights
    finish_[c] = std::max(finish_[c], f.tags[c]);
    for (token_bucket& b : f.rates) (void)b.try_take(now_, w.tokens);
    if (w.flow != 0) f.occupied += places_for(w.tokens);
    remove(*w.node);
  }
  bool may_enter(std::uint32_t number, std::uint64_t tokens) const {
    return front() == nullptr && first_of(number) == nullptr && allows(flows_.at(number), tokens);
  }
  const waiter* any(std::size_t i) const { return waiting_.empty() ? nullptr : &waiting_[i % waiting_.size()]; }
  const waiter* oldest() const { return waiting_.empty() ? nullptr : &waiting_.front(); }
  const waiter* least() const {
    const waiter* found = nullptr;
    for (const waiter& w : waiting_) {
      if (found == nullptr || w.priority >= found->priority) found = &w;
    }
    return found;
  }
  std::size_t size() const { return waiting_.size(); }
  std::uint64_t places_for(std::uint64_t tokens) const {
    return occupancy_ == supplies::occupancy::tokens ? tokens : occupancy_ == one ? 1 : 0;
  }
  int class_of(const waiter& w) const {
    const auto risen = ageing_ == duration::max() ? 0 : (now_ - w.since) / ageing_;
    return static_cast<int>(std::max<std::int64_t>(0, w.priority - risen));
  }
  bool has_limits(std::uint32_t number) const {
    const flow& f = flows_.at(number);
    return !f.rates.empty() || f.cap != std::numeric_limits<std::uint64_t>::max() || now_ < f.paused_until;
  }
  std::pair<std::uint64_t, std::uint64_t> ahead(std::uint32_t number, int priority, int last) const {
    std::uint64_t own = 0, others = 0;
    for (const waiter& w : waiting_) {
      if (w.priority > last) continue;
      if (w.flow == number) own += w.tokens;
      if (w.flow != number && w.priority < priority && !has_limits(w.flow)) others += w.tokens;
    }
    return {own, own + others};
  }

 private:
  static constexpr std::uint64_t unit = 720'720 * 4096ull;

  std::tuple<int, uint128, std::uint64_t> key(const waiter& w) const {
    const int c = class_of(w);
    return {c, flows_.at(w.flow).tags[static_cast<std::size_t>(c)], w.arrival};
  }
  const waiter* first_of(std::uint32_t number) const {
    const waiter* best = nullptr;
    for (const waiter& w : waiting_) {
      if (w.flow == number && (best == nullptr || class_of(w) < class_of(*best))) best = &w;
    }
    return best;
  }
  bool allows(const flow& f, std::uint64_t tokens) const {
    if (now_ < f.paused_until) return false;
    for (const token_bucket& b : f.rates) {
      if (!b.can_take(now_, tokens)) return false;
    }
    const std::uint64_t places = places_for(tokens);
    return f.cap == std::numeric_limits<std::uint64_t>::max() || f.occupied + places <= f.cap;
  }

  duration ageing_;
  supplies::occupancy occupancy_;
  std::vector<uint128> time_;
  std::vector<uint128> finish_;
  std::map<std::uint32_t, flow> flows_;
  std::vector<waiter> waiting_;  // in the order of arrival
  std::uint64_t arrivals_ = 0;
  time_point now_ = epoch;
};

/// Random deeds; what differs, or nothing.
std::optional<std::string> differs(std::uint64_t seed, int steps) {
  std::mt19937_64 random{seed};
  const auto roll = [&](std::uint64_t n) { return random() % n; };
  // Mostly few classes, so that waiters meet; or so many that they take more than one word of bits.
  const auto priorities = static_cast<int>(roll(8) == 0 ? 60 + roll(100) : 1 + roll(4));
  const duration ageing = roll(2) == 0 ? duration::max() : duration{static_cast<std::int64_t>(1 + roll(40))};
  const auto o = static_cast<supplies::occupancy>(roll(3));
  fair_queue queue{priorities, ageing, o};
  fair_model model{priorities, ageing, o};
  time_point now = epoch;
  queue.advance(now);
  std::vector<std::uint32_t> flows{0};
  std::map<wait_node*, std::unique_ptr<request_node>> nodes;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> held;  // places
  constexpr std::uint32_t weights[] = {1, 2, 3, 5, 7, 16, 4096};
  const auto terms = [&] {
    flow_terms t{.weight = weights[roll(7)]};
    if (roll(3) == 0)
      t.rates.push_back(token_bucket{rate{1, duration{1 + static_cast<std::int64_t>(roll(9))}}, 4, roll(5), now});
    if (roll(3) == 0) t.cap = 1 + roll(8);
    return t;
  };
  const auto fail = [&](int step, const std::string& what) {
    return "seed " + std::to_string(seed) + " step " + std::to_string(step) + ": " + what;
  };

  for (int i = 0; i < steps; ++i) {
    const std::uint32_t f = flows[roll(flows.size())];
    switch (roll(21)) {
      case 20:
        if (f != 0) {
          const auto length = static_cast<std::int64_t>(roll(40));
          time_point end = now + duration{length};
          if (length < 15) end = length < 5 ? time_point::max() : time_point::min();
          model.at(f).paused_until = end;
          queue.pause_until(f, end);
          model.look();
        }
        break;
      case 0:
        if (flows.size() < 7) {
          flow_terms t = terms();
          const flow_terms copy = t;
          const std::uint32_t number = queue.add(std::move(t));
          model.add(number, copy.weight, copy.rates, copy.cap);
          flows.push_back(number);
        }
        break;
      case 1: {
        const auto is_of = [&](const auto& h) { return h.first == f; };
        if (f == 0 || std::any_of(held.begin(), held.end(), is_of)) break;
        queue.for_each_of(f, [&](wait_node& n) {
          queue.remove(n);
          model.remove(n);
        });
        queue.forget(f);
        model.erase(f);
        std::erase(flows, f);
        break;
      }
      case 2:
        if (f != 0) {
          const std::uint32_t weight = weights[roll(7)];
          queue.set_weight(f, weight);
          model.at(f).weight = weight;
        }
        break;
      case 3:
        if (f != 0) {
          const std::uint64_t cap = roll(4) == 0 ? std::numeric_limits<std::uint64_t>::max() : 1 + roll(8);
          model.at(f).cap = cap;
          queue.set_cap(f, cap);
          model.look();
        }
        break;
      case 4:
        if (!model.at(f).rates.empty()) {
          const rate r{1, duration{1 + static_cast<std::int64_t>(roll(9))}};
          model.at(f).rates.front().set_rate(now, r);
          queue.set_rate(f, 0, r);
          model.look();
        }
        break;
      case 5:
      case 6:
        if (!held.empty()) {
          std::swap(held[roll(held.size())], held.back());
          const auto [flow, places] = held.back();
          held.pop_back();
          model.at(flow).occupied -= flow == 0 ? 0 : places;
          queue.release(flow, places);
          model.look();
        }
        break;
      case 7: {
        const std::uint64_t n = 1 + roll(3);
        const bool back = roll(2) == 0;
        for (token_bucket& b : model.at(f).rates) back ? b.refund(now, n) : b.charge(now, n);
        back ? queue.settle(f, 0, n, 0) : queue.settle(f, 0, 0, n);
        model.look();
        break;
      }
      case 8:
      case 9:
        if (const auto* w = model.any(roll(1000))) {
          wait_node& n = *w->node;
          queue.remove(n);
          model.remove(n);
        }
        break;
      case 10:
      case 11:
      case 12:
        now += duration{static_cast<std::int64_t>(roll(12))};
        queue.advance(now);
        model.advance(now);
        break;
      case 13: {
        const std::uint64_t tokens = 1 + roll(4);
        if (queue.may_enter(f, tokens) != model.may_enter(f, tokens)) return fail(i, "may_enter");
        if (!queue.may_enter(f, tokens)) break;
        queue.enter(f, tokens);
        for (token_bucket& b : model.at(f).rates) (void)b.try_take(now, tokens);
        if (f != 0) model.at(f).occupied += model.places_for(tokens);
        held.emplace_back(f, model.places_for(tokens));
        break;
      }
      case 14:
      case 15:
      case 16:
        if (wait_node* n = queue.front(now)) {
          held.emplace_back(n->flow(), model.places_for(n->tokens));
          queue.grant(*n, now);
          model.grant();
        }
        break;
      default: {
        if (model.size() > 30) break;
        auto node = std::make_unique<request_node>(static_cast<int>(roll(static_cast<std::uint64_t>(priorities))),
                                                   roll(2) == 0 ? 1 : 1 + roll(4));
        // One of four is a repeat.
        const time_point since =
            roll(4) == 0 ? now + 5ns - duration{static_cast<std::int64_t>(roll(60))} : time_point::max();
        queue.push(*node, f, since);
        model.push(*node, f, since);
        nodes[node.get()] = std::move(node);
        break;
      }
    }
    const auto node_of = [](const fair_model::waiter* w) { return w == nullptr ? nullptr : w->node; };
    if (queue.front() != node_of(model.front())) return fail(i, "the front");
    if (queue.size() != model.size()) return fail(i, "the size");
    if (queue.oldest() != node_of(model.oldest())) return fail(i, "the oldest");
    if (queue.youngest_of_least_important() != node_of(model.least())) return fail(i, "the least important");
    const int priority = static_cast<int>(roll(static_cast<std::uint64_t>(priorities)));
    const std::uint32_t g = flows[roll(flows.size())];
    const int last = static_cast<int>(roll(static_cast<std::uint64_t>(priority) + 2)) - 1;
    const auto ahead = queue.tokens_ahead(g, priority, last);
    if (std::pair{ahead.own, ahead.all} != model.ahead(g, priority, last)) return fail(i, "the tokens ahead");
    if (queue.next_change() <= now) return fail(i, "a change that is due was not made");
  }
  queue.for_each([&](wait_node& n) { queue.remove(n); });
  if (!queue.empty()) return fail(steps, "somebody is left");
  return {};
}

}  // namespace fair_queue_tests

TEST_CASE("a fair queue does what its rules say, looked through one by one", "[fair_queue]") {
  const char* wanted = std::getenv("CANIGO_FAIR_QUEUE_SEEDS");
  const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 400;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto wrong = differs(seed, 500);
    INFO(wrong.value_or(""));
    REQUIRE_FALSE(wrong);
  }
}

TEST_CASE("F1: shares keep their bound over every interval, with any weights and sizes", "[fair_queue]") {
  std::mt19937_64 random{7};
  for (int run = 0; run < 60; ++run) {
    crowd c;
    constexpr std::size_t flows = 5;
    std::uint64_t weight[flows + 1], largest[flows + 1];
    for (std::size_t f = 1; f <= flows; ++f) {
      weight[f] = 1 + random() % (run % 2 == 0 ? 10'000 : 7);
      largest[f] = 1 + random() % (run % 3 == 0 ? 1 : 50);
      REQUIRE(c.queue.add({.weight = static_cast<std::uint32_t>(weight[f])}) == f);
    }
    std::int64_t granted[flows + 1] = {};
    // Of each pair: the least and the greatest so far of Wf·wm − Wm·wf.
    std::map<std::pair<std::size_t, std::size_t>, std::pair<std::int64_t, std::int64_t>> range;
    const auto push = [&](std::size_t f) { c.push(static_cast<std::uint32_t>(f), 0, 1 + random() % largest[f]); };
    for (std::size_t f = 1; f <= flows; ++f) push(f);
    for (int i = 0; i < 3000; ++i) {
      wait_node* n = c.queue.front(c.now);
      const std::size_t f = n->flow();
      push(f);  // none of them is ever idle
      granted[f] += static_cast<std::int64_t>(n->tokens);
      c.queue.grant(*n, c.now);
      for (std::size_t m = 1; m <= flows; ++m) {
        for (std::size_t k = 1; k < m; ++k) {
          const auto d =
              granted[k] * static_cast<std::int64_t>(weight[m]) - granted[m] * static_cast<std::int64_t>(weight[k]);
          auto& [least, greatest] = range[{k, m}];
          least = std::min(least, d);
          greatest = std::max(greatest, d);
          REQUIRE(greatest - least <= static_cast<std::int64_t>(largest[k] * weight[m] + largest[m] * weight[k]));
        }
      }
    }
  }
}

TEST_CASE("a newcomer waits for at most one request of each other flow", "[fair_queue]") {
  std::mt19937_64 random{11};
  for (int run = 0; run < 200; ++run) {
    crowd c;
    const auto flows = static_cast<std::uint32_t>(2 + random() % 8);
    for (std::uint32_t f = 1; f <= flows; ++f) c.queue.add({.weight = static_cast<std::uint32_t>(1 + random() % 9)});
    for (int i = 0; i < 200; ++i) c.push(static_cast<std::uint32_t>(1 + random() % (flows - 1)), 0, 1 + random() % 9);
    for (std::uint64_t before = random() % 100; before > 0; --before) c.next();
    c.push(flows, 0, 1000);
    std::vector<int> gone(flows + 1);
    for (int next = c.next(); next != static_cast<int>(flows); next = c.next()) {
      REQUIRE(++gone[static_cast<std::size_t>(next)] == 1);
    }
  }
}

TEST_CASE("a held flow changes nothing for the others", "[fair_queue]") {
  const auto play = [](std::uint64_t seed, bool with_held) {
    std::mt19937_64 random{seed};
    crowd c{2};
    const auto held = c.queue.add({.cap = 1});
    c.queue.add({.weight = 2});
    c.queue.add({.weight = 3});
    c.queue.enter(held, 1);
    std::string order;
    for (int i = 0; i < 300; ++i) {
      const auto flow = static_cast<std::uint32_t>(2 + random() % 2);
      const int of_class = static_cast<int>(random() % 2);
      const auto what = random() % 4;
      if (what < 2) c.push(flow, of_class, 1 + random() % 3);
      if (what == 2) order += std::to_string(c.next()) + " ";
      if (what == 3 && with_held) c.push(held, of_class);
    }
    return order;
  };
  for (std::uint64_t seed = 0; seed < 50; ++seed) CHECK(play(seed, true) == play(seed, false));
}

TEST_CASE("a flow that returns at its own time has its remainder still", "[fair_queue]") {
  crowd c;
  const auto a = c.queue.add({.weight = 17}), b = c.queue.add({.weight = 17});
  c.push(a);
  REQUIRE(c.next() == 1);
  // Nothing else has happened, so the time is the tag of `a`: a part of a unit less than what it had.
  for (int i = 0; i < 2; ++i) c.push(a);
  for (int i = 0; i < 2; ++i) c.push(b);
  CHECK(c.order() == "1221");
}

TEST_CASE("remainders are carried: thirds and sevenths come out even", "[fair_queue]") {
  crowd c;
  const auto a = c.queue.add({.weight = 9'973}), b = c.queue.add({.weight = 10'000});
  std::int64_t of_a = 0, of_b = 0;
  c.push(a);
  c.push(b);
  for (int i = 0; i < 400'000; ++i) {
    const bool is_a = c.next() == 1;
    (is_a ? of_a : of_b) += 1;
    request_node& n = *c.nodes[is_a ? 0 : 1];
    c.queue.push(n, is_a ? a : b);
  }
  CHECK(std::abs(of_a * 10'000 - of_b * 9'973) <= 19'973);
}

TEST_CASE("the least important that wait too long are shed first, however many came before", "[fair_queue]") {
  using canigo::detail::delay_rule;
  wait_queue before{3};
  request_node first{1};
  before.push(first, epoch);
  request_node passes{0};
  for (int i = 0; i < 4'200'000; ++i) {
    before.push(passes, epoch);
    before.remove(passes);
  }
  const delay_rule codel{{.target = 5ms, .interval = 100ms}};
  fair_queue queue{3, duration::max(), one, nullptr, codel};
  queue.take_over(before, epoch);
  const auto flow = queue.add({});
  request_node last{2};
  queue.push(last, flow);
  queue.advance(epoch + 1s);
  CHECK(queue.overdue() == &last);
  queue.remove(last);
  CHECK(queue.overdue() == &first);
  queue.remove(first);
  CHECK(queue.overdue() == nullptr);
}
