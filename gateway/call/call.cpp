#include "gateway/call/call.hpp"

#include "canigo/backoff.hpp"
#include "canigo/detail/base/random.hpp"
#include "canigo/error.hpp"

#include "gateway/call/answer.hpp"
#include "gateway/call/attempt.hpp"
#include "gateway/call/attempt_meaning.hpp"
#include "gateway/call/race.hpp"
#include "gateway/call/refusals.hpp"
#include "gateway/policy/event_stream.hpp"
#include "gateway/policy/fields.hpp"
#include "gateway/policy/quota_fields.hpp"
#include "gateway/policy/repeat_rules.hpp"

#include <asio/co_spawn.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

// No temporary that needs a destructor stands in a co_await here: g++ 12 may destroy it twice.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::string_view close_line = "Connection: close\r\n";

constexpr backoff between_attempts{.first = std::chrono::milliseconds{50}, .cap = std::chrono::seconds{2}};

}  // namespace

call::call(call_host& host, call_services& services, call_loop& loop, message_parser& request)
    : host_{host},
      services_{services},
      loop_{loop},
      parser_{request},
      snapshot_{loop.now},
      head_{request.take_head()},
      record_{begin_record(head_, services.new_request_id())},
      turn_{services, loop, record_, route_} {
  head_judgement judged = judge_head(head_, settings().listeners[host.client().listener].mode, settings().size);
  why_ = std::move(judged.refused);
  plan_ = std::move(judged.plan);
}

call::~call() {
  if (is_on_list_) loop_.requests.leave(tag_);
}

net::awaitable<void> call::serve() {
  if (may_leave_http(head_)) host_.forbid_next();
  if (!why_) why_ = decide_route(*snapshot_, host_.client(), head_, plan_, services_, record_, route_);
  if (why_) return host_.answer(*why_, record_, &parser_);
  tag_ = loop_.requests.enter(*this);
  is_on_list_ = true;
  set_deadline(record_.since);
  const retry_options& retry = to().retry;
  const bool is_kept = retry.attempts > 1 && (!plan_.has_length || plan_.length <= retry.body);
  body_.emplace(host_.stream(), parser_, host_.input(), settings().time.body_idle, is_kept ? retry.body : 0,
                services_.kept);
  account_.emplace(to(), settings().tenants[route_.tenant], queue().limits().ratios());
  random_ = tag_;
  return forward();
}

/// The end of its wait for a turn that begins at `start`. A client that gives up has nothing of a call that begins too
/// late, so the upstream's usual time belongs to its patience.
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

/// The waits are here, and not in a function of their own: a frame less for each waiter.
net::awaitable<void> call::forward() {
  if (parser_.has_body() && host_.input().empty() && plan_.wants_continue) body_->expect_continue();
  if (const std::uint64_t most = bytes_before_turn(); most > 0) {
    if (!body_->read_ahead_now(most) || body_->has_failed()) {
      auto reading = read_body(most);
      const bool is_read = co_await std::move(reading);
      if (!is_read) co_return;
    }
  }
  keep_client();
  if (is_patience_short_) set_deadline(waits_since_);
  request ask = make_request();
  if (services_.arrivals.has_some()) keep_first_arrival(ask);
  framing_ = make_framing();
  turn_.begin(ask, settings().tenants[route_.tenant].name, is_tunnel());
  has_asked_ = true;
  // There was a reload since the head came.
  if (loop_.now != snapshot_) follow(*loop_.now, nullptr);
  host_.watch_client();
  for (;;) {
    upstream_place held;
    permit tunnel;
    if (keeper_) keeper_->begin();
    auto turning = get_turn(held, tunnel);
    bool is_granted = false;
    std::exception_ptr failed;
    try {
      is_granted = co_await std::move(turning);
    } catch (...) {  // no memory
      failed = std::current_exception();
    }
    if (keeper_) {
      auto stopping = stop_keeping(held, is_granted);
      is_granted = co_await std::move(stopping);
    }
    if (failed) std::rethrow_exception(failed);
    if (!is_granted) {
      note_unserved();
      break;
    }
    if (!exchange_) make_exchange();
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
  }
  host_.watch_nobody();
  turn_.end();
  auto finishing = finish();
  co_await std::move(finishing);
}

