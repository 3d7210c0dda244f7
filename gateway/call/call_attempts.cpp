#include "canigo/algorithms/backoff.hpp"
#include "canigo/detail/base/random.hpp"
#include "canigo/error.hpp"

#include "gateway/call/answer.hpp"
#include "gateway/call/attempt.hpp"
#include "gateway/call/attempt_meaning.hpp"
#include "gateway/call/call.hpp"
#include "gateway/call/race.hpp"
#include "gateway/call/refusals.hpp"
#include "gateway/policy/call_cost.hpp"
#include "gateway/policy/fields.hpp"
#include "gateway/policy/quota_fields.hpp"
#include "gateway/policy/refusal_body.hpp"
#include "gateway/policy/repeat_rules.hpp"
#include "gateway/policy/target_choice.hpp"

#include <asio/co_spawn.hpp>

#include <atomic>
#include <chrono>
#include <utility>

// In this file, a co_await expression contains no temporary that needs a destructor: g++ 12 may destroy it twice.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

// The longest wait that is accepted from a response. So a wrong date in a response can't cause a wait of years.
constexpr duration most_told_wait = std::chrono::hours{48};

constexpr backoff between_attempts{.first = std::chrono::milliseconds{50}, .cap = std::chrono::seconds{2}};

}  // namespace

void call::make_exchange() {
  const bool is_forward = plan_.form != target_form::origin;
  response_sink& self = *this;
  exchange_ = std::make_unique<exchange>(to(), services_.around(*snapshot_, is_forward), host_.stream(), self);
  exchange& x = *exchange_;
  x.body = parser_.has_body() ? &*body_ : nullptr;
  x.is_chunked = framing_.how == outgoing_body::framing::chunked;
  x.is_to_head = head_.method == "HEAD";
  x.signs_in_connection = signs_in_connection(head_);
  x.client_version = head_.version;
  x.write_stall = settings().time.write_stall;
  x.keep_alive_line = snapshot_->keep_alive_line;
  x.keeps_client = host_.goes_on();
  if (is_tunnel()) x.tunnelled = &host_.input();
  if (!plan_.is_websocket) return;
  x.upgraded = &host_.input();
  x.messages = queue().limits().messages();
  x.message_ask.priority = route_.granted.priority;
}

/// Builds the head of the request for this target. If a reload has changed the target's key or URL while the call
/// waited, the head has the new values.
void call::aim(exchange& x, std::size_t target) {
  const bool is_listed = !to().targets.empty();
  const std::shared_ptr<upstream_queue> newest = is_listed ? loop_.now->queue_of(to().name) : nullptr;
  if (!x.head.empty() && x.target == target && x.home == newest) return;
  const bool has_newer = newest != nullptr && &newest->limits() == &queue().limits();
  upstream_queue& home = has_newer ? *newest : queue();
  x.home = newest;
  const upstream& at = home.settings(target);
  std::optional<client_place> client;
  if (to().forwarded) client = {host_.client().address, record_.host, host_.client().is_secured};
  std::string path;
  if (is_listed) {
    const upstream& all = home.settings();
    path = target_at(all, all.targets[target], plan_.path, account_->estimate().model);
  }
  x.up = &at;
  x.target = target;
  x.pool = &home.pool(loop_.index, target);
  x.is_tls = is_listed ? at.url.is_tls : route_.is_tls;
  x.head = request_head(head_, {.target = is_listed ? path : route_.target,
                                .host_field = is_listed ? at.url.host_field : route_.host_field,
                                .credential = &at.credential,
                                .body = framing_,
                                .via = services_.via(),
                                .forwarded = client,
                                .wants_identity = to().tokens.reads_usage() || at.reads_refusals() ||
                                                  (keeper_ && !route_.granted.interim),
                                .is_websocket = plan_.is_websocket});
}

