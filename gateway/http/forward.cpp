#include "canigo/error.hpp"

#include "gateway/http/connection.hpp"
#include "gateway/policy/destination.hpp"
#include "gateway/policy/head_writer.hpp"
#include "gateway/policy/limit_names.hpp"
#include "gateway/policy/quota_fields.hpp"
#include "gateway/policy/repeat_rules.hpp"
#include "gateway/policy/text.hpp"
#include "gateway/policy/token_account.hpp"
#include "gateway/upstream/exchange.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

// The way of a request through the gateway: whose it is, where it goes, its wait, its attempts, its end.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

constexpr backoff between_attempts{.first = std::chrono::milliseconds{50}, .cap = std::chrono::seconds{2}};

std::optional<duration> estimate(const limiter& l, const request& ask) {
  try {
    return l.estimate(ask);
  } catch (const system_error&) {  // it can never be granted: no time would help
    return std::nullopt;
  }
}

refusal ended_by_operator() {
  return {503, "cancelled", "an operator has ended this request", std::chrono::seconds{1}};
}

refusal refusal_of(const error_code& error, upstream_queue& q, const request& ask) {
  refusal why{429, "wait_timed_out", "no place was free before the longest wait was over"};
  if (error == errc::queue_full) why = {429, "queue_full", "as many wait for this upstream as may wait"};
  if (error == errc::evicted) why = {429, "evicted", "a more important request took its place in the queue"};
  if (error == errc::deadline_unreachable) {
    why = {429, "wait_too_long", "even the shortest wait would be longer than the longest allowed"};
  }
  if (error == errc::stopped || error == net::error::operation_aborted) {
    why = {503, "draining", "this instance ends"};
  }
  if (error == errc::too_large) why = {429, "wait_too_long", "it asks for more than the limit ever has"};
  if (error == errc::not_enough_memory) why = {503, "queue_full", "there is no memory to wait with"};
  if (is_store_failure(error)) why = {503, "store_unavailable", "Redis, which keeps this limit, does not answer"};
  why.retry_after = estimate(q.limit(), ask).value_or(std::chrono::seconds{1});
  if (q.limits().shared() != nullptr) why.retry_after = std::max(*why.retry_after, q.limits().shared()->least_wait());
  const bool is_too_late = error == errc::deadline_unreachable || error == errc::timed_out;
  if (is_too_late && q.limits().now().breaker != circuit_state::closed)
    why = {503, "circuit_open", "the upstream fails, and is tried again only later", why.retry_after};
  return why;
}

std::optional<refusal> refusal_of(attempt_end end, const request_body& body) {
  switch (end) {
    case attempt_end::unreachable:
      return refusal{502, "upstream_failed", "no connection to the upstream"};
    case attempt_end::connect_timed_out:
      return refusal{504, "upstream_timeout", "no connection to the upstream in time"};
    case attempt_end::forbidden:
      return refusal{403, "destination_forbidden", "the upstream's name leads to an address that is not public"};
    case attempt_end::loop:
      return refusal{508, "loop", "the destination is this gateway itself"};
    case attempt_end::lost:
      return refusal{502, "upstream_failed", "the upstream closed the connection unanswered"};
    case attempt_end::first_byte_late:
      return refusal{504, "upstream_timeout", "the upstream did not answer in time"};
    case attempt_end::bad_response:
      return refusal{502, "upstream_failed", "the upstream's answer is no HTTP/1.1"};
    case attempt_end::body_failed:
      break;
    default:
      return std::nullopt;
  }
  switch (body.state()) {
    case request_body::status::timed_out:
      return refusal{408, "bad_request", "the body came too slowly"};
    case request_body::status::malformed:
      return refusal{400, "bad_request", "the body is no HTTP/1.1"};
    case request_body::status::too_large:
      return refusal{413, "bad_request", "the body is too large"};
    default:
      return std::nullopt;
  }
}

/// Takes a tunnel if there is one at once. Why there is none comes to light when it is waited for.
bool is_free(semaphore& tunnels, const request& ask, permit& granted) {
  try {
    auto free = tunnels.try_acquire(ask);
    if (free) granted = std::move(*free);
    return free.has_value();
  } catch (const system_error&) {
    return false;
  }
}

/// Why a wait has ended, as its caller is told. A wait is cancelled if it would be too long, or at the end.
error_code judged(const error_code& error, bool is_draining) {
  if (error == net::error::operation_aborted && !is_draining) return errc::deadline_unreachable;
  // Another instance may have the time that is missing here.
  const bool is_late = error == errc::deadline_unreachable || error == errc::timed_out;
  return is_late && is_draining ? error_code{errc::stopped} : error;
}

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

