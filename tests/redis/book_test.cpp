// Which requests wait, which permits are held, what lies idle, and what Redis is told of them.
#include "../lib/redis/book.hpp"

#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace book_test {

using namespace std::chrono_literals;
using canigo::time_point;
using canigo::redis::detail::book;
using canigo::redis::detail::holding;
using canigo::redis::detail::limit_request;
using canigo::redis::detail::rate_setting;
using canigo::redis::detail::sync_call;

constexpr time_point start{1h};
constexpr rate_setting ten_a_second{.tokens = 10, .period = 1'000'000, .burst = 100};

/// A request that is in a book from the beginning.
struct entry : limit_request {
  explicit entry(book& b, const canigo::request& r = {}, bool is_patient = true) : limit_request{r, is_patient} {
    b.number(*this, start);
    REQUIRE(b.add(*this));
  }
};

sync_call written(const book& b, bool keeps = true) {
  sync_call s;
  b.write(s, keeps);
  return s;
}

/// A call that Redis answers, and does as told.
void call(book& b) {
  (void)written(b);
  b.call_begins();
  b.was_heard();
  b.was_told();
  b.held_there(b.held());
}

std::vector<std::uint64_t> wishes(const book& b) {
  std::vector<std::uint64_t> ids;
  for (const auto& w : written(b).wanted) ids.push_back(w.id);
  return ids;
}

using numbers = std::vector<std::uint64_t>;
using withdrawals = std::vector<canigo::redis::detail::sync_call::withdrawal>;

TEST_CASE("requests stand by class, then by arrival, and Redis is told of each once") {
  book b{true, 0s};
  CHECK_FALSE(b.is_engaged());
  entry low{b, {.priority = 1}};
  entry high{b};
  entry impatient{b, {.tokens = 3}, false};
  CHECK(&b.first() == &high);
  CHECK(b.waiters() == 3);
  CHECK(b.is_engaged());
  const sync_call s = written(b);
  REQUIRE(s.wanted.size() == 3);
  CHECK(s.wanted[0].id == high.id);
  CHECK(s.wanted[1].priority == -1);
  CHECK(s.wanted[1].weight == 3);
  CHECK(s.wanted[2].id == low.id);
  CHECK_FALSE(high.is_known);
  b.call_begins();
  CHECK(high.is_known);
  CHECK_FALSE(b.has_fresh());
  CHECK(b.has_asked());
  CHECK(wishes(b).empty());
  CHECK_FALSE(b.has_heard_of(high));
  b.was_heard();
  CHECK(b.has_heard_of(high));
  entry late{b};
  CHECK_FALSE(b.has_heard_of(late));
  CHECK(wishes(b) == numbers{late.id});
  b.ask_again();
  CHECK(wishes(b).size() == 4);
}

TEST_CASE("a call tells of a thousand requests, and none counts as heard of before all are") {
  book b{true, 0s};
  std::vector<std::unique_ptr<entry>> all;
  for (int i = 0; i < 1500; ++i) all.push_back(std::make_unique<entry>(b));
  CHECK(written(b).wanted.size() == 1000);
  call(b);
  CHECK_FALSE(b.has_heard_of(*all.front()));
  CHECK(written(b).wanted.size() == 500);
  call(b);
  CHECK(b.has_heard_of(*all.back()));
}

TEST_CASE("Redis is told that a request has left if it may know it, until a call that says so is answered") {
  book b{true, 0s};
  entry unknown{b};
  b.take_out(unknown);
  CHECK_FALSE(b.has_returns());
  entry known{b, {.tokens = 2}};
  b.call_begins();
  b.take_out(known);
  CHECK(b.has_returns());
  CHECK(b.is_told_of(known.id));
  CHECK(*written(b).cancels == withdrawals{{known.id, 2, {2}}});
  b.call_begins();
  entry next{b};
  b.ask_again();
  next.is_known = true;
  b.take_out(next);  // while the call is under way
  CHECK(written(b).cancels->size() == 2);
  b.was_told();
  CHECK(*written(b).cancels == withdrawals{{next.id, 1, {1}}});
}

TEST_CASE("grants are acknowledged until Redis has heard it, also those that no request waits for") {
  book b{true, 0s};
  entry w{b};
  call(b);
  CHECK(b.find(w.id) == &w);
  CHECK(b.find_from(1, w.id + 1) == &w);
  CHECK(b.find_from(1, w.id) == nullptr);
  CHECK(b.find_from(w.id + 1, w.id + 9) == nullptr);
  w.is_known = false;
  b.take_out(w);
  b.acknowledge(w.id);
  CHECK(b.find(w.id) == nullptr);
  CHECK(b.is_told_of(w.id));
  CHECK_FALSE(b.has_returns());  // the next renewal says so
  b.take_note(w.id, w.id + 3);
  CHECK(*written(b).acknowledged == numbers{w.id, w.id + 1, w.id + 2});
  CHECK(b.has_returns());
  call(b);
  CHECK(written(b).acknowledged->empty());
  CHECK_FALSE(b.is_told_of(w.id));
}

