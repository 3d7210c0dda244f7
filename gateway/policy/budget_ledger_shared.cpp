#include "gateway/policy/budget_account.hpp"
#include "gateway/policy/budget_ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

// The part of a ledger that shares its sums with other instances through Redis.
namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t most_windows_in_a_statement = 64, most_windows_of_asks = 48, most_asks_in_a_statement = 64;
// If Redis does not answer for `give_up`, the calls that ask it for money are denied. Further calls are denied without
// a question to Redis for `silent_for`.
constexpr auto give_up = 2s, silent_for = 1s;
// An answer that takes longer than this is slow.
constexpr auto usual_round_trip = 250ms;
// The sums of a window with reserved money are sent to Redis again when the last answer about the window is this old.
// This time is far shorter than budget_lease, after which the reservations of a silent instance end.
constexpr auto heartbeat = 1s;
// For this time after look_at() has read the sums of a window, further statements (messages to Redis) keep the sums
// fresh.
constexpr auto interest = 1min;
// The last answer of Redis is fresh while it is younger than this. An older answer about the money that other instances
// have reserved is not used to deny a call.
constexpr auto freshness = 1s;
// How long Redis keeps a window after its end. Calls that began in the window are settled by then.
constexpr std::chrono::hours kept_after_end{24};

bool may_refuse(const budget_ledger::budget& b) noexcept { return b.terms->at != over_budget::warn; }

}  // namespace

budget_ledger::budget_ledger(instance_name mine, clock::time_point (*now)())
    : instance_{std::move(mine.text)}, now_{now} {}

budget_ledger::sum& budget_ledger::sum_of(const hold::part& p) { return p.of->windows.at(p.window); }

bool budget_ledger::is_fresh(const sum& s) const { return s.is_known && now_() - s.known_at < freshness; }

bool budget_ledger::must_ask(std::span<const budget> budgets, micro_usd amount) const noexcept {
  return is_shared() && amount != 0 && std::ranges::any_of(budgets, may_refuse);
}

/// Returns a denial if the last answers of Redis show that the budget has too little left, or if Redis has recently not
/// answered. Only Redis can decide that the budget has enough. Precondition: mutex_ is locked.
std::optional<budget_ledger::denial> budget_ledger::guess(const hold::part& p, micro_usd amount, micro_usd most) {
  const sum& s = sum_of(p);
  const bool is_known = is_fresh(s);
  if (!is_known) make_due({&p, 1});
  // `s.spent` and `s.reserved` may be used even if the last answer of Redis is old. The spent money of a window never
  // becomes less, and this instance itself counts the money that it has reserved.
  const micro_usd others = is_known ? s.others : 0;
  const bool is_silent = now_() < silent_until_;
  if (!is_silent && s.spent + s.reserved + others + amount <= most) return std::nullopt;
  const bool is_spent = s.spent + amount > most;
  return denial{0, {p.of->now, s.spent, s.reserved + others}, is_spent, is_spent || !is_silent};
}

/// Marks these windows as due, so that the next statement (message to Redis) includes them. Precondition: mutex_ is
/// locked.
void budget_ledger::make_due(std::span<const hold::part> all) {
  for (const hold::part& p : all)
    if (!std::exchange(sum_of(p).is_due, true)) due_.push_back(p);
  if (news_) news_();
}

/// If the sums of a window are too old, marks the window as due, so that the next statement (message to Redis) includes
/// it. Precondition: mutex_ is locked.
void budget_ledger::make_old_windows_due() {
  const clock::time_point now = now_();
  for (const auto& [name, a] : accounts_) {
    for (const auto& [begin, s] : a->windows) {
      const bool is_of_interest = now - s.looked_at < interest && !is_fresh(s);
      // Each statement (message to Redis) advances the clock in Redis by which the reservations of dead instances end.
      // So statements are sent even if only other instances have reserved money.
      const bool is_leased = (s.reserved != 0 || s.others != 0) && now - s.known_at >= heartbeat;
      const hold::part p{a.get(), begin};
      if (is_of_interest || is_leased) make_due({&p, 1});
    }
  }
}

void budget_ledger::on_news(std::function<void()> news) {
  const std::lock_guard lock{mutex_};
  news_ = std::move(news);
}

std::uint64_t budget_ledger::ask(std::span<const budget> budgets, micro_usd amount, instant now,
                                 std::function<void(outcome)> done) {
  question q{amount, {}, now_(), std::move(done)};
  std::optional<outcome> at_once;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock{mutex_};
    q.number = number = ++asked_so_far_;
    for (const budget& b : budgets) {
      account& a = open(b, now);
      q.parts.push_back({{&a, a.now.begin}, a.now, may_refuse(b) ? std::optional{b.terms->most} : std::nullopt});
    }
    if (is_stopped_ || now_() < silent_until_) {
      at_once = deny(q, std::nullopt);
    } else {
      for (const question::part& p : q.parts) make_due({&p.of, 1});
      questions_.push_back(std::move(q));
    }
  }
  if (at_once) q.done(std::move(*at_once));
  return number;
}

