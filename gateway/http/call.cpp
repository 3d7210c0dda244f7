#include "gateway/http/call.hpp"

#include "canigo/detail/base/random.hpp"
#include "canigo/error.hpp"

#include "gateway/http/refusals.hpp"
#include "gateway/policy/fields.hpp"
#include "gateway/policy/quota_fields.hpp"
#include "gateway/policy/repeat_rules.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

// The way of a request through the gateway: its body, its wait, its attempts, its end.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

constexpr backoff between_attempts{.first = std::chrono::milliseconds{50}, .cap = std::chrono::seconds{2}};

retry_reason reason_of(attempt_end end) {
  switch (end) {
    case attempt_end::put_back:
      return retry_reason::refused;
    case attempt_end::lost:
      return retry_reason::lost;
    case attempt_end::first_byte_late:
      return retry_reason::late;
    default:
      return retry_reason::connect;
  }
}

}  // namespace

connection::call::call(connection& home, message_parser& parser)
    : home_{home},
      parser_{parser},
      generation_{home.loop_.now},
      head_{parser.take_head()},
      record_{home.begin_record(head_)} {
  const auto listener = home_.entrance_.listener;
  const listen_mode mode = listener ? settings().listeners[*listener].mode : listen_mode::reverse;
  head_judgement judged = judge_head(head_, mode, settings().size);
  why_ = std::move(judged.refused);
  plan_ = std::move(judged.plan);
}

net::awaitable<void> connection::call::serve() {
  home_.goes_on_ = parser_.keep_alive() && !home_.is_last() && !may_leave_http(head_);
  if (why_) return home_.answer(*why_, record_, &parser_);
  if (!home_.entrance_.listener) {
    home_.goes_on_ = home_.goes_on_after(parser_);
    return home_.serve_admin(head_);
  }
  why_ = home_.find_errand(*generation_, head_, plan_, record_, errand_);
  if (why_) return home_.answer(*why_, record_, &parser_);
  on_list_.emplace(home_, record_);
  home_.deadline_ = std::min(saturating_add(record_.since, errand_.granted.max_wait), home_.service_.end());
  const retry_options& retry = to().retry;
  body_.emplace(home_.client_, parser_, home_.input_, settings().time.body_idle, retry.attempts > 1 ? retry.body : 0,
                home_.service_.kept);
  account_.emplace(to(), settings().tenants[errand_.tenant], queue().limits().ratios());
  random_ = home_.tag_;
  return forward();
}

/// The waits are here, and not in a function of their own: a frame less for each waiter.
net::awaitable<void> connection::call::forward() {
  if (parser_.has_body() && home_.input_.empty() && plan_.wants_continue) body_->expect_continue();
  if (reads_body() && parser_.has_body()) {
    auto reading = read_body();
    const bool is_read = co_await std::move(reading);
    if (!is_read) co_return;
  }
  ask_ = make_request();
  framing_ = make_framing();
  caller asks{queue(), settings().tenants[errand_.tenant].name, is_tunnel(), queue().share(errand_.tenant), {}, {}};
  home_.phase_ = phase::running;
  home_.caller_ = &asks;
  // There was a reload since the head came.
  if (home_.loop_.now != generation_) home_.follow(*home_.loop_.now, nullptr);
  {
    const watched client{home_};
    for (;;) {
      upstream_place held;
      permit tunnel;
      auto turning = get_turn(held, tunnel);
      const bool is_granted = co_await std::move(turning);
      if (!is_granted) break;
      if (!exchange_) make_exchange();
      auto attempting = attempt(held);
      const attempt_end end = co_await std::move(attempting);
      settle(held, end);
      if (!goes_again(end)) {
        judge(end);
        break;
      }
      auto sleeping = sleep_before_repeat(end);
      co_await std::move(sleeping);
      if (home_.has_left_) break;
    }
  }
  home_.caller_ = nullptr;
  auto finishing = finish();
  co_await std::move(finishing);
}

/// As much of the body as the estimate of its tokens wants. False: the request has ended with it.
net::awaitable<bool> connection::call::read_body() {
  co_await body_->read_ahead(most_read_body);
  const auto wrong = refusal_of(attempt_end::body_failed, *body_);
  if (!wrong && !home_.has_left_ && !body_->has_failed()) co_return true;
  home_.goes_on_ = false;
  if (wrong) {
    co_await home_.answer(*wrong, record_, nullptr);
  } else {
    home_.end_record(record_);
  }
  co_return false;
}

