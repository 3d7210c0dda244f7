#include "book.hpp"

#include <algorithm>
#include <utility>

namespace canigo::redis::detail {
namespace {

constexpr std::size_t most_per_call = 1000;

/// Reserves memory for at least `n` elements. If it must reallocate, it at least doubles the capacity.
template <class T>
void make_room(std::vector<T>& v, std::size_t n) {
  if (v.capacity() < n) v.reserve(std::max(n, 2 * v.capacity()));
}

template <class T>
void erase_first(std::vector<T>& v, std::size_t n) noexcept {
  v.erase(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(n));
}

}  // namespace

void book::number(limit_request& r, time_point now) noexcept {
  r.since = now;
  r.id = next_id_++;
  r.arrival = next_arrival_++;
}

bool book::add(limit_request& r) noexcept {
  const order place = place_of(r);
  try {
    make_room(cancels_, cancels_.size() + waiting_.size() + 1);
    make_room(acknowledged_, acknowledged_.size() + waiting_.size() + 1);
    waiting_.emplace(place, &r);
    by_id_.emplace(r.id, &r);
    fresh_.insert(place);
    return true;
  } catch (...) {
    waiting_.erase(place);
    by_id_.erase(r.id);
    return false;
  }
}

void book::take_out(limit_request& r) noexcept {
  const order place = place_of(r);
  waiting_.erase(place);
  fresh_.erase(place);
  asked_.erase(place);
  by_id_.erase(r.id);
  if (r.is_known) cancels_.push_back({r.id, r.amounts[0], r.amounts, r.set});
}

void book::clear() noexcept {
  waiting_.clear();
  by_id_.clear();
  fresh_.clear();
  asked_.clear();
}

/// Returns the waiting request that arrived first. The first request of each class is the earliest one of its class, so
/// only these are compared.
limit_request& book::oldest() const noexcept {
  limit_request* found = &first();
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    if (next->second->arrival < found->arrival) found = next->second;
    next = waiting_.lower_bound({next->first.first + 1, 0});
  }
  return *found;
}

limit_request* book::find(std::uint64_t id) const noexcept {
  const auto found = by_id_.find(id);
  return found != by_id_.end() ? found->second : nullptr;
}

limit_request* book::find_from(std::uint64_t first, std::uint64_t end) const noexcept {
  const auto found = by_id_.lower_bound(first);
  return found != by_id_.end() && found->first < end ? found->second : nullptr;
}

std::shared_ptr<holding> book::hold(std::shared_ptr<ledger> home, std::uint64_t id, std::uint64_t weight,
                                    std::uint64_t token, std::size_t alternative) {
  auto h = std::make_shared<holding>();
  h->home = std::move(home);
  h->id = id;
  h->weight = weight;
  h->token = token;
  h->alternative = alternative;
  holdings_.emplace(id, h);
  if (has_permits_) {
    held_ += weight;
    ++held_at_[alternative];
    may_hold_there_ = true;
  }
  return h;
}

void book::let_go(const holding& h) noexcept {
  if (!has_permits_) return;
  held_ -= h.weight;
  --held_at_[h.alternative];
}

bool book::release(holding& h) noexcept {
  if (h.now != holding::state::held) return false;
  h.now = holding::state::released;
  const auto found = holdings_.find(h.id);
  h.next_to_tell = std::exchange(ended_, found->second.lock());
  holdings_.erase(found);
  let_go(h);
  return true;
}

void book::forget(holding& h) noexcept {
  h.now = holding::state::released;
  let_go(h);
  holdings_.erase(h.id);
}

std::size_t book::lose_all() noexcept {
  if (!has_permits_) return 0;
  for (const auto& [id, weak] : holdings_) {
    if (const auto h = weak.lock()) {
      h->now = holding::state::lost;
      h->next_to_tell = std::exchange(ended_, h);
    }
  }
  const std::size_t lost = holdings_.size();
  holdings_.clear();
  held_ = 0;
  held_at_ = {};
  idle_ = 0;
  idle_until_ = time_point::max();
  return lost;
}

void book::tell_again(std::shared_ptr<holding> h) noexcept {
  h->next_to_tell = std::move(ended_);
  ended_ = std::move(h);
}