std::optional<budget_ledger::denial> budget_ledger::withdraw(std::uint64_t number) {
  std::function<void(outcome)> dropped;  // destroyed after the lock is released
  const std::lock_guard lock{mutex_};
  const auto waiting = std::ranges::lower_bound(questions_, number, {}, &question::number);
  question* q = waiting != questions_.end() && waiting->number == number ? &*waiting : nullptr;
  if (const auto sent = std::ranges::find(asked_, number, &question::number); sent != asked_.end()) q = &*sent;
  if (q == nullptr || !q->done) return std::nullopt;
  dropped = std::exchange(q->done, nullptr);
  return deny(*q, std::nullopt).denied;
}

budget_ledger::denial budget_ledger::unanswered(std::span<const budget> budgets, instant now) {
  const auto first = std::ranges::find_if(budgets, may_refuse);
  const std::lock_guard lock{mutex_};
  const account& a = open(*first, now);
  const sum& s = a.windows.at(a.now.begin);
  return {static_cast<std::size_t>(first - budgets.begin()), {a.now, s.spent, s.reserved + s.others}, false, false};
}

/// Adds a window to a statement (message to Redis), unless the statement already has it. Returns its index in the
/// statement.
std::size_t budget_ledger::state(budget_statement& s, const hold::part& p) {
  sum& of = sum_of(p);
  of.is_due = false;
  if (std::exchange(of.is_stated, true)) {
    const auto at = std::ranges::find_if(stated_, [&](const hold::part& o) { return &sum_of(o) == &of; });
    return static_cast<std::size_t>(at - stated_.begin());
  }
  const auto now = std::chrono::system_clock::now();
  const instant end = p.of->now.begin == p.window ? p.of->now.end : p.window;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max<std::chrono::nanoseconds>(end - now, 0ns));
  s.windows.push_back({.key = fmt::format("{}:{}:{}", p.of->name, p.of->calendar, p.window.time_since_epoch().count()),
                       .member = of.member,
                       .record = of.record,
                       .settled = of.settled,
                       .reported = of.settled - of.unsaved,
                       .spent = of.spent - of.unsaved,
                       .reserved = of.reserved,
                       .kept = left + kept_after_end});
  stated_.push_back(p);
  return stated_.size() - 1;
}

std::optional<budget_statement> budget_ledger::next_statement() {
  std::vector<std::function<void()>> ends;
  auto next = make_statement(ends);
  for (const auto& end : ends) end();
  return next;
}

std::optional<budget_statement> budget_ledger::make_statement(std::vector<std::function<void()>>& ends) {
  const std::lock_guard lock{mutex_};
  stated_at_ = now_();
  if (stated_at_ - searched_at_ >= freshness) {
    searched_at_ = stated_at_;
    make_old_windows_due();
  }
  // If Redis answers too slowly, the questions (calls that ask for money) that have waited for `give_up` are denied.
  const bool is_late = !questions_.empty() && stated_at_ - questions_.front().since >= give_up;
  if (is_late && has_failed_) silent_until_ = stated_at_ + silent_for;
  while (!questions_.empty() && stated_at_ - questions_.front().since >= give_up) {
    const question& late = questions_.front();
    if (late.done) ends.push_back(end_of(late, deny(late, std::nullopt)));
    questions_.pop_front();
  }
  budget_statement s;
  while (!questions_.empty() && s.asks.size() < most_asks_in_a_statement && stated_.size() < most_windows_of_asks) {
    question q = std::move(questions_.front());
    questions_.pop_front();
    if (!q.done) continue;
    budget_statement::ask& a = s.asks.emplace_back();
    a.amount = q.amount;
    for (const question::part& p : q.parts) a.parts.push_back({state(s, p.of), p.most});
    asked_.push_back(std::move(q));
  }
  while (!due_.empty()) {
    const hold::part p = due_.front();
    // A window in the list due_ is skipped if a call that asks for money has already added it to a statement (message
    // to Redis).
    const bool is_due = sum_of(p).is_due;
    if (is_due && stated_.size() >= most_windows_in_a_statement) break;
    due_.pop_front();
    if (is_due) state(s, p);
  }
  if (s.windows.empty()) return std::nullopt;
  s.number = ++statements_;
  return s;
}

budget_ledger::outcome budget_ledger::grant(const question& q) {
  outcome o;
  o.money.ledger_ = this;
  o.money.amount_ = q.amount;
  for (const question::part& p : q.parts) {
    sum_of(p.of).reserved += q.amount;
    o.money.parts_.push_back(p.of);
  }
  return o;
}

