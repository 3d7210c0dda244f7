#include "model.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace simulated {

const char* name_of(end e) noexcept {
  constexpr const char* names[] = {"waiting",          "granted",   "cancelled", "timed_out", "unreachable",
                                   "queue_full",       "evicted",   "stopped",   "too_large", "invalid_priority",
                                   "invalid_argument", "no_memory", "shed"};
  return names[static_cast<std::size_t>(e)];
}

// ---- bucket ----

void bucket::pass(std::int64_t ns) noexcept { missing = std::max<std::int64_t>(0, missing - ns); }

std::int64_t bucket::wait_for(std::uint64_t n) const noexcept {
  if (n == 0) return 0;
  return std::max<std::int64_t>(0, missing - (burst - static_cast<std::int64_t>(n)) * token);
}

std::int64_t bucket::available() const noexcept { return burst - (missing + token - 1) / token; }

void bucket::refund(std::uint64_t n) noexcept { pass(static_cast<std::int64_t>(n) * token); }

void bucket::charge(std::uint64_t n) noexcept { missing += static_cast<std::int64_t>(n) * token; }

// What is there stays, the part of a token that has come to the nanosecond.
void bucket::set_token(std::int64_t ns) noexcept {
  const std::int64_t whole = (missing + token - 1) / token;
  const std::int64_t part = whole * token - missing;
  missing = whole * ns - part * ns / token;
  token = ns;
}

void bucket::set_burst(std::int64_t n) noexcept {
  missing = std::max<std::int64_t>(0, missing + (n - burst) * token);
  burst = n;
}

amounts wanted_by(const request& r) noexcept {
  amounts a{r.tokens};
  for (const canigo::unit_amount& u : r.amounts) a[u.unit.number()] = u.amount;
  return a;
}

// ---- model ----

int model::class_of(const waiter& w) const noexcept {
  const auto risen = options_.ageing == duration::max() ? 0 : (now_ - w.since) / options_.ageing;
  return static_cast<int>(std::max<std::int64_t>(0, w.wanted.priority - risen));
}

/// Who goes next; the end if nobody may.
std::vector<model::waiter>::iterator model::first() {
  if (!has_flows_) {
    const waiter* w = first_of(0);
    return w == nullptr ? queue_.end() : queue_.begin() + (w - queue_.data());
  }
  auto best = queue_.end();
  const auto key = [this](const waiter& w) {
    const int c = class_of(*head_of(w.flow));
    return std::tuple{c, flows_[w.flow].tags[static_cast<std::size_t>(c)], w.sequence};
  };
  for (auto w = queue_.begin(); w != queue_.end(); ++w) {
    if (flows_[w->flow].competes_in < 0 || first_of(w->flow) != &*w) continue;
    if (best == queue_.end() || key(*w) < key(*best)) best = w;
  }
  return best;
}

// ---- flows ----

void model::add_nameless() {
  virtual_time_.resize(static_cast<std::size_t>(options_.priorities));
  latest_finish_ = virtual_time_;
  add_flow({});
  has_flows_ = false;
  for (const flow_terms& t : options_.flows) add_flow(t);
}

std::size_t model::add_flow(const flow_terms& t) {
  has_flows_ = true;
  flows_.push_back({t, std::vector<tag>(virtual_time_.size())});
  return flows_.size() - 1;
}

void model::drop_flow(std::size_t flow) {
  for (bool again = true; again;) {
    const auto w = std::find_if(queue_.begin(), queue_.end(), [=](const waiter& x) { return x.flow == flow; });
    again = w != queue_.end();
    if (again) finish(w, end::stopped);
  }
  serve();
}

void model::set_flow_weight(std::size_t flow, std::uint32_t weight) { flows_[flow].terms.weight = weight; }

void model::set_flow_token(std::size_t flow, std::int64_t ns) {
  flows_[flow].terms.rate->set_token(ns);
  look_at_flows();
  serve();
}

void model::set_flow_places(std::size_t flow, std::optional<std::uint64_t> n) {
  flows_[flow].terms.places = n;
  look_at_flows();
  end_too_large();
  serve();
}

void model::pause_flow(std::size_t flow, time_point t) {
  flows_[flow].paused_until = t;
  look_at_flows();
  serve();
}

