#include "gateway/call/call.hpp"

#include "gateway/call/answer.hpp"
#include "gateway/call/refusals.hpp"
#include "gateway/policy/fields.hpp"
#include "gateway/policy/target_choice.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

// In this file, a co_await expression contains no temporary that needs a destructor: g++ 12 may destroy it twice.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

// A call of more than 1280 bytes would need a block of 1536 bytes, which is the next size that jemalloc has.
static_assert(sizeof(void*) != 8 || sizeof(std::string) != 32 || sizeof(call) <= 1280);

}  // namespace

call::call(call_host& host, call_services& services, call_loop& loop, message_parser& request)
    : host_{host},
      services_{services},
      loop_{loop},
      parser_{request},
      snapshot_{loop.now},
      head_{request.take_head()},
      record_{begin_record(head_, services.new_request_id())},
      turn_{services, loop, record_, route_} {}

call::~call() {
  if (tag_ != 0) loop_.requests.leave(tag_);
}

net::awaitable<bool> call::next_step(bool went_well) {
  switch (stage_) {
    case stage::head:
      return begin();
    case stage::body:
      return went_well ? begin_turn() : net::awaitable<bool>{};
    case stage::money:
      return went_well ? begin_wait() : finish_unserved();
    case stage::turn:
      stage_ = stage::attempts;
      return attempt_until_done(went_well);
    default:
      return {};
  }
}

net::awaitable<bool> call::begin() {
  stage_ = stage::attempts;
  if (may_leave_http(head_)) host_.forbid_next();
  head_judgement judged = judge_head(head_, settings().listeners[host_.client().listener].mode, settings().size);
  why_ = std::move(judged.refused);
  if (!why_) why_ = decide_route(*snapshot_, host_.client(), head_, judged.plan, services_, record_, route_);
  if (why_) return refuse();
  plan_ = judged.plan;
  tag_ = loop_.requests.enter(*this);
  set_deadline(record_.since);
  const retry_options& retry = to().retry;
  const bool is_kept = retry.attempts > 1 && (!plan_.has_length || plan_.length <= retry.body);
  body_.emplace(host_.stream(), parser_, host_.input(), settings().time.body_idle, is_kept ? retry.body : 0,
                services_.kept);
  account_.emplace(to(), settings().tenants[route_.tenant], queue().limits().ratios());
  if (parser_.has_body() && host_.input().empty() && plan_.wants_continue) body_->expect_continue();
  if (const std::uint64_t most = bytes_before_turn(); most > 0) {
    if (!body_->read_ahead_now(most) || body_->has_failed()) {
      stage_ = stage::body;
      return read_body(most);
    }
  }
  return begin_turn();
}

net::awaitable<bool> call::refuse() {
  auto answering = host_.answer(*why_, record_, &parser_);
  co_await std::move(answering);
  co_return false;
}

/// Computes until when the call may wait; its wait begins at `start`. If the client has a time limit of its own, the
/// wait ends early enough to leave time for the upstream's usual response. After the client's limit a response is
/// useless. The client's limit is ignored if the gateway keeps the client waiting by comments of an event stream.
void call::set_deadline(time_point start) {
  const client_hints& hints = route_.granted;
  waits_since_ = start;
  is_patience_short_ = false;
  deadline_ = std::min(saturating_add(start, hints.max_wait), services_.end());
  if (!hints.patience) return;
  const duration usual = queue().limits().latencies().quantile(clock::now(), 0.5).value_or(duration{});
  const duration longest_wait = std::max(*hints.patience - usual, duration{});
  if (outlasts(longest_wait)) return;
  const time_point last_start = saturating_add(record_.since, longest_wait);
  is_patience_short_ = last_start < deadline_;
  deadline_ = std::min(deadline_, last_start);
}

/// Requests a place at the upstream. Makes the first attempt immediately if the place is granted without a wait.
net::awaitable<bool> call::begin_turn() {
  keep_client();
  if (is_patience_short_) set_deadline(waits_since_);
  request ask = make_request();
  if (services_.arrivals.has_some()) keep_first_arrival(ask);
  framing_ = make_framing();
  turn_.begin(ask, is_tunnel());
  has_asked_ = true;
  // If a reload has replaced the configuration since the call began, the call moves to the new configuration.
  if (loop_.now != snapshot_) follow(*loop_.now, nullptr);
  host_.watch_client();
  if (to().is_priced) expect_cost();
  why_ = refusal_by_targets();
  if (!why_ && to().is_priced && !has_money_at_once()) {
    stage_ = stage::money;
    return get_money();
  }
  return begin_wait();
}

net::awaitable<bool> call::finish_unserved() {
  stage_ = stage::attempts;
  note_unserved();
  return finish();
}