void book::put_idle(std::uint64_t n, time_point now, const rate_setting& r) noexcept {
  if (idle_ == 0) {
    if (!has_permits_) {
      // All tokens that were taken in advance were used in time. So the next call to Redis takes twice as many in
      // advance, but at most as many as the rate supplies within `horizon_`.
      const auto within =
          static_cast<double>(horizon_.count()) / 1000 / static_cast<double>(r.period) * static_cast<double>(r.tokens);
      const auto most_ahead = std::min<double>(static_cast<double>(r.burst), std::max(1.0, within));
      ahead_ = std::min(ahead_ * 2, static_cast<std::uint64_t>(most_ahead));
    }
    idle_until_ = saturating_add(now, horizon_);
  }
  idle_ += n;
}

std::uint64_t book::give_back_idle() noexcept {
  idle_until_ = time_point::max();
  const std::uint64_t n = std::exchange(idle_, 0);
  if (n == 0) return 0;
  must_tell_ = true;
  if (has_permits_) return 0;
  ahead_ = 1;
  return n;
}

std::uint64_t book::give_back_expired(time_point now) noexcept { return idle_until_ > now ? 0 : give_back_idle(); }

bool book::is_idle_enough(std::uint64_t n, time_point now) const noexcept {
  return idle_ >= n && !has_waiters() && now < idle_until_;
}

std::size_t book::per_call() const noexcept { return std::min(fresh_.size(), most_per_call); }

void book::write(sync_call& s, bool keeps) const {
  s.held = held_ + (has_permits_ ? idle_ : 0);
  s.idle = !has_permits_ ? idle_ : keeps ? s.held : 0;
  s.ahead = keeps && !has_permits_ && has_fresh() ? ahead_ : 0;
  for (std::size_t i = 0; i < s.alternatives.size(); ++i) s.alternatives[i].held = held_at_[i];
  s.acknowledged = &acknowledged_;
  s.cancels = &cancels_;
  const std::size_t n = per_call();
  s.wanted.reserve(n);
  auto place = fresh_.begin();
  for (std::size_t i = 0; i < n; ++i, ++place) {
    const limit_request& r = *waiting_.at(*place);
    s.wanted.push_back({r.id, r.waits ? r.wanted.priority : -1, r.amounts[0], r.amounts, r.set});
  }
}

void book::call_begins() noexcept {
  const std::size_t n = per_call();
  for (std::size_t i = 0; i < n; ++i) {
    const auto p = fresh_.begin();
    waiting_.at(*p)->is_known = true;
    asked_.insert(fresh_.extract(p));
  }
  acknowledged_under_way_ = acknowledged_.size();
  cancels_under_way_ = cancels_.size();
  asked_before_ = n == most_per_call ? heard_before_ : next_arrival_;
  must_tell_ = false;
}

void book::was_told() noexcept {
  erase_first(acknowledged_, acknowledged_under_way_);
  erase_first(cancels_, cancels_under_way_);
}

void book::held_there(std::uint64_t by_all) noexcept {
  may_hold_there_ = held_ > 0 || idle_ > 0 || must_tell_ || by_all > 0;
}

void book::begin_session() noexcept {
  must_tell_ = may_hold_there_ = false;
  cancels_.clear();
  acknowledged_.clear();
  for (const auto& [place, r] : waiting_) {
    auto node = by_id_.extract(r->id);
    r->id = next_id_++;
    r->is_known = false;
    node.key() = r->id;
    by_id_.insert(std::move(node));
  }
  ask_again();
}

void book::take_note(std::uint64_t from, std::uint64_t to) {
  for (; from < to; ++from) {
    if (is_told_of(from)) continue;
    make_room(acknowledged_, acknowledged_.size() + waiting_.size() + 2);
    acknowledged_.push_back(from);
    must_tell_ = true;
  }
}

bool book::is_told_of(std::uint64_t id) const noexcept {
  return std::find(acknowledged_.begin(), acknowledged_.end(), id) != acknowledged_.end() ||
         std::any_of(cancels_.begin(), cancels_.end(), [id](const auto& c) { return c.id == id; });
}

}  // namespace canigo::redis::detail
