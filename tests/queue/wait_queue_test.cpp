#include "canigo/detail/queue/wait_queue.hpp"

#include "canigo/error.hpp"

#include "support/catch.hpp"
#include "support/refusal.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <rapidcheck.h>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::errc;
using canigo::time_point;
using canigo::detail::wait_node;
using canigo::detail::wait_queue;

namespace {

constexpr time_point queue_start{1000s};

struct waiter : wait_node {
  explicit waiter(int of_class, std::uint64_t wanted = 1) {
    priority = static_cast<std::uint16_t>(of_class);
    tokens = wanted;
  }
  char state = 0;
};

static_assert(sizeof(waiter) == sizeof(wait_node), "a derived class uses the spare bytes of its base");
static_assert(sizeof(wait_node) == 48);

std::vector<waiter*> drain(wait_queue& queue, time_point now) {
  std::vector<waiter*> order;
  while (wait_node* node = queue.front(now)) {
    order.push_back(static_cast<waiter*>(node));
    queue.remove(*node);
  }
  return order;
}

// The same by brute force: every waiter in one vector.
struct queue_model {
  duration ageing;
  std::vector<waiter*> waiting;

  int effective(const waiter* w, time_point now) const {
    if (ageing == duration::max()) return w->priority;
    const auto steps = std::max(duration{0}, now - w->since()) / ageing;
    return static_cast<int>(std::max<std::int64_t>(0, w->priority - steps));
  }
  waiter* front(time_point now) const {
    const auto key = [&](const waiter* w) { return std::tuple{effective(w, now), w->since(), w->sequence()}; };
    const auto found = std::ranges::min_element(waiting, {}, key);
    return found == waiting.end() ? nullptr : *found;
  }
  waiter* oldest() const {
    const auto key = [](const waiter* w) { return std::tuple{w->since(), w->sequence()}; };
    const auto found = std::ranges::min_element(waiting, {}, key);
    return found == waiting.end() ? nullptr : *found;
  }
  waiter* least() const {
    const auto key = [](const waiter* w) { return std::tuple{w->priority, w->since(), w->sequence()}; };
    const auto found = std::ranges::max_element(waiting, {}, key);
    return found == waiting.end() ? nullptr : *found;
  }
  std::vector<const wait_node*> list(time_point now, std::size_t most) const {
    queue_model left{*this};
    std::vector<const wait_node*> order;
    for (waiter* w = left.front(now); w != nullptr && order.size() < most; w = left.front(now)) {
      order.push_back(w);
      std::erase(left.waiting, w);
    }
    return order;
  }
  std::uint64_t tokens(int from, int to) const {
    std::uint64_t sum = 0;
    for (const waiter* w : waiting)
      if (w->priority >= from && w->priority <= to) sum += w->tokens;
    return sum;
  }
};

}  // namespace

TEST_CASE("waiters go by class, then by arrival", "[wait_queue]") {
  wait_queue queue{3};
  waiter a{2}, b{0}, c{1}, d{0}, e{2}, f{1};
  for (waiter* w : {&a, &b, &c, &d, &e, &f}) queue.push(*w, queue_start);
  CHECK(queue.size() == 6);
  CHECK(queue.size(0) == 2);
  CHECK(queue.priorities() == 3);
  CHECK(a.linked());
  CHECK(queue.oldest() == &a);
  CHECK(queue.youngest_of_least_important() == &e);
  CHECK(drain(queue, queue_start) == std::vector<waiter*>{&b, &d, &c, &f, &a, &e});
  CHECK_FALSE(a.linked());
  CHECK(queue.empty());
}

TEST_CASE("an empty queue has nobody to offer", "[wait_queue]") {
  for (const duration ageing : {duration::max(), duration{1}}) {
    wait_queue queue{1024, ageing};
    CHECK(queue.empty());
    CHECK(queue.front(queue_start) == nullptr);
    CHECK(queue.oldest() == nullptr);
    CHECK(queue.youngest_of_least_important() == nullptr);
    CHECK(queue.tokens(0) == 0);
    CHECK(queue.tokens_ahead(1023) == 0);
  }
}