/// Whether the response refuses the call because of a daily quota, or asks calls of its model to wait for more than
/// `longest_pause`. If so, the client gets the response unchanged, and the upstream is not paused. The gateway then
/// refuses later calls that need this quota.
bool call::see_head(const message_head& h, std::string_view body, std::size_t target) {
  constexpr int first_error = 400;
  const token_estimate& needs = account_->estimate();
  if (h.status < first_error || needs.is_free) return false;
  if (!body.empty() && queue().settings(target).quota_resets != quota_reset::unknown) {
    auto quota = read_refusal_body(body).day;
    if (quota && (!quota->is_of_model || !needs.model.empty())) {
      services_.note_spent(queue(), target, route_.tenant,
                           {.model = quota->is_of_model ? needs.model : std::string{}, .name = shortened(quota->name)},
                           record_, h.status);
      return true;
    }
  }
  if (needs.model.empty()) return false;
  const auto now = std::chrono::system_clock::now();
  const told_limits told = read_limits(h, body, now, most_told_wait);
  const auto wait = told.wait_of_refusal();
  if (!asks_for_pause(result_of(h, told)) || !wait || *wait <= longest_pause) return false;
  services_.note_spent(queue(), target, route_.tenant,
                       {.model = needs.model,
                        .name = "a wait of " + to_string(std::chrono::ceil<std::chrono::seconds>(*wait)),
                        .reset = std::chrono::ceil<std::chrono::seconds>(now + *wait)},
                       record_, h.status);
  return true;
}

std::string call::head_for_client(const message_head& h) {
  account_->begin_response(h);
  if (const auto id = value_of(h, "x-request-id")) texts_of(record_).upstream_id = shortened(*id);
  std::string text;
  text.reserve(512);
  text.append("HTTP/1.1 ").append(std::to_string(h.status)).append(1, ' ').append(reason_of(h.status)).append("\r\n");
  append_response_fields(text, h);
  append_own_fields(text, record_);
  return text;
}

/// Whether to drop a response because another attempt follows. A pause that the response asks for has already been set.
bool call::drops(const message_head& h, std::string_view body, std::size_t target) {
  constexpr int first_error = 400, forbidden = 403, refused_by_limit = 429;
  if (h.status < first_error) return false;
  const attempt_result result = result_of(h, read_limits(h, body, std::chrono::system_clock::now()));
  repeat again = judge_repeat(head_, result, body_->can_repeat());
  const bool has_other = has_other_target();
  // If the status concerns the key or a quota of this target, another target may serve the call, because it has another
  // key.
  const bool is_of_key = refuses_key(h.status) || h.status == forbidden || h.status == refused_by_limit;
  if (again == repeat::no && has_other && is_of_key && body_->can_repeat()) {
    again = repeat::yes;
    barred_ |= target_set{1} << target;
  }
  if (again == repeat::no || refusal_by_quotas()) return false;
  const bool is_in_time =
      again == repeat::yes || has_other || queue().paused_until(target, route_.tenant) < turn_.ask().deadline;
  return is_in_time && may_repeat();
}

net::awaitable<bool> call::get_turn() {
  if (is_tunnel()) tunnel_ = std::make_unique<permit>();
  auto turning = is_tunnel() ? turn_.get_tunnel(*snapshot_->hosts(), host_.input(), held_, *tunnel_, why_)
                             : turn_.get_place(host_.input(), held_, why_);
  return keeper_ ? keeper_->keep_during(std::move(turning)) : std::move(turning);
}

/// Gets a place at the upstream for another attempt. If an untried target has a free place, takes that place
/// immediately. If no untried target has a free place, the call waits. If the retry budget allows an attempt, the call
/// waits for all targets, including those that it has tried. If not, it waits only for the untried targets.
net::awaitable<bool> call::get_turn_to_repeat() {
  if (has_other_target() && !turn_.is_called_off()) {
    turn_.choose(untried());
    auto asking = turn_.next_place();
    upstream_place next = co_await std::move(asking);
    if (next) {
      held_ = std::move(next);
      co_return true;
    }
    const bool can_return = (candidates() & tried_ & ~barred_) != 0;
    if (can_return && !may_return_ && !turn_.is_called_off() && pays_for_repeat()) {
      choose_targets();
      auto sleeping = turn_.sleep(delay_before_repeat());
      co_await std::move(sleeping);
    }
  }
  if (!to().targets.empty()) choose_targets();
  auto turning = get_turn();
  co_return co_await std::move(turning);
}