/// Until then, or until the client leaves.
net::awaitable<void> connection::sleep_watched(duration d) {
  net::steady_timer delay{loop_.io, d};
  const wait_here waiting{*this};
  co_await delay.async_wait(net::bind_cancellation_slot(wait_.slot(), net::as_tuple(net::use_awaitable)));
}

/// From now on it asks for the share that its tenant has since a reload.
void connection::take_next_share(request& ask) noexcept {
  if (!caller_->next_share) return;
  caller_->share = std::move(caller_->next_share);
  ask.flow = caller_->share.get();
}

/// Notes which limit holds up the first waiter, as soon as this request is among them.
void connection::look_at_what_binds(upstream_queue& q) {
  net::post(loop_.io, [&l = loop_, tag = tag_, &q] {
    connection* const c = l.requests.find(tag);
    if (c == nullptr || !c->waits()) return;
    std::string name = name_of(q.limit().why_waiting(), q.settings().rates);
    if (!name.empty()) c->record_->bound_by = std::move(name);
  });
}

/// Waits for a place. False if there is none: the client has left, or `why` says why not.
net::awaitable<bool> connection::get_place(upstream_queue& q, std::size_t tenant, request& ask, call_record& r,
                                           upstream_place& granted, std::optional<refusal>& why) {
  const time_point start = clock::now();
  error_code error;
  while (!is_ended_) {
    error = {};
    if (caller_->dismissed) break;
    take_next_share(ask);
    permit local;
    try {
      if (auto p = q.limit().try_acquire(ask)) local = std::move(*p);
    } catch (const system_error& e) {
      error = e.code();
    }
    if (!local && !error) {
      if (input_.empty()) input_.shrink();
      look_at_what_binds(q);
      {
        const wait_here waiting{*this};
        std::tie(error, local) = co_await q.limit().async_acquire(
            ask, net::bind_cancellation_slot(wait_.slot(), net::as_tuple(net::use_awaitable)));
      }
      if (error == net::error::operation_aborted && caller_->next_share && !has_left_) continue;
    }
    if (error || has_left_ || is_ended_) {
      // The grant may have come when the client left, or an operator ended it. Nothing is consumed all the same.
      if (local) q.limits().give_back(local);
      break;
    }
    const time_point until = q.paused_until(tenant);
    if (until > clock::now()) {
      q.limits().give_back(local);
      if (until > ask.deadline) {
        error = errc::deadline_unreachable;
        break;
      }
      co_await sleep_watched(until - clock::now());
      if (has_left_) break;
      continue;
    }
    if (caller_->dismissed) {  // a reload has, while it was granted
      q.limits().give_back(local);
      break;
    }
    redis::permit shared;
    if (q.limits().shared() != nullptr) {
      constexpr duration usual_round_trip = std::chrono::milliseconds{10};
      const time_point asked = clock::now();
      {
        const wait_here waiting{*this};
        shared = co_await q.limits().shared()->acquire(ask, wait_.slot(), error);
      }
      if (r.bound_by.empty() && clock::now() - asked > usual_round_trip) r.bound_by = "shared";
      if (error || has_left_ || is_ended_) {
        q.limits().give_back(local, shared);
        if (error == net::error::operation_aborted && caller_->next_share && !has_left_) continue;
        break;
      }
    }
    if (auto entered = q.limits().enter(std::move(local), std::move(shared))) {
      granted = std::move(*entered);
      break;
    }
  }
  r.waited += clock::now() - start;
  if (has_left_) co_return false;
  if (is_ended_) {
    why = ended_by_operator();
    co_return false;
  }
  if (caller_->dismissed) {
    granted.give_back();
    why = caller_->dismissed;
    co_return false;
  }
  if (!error) co_return true;
  why = refusal_of(judged(error, service_.is_draining()), q, ask);
  if (const time_point until = q.paused_until(tenant); until > clock::now()) why->retry_after = until - clock::now();
  co_return false;
}

