#include "gateway/admin/admin.hpp"

#include "gateway/admin/admin_session.hpp"
#include "gateway/admin/events.hpp"
#include "gateway/admin/loop_look.hpp"
#include "gateway/admin/metrics.hpp"
#include "gateway/admin/page.hpp"
#include "gateway/admin/state.hpp"
#include "gateway/call/answer.hpp"
#include "gateway/policy/fields.hpp"
#include "gateway/process/service.hpp"
#include "gateway/wire/text.hpp"

#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

// g++ 12 may destroy a temporary of a co_await expression twice. So no such temporary in this file needs a destructor.
namespace canigo::gateway {
namespace {

constexpr std::string_view plain = "text/plain; charset=utf-8";
constexpr std::string_view json_type = "application/json";
constexpr std::string_view upstreams_path = "/api/upstreams/";
// The icon of the page: three bars that stand for a queue, in the page's colour.
constexpr std::string_view icon =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\"><path fill=\"#3f7cbf\" "
    "d=\"M1 2h14v3H1zM1 7h10v3H1zM1 12h6v3H1z\"/></svg>";
constexpr duration penalty = std::chrono::seconds{1};

/// One request to the admin listener, with the objects needed to answer it.
struct admin_call {
  service& s;
  admin_session& session;
  const config_snapshot& g;
  const message_head& head;
  std::string_view path;
  bool closes;