/// Returns the denial of a question (a call that asks for money). `part`: the index of the budget that has too little
/// left; nothing: Redis has not answered.
budget_ledger::outcome budget_ledger::deny(const question& q, std::optional<std::size_t> part) {
  const auto refuses = [](const question::part& p) { return p.most.has_value(); };
  if (!part) {
    const auto first = std::ranges::find_if(q.parts, refuses);
    const std::size_t which = first == q.parts.end() ? 0 : static_cast<std::size_t>(first - q.parts.begin());
    outcome o = deny(q, which);
    o.denied->is_spent = false;
    o.denied->is_known = false;
    return o;
  }
  const question::part& p = q.parts.at(*part);
  const sum& s = sum_of(p.of);
  const bool is_spent = p.most && s.spent + q.amount > *p.most;
  outcome o;
  o.denied = denial{*part, {p.window, s.spent, s.reserved + s.others}, is_spent, true};
  return o;
}

/// Returns a function that passes the outcome to `q.done`. The returned function must be called while mutex_ is not
/// locked.
std::function<void()> budget_ledger::end_of(const question& q, outcome o) {
  return [done = q.done, kept = std::make_shared<outcome>(std::move(o))] { done(std::move(*kept)); };
}

void budget_ledger::take(const budget_statement& s, const budget_answer& answer) {
  std::vector<std::function<void()>> ends;
  {
    const std::lock_guard lock{mutex_};
    const bool is_back = std::exchange(has_failed_, false);
    if (is_back) silent_until_ = {};
    was_slow_ = now_() - stated_at_ >= usual_round_trip;
    std::vector<micro_usd> granted(s.windows.size());
    for (std::size_t i = 0; i < s.asks.size(); ++i) {
      if (answer.denied[i]) continue;
      for (const budget_statement::ask::part& p : s.asks[i].parts) granted[p.window] += s.asks[i].amount;
    }
    for (std::size_t i = 0; i < s.windows.size(); ++i) {
      sum& of = sum_of(stated_[i]);
      of.is_stated = false;
      of.is_known = true;
      of.known_at = now_();
      of.record = answer.windows[i].record;
      of.unsaved = of.settled - s.windows[i].settled;
      of.spent = answer.windows[i].spent + of.unsaved;
      of.told = s.windows[i].reserved + granted[i];
      of.others = answer.windows[i].reserved - std::min(answer.windows[i].reserved, *of.told);
    }
    for (std::size_t i = 0; i < asked_.size(); ++i) {  // none after stop()
      const question& q = asked_[i];
      // The next statement gives back what Redis has granted to a question that was withdrawn meanwhile.
      if (q.done) ends.push_back(end_of(q, answer.denied[i] ? deny(q, *answer.denied[i]) : grant(q)));
    }
    for (const hold::part& p : stated_)
      if (const sum& of = sum_of(p); of.unsaved != 0 || of.told != of.reserved) make_due({&p, 1});
    asked_.clear();
    stated_.clear();
    if (is_back && answering_) ends.push_back(answering_);
  }
  for (const auto& end : ends) end();
}

bool budget_ledger::is_slow() const {
  const std::lock_guard lock{mutex_};
  return has_failed_ || was_slow_ || (!stated_.empty() && now_() - stated_at_ >= usual_round_trip);
}

/// Denies all questions (calls that ask for money). Returns functions that report the denials; they must be called
/// while mutex_ is not locked.
std::vector<std::function<void()>> budget_ledger::deny_all_questions() {
  std::vector<std::function<void()>> ends;
  const auto end = [&](const question& q) {
    if (q.done) ends.push_back(end_of(q, deny(q, std::nullopt)));
  };
  std::ranges::for_each(asked_, end);
  std::ranges::for_each(questions_, end);
  asked_.clear();
  questions_.clear();
  return ends;
}

void budget_ledger::fail() {
  std::vector<std::function<void()>> ends;
  {
    const std::lock_guard lock{mutex_};
    failures_.fetch_add(1, std::memory_order_relaxed);
    has_failed_ = true;
    for (const hold::part& p : std::exchange(stated_, {})) {
      sum& of = sum_of(p);
      of.is_stated = false;
      of.told.reset();
      make_due({&p, 1});
    }
    const clock::time_point now = now_();
    const auto is_late = [&](const question& q) { return now - q.since >= give_up; };
    if (now - stated_at_ >= give_up || std::ranges::any_of(asked_, is_late)) {
      silent_until_ = now + silent_for;
      ends = deny_all_questions();
    } else {
      questions_.insert(questions_.begin(), std::make_move_iterator(asked_.begin()),
                        std::make_move_iterator(asked_.end()));
      asked_.clear();
    }
  }
  for (const auto& end : ends) end();
}

bool budget_ledger::has_news() const {
  const std::lock_guard lock{mutex_};
  return !stated_.empty() || std::ranges::any_of(due_, [](const hold::part& p) { return sum_of(p).is_due; });
}

void budget_ledger::stop() {
  std::vector<std::function<void()>> ends;
  {
    const std::lock_guard lock{mutex_};
    is_stopped_ = true;
    news_ = nullptr;
    ends = deny_all_questions();
  }
  for (const auto& end : ends) end();
}

}  // namespace canigo::gateway