TEST_CASE("a waiter that leaves is gone wherever it stood, and may come back", "[wait_queue]") {
  wait_queue queue{1};
  waiter a{0}, b{0}, c{0}, d{0};
  for (waiter* w : {&a, &b, &c, &d}) queue.push(*w, queue_start);
  queue.remove(b);
  queue.remove(a);
  queue.remove(d);
  CHECK(queue.front(queue_start) == &c);
  CHECK(queue.youngest_of_least_important() == &c);
  queue.push(a, queue_start);
  CHECK(drain(queue, queue_start) == std::vector<waiter*>{&c, &a});
  queue.push(d, queue_start);
  CHECK(queue.front(queue_start) == &d);
  CHECK(queue.oldest() == &d);
}

TEST_CASE("a repeat goes by its first arrival", "[wait_queue]") {
  wait_queue queue{2, 10s};
  waiter a{1}, b{1}, c{1}, first{1}, between{1}, later{1}, high{0};
  queue.push(a, queue_start + 1s);
  queue.push(b, queue_start + 2s);
  queue.push(c, queue_start + 3s);
  queue.push(first, queue_start + 4s, queue_start);
  queue.push(between, queue_start + 4s, queue_start + 2s);
  queue.push(later, queue_start + 4s, queue_start + 9s);  // in the future: now
  CHECK(later.since() == queue_start + 4s);
  CHECK(queue.oldest() == &first);
  CHECK(queue.list(queue_start + 4s, 9) == std::vector<const wait_node*>{&first, &a, &b, &between, &c, &later});
  CHECK(queue.list(queue_start + 4s, 2) == std::vector<const wait_node*>{&first, &a});
  queue.push(high, queue_start + 5s);
  CHECK(queue.front(queue_start + 5s) == &high);
  CHECK(queue.front(queue_start + 10s) == &first);  // its age counts from then, too
  CHECK(queue.tokens_ahead(1) == 7);
  CHECK(drain(queue, queue_start + 5s) == std::vector<waiter*>{&high, &first, &a, &b, &between, &c, &later});
}

TEST_CASE("every one of 1024 classes keeps its rank", "[wait_queue]") {
  wait_queue queue{1024};
  std::vector<std::unique_ptr<waiter>> waiters;
  for (int i = 0; i < 1024; ++i) {
    const int scattered = (i * 389) % 1024;
    queue.push(*waiters.emplace_back(std::make_unique<waiter>(scattered)), queue_start);
  }
  CHECK(queue.youngest_of_least_important()->priority == 1023);
  CHECK(queue.oldest() == waiters.front().get());
  CHECK(queue.tokens_ahead(1023) == 1024);
  int expected = 0;
  for (const waiter* w : drain(queue, queue_start)) REQUIRE(w->priority == expected++);
  CHECK(expected == 1024);
}

TEST_CASE("a queue knows the tokens that each class waits for", "[wait_queue]") {
  wait_queue queue{4};
  waiter a{0, 5}, b{1, 7}, c{1, 11}, d{3, 13};
  for (waiter* w : {&a, &b, &c, &d}) queue.push(*w, queue_start);
  CHECK(queue.tokens(1) == 18);
  CHECK(queue.tokens(2) == 0);
  CHECK(queue.tokens_ahead(0) == 5);
  CHECK(queue.tokens_ahead(2) == 23);
  CHECK(queue.tokens_ahead(3) == 36);
  queue.remove(b);
  CHECK(queue.tokens(1) == 11);
  CHECK(queue.tokens_ahead(3) == 29);
}

TEST_CASE("sums of tokens saturate and come back", "[wait_queue]") {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  wait_queue queue{2};
  waiter a{0, most}, b{0, most}, c{1, 3};
  for (waiter* w : {&a, &b, &c}) queue.push(*w, queue_start);
  CHECK(queue.tokens(0) == most);
  CHECK(queue.tokens_ahead(1) == most);
  queue.remove(a);
  queue.remove(b);
  CHECK(queue.tokens(0) == 0);
  CHECK(queue.tokens_ahead(1) == 3);
}