model::flow_counts model::counts_of(std::size_t flow) const {
  const auto& f = flows_[flow];
  const auto waits = std::count_if(queue_.begin(), queue_.end(), [=](const waiter& w) { return w.flow == flow; });
  return {static_cast<std::size_t>(waits), f.granted, f.failed, f.held, f.terms.rate ? f.terms.rate->available() : 0};
}

std::int64_t model::deepest(std::size_t unit) const noexcept {
  std::int64_t most = 0;
  for (const bucket& b : options_.rates) most = b.unit == unit ? std::max(most, b.burst) : most;
  return most;
}

/// The first of a flow: by effective class, then by arrival.
const model::waiter* model::head_of(std::size_t flow) const noexcept {
  const waiter* best = nullptr;
  for (const waiter& w : queue_) {
    if (w.flow == flow && (best == nullptr || class_of(w) < class_of(*best))) best = &w;
  }
  return best;
}

const model::waiter* model::first_of(std::size_t flow) const noexcept {
  const waiter* head = head_of(flow);
  return head != nullptr ? &candidate(*head) : nullptr;
}

/// While its class is overloaded, perhaps the last of it.
const model::waiter& model::candidate(const waiter& head) const noexcept {
  if (!options_.shedding.newest_first || now_ < overloaded_at(head)) return head;
  return *std::find_if(queue_.rbegin(), queue_.rend(), [&](const waiter& w) {
    return w.flow == head.flow && w.wanted.priority == head.wanted.priority;
  });
}

const model::waiter* model::oldest_of(std::size_t flow, int priority) const noexcept {
  for (const waiter& w : queue_) {
    if (w.flow == flow && w.wanted.priority == priority) return &w;
  }
  return nullptr;
}

time_point model::overloaded_at(const waiter& w) const {
  return met_at_.at({w.flow, w.wanted.priority}) + options_.shedding.interval;
}

time_point model::shed_at(const waiter& w) const {
  return std::max(overloaded_at(w), w.since + 2 * options_.shedding.target + duration{1});
}

/// Of the classes from the last one on, who has waited too long; but not the last of all.
void model::shed() {
  if (options_.shedding.target == duration::max()) return;
  for (int c = options_.priorities - 1; c >= 0; --c) {
    for (;;) {
      const auto late = std::find_if(queue_.begin(), queue_.end(), [&](const waiter& w) {
        return w.wanted.priority == c && shed_at(w) <= now_ && oldest_of(w.flow, c) == &w;
      });
      if (late == queue_.end()) break;
      if (queue_.size() == 1) return;
      finish(late, end::shed);
    }
  }
}

std::int64_t model::wait_for_flow(const flow_state& f, const amounts& a) const noexcept {
  return f.terms.rate ? f.terms.rate->wait_for(a[f.terms.rate->unit]) : 0;
}

bool model::allows(const flow_state& f, const request& r) const noexcept {
  if (now_ < f.paused_until) return false;
  return (!f.terms.places || f.held + places_for(r.tokens) <= *f.terms.places) && wait_for_flow(f, wanted_by(r)) == 0;
}

std::uint64_t model::largest_of(std::size_t flow, std::size_t unit) const noexcept {
  std::uint64_t most = largest(unit);
  const flow_terms& t = flows_[flow].terms;
  if (t.rate && t.rate->unit == unit) most = std::min(most, static_cast<std::uint64_t>(t.rate->burst));
  if (t.places && options_.places_are_tokens) most = std::min(most, *t.places);
  return most;
}

bool model::is_too_large(const request& r, std::size_t flow) const noexcept {
  const amounts a = wanted_by(r);
  for (std::size_t unit = 0; unit < a.size(); ++unit) {
    if (a[unit] > largest_of(flow, unit)) return true;
  }
  return false;
}

bool model::has_units() const noexcept {
  return std::any_of(options_.rates.begin(), options_.rates.end(), [](const bucket& b) { return b.unit != 0; });
}