net::awaitable<attempt_end> call::make_attempt(upstream_place& held) {
  exchange& x = *exchange_;
  if (++record_.attempts == 1) queue().budget().pay_in();
  if (x.until == time_point::max()) x.until = clock::now() + to().timeout.total;
  if (!host_.goes_on()) x.keeps_client = false;
  x.follows_events = has_begun_events();
  is_running_ = true;
  x.first_byte.reset();
  const std::size_t target = held.target();
  tried_ |= target_set{1} << target;
  may_return_ = false;
  if (!to().targets.empty()) record_.target = to().targets[target].name;
  const time_point begun = clock::now();
  const std::function<void()> lost = [this] {
    is_place_lost_ = true;
    exchange_->abort();
  };
  held.watch(loop_.io.get_executor(), lost);
  attempt_end end = attempt_end::complete;
  if (to().hedge_after && !x.follows_events && head_.method == "GET" && !plan_.is_websocket && !parser_.has_body() &&
      queue().hedge_after()) {
    auto attempting = make_hedged_attempt(held, lost);
    end = co_await std::move(attempting);
  } else {
    attempt one{{services_, loop_, record_, route_}, x, held, *this};
    auto attempting = one.run();
    end = co_await std::move(attempting);
  }
  is_running_ = false;
  record_.connect += std::exchange(x.connect_time, duration{});
  if (x.first_byte) record_.upstream_first_byte = *x.first_byte - begun;
  co_return end;
}

/// Makes an attempt. If no response comes within the delay `hedge_after`, starts a second attempt beside it. The first
/// response that is not dropped goes to the client. The other attempt is cancelled, and this function waits for its
/// end.
net::awaitable<attempt_end> call::make_hedged_attempt(upstream_place& held, const std::function<void()>& lost) {
  const attempt_context context{services_, loop_, record_, route_};
  const duration after = queue().hedge_after().value_or(duration::max());
  race all{loop_.io.get_executor(), *exchange_, *this};
  attempt first{context, *exchange_, held, all.sink(0)};
  net::co_spawn(loop_.io, first.run(), all.ending(0));
  if (all.is_open()) {
    auto waiting = all.wait(after);
    co_await std::move(waiting);
  }
  upstream_place own;
  if (all.is_open() && !turn_.has_left() && queue().limits().hedges().try_take()) {
    if (!to().targets.empty()) choose_targets();
    auto asking = turn_.spare_place();
    own = co_await std::move(asking);
  }
  const bool is_hedged = own && all.is_open() && !turn_.has_left();
  std::optional<attempt> second;
  if (is_hedged) {
    ++record_.attempts;
    services_.counts.hedges.fetch_add(1, std::memory_order_relaxed);
    own.watch(loop_.io.get_executor(), lost);
    exchange& beside = all.enter();
    aim(beside, own.target());
    tried_ |= target_set{1} << own.target();
    second.emplace(context, beside, own, all.sink(1));
    net::co_spawn(loop_.io, second->run(), all.ending(1));
  } else if (own) {
    own.give_back();
  }
  while (all.is_running()) {
    auto waiting = all.wait(duration::max());
    co_await std::move(waiting);
  }
  const attempt_end end = all.take_result();
  if (!is_hedged) co_return end;
  if (all.has_second_won()) services_.counts.hedges_won.fetch_add(1, std::memory_order_relaxed);
  if (all.decisive() == 1) std::swap(held, own);
  if (!to().targets.empty()) record_.target = to().targets[held.target()].name;
  if (nothing_was_sent(all.end_of_other())) own.give_back();
  co_return end;
}