/// The bytes of its body that are read before it waits for its turn. So the upstream has a call when its turn comes,
/// and not when its client has sent the rest. A body that is longer than allowed is begun only. A body of unknown
/// length may be long: no more of it is read than is kept to be sent again.
std::uint64_t call::bytes_before_turn() const noexcept {
  if (!parser_.has_body()) return 0;
  const size_limits& size = settings().size;
  // A client that asks first learns of a refusal before it sends a long body.
  const bool asks_first = plan_.wants_continue && host_.input().empty();
  std::uint64_t most = size.read_ahead;
  if (asks_first || !plan_.has_length) most = std::min(most, to().retry.body);
  const bool is_long = plan_.has_length ? plan_.length > most : asks_first;
  if (is_long) most = asks_first ? 0 : std::min<std::uint64_t>(most, 1);
  return reads_body() ? std::max<std::uint64_t>(most, most_read_body) : most;
}

/// Waits for those bytes. False: the request has ended with it.
net::awaitable<bool> call::read_body(std::uint64_t most) {
  is_reading_ = true;
  auto reading = body_->read_ahead(most);
  co_await std::move(reading);
  is_reading_ = false;
  body_->resume();
  // The longest wait is one for the turn.
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

/// Prepares to tell the client that its call waits: if it wishes so, or if it reads events and the upstream allows it.
void call::keep_client() {
  if (head_.version < 11 || is_tunnel()) return;
  const auto prepare = [this](const keeping_times& times, std::string (call::*next)()) {
    keeper_ = std::make_unique<client_keeper>(
        loop_.io.get_executor(), host_.stream(), settings().time.write_stall, times,
        [this, next] { return (this->*next)(); }, [this] { end_by_client(); });
  };
  if (const auto& wish = route_.granted.interim) {
    prepare({.after = wish->every, .every = wish->every, .most = interim_wish::most}, &call::interim_response);
  } else if (may_be_kept_by_events()) {
    prepare({.after = to().keep_alive->after, .every = to().keep_alive->every}, &call::waiting_events);
  }
}

/// Whether the client gets comments so often that its own time limit, which is one without a byte, does not end.
/// `silence`: of that limit, what the upstream leaves for the wait.
bool call::outlasts(duration silence) const noexcept {
  if (!keeper_ || route_.granted.interim) return false;
  return to().keep_alive->after < silence && to().keep_alive->every < silence;
}

/// A client that still sends its body may look for the response only behind it.
bool call::may_be_kept_by_events() const {
  return to().keep_alive && head_.method != "HEAD" && body_->is_read() && asks_for_events(head_, body_->ahead());
}

std::string call::interim_response() {
  if (record_.kept.empty()) services_.counts.kept_by_interim.fetch_add(1, std::memory_order_relaxed);
  record_.kept = "interim";
  return route_.granted.interim->status == 102 ? "HTTP/1.1 102 Processing\r\n\r\n" : "HTTP/1.1 103 Early Hints\r\n\r\n";
}

/// A comment of the stream of events that has its head before the upstream's answer.
std::string call::waiting_events() {
  std::optional<std::size_t> position;
  duration estimate{};
  const auto line = queue().recent_line();
  const auto own = std::ranges::find(*line, tag_, &waiting_request::tag);
  if (own != line->end()) {
    position = static_cast<std::size_t>(own - line->begin()) + 1;
    estimate = own->estimate;
  }
  const std::string comment = chunk_of(waiting_comment(position, estimate));
  if (has_begun_events()) return comment;
  const std::string_view goes_on = host_.goes_on() ? std::string_view{snapshot_->keep_alive_line} : close_line;
  std::string text = events_head(record_, goes_on) + comment;
  services_.counts.kept_by_events.fetch_add(1, std::memory_order_relaxed);
  record_.kept = by_events;
  return text;
}

/// Ends the stream of events by one that stands for the answer which the client would have got.
net::awaitable<void> call::end_events() {
  const std::string event =
      exchange_ ? failure_event(to().tokens.api, *why_, exchange_->failed) : failure_event(to().tokens.api, *why_);
  const std::string text = chunk_of(event) + "0\r\n\r\n";
  std::array pieces{net::const_buffer{text.data(), text.size()}};
  error_code error;
  co_await host_.stream().write(pieces, settings().time.write_stall, error);
  services_.counts.kept_failed.fetch_add(1, std::memory_order_relaxed);
  record_.bytes_out = event.size();
  record_.error = why_->error;
  texts_of(record_).detail = why_->detail;
  if (error) {
    host_.forbid_next();
  } else {
    host_.note_answered();
  }
  host_.end_record(record_);
}

/// The wait is over. Whether the call still has a place: it may have been ended during the last write.
net::awaitable<bool> call::stop_keeping(upstream_place& held, bool is_granted) {
  auto ending = keeper_->end();
  co_await std::move(ending);
  if (!is_granted || !turn_.is_called_off()) co_return is_granted;
  held.give_back();
  why_ = turn_.why_called_off();
  co_return false;
}

/// The request to the limits.
request call::make_request() {
  const bool is_whole = !parser_.has_body() || body_->is_all_ahead();
  const gateway::read_body read{body_->ahead(), is_whole, plan_.has_length ? plan_.length : body_->bytes()};
  const auto& amounts = account_->ask({head_.method, route_.target}, read, route_.granted.least_tokens);
  for (const token_amount& a : amounts)
    if (a.unit != "requests") record_.tokens_asked = record_.tokens_asked.value_or(0) + a.amount;
  return queue().ask(route_.tenant, route_.granted.priority, deadline_, tag_, amounts);
}

/// How the body goes out, which may be another one then.
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

/// If its client has left before, and sends the call again, it stands where it stood.
void call::keep_first_arrival(request& ask) {
  const auto first = services_.arrivals.take(resend_key(head_, record_.tenant), clock::now());
  if (!first) return;
  ask.since = *first;
  services_.counts.resends.fetch_add(1, std::memory_order_relaxed);
}

/// The call has waited for nothing.
void call::note_unserved() {
  if (turn_.has_left()) services_.arrivals.note(resend_key(head_, record_.tenant), turn_.ask().since, clock::now());
  const bool is_too_late = why_ && (why_->error == "wait_too_long" || why_->error == "wait_timed_out");
  if (is_too_late && !why_->is_final && is_patience_short_)
    why_->detail += "; its client gives up " + to_string(*route_.granted.patience) + " after it has sent the request";
}

void call::make_exchange() {
  const bool is_forward = plan_.form != target_form::origin;
  response_sink& self = *this;
  exchange_ = std::make_unique<exchange>(to(), services_.around(*snapshot_, is_forward), host_.stream(), self);
  exchange& x = *exchange_;
  std::optional<client_place> client;
  if (to().forwarded) client = {host_.client().address, record_.host, host_.client().is_secured};
  x.is_tls = route_.is_tls;
  x.head = request_head(head_, {.target = route_.target,
                                .host_field = route_.host_field,
                                .credential = &to().credential,
                                .body = framing_,
                                .via = services_.via(),
                                .forwarded = client,
                                .wants_identity = reads_body() || (keeper_ && !route_.granted.interim)});
  x.body = parser_.has_body() ? &*body_ : nullptr;
  x.is_chunked = framing_.how == outgoing_body::framing::chunked;
  x.is_to_head = head_.method == "HEAD";
  x.signs_in_connection = signs_in_connection(head_);
  x.client_version = head_.version;
  x.write_stall = settings().time.write_stall;
  x.keep_alive_line = snapshot_->keep_alive_line;
  x.keeps_client = host_.goes_on();
  if (is_tunnel()) x.tunnelled = &host_.input();
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

/// Whether there may be another attempt, which the budget pays for then.
bool call::may_repeat() {
  return body_->can_repeat() && record_.attempts < to().retry.attempts && clock::now() < turn_.ask().deadline &&
         queue().budget().try_take();
}

/// Whether a response is dropped, because of another attempt. The pause that it asks for is on already.
bool call::drops(const message_head& h, std::string_view body) {
  constexpr int first_error = 400;
  if (h.status < first_error) return false;
  const attempt_result result = result_of(h, read_limits(h, body, std::chrono::system_clock::now()));
  const repeat again = judge_repeat(head_, result, body_->can_repeat());
  if (again == repeat::no) return false;
  const bool is_in_time = again == repeat::yes || queue().paused_until(route_.tenant) < turn_.ask().deadline;
  return is_in_time && may_repeat();
}

net::awaitable<void> call::sleep_before_repeat(attempt_end end) {
  services_.counts.count_retry(meaning_of(end).counted_as);
  body_->rewind();
  return turn_.sleep(
      between_attempts.delay(static_cast<std::uint32_t>(record_.attempts), canigo::detail::next_random(random_)));
}

net::awaitable<bool> call::get_turn(upstream_place& held, permit& tunnel) {
  if (!is_tunnel()) return turn_.get_place(host_.input(), held, why_);
  return turn_.get_tunnel(*snapshot_->hosts(), host_.input(), held, tunnel, why_);
}

net::awaitable<attempt_end> call::make_attempt(upstream_place& held) {
  exchange& x = *exchange_;
  if (++record_.attempts == 1) queue().budget().pay_in();
  if (x.until == time_point::max()) x.until = clock::now() + to().timeout.total;
  if (!host_.goes_on()) x.keeps_client = false;
  x.follows_events = has_begun_events();
  running_ = &x;
  x.first_byte.reset();
  const time_point begun = clock::now();
  const std::function<void()> lost = [this] {
    is_place_lost_ = true;
    exchange_->abort();
  };
  held.watch(loop_.io.get_executor(), lost);
  attempt_end end = attempt_end::complete;
  if (to().hedge_after && !x.follows_events && head_.method == "GET" && !parser_.has_body() && queue().hedge_after()) {
    auto attempting = make_hedged_attempt(held, lost);
    end = co_await std::move(attempting);
  } else {
    attempt one{{services_, loop_, record_, route_}, x, held, *this};
    auto attempting = one.run();
    end = co_await std::move(attempting);
  }
  running_ = nullptr;
  record_.connect += std::exchange(x.connect_time, duration{});
  if (x.first_byte) record_.upstream_first_byte = *x.first_byte - begun;
  co_return end;
}

/// An attempt with a second one beside it, if no response comes for a while. The first of them with a sound response
/// answers; the other is cancelled and awaited.
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
    auto asking = turn_.spare_place();
    own = co_await std::move(asking);
  }
  const bool is_hedged = own && all.is_open() && !turn_.has_left();
  std::optional<attempt> second;
  if (is_hedged) {
    ++record_.attempts;
    services_.counts.hedges.fetch_add(1, std::memory_order_relaxed);
    own.watch(loop_.io.get_executor(), lost);
    second.emplace(context, all.enter(), own, all.sink(1));
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
  if (nothing_was_sent(all.end_of_other())) own.give_back();
  co_return end;
}

/// Ends the place, and charges the tokens that were used.
void call::settle(upstream_place& held, attempt_end end) {
  const settlement how = meaning_of(end).place;
  if (how == settlement::give_back) {
    held.give_back();
    return;
  }
  if (how != settlement::release) {
    held.settle(account_->settle(how == settlement::charge));
    if (account_->used()) {
      record_.tokens_used = account_->used()->input + account_->used()->output;
      record_.tokens_output = account_->used()->output;
    }
    if (how == settlement::charge && account_->is_usage_missing())
      services_.counts.usage_missing.fetch_add(1, std::memory_order_relaxed);
  }
  held.release();
}

/// Whether another attempt follows, which the budget has paid for.
bool call::goes_again(attempt_end end) {
  const another_attempt again = meaning_of(end).again;
  if (again == another_attempt::follows) return true;
  const bool may_go =
      again == another_attempt::always || (again == another_attempt::if_safe && may_be_sent_twice(head_));
  return may_go && !turn_.has_left() && turn_.ended_by() == call_ender::nobody && may_repeat();
}

/// The words of the last attempt for the client and the record.
void call::judge(attempt_end end) {
  const bool has_begun = exchange_->has_begun;
  const bool has_left = turn_.has_left();
  why_ = refusal_of(end, body_->state(), exchange_->failure);
  // The upstream may have done it.
  const attempt_meaning& means = meaning_of(end);
  if (why_ && means.status >= 500 && means.place == settlement::keep) why_->is_final = !may_be_sent_twice(head_);
  const bool is_taken = is_place_lost_ && !has_left && end == attempt_end::client_lost;
  if (is_taken && !has_begun) why_ = refusal_of(errc::lease_lost, queue(), route_.tenant, turn_.ask());
  if (end != attempt_end::complete && !why_) host_.forbid_next();
  if (exchange_->has_lost_rest) record_.error = "upstream_failed";
  if (!means.logged.empty()) record_.error = means.logged;
  if (end == attempt_end::client_lost && has_begun && has_left && !is_tunnel()) record_.error = "left";
  // The upstream has said that all is well, and has only a part of the request.
  const bool is_success = has_begun && exchange_->status < 300;
  const bool is_broken_off = !parser_.is_done() && (has_left || body_->has_failed());
  if (is_success && is_broken_off && record_.error.empty()) record_.error = "bad_request";
  if (is_taken) record_.error = "store_unavailable";
  if (turn_.ended_by() != call_ender::nobody && end != attempt_end::complete) {
    const refusal ended = turn_.why_ended();
    record_.error = ended.error;
    if (!has_begun) why_ = ended;
  }
  if (end == attempt_end::complete) host_.note_answered();
}

net::awaitable<void> call::finish() {
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
    co_return;
  } else if (why_ && !turn_.has_left()) {
    auto answering = host_.answer(*why_, record_, &parser_);
    co_await std::move(answering);
    co_return;
  } else {
    host_.forbid_next();
    if (has_begun_events() && record_.error.empty()) record_.error = "left";
  }
  host_.end_record(record_);
}

void call::end_by_client() noexcept {
  turn_.end_by_client();
  if (running_ != nullptr) running_->abort();
}

void call::end_by(call_ender who) noexcept {
  turn_.end_by(who);
  if (is_reading_) host_.stream().cancel();
  if (running_ != nullptr) running_->abort();
}

void call::drain(time_point end) noexcept {
  turn_.wake_if_asleep_until_after(end);
  if (running_ != nullptr) running_->keeps_client = false;
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
                 .method = shortened(r.method, 20),
                 .host = shortened(r.host),
                 .path = shortened(r.path),
                 .since = r.since,
                 .attempts = r.attempts,
                 .tokens = r.tokens_asked,
                 .first_byte = std::nullopt};
  if (running_ == nullptr) return v;
  if (running_->has_begun) v.status = running_->status;
  if (running_->first_byte) v.first_byte = *running_->first_byte - r.since;
  if (running_->body != nullptr) v.bytes_in = running_->body->bytes();
  v.bytes_out = running_->bytes_out;
  return v;
}

}  // namespace canigo::gateway