/// Which flows compete, and in which class. A flow that comes into a class goes on from its time, without credit.
void model::look_at_flows() {
  if (!has_flows_) return;
  bool somebody = false;
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    flow_state& f = flows_[i];
    const waiter* w = first_of(i);
    const int competes = w != nullptr && allows(f, w->wanted) ? class_of(*head_of(i)) : -1;
    if (competes >= 0 && competes != f.competes_in) {
      tag& t = f.tags[static_cast<std::size_t>(competes)];
      t = std::max(t, virtual_time_[static_cast<std::size_t>(competes)]);
    }
    f.competes_in = competes;
    somebody = somebody || competes >= 0;
  }
  if (somebody) return;
  for (std::size_t c = 0; c < virtual_time_.size(); ++c) {
    virtual_time_[c] = std::max(virtual_time_[c], latest_finish_[c]);
  }
}

/// The share of the first is charged, and its ceiling.
void model::take_of_flow(const waiter& w) {
  flow_state& f = flows_[w.flow];
  const amounts a = wanted_by(w.wanted);
  ++f.granted;
  if (f.terms.rate) f.terms.rate->charge(a[f.terms.rate->unit]);
  if (w.flow != 0) f.held += places_for(w.wanted.tokens);
  if (!has_flows_) return;
  constexpr tag unit = tag{720'720} * 4096;  // all weights of the plans divide it
  const auto c = static_cast<std::size_t>(f.competes_in);
  virtual_time_[c] = f.tags[c];
  tag charge = w.wanted.tokens;
  if (has_units()) {  // the time of the slowest of its units, in 1/256 ns
    charge = 0;
    for (const bucket& b : options_.rates) charge = std::max(charge, tag{a[b.unit]} * tag(b.token) * 256);
  }
  f.tags[c] += charge * unit / f.terms.weight;
  latest_finish_[c] = std::max(latest_finish_[c], f.tags[c]);
}

std::uint64_t model::largest(std::size_t unit) const noexcept {
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const bucket& b : options_.rates)
    most = b.unit == unit ? std::min(most, static_cast<std::uint64_t>(b.burst)) : most;
  if (options_.places && options_.places_are_tokens) most = std::min(most, *options_.places);
  return most;
}

std::uint64_t model::places_for(std::uint64_t tokens) const noexcept {
  return !options_.places ? 0 : options_.places_are_tokens ? tokens : 1;
}

bool model::has_place_for(std::uint64_t tokens) const noexcept {
  return !options_.places || held_ + places_for(tokens) <= *options_.places;
}

/// The slowest decides.
std::int64_t model::wait_for(const amounts& a) const noexcept {
  std::int64_t longest = 0;
  for (const bucket& b : options_.rates) longest = std::max(longest, b.wait_for(a[b.unit]));
  return longest;
}

void model::take(const amounts& a) {
  for (bucket& b : options_.rates) b.charge(a[b.unit]);
}

bool model::try_take(const request& r) noexcept {
  if (!has_place_for(r.tokens)) return false;
  if (wait_for(wanted_by(r)) > 0) return false;
  if (shared_ != nullptr && !shared_->may_take()) return false;
  take(wanted_by(r));
  held_ += places_for(r.tokens);
  if (shared_ != nullptr) shared_->take();
  return true;
}

time_point model::earliest(const request& r, std::size_t flow) const noexcept {
  amounts own = wanted_by(r), all = own;
  for (const auto& w : queue_) {
    const amounts a = wanted_by(w.wanted);
    const flow_terms& t = flows_[w.flow].terms;
    const bool is_before = w.wanted.priority <= r.priority - (options_.shedding.newest_first ? 1 : 0);
    const bool is_own = w.flow == flow && is_before;
    const bool is_limited = t.rate || t.places || now_ < flows_[w.flow].paused_until;
    const bool is_above = w.flow != flow && w.wanted.priority < r.priority && !is_limited;
    for (std::size_t unit = 0; unit < a.size(); ++unit) {
      if (is_own) own[unit] += a[unit];
      if (is_own || is_above) all[unit] += a[unit];
    }
  }
  time_point ready = now_ + duration{wait_for(all)};
  if (has_flows_) {
    if (options_.ageing != duration::max()) ready = std::min(ready, now_ + r.priority * options_.ageing);
    const duration of_own{std::max(wait_for(own), wait_for_flow(flows_[flow], own))};
    ready = std::max(ready, now_ + of_own);
    if (flows_[flow].paused_until != time_point::max()) ready = std::max(ready, flows_[flow].paused_until);
  }
  return paused_until_ == time_point::max() ? ready : std::max(ready, paused_until_);
}