/// Settles an attempt: releases its place at the upstream, and charges the tokens and the money that it has used.
void call::settle(upstream_place& held, attempt_end end) {
  const settlement how = meaning_of(end).place;
  if (how == settlement::give_back) {
    held.give_back();
    if (money_) money_->give_back_at_target();
    return;
  }
  const bool is_refused = exchange_->status >= 400 && exchange_->status < 500;
  if (how == settlement::release && is_refused && !to().targets.empty()) held.settle(account_->settle_refused());
  if (how == settlement::release && is_free_of_charge(exchange_->status))
    held.settle(account_->settle_free_of_charge());
  if (how != settlement::release) {
    held.settle(account_->settle(how == settlement::charge, to().is_priced ? &settings().prices : nullptr));
    if (account_->used()) {
      record_.tokens_used = account_->used()->input + account_->used()->output;
      record_.tokens_output = account_->used()->output;
    }
    if (how == settlement::charge && account_->is_usage_missing())
      services_.counts.usage_missing.fetch_add(1, std::memory_order_relaxed);
  }
  if (money_) {
    const bool is_dropped = how == settlement::release;
    std::optional<token_usage> used;
    if (!is_dropped && account_->used()) used = *account_->used();
    const bool has_answer = is_dropped || exchange_->has_begun;
    money_->settle(used, account_->at_least(), has_answer && is_free_of_charge(exchange_->status), record_);
  }
  held.release();
}

/// Whether another attempt is allowed. An attempt at an untried target does not need the retry budget, because the
/// number of targets bounds such attempts. Any other attempt is taken from the retry budget by this function.
bool call::may_repeat() {
  if (!body_->can_repeat() || clock::now() >= turn_.ask().deadline || to().retry.attempts == 1) return false;
  return has_other_target() || pays_for_repeat();
}

/// Takes another attempt from the retry budget. Returns false if the budget or the upstream's max number of attempts
/// allows none. The attempt may go to a target that the call has already tried.
bool call::pays_for_repeat() {
  may_return_ = record_.attempts < to().retry.attempts && queue().budget().try_take();
  return may_return_;
}

duration call::delay_before_repeat() const {
  const auto n = static_cast<std::uint32_t>(record_.attempts);
  std::uint64_t random = tag_ + n;
  return between_attempts.delay(n, canigo::detail::next_random(random));
}

/// Whether another attempt follows. If that attempt counts against the retry budget, this function takes it from the
/// budget.
bool call::goes_again(attempt_end end) {
  const another_attempt again = meaning_of(end).again;
  if (again == another_attempt::follows) return true;
  const bool may_go =
      again == another_attempt::always || (again == another_attempt::if_safe && may_be_sent_twice(head_));
  return may_go && !turn_.has_left() && turn_.ended_by() == call_ender::none && may_repeat();
}

net::awaitable<void> call::sleep_before_repeat(attempt_end end) {
  services_.counts.count_retry(meaning_of(end).counted_as);
  body_->rewind();
  return turn_.sleep(has_other_target() ? duration::zero() : delay_before_repeat());
}

/// Evaluates the result of the last attempt: sets the error for the access log. If the gateway itself must answer the
/// client, also sets the answer.
void call::judge(attempt_end end) {
  const bool has_begun = exchange_->has_begun;
  const bool has_left = turn_.has_left();
  why_ = refusal_of(end, body_->state(), exchange_->failure);
  // The upstream may have executed the request, so the client must not repeat a request that is not idempotent.
  const attempt_meaning& means = meaning_of(end);
  if (why_ && means.status >= 500 && means.place == settlement::keep) why_->is_final = !may_be_sent_twice(head_);
  const bool is_taken = is_place_lost_ && !has_left && end == attempt_end::client_lost;
  if (is_taken && !has_begun) why_ = refusal_of(errc::lease_lost, queue(), route_.tenant, turn_.ask());
  if (end != attempt_end::complete && !why_) host_.forbid_next();
  if (exchange_->has_lost_rest) record_.error = "upstream_failed";
  if (!means.logged.empty()) record_.error = means.logged;
  if (end == attempt_end::client_lost && has_begun && has_left && !is_tunnel() && !plan_.is_websocket)
    record_.error = "left";
  // If the response reports success although the client sent only a part of the request, the access log gets an error.
  const bool is_success = has_begun && exchange_->status < 300;
  const bool is_broken_off = !parser_.is_done() && (has_left || body_->has_failed());
  if (is_success && is_broken_off && record_.error.empty()) record_.error = "bad_request";
  if (is_taken) record_.error = "store_unavailable";
  if (turn_.ended_by() != call_ender::none && end != attempt_end::complete) {
    const refusal ended = turn_.why_ended();
    record_.error = ended.error;
    if (!has_begun) why_ = ended;
  }
  if (end == attempt_end::complete) host_.note_answered();
}

}  // namespace canigo::gateway