TEST_CASE("those that are too heavy are found wherever they stand, and can be taken out meanwhile", "[wait_queue]") {
  wait_queue queue{1024};
  waiter light{0}, heavy{0, 5}, last{0, 6}, alone{1000, 7}, fits{1001, 4};
  for (waiter* w : {&light, &heavy, &last, &alone, &fits}) queue.push(*w, queue_start);
  std::vector<wait_node*> found;
  queue.for_each_heavier_than(4, [&](wait_node& n) {
    found.push_back(&n);
    queue.remove(n);
  });
  CHECK(found == std::vector<wait_node*>{&heavy, &last, &alone});
  CHECK(queue.size() == 2);
  queue.for_each_heavier_than(4, [&](wait_node&) { FAIL("none is left"); });
  queue.remove(light);
  queue.remove(fits);
  queue.for_each_heavier_than(0, [&](wait_node&) { FAIL("nobody waits"); });
}

TEST_CASE("with ageing, a waiter rises by one class per interval waited", "[wait_queue]") {
  wait_queue queue{3, 10s};
  waiter low{2}, high{0}, late{0}, middle{1};
  queue.push(low, queue_start);
  queue.push(high, queue_start + 5s);
  CHECK(queue.front(queue_start + 5s) == &high);
  CHECK(queue.front(queue_start + 20s - 1ns) == &high);
  CHECK(queue.front(queue_start + 20s) == &low);  // class 0 by now, and it came first
  queue.push(middle, queue_start + 12s);
  queue.push(late, queue_start + 19s);
  queue.remove(high);
  CHECK(queue.front(queue_start + 19s) == &late);
  CHECK(queue.front(queue_start + 20s) == &low);
  queue.remove(low);
  CHECK(queue.front(queue_start + 22s - 1ns) == &late);
  CHECK(queue.front(queue_start + 22s) == &middle);
  CHECK(drain(queue, queue_start + 22s) == std::vector<waiter*>{&middle, &late});
}

TEST_CASE("the next promotion is the instant at which the front may change by waiting alone", "[wait_queue]") {
  wait_queue queue{3, 10s};
  waiter first{0}, second{1}, third{2};
  CHECK(queue.next_promotion(queue_start) == time_point::max());
  queue.push(first, queue_start);
  CHECK(queue.next_promotion(queue_start) == time_point::max());
  queue.push(third, queue_start + 1s);
  queue.push(second, queue_start + 4s);
  CHECK(queue.next_promotion(queue_start + 4s) == queue_start + 11s);
  CHECK(queue.next_promotion(queue_start + 11s) == queue_start + 14s);
  CHECK(queue.next_promotion(queue_start + 14s) == queue_start + 21s);
  CHECK(queue.next_promotion(queue_start + 21s) == time_point::max());
  CHECK(queue.first_of_most_important() == &first);
  queue.remove(first);
  CHECK(queue.first_of_most_important() == &second);
  CHECK(wait_queue{3}.next_promotion(queue_start) == time_point::max());
}

TEST_CASE("O3: with ageing, nobody of a later arrival overtakes after (classes - 1) intervals", "[wait_queue]") {
  wait_queue queue{3, 1s};
  waiter patient{2};
  queue.push(patient, queue_start);
  std::vector<std::unique_ptr<waiter>> crowd;
  time_point now = queue_start;
  int served = 0;
  while (patient.linked() && served < 1000) {
    queue.push(*crowd.emplace_back(std::make_unique<waiter>(0)), now);  // class 0 is never empty
    wait_node* next = queue.front(now);
    queue.remove(*next);
    ++served;
    if (next != &patient) now += 100ms;
  }
  CHECK(now == queue_start + 2s);
}