  bool is(std::string_view method, std::string_view of) const { return head.method == method && path == of; }
  admin_reply say(int status, std::string_view type, std::string_view body, std::string_view fields = {}) const {
    return {page(status, type, body, closes, head.method == "HEAD", fields)};
  }
  admin_reply done() const { return say(200, json_type, "{\"ok\":true}\n"); }
};

bool is_own_host(const admin_options& o, std::string_view host) {
  const auto colon = host.rfind(':');
  if (colon != host.npos && host.find(']', colon) == host.npos) host = host.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return std::ranges::any_of(o.hosts, [&](const std::string& h) { return same_text(h, host); });
}

enum class proof { none, wrong, good };

/// Checks the token in the head's Authorization field. Returns proof::none if the head has no such field.
proof token_of(const admin_session& s, const message_head& head, const admin_options& o) {
  const auto given = value_of(head, "authorization");
  if (!given) return proof::none;
  constexpr std::string_view scheme = "bearer ";
  if (!starts_with_text(*given, scheme)) return proof::wrong;
  const std::string_view token = trim(given->substr(scheme.size()));
  return !token.empty() && s.sessions.is_same(token, o.token.value) ? proof::good : proof::wrong;
}

/// Checks the token in the head. If the head has no token, checks the session cookie that /login has issued.
proof proof_of(const admin_session& s, const message_head& head, const admin_options& o) {
  const proof p = token_of(s, head, o);
  if (p != proof::none) return p;
  const auto cookies = value_of(head, "cookie");
  if (!cookies || !s.sessions.is_good(*cookies, o.token.value, std::chrono::system_clock::now())) return proof::none;
  return proof::good;
}

/// Refuses a request without a valid token. The answer to a wrong token is delayed by a second. At most
/// `most_penalties` answers are delayed at the same time; further wrong tokens are answered with 429 without a delay.
net::awaitable<admin_reply> refuse(const admin_call& e, proof p) {
  constexpr std::string_view wanted = "WWW-Authenticate: Bearer\r\n";
  if (p == proof::none)
    co_return e.say(401, plain, "sign in, or send Authorization: Bearer with admin.token\n", wanted);
  const counted_place place{e.session.penalties, admin_session::most_penalties};
  if (!place) co_return e.say(429, plain, "too many wrong tokens\n", "Retry-After: 1\r\n");
  net::steady_timer delay{co_await net::this_coro::executor, penalty};
  error_code ignored;
  co_await delay.async_wait(net::redirect_error(net::use_awaitable, ignored));
  co_return e.say(401, plain, "this is not admin.token\n", wanted);
}

/// Answers a request that needs no token: for the page, its script, style and icon, or for /api/session. Returns
/// std::nullopt for any other request.
std::optional<admin_reply> public_answer(const admin_call& e, const admin_options& o) {
  if (e.head.method != "GET" && e.head.method != "HEAD") return std::nullopt;
  if (e.path == "/") return e.say(200, "text/html; charset=utf-8", page_html());
  if (e.path == "/page.js") return e.say(200, "text/javascript; charset=utf-8", page_js());
  if (e.path == "/icon.svg") return e.say(200, "image/svg+xml", icon);
  if (e.path == "/page.css") return e.say(200, "text/css; charset=utf-8", page_css());
  if (e.path == "/api/session") {
    const bool is_in = proof_of(e.session, e.head, o) == proof::good;
    return e.say(200, json_type, is_in ? "{\"signed_in\":true}\n" : "{\"signed_in\":false}\n");
  }
  return std::nullopt;
}

std::string cookie_field(std::string_view value, std::chrono::seconds age) {
  return fmt::format("Set-Cookie: {}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict\r\n", session_cookie::name,
                     value, age.count());
}

/// The upstream, or the target of an upstream, that an operator's command names.
struct named_part {
  std::shared_ptr<upstream_queue> upstream;  // null: no upstream has the name in the command
  std::optional<std::size_t> target;         // the index of the target in the command; none: all targets
};

/// Finds the upstream or the target that the path "/api/upstreams/NAME/VERB" or
/// "/api/upstreams/NAME/targets/TARGET/VERB" names.
named_part part_of(const admin_call& e, std::string_view verb) {
  constexpr std::string_view targets_path = "/targets/";
  std::string_view name = e.path;
  if (!name.starts_with(upstreams_path)) return {};
  name.remove_prefix(upstreams_path.size());
  if (name.size() <= verb.size() || !name.ends_with(verb)) return {};
  name.remove_suffix(verb.size());
  const auto slash = name.find(targets_path);
  named_part part{e.g.queue_of(name.substr(0, slash)), std::nullopt};
  if (slash == name.npos || part.upstream == nullptr) return part;
  const std::vector<target>& all = part.upstream->settings().targets;
  const auto found = std::ranges::find(all, name.substr(slash + targets_path.size()), &target::name);
  if (found == all.end()) return {};
  part.target = static_cast<std::size_t>(found - all.begin());
  return part;
}

net::awaitable<admin_reply> reload(const admin_call& e) {
  auto there = e.session.commands.reload();
  const std::vector<std::string> wrong =
      co_await net::co_spawn(e.s.loops().front()->io, std::move(there), net::use_awaitable);
  if (wrong.empty()) co_return e.done();
  std::string text;
  for (const std::string& line : wrong) text.append(line).append("\n");
  co_return e.say(422, plain, text);
}

net::awaitable<admin_reply> change(const admin_call& e, const admin_options& o) {
  constexpr std::string_view requests = "/api/requests/";
  if (e.is("POST", "/login")) {
    const auto now = std::chrono::system_clock::now();
    const std::string value = e.session.sessions.make(o.token.value, now);
    co_return e.say(200, json_type, "{\"ok\":true}\n", cookie_field(value, session_cookie::lifetime));
  }
  if (e.is("POST", "/logout")) co_return e.say(200, json_type, "{\"ok\":true}\n", cookie_field("", {}));
  if (e.is("POST", "/api/drain")) {
    e.session.commands.drain();
    co_return e.done();
  }
  if (e.is("POST", "/api/reload")) {
    auto reloading = reload(e);
    co_return co_await std::move(reloading);
  }
  if (e.head.method == "POST") {
    if (const named_part part = part_of(e, "/pause"); part.upstream) {
      part.upstream->limits().pause_by_operator(time_point::max(), part.target);
      co_return e.done();
    }
    if (const named_part part = part_of(e, "/resume"); part.upstream) {
      part.upstream->limits().resume_by_operator(part.target);
      co_return e.done();
    }
  }
  if (e.head.method == "DELETE" && e.path.starts_with(requests)) {
    auto ending = end_request(e.s, std::string{e.path.substr(requests.size())});
    const bool found = co_await std::move(ending);
    if (found) co_return e.done();
    co_return e.say(404, plain, "no such request waits or runs\n");
  }
  if (e.path.starts_with(upstreams_path))
    co_return e.say(404, plain, "there is no such upstream, or nothing to do there\n");
  co_return e.say(404, plain, "there is nothing to do here\n");
}

net::awaitable<admin_reply> look(const admin_call& e) {
  if (e.path == "/metrics") co_return e.say(200, "text/plain; version=0.0.4; charset=utf-8", metrics_of(e.s));
  if (e.path == "/api/state") {
    auto asking = state_of(e.s, e.session, true);
    std::string text = co_await std::move(asking);
    text += '\n';
    co_return e.say(200, json_type, text);
  }
  if (e.path == "/api/events" && e.head.method == "GET") co_return admin_reply{{}, true};
  if (e.path == "/api/reload" || e.path == "/api/drain" || e.path.starts_with(upstreams_path))
    co_return e.say(405, plain, "this is to be done with POST\n", "Allow: POST\r\n");
  co_return e.say(404, plain, "there is nothing here\n");
}

}  // namespace

bool admin::is_still_admitted(const service& s, const message_head& head) {
  const std::shared_ptr<const config_snapshot> now = s.current();
  const auto& o = now->settings.admin;
  return o && is_own_host(*o, value_of(head, "host").value_or("")) && proof_of(session_, head, *o) == proof::good;
}

net::awaitable<admin_reply> admin::answer(service& s, const message_head& head, bool closes) {
  const std::shared_ptr<const config_snapshot> now = s.current();
  const admin_call e{s, session_, *now, head, std::string_view{head.target}.substr(0, head.target.find('?')), closes};
  const bool looks = head.method == "GET" || head.method == "HEAD";
  if (looks && e.path == "/healthz") co_return e.say(200, plain, "ok\n");
  if (looks && e.path == "/readyz")
    co_return s.is_draining() ? e.say(503, plain, "draining\n") : e.say(200, plain, "ready\n");
  const admin_options& o = *now->settings.admin;
  if (!is_own_host(o, value_of(head, "host").value_or("")))
    co_return e.say(421, plain, "Host is none of admin.hosts\n");
  const proof shown = proof_of(e.session, e.head, o);
  if (shown != proof::wrong)
    if (auto reply = public_answer(e, o)) co_return std::move(*reply);
  const bool changes = head.method == "POST" || head.method == "DELETE";
  if (!looks && !changes)
    co_return e.say(405, plain, "GET, HEAD, POST and DELETE are served\n", "Allow: GET, HEAD, POST, DELETE\r\n");
  // A browser lets a page of another site send the field X-Canigo-Admin only after a CORS preflight request, which the
  // admin refuses.
  if (changes && value_of(head, "x-canigo-admin").value_or("") != "1")
    co_return e.say(403, plain, "X-Canigo-Admin: 1 is missing\n");
  // /login needs the token itself: a session cookie must not be enough to prolong its own session.
  const proof enough = e.path == "/login" ? token_of(e.session, e.head, o) : shown;
  if (enough != proof::good) {
    auto refusing = refuse(e, enough);
    co_return co_await std::move(refusing);
  }
  auto answering = looks ? look(e) : change(e, o);
  co_return co_await std::move(answering);
}

net::awaitable<void> admin::send_events(service& s, byte_stream& client, const bool& has_left,
                                        std::function<bool()> may_listen) {
  return gateway::send_events(s, session_, client, has_left, std::move(may_listen));
}

}  // namespace canigo::gateway
