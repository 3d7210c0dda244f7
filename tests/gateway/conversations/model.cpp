#include "model.hpp"

#include "body_text.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

namespace conversations {
namespace {

constexpr auto remembered = std::chrono::seconds{12};  // longer than a request may take
constexpr std::size_t most_shown = 3;

std::uint64_t number_of(const request_state& r) { return conversation_of(r.plan->id); }

std::string short_text(const message_head& head) {
  std::string text = head.first_line.substr(0, 120);
  for (const auto& [name, value] : head.fields) {
    if (name == "x-canigo-error" || name == "x-echo" || name == "x-surplus" || name == "x-said")
      text += " | " + name + ": " + value;
  }
  return text;
}

}  // namespace

conversation_state::conversation_state(conversation_plan p) : plan{std::move(p)} {
  for (const request_plan& r : plan.requests) {
    requests.emplace_back();
    requests.back().plan = &r;
  }
}

request_state* conversation_state::find(std::uint64_t id) noexcept {
  const auto found = std::ranges::find(requests, id, [](const request_state& r) { return r.plan->id; });
  return found == requests.end() ? nullptr : &*found;
}

std::shared_ptr<conversation_state> model::begin(std::uint64_t index) {
  judge_surplus(false);
  const auto now = clock::now();
  while (!over_.empty() && over_.front().first + remembered < now) {
    known_.erase(over_.front().second);
    over_.pop_front();
  }
  auto c = std::make_shared<conversation_state>(plan_conversation(seed_, index, with_tls_));
  known_[index] = c;
  next_ = std::max(next_, index + 1);
  ++under_way_;
  return c;
}

/// One that is over for so long that it was forgotten. Of what became of it nothing is known.
std::shared_ptr<conversation_state> model::recall(std::uint64_t index) {
  auto c = std::make_shared<conversation_state>(plan_conversation(seed_, index, with_tls_));
  for (request_state& r : c->requests) r.has_begun = r.may_get_surplus = true;
  known_[index] = c;
  over_.emplace_back(clock::now(), index);
  count("requests that came late");
  return c;
}

void model::end(const std::shared_ptr<conversation_state>& c) {
  over_.emplace_back(clock::now(), c->plan.index);
  --under_way_;
}

std::shared_ptr<conversation_state> model::arrived(std::size_t upstream, const message_head& head,
                                                   message_reader::framing f, request_state*& whose) {
  whose = nullptr;
  const std::string target = head.target();
  const auto stolen = target.find("stolen/");
  if (stolen != std::string::npos) {
    judge_stolen(id_of(std::string_view{target}.substr(stolen + 7)), head);
    return nullptr;
  }
  const auto path = target.find("/r/");
  const std::uint64_t id = path == std::string::npos ? 0 : id_of(std::string_view{target}.substr(path + 3));
  const auto found = known_.find(conversation_of(id));
  std::shared_ptr<conversation_state> c = found == known_.end() ? nullptr : found->second;
  if (!c && id != 0 && conversation_of(id) < next_) c = recall(conversation_of(id));
  if (!c) {
    fail("an upstream got a request that nobody sent", conversation_of(id), short_text(head));
    return nullptr;
  }
  request_state* const r = c->find(id);
  if (r == nullptr || !r->has_begun) {
    fail("an upstream got a request that nobody has sent yet", conversation_of(id), short_text(head));
    return nullptr;
  }
  const request_plan& p = *r->plan;
  const auto differs = [&](const char* what) {
    fail(std::string{"a request came out changed: "} + what, conversation_of(id), short_text(head));
  };
  const bool is_tunnel = p.what == request_plan::kind::tunnel;
  if (is_tunnel != (path > 0)) {
    fail("bytes behind a refused tunnel reached an upstream as a request", conversation_of(id), short_text(head));
    return nullptr;
  }
  if (p.upstream != upstream) differs("its upstream");
  if (p.wrong != request_plan::flaw::none && p.wrong != request_plan::flaw::chunk) differs("it is to be refused");
  if (p.what == request_plan::kind::upgrade) differs("a websocket");
  if (head.method() != (is_tunnel ? "GET" : p.method)) differs("its method");
  if (head.value_of("x-said") != p.said()) differs("its tenant");
  const auto credential = upstreams[upstream].replaces_credential ? std::string{own_credential} : p.authorization();
  if (head.value_of("authorization") != credential) differs("its credential");
  if (!is_tunnel && head.count_of("x-canigo-key") + head.count_of("proxy-authorization") > 0) differs("a key");
  const auto wanted = p.frame == request_plan::framing::none     ? message_reader::framing::none
                      : p.frame == request_plan::framing::length ? message_reader::framing::length
                                                                 : message_reader::framing::chunked;
  if (f != wanted) differs("its framing");
  if (f == message_reader::framing::length && head.value_of("content-length") != std::to_string(p.size))
    differs("its length");
  const upstream_kind& u = upstreams[upstream];
  const int hedges = upstream == hedged_upstream ? 1 : 0;
  if (r->arrivals >= static_cast<std::size_t>(u.attempts + hedges))
    fail("a request was sent too often", conversation_of(id), short_text(head));
  const bool is_safe = p.method != "POST" || p.has_key;
  if (r->arrivals > 0 && !is_safe && !r->may_come_again)
    fail("a POST was sent again", conversation_of(id), short_text(head));
  whose = r;
  return c;
}

void model::judge_surplus(bool at_once) {
  const auto now = clock::now();
  while (!surplus_.empty() && (at_once || surplus_.front().at + std::chrono::seconds{5} < now)) {
    const seen_surplus& s = surplus_.front();
    const auto found = known_.find(conversation_of(s.id));
    const request_state* const r = found == known_.end() ? nullptr : found->second->find(s.id);
    if (r == nullptr || !r->may_get_surplus)
      fail("surplus bytes of an upstream answered another request", conversation_of(s.id), s.what);
    surplus_.pop_front();
  }
}

/// Names what became of the request that the bytes are of.
void model::judge_stolen(std::uint64_t id, const message_head& head) {
  const auto found = known_.find(conversation_of(id));
  request_state* const r = found == known_.end() ? nullptr : found->second->find(id);
  const bool is_behind = r != nullptr && r->plan->behind > 0;
  fail(std::string{is_behind ? "bytes behind a refused Upgrade" : "bytes of a body"} +
           " reached an upstream as a request, after " + (r == nullptr ? "another one" : r->answer),
       conversation_of(id), short_text(head));
}

void model::answered(request_state& r, const message_head& head) {
  const int status = head.status();
  const auto surplus = head.value_of("x-surplus");
  r.number = head.value_of("x-request-id").value_or("");
  r.answer = std::to_string(status) + " " + head.value_of("x-canigo-error").value_or("of the upstream");
  if (surplus) {
    surplus_.push_back({clock::now(), r.plan->id, text_of(r.plan->id) + " got: " + short_text(head)});
    return;
  }
  if (const auto error = head.value_of("x-canigo-error")) {
    count("answers of the gateway: " + std::to_string(status) + " " + *error);
    judge_own(r, status, *error);
    return;
  }
  const auto echo = head.value_of("x-echo");
  if (r.plan->what == request_plan::kind::tunnel && !echo) {
    if (status != 200) fail("a CONNECT got another answer", number_of(r), short_text(head));
    count("tunnels");
    return;
  }
  if (!echo || id_of(*echo) != r.plan->id) {
    fail("an answer belongs to another request", number_of(r), text_of(r.plan->id) + " got: " + short_text(head));
  } else if (head.value_of("x-said") != r.plan->said()) {
    fail("an answer belongs to another tenant", number_of(r), r.plan->said() + " got: " + short_text(head));
  }
  count(head.value_of("x-spelt") ? "answers of upstreams, oddly spelt" : "answers of upstreams");
}

/// Whether the gateway may answer so by itself.
void model::judge_own(const request_state& r, int status, const std::string& error) {
  using flaw = request_plan::flaw;
  const request_plan& p = *r.plan;
  const bool may_be_gone =
      is_changing && (p.upstream == narrow_upstream || p.tenant + 1 == tenants || p.what == request_plan::kind::tunnel);
  bool is_right = false;
  switch (status) {
    case 400:
      is_right = p.wrong == flaw::chunk || (p.what == request_plan::kind::tunnel && p.has_body());
      break;
    case 401:
    case 407:
      is_right = p.wrong == flaw::key || may_be_gone;
      break;
    case 403:
      is_right = p.wrong == flaw::destination || (is_changing && p.what == request_plan::kind::tunnel);
      break;
    case 404:
      is_right = p.wrong == flaw::route || may_be_gone;
      break;
    case 413:
      is_right = p.size > most_body;
      break;
    case 417:
      is_right = p.wrong == flaw::expectation;
      break;
    case 501:
      is_right = p.what == request_plan::kind::upgrade;
      break;
    case 408:  // whoever is slow, or is on a machine that is
    case 429:
    case 502:
    case 504:
      is_right = true;
      break;
    case 503:
      is_right = error == "circuit_open" || error == "queue_full" ||
                 (error == "cancelled" && called_off.contains(r.number)) || (error == "draining" && is_draining) ||
                 (error == "no_route" && may_be_gone);
      break;
    default:
      break;
  }
  if (!is_right) {
    fail("the gateway refused a request that is in order: " + std::to_string(status) + " " + error, number_of(r),
         p.method + " " + text_of(p.id));
  }
}

void model::fail(const std::string& kind, std::uint64_t conversation, const std::string& what) {
  failure& f = failures_[kind];
  ++f.times;
  if (f.first.size() < most_shown) {
    std::string line = "conversation " + std::to_string(conversation) + ": " + what;
    for (char& ch : line)
      if (static_cast<unsigned char>(ch) < ' ') ch = '.';
    f.first.push_back(std::move(line));
  }
}

void model::print_failures(const std::string& again) const {
  for (const auto& [kind, f] : failures_) {
    std::printf("FAILED %llu times: %s\n", static_cast<unsigned long long>(f.times), kind.c_str());
    for (const std::string& one : f.first) std::printf("    %s\n", one.c_str());
  }
  if (!failures_.empty()) std::printf("again: %s\n", again.c_str());
}

std::vector<std::string> model::kinds() const {
  std::vector<std::string> all;
  for (const auto& [kind, f] : failures_) all.push_back(kind);
  return all;
}

std::uint64_t model::counted(const std::string& what) const {
  const auto found = counts_.find(what);
  return found == counts_.end() ? 0 : found->second;
}

void model::print_counts() const {
  for (const auto& [what, n] : counts_) std::printf("  %-60s %llu\n", what.c_str(), static_cast<unsigned long long>(n));
}

}  // namespace conversations