TEST_CASE("a clock at its ends or stepping back does not upset the ageing", "[wait_queue]") {
  wait_queue queue{4, 1s};
  waiter a{3}, b{1};
  queue.push(a, time_point::min());
  queue.push(b, time_point::max());
  CHECK(queue.front(time_point::min()) == &b);
  CHECK(queue.front(time_point::max()) == &a);
  queue.remove(a);
  queue.push(a, time_point::min());  // counts as arriving with the latest before it
  CHECK(queue.front(time_point::max()) == &b);
  CHECK(queue.front(queue_start) == &b);
}

TEST_CASE("a queue with impossible arguments is refused with field, value and range", "[wait_queue]") {
  CHECK(refusal([] { wait_queue{0}; }).find("wait_queue.priorities is 0; allowed: 1 to 1024") == 0);
  CHECK(refusal([] { wait_queue{-3}; }).find("wait_queue.priorities is -3; allowed: 1 to 1024") == 0);
  CHECK(refusal([] { wait_queue{1025}; }).find("wait_queue.priorities is 1025; allowed: 1 to 1024") == 0);
  CHECK(refusal([] { wait_queue{1, 0s}; }).find("wait_queue.ageing is 0s; allowed: 1ns or more") == 0);
  CHECK(refusal([] { wait_queue{1, -1s}; }).find("wait_queue.ageing is -1s; allowed: 1ns or more") == 0);
}

TEST_CASE("O1, O2: a queue orders as sorting everybody would", "[wait_queue]") {
  const auto compare = [](duration ageing) {
    const int priorities = *rc::gen::element(1, 2, 5, 64, 65, 200, 1024);
    wait_queue queue{priorities, ageing};
    queue_model sorted{ageing, {}};
    std::vector<std::unique_ptr<waiter>> owners;
    time_point now = queue_start;
    const int steps = *rc::gen::inRange(1, 200);
    for (int i = 0; i < steps; ++i) {
      const auto kind = *rc::gen::weightedElement<int>({{5, 0}, {2, 1}, {2, 2}, {3, 3}});
      if (kind == 0) {
        const int of_class = *rc::gen::inRange(0, priorities);
        auto& w = owners.emplace_back(std::make_unique<waiter>(of_class, *rc::gen::inRange<std::uint64_t>(1, 100)));
        const bool is_repeat = *rc::gen::weightedElement<bool>({{4, false}, {1, true}});
        const duration ago{*rc::gen::inRange<std::int64_t>(-10, 1000)};
        queue.push(*w, now, is_repeat ? now - ago : time_point::max());
        RC_ASSERT(w->since() == (is_repeat ? std::min(now, now - ago) : now));
        sorted.waiting.push_back(w.get());
      } else if (kind == 3) {
        now += duration{*rc::gen::inRange<std::int64_t>(0, 400)};
      } else if (!sorted.waiting.empty()) {
        waiter* leaving = kind == 1 ? sorted.front(now) : *rc::gen::elementOf(sorted.waiting);
        queue.remove(*leaving);
        std::erase(sorted.waiting, leaving);
      }
      RC_ASSERT(queue.front(now) == sorted.front(now));
      RC_ASSERT(queue.oldest() == sorted.oldest());
      RC_ASSERT(queue.list(now, 5) == sorted.list(now, 5));
      RC_ASSERT(queue.youngest_of_least_important() == sorted.least());
      RC_ASSERT(queue.size() == sorted.waiting.size());
      const int of_class = *rc::gen::inRange(0, priorities);
      RC_ASSERT(queue.tokens(of_class) == sorted.tokens(of_class, of_class));
      RC_ASSERT(queue.tokens_ahead(of_class) == sorted.tokens(0, of_class));
    }
  };
  CHECK(rc::check("without ageing", [&] { compare(duration::max()); }));
  CHECK(rc::check("with ageing", [&] { compare(duration{*rc::gen::element<std::int64_t>(1, 3, 50, 1000, 20'000)}); }));
}