TEST_CASE("another session knows no request, and each gets another number") {
  book b{true, 0s};
  entry first{b};
  entry second{b};
  entry left{b};
  call(b);
  b.take_out(left);
  b.acknowledge(left.id);
  const auto before = first.id;
  b.begin_session();
  CHECK(first.id != before);
  CHECK(second.id > first.id);
  CHECK(b.find(before) == nullptr);
  CHECK(b.find(first.id) == &first);
  CHECK_FALSE(first.is_known);
  CHECK_FALSE(b.has_returns());
  CHECK(written(b).acknowledged->empty());
  CHECK(wishes(b) == numbers{first.id, second.id});
}

TEST_CASE("a permit is held until it is released or lost, and its holder is told once") {
  book b{true, 0s};
  const auto one = b.hold(nullptr, 1, 2, 7);
  const auto two = b.hold(nullptr, 2, 3, 8);
  CHECK(one->token == 7);
  CHECK(b.held() == 5);
  CHECK(b.is_engaged());
  CHECK(b.may_hold_there());
  CHECK(written(b).held == 5);
  CHECK(b.release(*one));
  CHECK_FALSE(b.release(*one));
  CHECK(one->now == holding::state::released);
  CHECK(b.held() == 3);
  CHECK(b.lose_all() == 1);
  CHECK(two->now == holding::state::lost);
  CHECK_FALSE(b.release(*two));
  CHECK(b.held() == 0);
  auto ended = b.take_ended();
  CHECK(ended == two);
  CHECK(ended->next_to_tell == one);
  CHECK(b.take_ended() == nullptr);
  b.tell_again(std::move(ended->next_to_tell));
  CHECK(b.take_ended() == one);
}

TEST_CASE("what was given back is told, and may be held in Redis until that is answered") {
  book b{true, 0s};
  const auto p = b.hold(nullptr, 1, 1, 7);
  call(b);
  CHECK(b.may_hold_there());
  b.release(*p);
  b.must_tell();
  CHECK(b.has_returns());
  CHECK(b.may_hold_there());
  b.call_begins();
  CHECK_FALSE(b.has_returns());
  b.must_tell();  // the call has failed
  CHECK(b.has_returns());
  b.held_there(0);
  CHECK(b.may_hold_there());
  call(b);
  CHECK_FALSE(b.may_hold_there());
}

TEST_CASE("a permit that is kept counts as held, may be had here, and goes with the horizon or the lease") {
  book b{true, 10s};
  b.put_idle(2, start, ten_a_second);
  CHECK(b.idle() == 2);
  CHECK(b.is_engaged());
  CHECK(b.idle_until() == start + 10s);
  CHECK(written(b).held == 2);
  CHECK(written(b).idle == 2);
  CHECK(written(b, false).idle == 0);
  CHECK(b.is_idle_enough(2, start));
  CHECK_FALSE(b.is_idle_enough(3, start));
  CHECK_FALSE(b.is_idle_enough(1, start + 10s));
  b.take_idle(1);
  {
    entry w{b};
    CHECK_FALSE(b.is_idle_enough(1, start));  // it is behind that one
    b.take_out(w);
  }
  CHECK(b.give_back_expired(start + 10s - 1ns) == 0);
  CHECK(b.idle() == 1);
  CHECK(b.give_back_expired(start + 10s) == 0);
  CHECK(b.idle() == 0);
  CHECK(b.has_returns());
  CHECK_FALSE(b.is_engaged());
  b.put_idle(1, start, ten_a_second);
  b.lose_all();
  CHECK(b.idle() == 0);
  CHECK_FALSE(b.is_engaged());
  b.put_idle(1, start, ten_a_second);
  CHECK(b.give_back_idle() == 0);
  CHECK_FALSE(b.is_engaged());
}

TEST_CASE("so many tokens are taken ahead as were used in time, twice over, up to what comes in") {
  book b{false, 1s};  // ten come in
  entry w{b};
  CHECK(written(b).ahead == 1);
  CHECK(written(b, false).ahead == 0);
  for (const std::uint64_t ahead : numbers{2, 4, 8, 10, 10}) {
    b.put_idle(1, start, ten_a_second);
    b.take_idle(1);
    CHECK(written(b).ahead == ahead);
  }
  b.put_idle(6, start, ten_a_second);
  CHECK(written(b).held == 0);
  CHECK(written(b).idle == 6);
  b.lose_all();
  CHECK(b.idle() == 6);  // tokens have no lease
  CHECK(b.give_back_idle() == 6);
  CHECK(b.give_back_idle() == 0);
  CHECK(written(b).ahead == 1);
  b.take_out(w);
  CHECK(written(b).ahead == 0);
}

TEST_CASE("a book that is cleared has no requests, and its permits stay") {
  book b{true, 0s};
  entry w{b};
  call(b);
  const entry fresh{b};
  const auto p = b.hold(nullptr, 9, 1, 1);
  b.clear();
  CHECK_FALSE(b.has_waiters());
  CHECK(b.find(w.id) == nullptr);
  CHECK_FALSE(b.has_fresh());
  CHECK_FALSE(b.has_asked());
  CHECK(wishes(b) == numbers{});
  int seen = 0;
  b.for_each([&](limit_request&) { ++seen; });
  CHECK(seen == 0);
  CHECK(b.held() == 1);
}

}  // namespace book_test