/// Waits for a place of the host and one of the tunnels. Nobody holds one while it waits for the other: those who wait
/// for a slow host would keep the tunnels from all others.
net::awaitable<bool> connection::get_tunnel(semaphore& tunnels, upstream_queue& q, std::size_t tenant, request& ask,
                                            call_record& r, upstream_place& granted, permit& tunnel,
                                            std::optional<refusal>& why) {
  const request place{.priority = ask.priority, .deadline = ask.deadline, .tag = ask.tag};
  for (;;) {
    const bool is_granted = co_await get_place(q, tenant, ask, r, granted, why);
    if (!is_granted) co_return false;
    if (is_free(tunnels, place, tunnel)) co_return true;
    granted.give_back();
    const time_point start = clock::now();
    error_code error;
    r.bound_by = "tunnels";
    {
      const wait_here waiting{*this};
      std::tie(error, tunnel) = co_await tunnels.async_acquire(
          place, net::bind_cancellation_slot(wait_.slot(), net::as_tuple(net::use_awaitable)));
    }
    r.waited += clock::now() - start;
    if (has_left_) co_return false;
    if (is_ended_) {
      why = ended_by_operator();
      co_return false;
    }
    if (caller_->dismissed) {
      why = caller_->dismissed;
      co_return false;
    }
    if (error == net::error::operation_aborted && caller_->next_share) continue;
    if (error) {
      why = refusal_of(judged(error, service_.is_draining()), q, ask);
      co_return false;
    }
    take_next_share(ask);
    granted = co_await spare_place(q, tenant, ask);
    if (granted) co_return true;
    tunnel.release();
  }
}

/// Of reverse mode.
std::optional<refusal> connection::find_upstream(const generation& g, const message_head& head,
                                                 const request_plan& plan, call_record& r, errand& e) const {
  const config& c = g.settings;
  const auto found = g.routes.find(head.target);
  const upstream* to = found ? &c.upstreams[*found] : nullptr;
  const bool replaces = to != nullptr && same_text(to->credential.header, "authorization");
  const std::string& anonymous = c.listeners[*entrance_.listener].anonymous;
  identification who = g.identities.find(head, {certificate_names_, peer_uid_, anonymous}, replaces, false);
  if (who.refused) return std::move(who.refused);
  e.tenant = *who.tenant;
  r.tenant = c.tenants[e.tenant].name;
  r.tenant_index = e.tenant;
  if (to == nullptr) return refusal{404, "no_route", "no upstream has this prefix"};
  r.upstream = to->name;
  r.route = to->prefix;
  e.queue = std::shared_ptr<upstream_queue>{std::shared_ptr<void>{}, &g.queue(*found)};  // the generation keeps it
  e.target = target_for(*to, plan.path);
  e.host_field = to->url.host_field;
  e.is_tls = to->url.is_tls;
  return std::nullopt;
}

/// Of forward mode.
std::optional<refusal> connection::find_host(const generation& g, const message_head& head, const request_plan& plan,
                                             call_record& r, errand& e) const {
  const config& c = g.settings;
  const std::string& anonymous = c.listeners[*entrance_.listener].anonymous;
  identification who = g.identities.find(head, {certificate_names_, peer_uid_, anonymous}, false, true);
  if (who.refused) return std::move(who.refused);
  e.tenant = *who.tenant;
  r.tenant = c.tenants[e.tenant].name;
  r.tenant_index = e.tenant;
  if (r.host.empty()) r.host = limit_name(plan.host, plan.port);
  const allowed_host* by = find_allowed(*c.forward, plan.host, plan.port);
  if (by == nullptr) return refuse_destination(plan.host, plan.port);
  r.upstream = by->text;
  const bool is_tunnel = plan.form == target_form::tunnel;
  if (is_tunnel && c.forward->tunnels == 0) return refusal{403, "destination_forbidden", "forward.tunnels is 0"};
  e.queue = g.hosts()->find(plan.host, plan.port, clock::now());
  if (!e.queue) {
    return refusal{503, "queue_full", "as many hosts are in use as forward.hosts allows", std::chrono::seconds{1}};
  }
  e.is_tls = plan.is_tls;
  e.host_field = host_field_of(plan.host, plan.port, plan.is_tls);
  // RFC 9112, 3.2.4: OPTIONS for the server itself has an absolute target without a path.
  e.target = head.method == "OPTIONS" && plan.path.empty() ? "*" : target_for(e.queue->settings(), plan.path);
  return std::nullopt;
}