void model::finish(int id, end how) {
  fates_[id] = {how, now_};
  ++counts_[how];
}

void model::finish(std::vector<waiter>::iterator w, end how) {
  finish(w->id, how);
  if (how == end::granted) {
    take_of_flow(*w);
    ++waited_;
    longest_wait_ = std::max(longest_wait_, now_ - w->since);
    const waiter& oldest = *oldest_of(w->flow, w->wanted.priority);
    const bool sheds = options_.shedding.target != duration::max();
    if (sheds && now_ < oldest.since + options_.shedding.target) met_at_[{w->flow, w->wanted.priority}] = now_;
  } else {
    ++flows_[w->flow].failed;
  }
  queue_.erase(w);
  look_at_flows();
}

/// What is to be said at once, or `waiting`.
end model::enter(const request& r, std::size_t flow) {
  if (r.priority < 0 || r.priority >= options_.priorities) return end::invalid_priority;
  if (stopped_) return end::stopped;
  if (r.tokens == 0) return end::invalid_argument;
  if (is_too_large(r, flow)) return end::too_large;
  if (r.deadline < now_) return end::unreachable;
  // Who waits and may not go because of its flow is not overtaken.
  const bool is_next = has_flows_ ? first() == queue_.end() && first_of(flow) == nullptr : queue_.empty();
  auto& f = flows_[flow];
  if (is_next && now_ >= paused_until_ && allows(f, r) && try_take(r)) {
    ++f.granted;
    if (f.terms.rate) f.terms.rate->charge(wanted_by(r)[f.terms.rate->unit]);
    if (flow != 0) f.held += places_for(r.tokens);
    return end::granted;
  }
  return end::waiting;
}

bool model::try_acquire(const request& r, std::size_t flow) {
  const end how = enter(r, flow);
  if (how != end::granted) ++flows_[flow].failed;
  ++counts_[how == end::waiting ? end::queue_full : how];
  return how == end::granted;
}

/// In a class, of the flow that has most waiters for its weight. The newcomer's has to have fewer, with the newcomer.
std::vector<model::waiter>::iterator model::youngest_of_fullest(std::size_t newcomers, int priority) {
  const auto fullness = [this](std::size_t flow, std::size_t more) {
    return double(counts_of(flow).waiting + more) / flows_[flow].terms.weight;
  };
  auto found = queue_.end();
  for (auto w = queue_.begin(); w != queue_.end(); ++w) {
    if (w->flow == newcomers || w->wanted.priority != priority) continue;
    if (found == queue_.end() || fullness(w->flow, 0) >= fullness(found->flow, 0)) found = w;
  }
  return found != queue_.end() && fullness(found->flow, 0) > fullness(newcomers, 1) ? found : queue_.end();
}

/// By the policy, among all or in one flow.
bool model::make_room(std::optional<std::size_t> of_flow, std::size_t newcomers, int priority) {
  auto victim = queue_.end();
  for (auto w = queue_.begin(); w != queue_.end(); ++w) {
    if (of_flow && w->flow != *of_flow) continue;
    if (options_.on_overflow == canigo::overflow::evict_oldest && victim == queue_.end()) victim = w;
    if (options_.on_overflow == canigo::overflow::evict_least_important &&
        (victim == queue_.end() || w->wanted.priority >= victim->wanted.priority)) {
      victim = w;
    }
  }
  if (victim == queue_.end()) return false;
  if (options_.on_overflow == canigo::overflow::evict_least_important && victim->wanted.priority <= priority) {
    if (of_flow || !has_flows_ || victim->wanted.priority < priority) return false;
    victim = youngest_of_fullest(newcomers, priority);
    if (victim == queue_.end()) return false;
  }
  finish(victim, end::evicted);
  return true;
}

void model::acquire(int id, const request& r, std::size_t flow) {
  end how = enter(r, flow);
  if (how == end::waiting && r.deadline != time_point::max() && earliest(r, flow) > r.deadline) how = end::unreachable;
  if (how == end::waiting && counts_of(flow).waiting >= flows_[flow].terms.queue_limit && flow != 0 &&
      !make_room(flow, flow, r.priority)) {
    how = end::queue_full;
  }
  if (how == end::waiting && queue_.size() >= options_.queue_limit && !make_room({}, flow, r.priority))
    how = end::queue_full;
  if (how != end::waiting) {
    if (how != end::granted) ++flows_[flow].failed;
    finish(id, how);
    return;
  }
  if (oldest_of(flow, r.priority) == nullptr) met_at_[{flow, r.priority}] = now_;
  queue_.push_back({id, r, sequence_++, now_, flow});
  fates_[id] = {};
  look_at_flows();
  serve();
}