/// If the call is refused, ends it; otherwise requests a place for the call at its upstream. If the call costs money,
/// begin_wait() is called after the money was reserved.
net::awaitable<bool> call::begin_wait() {
  stage_ = stage::attempts;
  if (why_) return finish();
  if (!to().targets.empty()) choose_targets();
  if (!keeper_ && !is_tunnel() && turn_.take_place(held_)) return attempt_until_done(true);
  stage_ = stage::turn;
  return get_turn();
}

net::awaitable<bool> call::attempt_until_done(bool is_granted) {
  for (;;) {
    if (keeper_ && is_granted && turn_.is_called_off()) is_granted = give_up_turn();
    if (!is_granted) {
      note_unserved();
      break;
    }
    upstream_place held = std::move(*held_);
    held_.reset();
    bool has_money = true;
    if (counts_at_target(held.target())) {
      auto reserving = reserve_at_target(held.target());
      auto keeping = keeper_ ? keeper_->keep_during(std::move(reserving)) : std::move(reserving);
      has_money = co_await std::move(keeping);
      // The time limit of the drain is over, or its last tenth has ended the question to Redis.
      const bool has_ended =
          clock::now() >= services_.end() || (!has_money && money_->was_cut() && !services_.may_wait());
      if (turn_.is_called_off() || has_ended) {
        held.give_back();
        why_ = turn_.is_called_off() ? turn_.why_called_off() : ended_by_drain();
        note_unserved();
        break;
      }
      // While the call asked Redis for the money, the target may have been paused.
      if (has_money && queue().limits().at(held.target()).now().pauses.until() > clock::now()) {
        has_money = false;
        money_->give_back_at_target();
      }
    }
    if (!has_money) {
      held.give_back();
      why_ = refusal_by_targets();
      if (why_) break;
      choose_targets();
      auto turning = get_turn();
      is_granted = co_await std::move(turning);
      continue;
    }
    const std::unique_ptr<permit> tunnel = std::move(tunnel_);
    if (!exchange_) make_exchange();
    aim(*exchange_, held.target());
    auto attempting = make_attempt(held);
    const attempt_end end = co_await std::move(attempting);
    settle(held, end);
    if (!goes_again(end)) {
      judge(end);
      break;
    }
    auto sleeping = sleep_before_repeat(end);
    co_await std::move(sleeping);
    if (turn_.has_left()) break;
    why_ = refusal_by_targets();
    if (!why_ && money_ && !has_money_at_once()) {
      auto getting = get_money();
      if (!co_await std::move(getting)) {
        note_unserved();
        break;
      }
    }
    if (why_) break;
    auto turning = get_turn_to_repeat();
    is_granted = co_await std::move(turning);
  }
  auto finishing = finish();
  co_return co_await std::move(finishing);
}

/// Returns how many bytes of the request body are read before the call waits for a place at the upstream. If the whole
/// body is read, the call can be sent as soon as it has a place. Of a body longer than the limit for reading ahead,
/// only the beginning is read. A body of unknown length may be long, so only as much of it is read as can be kept for a
/// retry.
std::uint64_t call::bytes_before_turn() const noexcept {
  if (!parser_.has_body()) return 0;
  const size_limits& size = settings().size;
  // A client that sent "Expect: 100-continue" must be able to get a refusal before it sends a long body. So a long body
  // of such a client is not read ahead.
  const bool asks_first = plan_.wants_continue && host_.input().empty();
  std::uint64_t most = size.read_ahead;
  if (asks_first || !plan_.has_length) most = std::min(most, to().retry.body);
  const bool is_long = plan_.has_length ? plan_.length > most : asks_first;
  if (is_long) most = asks_first ? 0 : std::min<std::uint64_t>(most, 1);
  return reads_body() ? std::max<std::uint64_t>(most, most_read_body) : most;
}

/// Reads up to `most` bytes of the body. Returns false if the call ends: the body can't be read, or the client has
/// disconnected.
net::awaitable<bool> call::read_body(std::uint64_t most) {
  is_reading_ = true;
  auto reading = body_->read_ahead(most);
  co_await std::move(reading);
  is_reading_ = false;
  body_->resume();
  // The time for reading the body does not count as a wait. So the deadline of the wait is computed from now.
  set_deadline(clock::now());
  const auto wrong = refusal_of(attempt_end::body_failed, body_->state());
  if (!wrong && !turn_.has_left() && !body_->has_failed()) co_return true;
  host_.forbid_next();
  if (wrong) {
    auto answering = host_.answer(*wrong, record_, nullptr);
    co_await std::move(answering);
  } else {
    host_.end_record(record_);
  }
  co_return false;
}