std::optional<refusal> connection::find_errand(const generation& g, const message_head& head, const request_plan& plan,
                                               call_record& r, errand& e) const {
  const config& c = g.settings;
  auto refused = plan.form == target_form::origin ? find_upstream(g, head, plan, r, e) : find_host(g, head, plan, r, e);
  if (!refused) refused = judge_loop(head, service_.via());
  if (refused) return refused;
  wish_reading wanted = read_wishes(head, c.tenants[e.tenant], c.classes, e.queue->settings().max_wait);
  if (wanted.refused) return std::move(wanted.refused);
  if (wanted.granted.asked_above_best) service_.counts.count_lowered(c.tenants[e.tenant].name);
  r.priority = c.classes[static_cast<std::size_t>(wanted.granted.priority)];
  e.granted = wanted.granted;
  return std::nullopt;
}

/// The caller holds `g`.
net::awaitable<void> connection::forward(const generation& g, message_parser& parser, message_head& head,
                                         const request_plan& plan, call_record& r) {
  const config& c = g.settings;
  errand p;
  if (const auto wrong = find_errand(g, head, plan, r, p)) {
    co_await answer(*wrong, r, &parser);
    co_return;
  }
  upstream_queue& q = *p.queue;
  const upstream* to = &q.settings();
  const bool is_tunnel = plan.form == target_form::tunnel;
  const listed on_list{*this, r};
  deadline_ = std::min(saturating_add(r.since, p.granted.max_wait), service_.end());
  const int most_attempts = to->retry.attempts;
  request_body body{client_, parser, input_, c.time.body_idle, most_attempts > 1 ? to->retry.body : 0, service_.kept};
  if (parser.has_body() && input_.empty() && plan.wants_continue) body.expect_continue();
  token_account account{*to, c.tenants[p.tenant], q.limits().ratios()};
  const bool reads_body = token_account::reads_body(*to);
  if (reads_body && parser.has_body()) {
    co_await body.read_ahead(most_read_body);
    if (const auto wrong = refusal_of(attempt_end::body_failed, body); wrong || has_left_ || body.has_failed()) {
      goes_on_ = false;
      if (wrong) {
        co_await answer(*wrong, r, nullptr);
      } else {
        end_record(r);
      }
      co_return;
    }
  }
  const bool is_whole = !parser.has_body() || body.is_all_ahead();
  const read_body read{body.ahead(), is_whole, plan.has_length ? plan.length : body.bytes()};
  const auto& amounts = account.ask(head.target, read, p.granted.least_tokens);
  for (const token_amount& a : amounts)
    if (a.unit != "requests") r.tokens_asked = r.tokens_asked.value_or(0) + a.amount;
  request ask = q.ask(p.tenant, p.granted.priority, deadline_, tag_, amounts);
  outgoing_body framing;
  if (parser.has_body() || plan.has_length) {
    framing = {plan.is_chunked ? outgoing_body::framing::chunked : outgoing_body::framing::length, plan.length};
  }
  if (to->tokens.add_usage && parser.has_body() && is_whole) {
    if (auto with_usage = with_include_usage(body.ahead())) {
      framing = {outgoing_body::framing::length, with_usage->size()};
      body.replace(std::move(*with_usage));
    }
  }
  std::optional<client_place> client;
  if (to->forwarded) client = {address_, r.host, is_secured_};

  exchange x{*to, service_.around(g, plan.form != target_form::origin), client_};
  x.is_tls = p.is_tls;
  x.head = request_head(head, {.target = p.target,
                               .host_field = p.host_field,
                               .credential = &to->credential,
                               .body = framing,
                               .via = service_.via(),
                               .forwarded = client,
                               .wants_identity = reads_body});
  x.body = parser.has_body() ? &body : nullptr;
  x.is_chunked = framing.how == outgoing_body::framing::chunked;
  x.is_to_head = head.method == "HEAD";
  x.client_version = head.version;
  x.write_stall = c.time.write_stall;
  x.keeps_client = goes_on_;
  if (is_tunnel) x.tunnelled = &input_;
  if (reads_body) x.sees_piece = [&account](std::string_view piece) { account.take(piece); };
  x.head_for_client = [&r, &account](const message_head& h) {
    account.begin_response(h);
    return "HTTP/1.1 " + std::to_string(h.status) + ' ' + std::string{reason_of(h.status)} + "\r\n" +
           response_fields(h) + own_fields(r);
  };
  const bool is_repeatable = may_be_sent_twice(head);
  const auto may_repeat = [&] {
    return body.can_repeat() && r.attempts < most_attempts && clock::now() < ask.deadline && q.budget().try_take();
  };
  x.wants_again = [&](const message_head& h) {
    const auto after = read_retry_after(h, std::chrono::system_clock::now());
    const attempt_result result{attempt_end_kind::answered, h.status, after.has_value()};
    const repeat again = judge_repeat(head, result, body.can_repeat());
    const time_point until = clock::now() + after.value_or(duration{0});
    return again != repeat::no && (again == repeat::yes || until < ask.deadline) && may_repeat();
  };

  std::minstd_rand random{static_cast<std::uint32_t>(tag_ ^ tag_ >> 32)};
  std::optional<refusal> why;
  caller asks{q, c.tenants[p.tenant].name, q.share(p.tenant), {}, {}};
  const bool is_hedged = to->hedge_after && head.method == "GET" && !parser.has_body();
  bool is_place_lost = false;
  {
    std::optional<departure_watch::entry> watched;
    watched.emplace(loop_.watch, client_.descriptor(), [this] { client_left(); });
    // The client of a tunnel may end its own side.
    if (is_tunnel) x.begins_tunnel = [&watched] { watched.reset(); };
    phase_ = phase::running;
    caller_ = &asks;
    if (loop_.now.get() != &g) follow(*loop_.now, nullptr);  // there was a reload since the head came
    for (;;) {
      upstream_place held;
      permit tunnel;
      bool is_granted = false;
      if (is_tunnel) {
        is_granted = co_await get_tunnel(g.hosts()->tunnels(), q, p.tenant, ask, r, held, tunnel, why);
      } else {
        is_granted = co_await get_place(q, p.tenant, ask, r, held, why);
      }
      if (!is_granted) break;
      if (++r.attempts == 1) q.budget().pay_in();
      if (x.until == time_point::max()) x.until = clock::now() + to->timeout.total;
      if (!goes_on_) x.keeps_client = false;
      exchange_ = &x;
      x.first_byte.reset();
      const time_point begun = clock::now();
      held.watch(loop_.io.get_executor(), [&] {
        is_place_lost = true;
        x.abort();
      });
      attempt_end end = attempt_end::unreachable;
      if (is_hedged) {
        end = co_await attempt_hedged(q, p.tenant, x, held, ask, r);
      } else {
        end = co_await attempt_at(q, p.tenant, x, held);
      }
      exchange_ = nullptr;
      r.connect += std::exchange(x.connect_time, duration{});
      if (x.first_byte) r.upstream_first_byte = *x.first_byte - begun;
      if (nothing_was_sent(end)) {
        held.give_back();
      } else {
        if (end != attempt_end::put_back) {
          held.settle(account.settle(end == attempt_end::complete));
          if (account.used()) {
            r.tokens_used = account.used()->input + account.used()->output;
            r.tokens_output = account.used()->output;
          }
          if (account.is_usage_missing()) service_.counts.usage_missing.fetch_add(1, std::memory_order_relaxed);
        }
        held.release();
      }
      if (end == attempt_end::put_back ||
          ((end == attempt_end::unreachable || end == attempt_end::connect_timed_out ||
            (is_repeatable && (end == attempt_end::lost || end == attempt_end::first_byte_late))) &&
           !has_left_ && !is_ended_ && may_repeat())) {
        service_.counts.count_retry(reason_of(end));
        body.rewind();
        co_await sleep_watched(between_attempts.delay(static_cast<std::uint32_t>(r.attempts), random()));
        if (!has_left_) continue;
        break;
      }
      why = refusal_of(end, body);
      const bool is_taken = is_place_lost && !has_left_ && end == attempt_end::client_lost;
      if (is_taken && !x.has_begun) why = refusal_of(errc::lease_lost, q, ask);
      if (end != attempt_end::complete && !why) goes_on_ = false;
      if (end == attempt_end::cut) r.error = "upstream_failed";
      if (end == attempt_end::idle) r.error = "idle";
      if (is_taken) r.error = "store_unavailable";
      if (is_ended_ && end != attempt_end::complete) {
        if (x.has_begun) r.error = "cancelled";
        if (!x.has_begun) why = ended_by_operator();
      }
      if (end == attempt_end::complete) lingers_ = true;
      break;
    }
    caller_ = nullptr;
  }
  r.bytes_in = body.bytes() + x.bytes_in;
  r.bytes_out = x.bytes_out;
  if (x.first_byte) r.first_byte = *x.first_byte - r.since;
  if (x.has_begun) {
    r.status = x.status;
    if (!x.keeps_client || !parser.is_done()) goes_on_ = false;
    if (why) goes_on_ = false;
  } else if (why && !has_left_) {
    co_await answer(*why, r, &parser);
    co_return;
  }
  if (!x.has_begun) goes_on_ = false;
  end_record(r);
}

}  // namespace canigo::gateway