void model::cancel(int id) {
  const auto w = std::find_if(queue_.begin(), queue_.end(), [id](const waiter& x) { return x.id == id; });
  if (w == queue_.end()) return;
  finish(w, end::cancelled);
  serve();
}

void model::serve() {
  if (shared_ != nullptr) return shared_->settle();
  shed();
  look_at_flows();
  while (!queue_.empty() && now_ >= paused_until_) {
    const auto w = first();
    if (w == queue_.end()) return;
    if (try_take(w->wanted)) {
      finish(w, end::granted);
    } else {
      return;
    }
  }
}

time_point model::next_event() {
  time_point next = time_point::max();
  if (queue_.empty()) return next;
  if (paused_until_ > now_) {
    next = paused_until_;
  } else if (first() != queue_.end() && has_place_for(first()->wanted.tokens)) {
    const std::int64_t wait = wait_for(wanted_by(first()->wanted));
    if (wait > 0) next = now_ + duration{wait};
  }
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    const waiter* w = first_of(i);
    const std::int64_t wait = w != nullptr ? wait_for_flow(flows_[i], wanted_by(w->wanted)) : 0;
    if (wait > 0) next = std::min(next, now_ + duration{wait});
    if (w != nullptr && now_ < flows_[i].paused_until) next = std::min(next, flows_[i].paused_until);
  }
  for (const auto& w : queue_) {
    if (options_.shedding.target != duration::max()) {
      for (const time_point t : {overloaded_at(w), shed_at(w)}) {
        if (t > now_) next = std::min(next, t);
      }
    }
    if (w.wanted.deadline >= now_) next = std::min<time_point>(next, w.wanted.deadline);
    if (options_.ageing != duration::max() && class_of(w) > 0) {
      next = std::min(next, now_ + (options_.ageing - (now_ - w.since) % options_.ageing));
    }
  }
  return next;
}

void model::pass_to(time_point t) {
  for (;;) {
    const time_point event = next_event();
    const time_point next = std::min(t, event);
    move_to(next);
    if (event > t) return;
    serve();
    // One whose deadline is now may go now; after that it may not.
    while (end_one_too_late()) serve();
  }
}

void model::move_to(time_point t) {
  for (bucket& b : options_.rates) b.pass((t - now_).count());
  for (flow_state& f : flows_) {
    if (f.terms.rate) f.terms.rate->pass((t - now_).count());
  }
  now_ = t;
  look_at_flows();
}

bool model::end_one_too_late() {
  const auto late =
      std::find_if(queue_.begin(), queue_.end(), [this](const waiter& w) { return w.wanted.deadline <= now_; });
  if (late == queue_.end()) return false;
  finish(late, end::timed_out);
  return true;
}

void model::refund(std::uint64_t n) {
  for (bucket& b : options_.rates) b.refund(n);
  serve();
}

void model::charge(std::uint64_t n) {
  for (bucket& b : options_.rates) b.charge(n);
}

void model::set_token(std::size_t rate, std::int64_t ns) {
  options_.rates[rate].set_token(ns);
  serve();
}

void model::set_burst(std::size_t rate, std::int64_t n) {
  options_.rates[rate].set_burst(n);
  end_too_large();
  serve();
}

void model::set_places(std::uint64_t n) {
  options_.places = n;
  end_too_large();
  serve();
}

void model::end_too_large() {
  for (bool again = true; again;) {
    const auto w =
        std::find_if(queue_.begin(), queue_.end(), [this](const waiter& x) { return is_too_large(x.wanted, x.flow); });
    again = w != queue_.end();
    if (again) finish(w, end::too_large);
  }
}

void model::settle(std::uint64_t from, std::uint64_t to, std::size_t flow, std::size_t unit) {
  const auto settle_one = [=](bucket& b) {
    if (b.unit == unit) to > from ? b.charge(to - from) : b.refund(from - to);
  };
  if (auto& rate = flows_[flow].terms.rate) settle_one(*rate);
  for (bucket& b : options_.rates) settle_one(b);
  look_at_flows();
  serve();
}