/// Builds the request that the call makes to the upstream's limits.
request call::make_request() {
  const bool is_whole = !parser_.has_body() || body_->is_all_ahead();
  const gateway::read_body read{body_->ahead(), is_whole, plan_.has_length ? plan_.length : body_->bytes()};
  const token_estimate& needs = account_->read({head_.method, route_.target}, read);
  const target_set of = to().targets.empty() ? all_targets : serving(to(), needs.model);
  const auto& amounts = account_->ask(route_.granted.least_tokens, of, to().is_priced ? &settings().prices : nullptr);
  for (const token_amount& a : amounts)
    if (a.unit != "requests" && a.unit != "usd") record_.tokens_asked = record_.tokens_asked.value_or(0) + a.amount;
  return queue().ask(route_.tenant, route_.granted.priority, deadline_, tag_, amounts, needs.model);
}

/// Returns the framing of the outgoing body. If the configuration asks for it, replaces the body by one that makes the
/// upstream report the usage of tokens.
outgoing_body call::make_framing() {
  if (!parser_.has_body() && !plan_.has_length) return {};
  if (to().tokens.add_usage && parser_.has_body() && body_->is_all_ahead()) {
    if (auto with_usage = with_include_usage(body_->ahead())) {
      const outgoing_body framing{outgoing_body::framing::length, with_usage->size()};
      body_->replace(std::move(*with_usage));
      return framing;
    }
  }
  return {plan_.is_chunked ? outgoing_body::framing::chunked : outgoing_body::framing::length, plan_.length};
}

/// If the client has sent this call before, and has disconnected while that call waited, this call gets the queue
/// position of the first call.
void call::keep_first_arrival(request& ask) {
  const auto first = services_.arrivals.take(resend_key(head_, record_.tenant), clock::now());
  if (!first) return;
  ask.since = *first;
  services_.counts.resends.fetch_add(1, std::memory_order_relaxed);
}

/// If the client has disconnected before the call got a place, remembers when the call arrived, because the client may
/// send it again. If the call was refused because the client's own time limit is too short for the wait, adds this
/// limit to the text of the refusal.
void call::note_unserved() {
  if (turn_.has_left()) services_.arrivals.note(resend_key(head_, record_.tenant), turn_.ask().since, clock::now());
  const bool is_too_late = why_ && (why_->error == "wait_too_long" || why_->error == "wait_timed_out");
  if (is_too_late && !why_->is_final && is_patience_short_)
    why_->detail += "; its client gives up " + to_string(*route_.granted.patience) + " after it has sent the request";
}

net::awaitable<bool> call::finish() {
  host_.unwatch_client();
  turn_.end();
  const exchange* const x = exchange_.get();
  const bool has_begun = x != nullptr && x->has_begun;
  record_.bytes_in = body_->bytes();
  if (x != nullptr) {
    record_.bytes_in += x->bytes_in;
    record_.bytes_out = x->bytes_out;
    if (x->first_byte) record_.first_byte = *x->first_byte - record_.since;
  }
  if (has_begun_events()) record_.status = 200;
  if (has_begun) {
    record_.status = x->status;
    if (!x->keeps_client || why_) host_.forbid_next();
  } else if (why_ && !turn_.has_left() && has_begun_events()) {
    auto ending = end_events();
    co_await std::move(ending);
    co_return false;
  } else if (why_ && !turn_.has_left()) {
    auto answering = host_.answer(*why_, record_, &parser_);
    co_await std::move(answering);
    co_return false;
  } else {
    host_.forbid_next();
    if (has_begun_events() && record_.error.empty()) record_.error = "left";
  }
  host_.end_record(record_);
  co_return false;
}

void call::end_by_client() noexcept {
  turn_.end_by_client();
  if (is_running_) exchange_->abort();
}

void call::end_by(call_ender who) noexcept {
  turn_.end_by(who);
  if (is_reading_) host_.stream().cancel();
  if (is_running_) exchange_->abort();
}

void call::drain(time_point end) noexcept {
  turn_.wake_if_asleep_until_after(end);
  if (is_running_) exchange_->keeps_client = false;
}

void call::give_up(duration estimate, duration most) noexcept {
  if (estimate <= most && saturating_add(clock::now(), estimate) <= deadline_) return;
  turn_.wake();
}

request_view call::look() const {
  const call_record& r = record_;
  request_view v{.number = tag_,
                 .waits = waits(),
                 .waits_for = turn_.waits_for(),
                 .waits_until = turn_.waits_until(),
                 .id = r.id,
                 .tenant = std::string{r.tenant},
                 .priority = std::string{r.priority},
                 .upstream = std::string{r.upstream},
                 .target = std::string{r.target},
                 .method = shortened(r.method, 20),
                 .host = shortened(r.host),
                 .path = shortened(r.path),
                 .since = r.since,
                 .attempts = r.attempts,
                 .tokens = r.tokens_asked.get(),
                 .first_byte = std::nullopt};
  if (!is_running_) return v;
  const exchange& x = *exchange_;
  if (x.has_begun) v.status = x.status;
  if (x.first_byte) v.first_byte = *x.first_byte - r.since;
  if (x.body != nullptr) v.bytes_in = x.body->bytes();
  v.bytes_out = x.bytes_out;
  return v;
}

}  // namespace canigo::gateway