/// What is asked of the limits.
request connection::call::make_request() {
  const bool is_whole = !parser_.has_body() || body_->is_all_ahead();
  const gateway::read_body read{body_->ahead(), is_whole, plan_.has_length ? plan_.length : body_->bytes()};
  const auto& amounts = account_->ask(head_.target, read, errand_.granted.least_tokens);
  for (const token_amount& a : amounts)
    if (a.unit != "requests") record_.tokens_asked = record_.tokens_asked.value_or(0) + a.amount;
  return queue().ask(errand_.tenant, errand_.granted.priority, home_.deadline_, home_.tag_, amounts);
}

/// How the body goes out, which may be another one then.
outgoing_body connection::call::make_framing() {
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

void connection::call::make_exchange() {
  const bool is_forward = plan_.form != target_form::origin;
  exchange_ = std::make_unique<exchange>(to(), home_.service_.around(*generation_, is_forward), home_.client_);
  exchange& x = *exchange_;
  std::optional<client_place> client;
  if (to().forwarded) client = {home_.address_, record_.host, home_.is_secured_};
  x.is_tls = errand_.is_tls;
  x.head = request_head(head_, {.target = errand_.target,
                                .host_field = errand_.host_field,
                                .credential = &to().credential,
                                .body = framing_,
                                .via = home_.service_.via(),
                                .forwarded = client,
                                .wants_identity = reads_body()});
  x.body = parser_.has_body() ? &*body_ : nullptr;
  x.is_chunked = framing_.how == outgoing_body::framing::chunked;
  x.is_to_head = head_.method == "HEAD";
  x.signs_in_connection = signs_in_connection(head_);
  x.client_version = head_.version;
  x.write_stall = settings().time.write_stall;
  x.keeps_client = home_.goes_on_;
  if (is_tunnel()) {
    x.tunnelled = &home_.input_;
    // The client of a tunnel may end its own side.
    x.begins_tunnel = [&c = home_] { c.departure_->tell_nobody(); };
  }
  if (reads_body()) x.sees_piece = [this](std::string_view piece) { account_->take(piece); };
  x.head_for_client = [this](const message_head& h) {
    account_->begin_response(h);
    if (const auto id = value_of(h, "x-request-id")) texts_of(record_).upstream_id = shortened(*id);
    std::string text;
    text.reserve(512);
    text.append("HTTP/1.1 ").append(std::to_string(h.status)).append(1, ' ').append(reason_of(h.status)).append("\r\n");
    append_response_fields(text, h);
    append_own_fields(text, record_);
    return text;
  };
  x.wants_again = [this](const message_head& h) { return wants_again(h); };
}

/// Whether there may be another attempt, which the budget pays for then.
bool connection::call::may_repeat() {
  return body_->can_repeat() && record_.attempts < to().retry.attempts && clock::now() < ask_.deadline &&
         queue().budget().try_take();
}

/// Whether a response is dropped, because of another attempt.
bool connection::call::wants_again(const message_head& h) {
  const auto after = read_retry_after(h, std::chrono::system_clock::now());
  const attempt_result result{attempt_end_kind::answered, h.status, after.has_value()};
  const repeat again = judge_repeat(head_, result, body_->can_repeat());
  const time_point until = clock::now() + after.value_or(duration{0});
  return again != repeat::no && (again == repeat::yes || until < ask_.deadline) && may_repeat();
}

net::awaitable<void> connection::call::sleep_before_repeat(attempt_end end) {
  home_.service_.counts.count_retry(reason_of(end));
  body_->rewind();
  const duration pause =
      between_attempts.delay(static_cast<std::uint32_t>(record_.attempts), canigo::detail::next_random(random_));
  return home_.sleep_before_repeat(queue(), ask_.priority, pause);
}

net::awaitable<bool> connection::call::get_turn(upstream_place& held, permit& tunnel) {
  if (!is_tunnel()) return home_.get_place(queue(), ask_, record_, held, why_);
  return home_.get_tunnel(*generation_->hosts(), queue(), ask_, record_, held, tunnel, why_);
}

net::awaitable<attempt_end> connection::call::attempt(upstream_place& held) {
  exchange& x = *exchange_;
  if (++record_.attempts == 1) queue().budget().pay_in();
  if (x.until == time_point::max()) x.until = clock::now() + to().timeout.total;
  if (!home_.goes_on_) x.keeps_client = false;
  home_.exchange_ = &x;
  x.first_byte.reset();
  const time_point begun = clock::now();
  const std::function<void()> lost = [this] {
    is_place_lost_ = true;
    exchange_->abort();
  };
  held.watch(home_.loop_.io.get_executor(), lost);
  const bool is_hedged = to().hedge_after && head_.method == "GET" && !parser_.has_body();
  auto attempting = is_hedged ? home_.attempt_hedged(queue(), errand_.tenant, x, held, ask_, record_, lost)
                              : home_.attempt_at(queue(), errand_.tenant, x, held);
  const attempt_end end = co_await std::move(attempting);
  home_.exchange_ = nullptr;
  record_.connect += std::exchange(x.connect_time, duration{});
  if (x.first_byte) record_.upstream_first_byte = *x.first_byte - begun;
  co_return end;
}

/// Ends the place, and charges what was used.
void connection::call::settle(upstream_place& held, attempt_end end) {
  if (nothing_was_sent(end)) {
    held.give_back();
    return;
  }
  if (end != attempt_end::put_back) {
    held.settle(account_->settle(end == attempt_end::complete));
    if (account_->used()) {
      record_.tokens_used = account_->used()->input + account_->used()->output;
      record_.tokens_output = account_->used()->output;
    }
    if (end == attempt_end::complete && account_->is_usage_missing())
      home_.service_.counts.usage_missing.fetch_add(1, std::memory_order_relaxed);
  }
  held.release();
}

/// Whether another attempt follows, which the budget has paid for.
bool connection::call::goes_again(attempt_end end) {
  if (end == attempt_end::put_back) return true;
  const bool is_unsent = end == attempt_end::unreachable || end == attempt_end::connect_timed_out;
  const bool is_unanswered = end == attempt_end::lost || end == attempt_end::first_byte_late;
  return (is_unsent || (is_unanswered && may_be_sent_twice(head_))) && !home_.has_left_ &&
         home_.ended_by_ == ender::nobody && may_repeat();
}

/// What the client and the record are told of the last attempt.
void connection::call::judge(attempt_end end) {
  const bool has_begun = exchange_->has_begun;
  why_ = refusal_of(end, *body_, exchange_->failure);
  const bool is_taken = is_place_lost_ && !home_.has_left_ && end == attempt_end::client_lost;
  if (is_taken && !has_begun) why_ = refusal_of(errc::lease_lost, queue(), ask_);
  if (end != attempt_end::complete && !why_) home_.goes_on_ = false;
  if (end == attempt_end::cut || exchange_->has_lost_rest) record_.error = "upstream_failed";
  if (end == attempt_end::idle) record_.error = "idle";
  if (end == attempt_end::client_stalled) record_.error = "stalled";
  if (end == attempt_end::client_lost && has_begun && home_.has_left_ && !is_tunnel()) record_.error = "left";
  // The upstream has said that all is well, and has only a part of the request.
  const bool is_success = has_begun && exchange_->status < 300;
  const bool is_broken_off = !parser_.is_done() && (home_.has_left_ || body_->has_failed());
  if (is_success && is_broken_off && record_.error.empty()) record_.error = "bad_request";
  if (is_taken) record_.error = "store_unavailable";
  if (home_.ended_by_ != ender::nobody && end != attempt_end::complete) {
    const refusal ended = home_.why_ended();
    record_.error = ended.error;
    if (!has_begun) why_ = ended;
  }
  if (end == attempt_end::complete) home_.lingers_ = true;
}

net::awaitable<void> connection::call::finish() {
  const exchange* const x = exchange_.get();
  const bool has_begun = x != nullptr && x->has_begun;
  record_.bytes_in = body_->bytes();
  if (x != nullptr) {
    record_.bytes_in += x->bytes_in;
    record_.bytes_out = x->bytes_out;
    if (x->first_byte) record_.first_byte = *x->first_byte - record_.since;
  }
  if (has_begun) {
    record_.status = x->status;
    if (!x->keeps_client || why_) home_.goes_on_ = false;
  } else if (why_ && !home_.has_left_) {
    co_await home_.answer(*why_, record_, &parser_);
    co_return;
  } else {
    home_.goes_on_ = false;
  }
  home_.end_record(record_);
}

}  // namespace canigo::gateway