void model::release(std::uint64_t n, std::size_t flow) {
  held_ -= n;
  if (flow != 0) flows_[flow].held -= n;
  look_at_flows();
  if (shared_ != nullptr) shared_->put_back(n);
  serve();
}

void model::pause_until(time_point t) {
  paused_until_ = t;
  serve();
}

void model::stop() {
  stopped_ = true;
  while (!queue_.empty()) finish(queue_.begin(), end::stopped);
  if (shared_ != nullptr) shared_->settle();
}

std::vector<std::int64_t> model::tokens() const {
  std::vector<std::int64_t> all;
  for (const bucket& b : options_.rates) all.push_back(b.available());
  return all;
}

/// The first lacks nothing, but a place that is shared.
bool model::could_go() {
  if (queue_.empty() || now_ < paused_until_) return false;
  const request& r = first()->wanted;
  return has_place_for(r.tokens) && wait_for(wanted_by(r)) == 0;
}

std::uint64_t model::count(end e) const {
  const auto found = counts_.find(e);
  return found == counts_.end() ? 0 : found->second;
}

// ---- shared_model ----

/// Who lacks a place now. A limiter keeps its turn as long as the class of its first one stays.
void shared_model::look() {
  for (std::size_t i = 0; i < models_.size(); ++i) {
    model& m = *models_[i];
    const auto known = std::find_if(lacking_.begin(), lacking_.end(), [i](const lack& l) { return l.who == i; });
    const bool lacks = m.could_go();
    const int priority = lacks ? m.class_of(*m.first()) : 0;
    if (known != lacking_.end()) {
      if (lacks && known->priority == priority) continue;
      lacking_.erase(known);
    }
    if (lacks) lacking_.push_back({i, priority, is_passing_ ? step_ : turn_after(i)});
  }
}

/// The next turn. Who had a turn in common with others, and gets a place in the same step as they, has one in common
/// with them again.
std::uint64_t shared_model::turn_after(std::size_t who) {
  const auto had = had_turn_.find(who);
  if (had == had_turn_.end()) return ++step_;
  std::uint64_t& next = next_turn_[had->second];
  if (next == 0) next = ++step_;
  had_turn_.erase(had);
  return next;
}

/// How many more the engine has granted of it.
std::uint64_t shared_model::chosen(const lack& l) {
  const std::uint64_t there = has_granted_(l.who);
  const std::uint64_t here = models_[l.who]->count(end::granted);
  return there > here ? there - here : 0;
}

void shared_model::settle(bool only_chosen) {
  had_turn_.clear();
  next_turn_.clear();
  for (look(); held_ < places_ && !lacking_.empty(); look()) {
    const auto next = std::min_element(lacking_.begin(), lacking_.end(), [this](const lack& a, const lack& b) {
      // Of those that time alone brought, in whatever order, the engine's choice.
      const bool tie = is_passing_ && a.since == step_ && b.since == step_;
      if (tie) return chosen(a) > chosen(b);
      if (a.priority != b.priority) return a.priority < b.priority;
      if (a.since != b.since) return a.since < b.since;
      return chosen(a) > chosen(b);
    });
    if (only_chosen && chosen(*next) == 0) return;
    model& m = *models_[next->who];
    had_turn_[next->who] = next->since;
    lacking_.erase(next);
    const auto w = m.first();
    m.take(wanted_by(w->wanted));
    m.held_ += m.places_for(w->wanted.tokens);
    take();
    m.finish(w, end::granted);
  }
}

void shared_model::resize(std::uint64_t places) {
  places_ = places;
  settle();
}

time_point shared_model::next_event() {
  time_point next = time_point::max();
  for (const auto& m : models_) next = std::min(next, m->next_event());
  return next;
}

void shared_model::pass_to(time_point t) {
  for (;;) {
    const time_point event = next_event();
    for (const auto& m : models_) m->move_to(std::min(t, event));
    if (event > t) return;
    is_passing_ = true;
    ++step_;
    settle(true);
    for (bool again = true; again;) {
      again = false;
      for (const auto& m : models_) again = again || m->end_one_too_late();
      settle(true);
    }
    settle();
    is_passing_ = false;
  }
}

}  // namespace simulated
