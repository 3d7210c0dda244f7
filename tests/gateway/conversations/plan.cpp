#include "plan.hpp"

#include "body_text.hpp"

#include <algorithm>

namespace conversations {
namespace {

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20;

std::size_t around(choices& c, std::size_t bound) { return bound - 3 + c.below(7); }

std::size_t body_size(choices& c, const upstream_kind& u) {
  // A body is read for its tokens up to 1 MiB, in pieces of up to 64 KiB.
  const std::size_t large = u.counts_tokens ? 14 : 3;
  switch (c.weighted({6, 4, 50, 12, 6, 3, large, 1, 1, 3})) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return c.between(2, 600);
    case 3:
      return c.between(601, 8 * KiB);
    case 4:
      return around(c, 64 * KiB);
    case 5:
      return around(c, std::max<std::size_t>(u.kept_body, KiB));
    case 6:
      return c.percent(70) ? c.between(MiB, MiB + 64 * KiB)
                           : around(c, c.one_of({MiB, MiB + 64 * KiB, MiB - 64 * KiB}));
    case 7:
      return around(c, 192 * KiB);
    case 8:
      return around(c, most_body);
    default:
      return c.between(8 * KiB, 300 * KiB);
  }
}

void plan_body(choices& c, request_plan& r) {
  if (r.what == request_plan::kind::tunnel) return;
  const bool usually = r.method == "POST" || r.method == "PUT";
  if (!c.percent(usually ? 92 : r.method == "DELETE" ? 30 : 6)) return;
  r.frame = c.percent(35) && !r.is_old ? request_plan::framing::chunked : request_plan::framing::length;
  r.size = body_size(c, upstreams[r.upstream]);
  // It begins with a message, it ends with one, or neither.
  r.phase = c.one_of<std::size_t>({0, (64 - r.size % 64) % 64, c.below(64)});
  r.expects_continue = r.has_body() && !r.is_old && c.percent(12);
}

request_plan plan_request(choices& c, std::uint64_t id, bool is_forward, bool with_tls) {
  using kind = request_plan::kind;
  using flaw = request_plan::flaw;
  request_plan r;
  r.id = id;
  r.tenant = c.percent(70) ? c.below(tenants) : anonymous_tenant;
  r.method = c.one_of({"GET", "GET", "GET", "GET", "POST", "POST", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"});
  r.is_old = c.percent(4);
  r.closes = c.percent(5);
  r.has_key = c.percent(20);
  if (c.percent(12)) r.longest_wait = c.one_of({"0s", "1ms", "5ms", "30ms", "150ms"});
  if (c.percent(30)) r.priority = c.one_of({"interactive", "normal", "batch"});
  if (is_forward) {
    r.what = c.percent(45) ? kind::tunnel : kind::absolute;
    if (r.what == kind::tunnel) {
      r.method = "CONNECT";
      r.is_old = false;
      r.behind = c.percent(60) ? c.between(1, 400) : 0;
    }
    if (c.percent(25)) r.wrong = c.one_of({flaw::destination, flaw::dead, flaw::key});
  } else {
    r.upstream = c.weighted({30, 22, 8, 10, 10, with_tls ? 14u : 2u, with_tls ? 10u : 2u});
    if (c.percent(2)) {
      r.what = kind::upgrade;
      r.is_old = false;
      r.behind = c.percent(70) ? c.between(1, 400) : 0;
    }
    if (c.percent(5)) r.wrong = c.one_of({flaw::key, flaw::route, flaw::chunk, flaw::expectation});
  }
  plan_body(c, r);
  if (r.what == kind::upgrade && r.has_body()) r.behind = 0;
  if (r.wrong == flaw::chunk && (r.frame != request_plan::framing::chunked || r.size < 2)) r.wrong = flaw::none;
  if (r.wrong == flaw::expectation && r.is_old) r.wrong = flaw::none;
  if (r.wrong == flaw::expectation) r.expects_continue = false;
  if (r.wrong == flaw::key) r.tenant = stranger;
  return r;
}

int status_for(choices& c) {
  switch (c.weighted({80, 4, 3, 3, 4, 6})) {
    case 0:
      return 200;
    case 1:
      return 204;
    case 2:
      return 304;
    case 3:
      return c.one_of({201, 302, 400, 401, 404, 413});
    case 4:
      return c.one_of({429, 503});
    default:
      return c.one_of({500, 502, 503, 504});
  }
}

}  // namespace

std::string request_plan::said() const { return text_of(id) + "-" + std::to_string(tenant); }
std::string request_plan::authorization() const { return "Basic " + said(); }

const request_plan* conversation_plan::find(std::uint64_t id) const noexcept {
  const auto found = std::ranges::find(requests, id, &request_plan::id);
  return found == requests.end() ? nullptr : &*found;
}

conversation_plan plan_conversation(std::uint64_t seed, std::uint64_t index, bool with_tls) {
  choices c{seed, index};
  conversation_plan p;
  p.index = index;
  p.is_forward = c.percent(12);
  p.is_tls = !p.is_forward && c.percent(30) && with_tls;
  const std::size_t count = c.one_of<std::size_t>({1, 2, 2, 3, 3, 4, 6});
  for (std::size_t i = 0; i < count; ++i) {
    p.requests.push_back(plan_request(c, ((index + 1) << 8) | (i + 1), p.is_forward, with_tls));
    const request_plan& r = p.requests.back();
    // What follows would be bytes of the tunnel.
    if (r.what == request_plan::kind::tunnel || r.what == request_plan::kind::upgrade) break;
  }
  p.how =
      c.one_of({conversation_plan::pace::patient, conversation_plan::pace::eager, conversation_plan::pace::pipelined});
  if (c.percent(14)) {
    p.end = c.one_of({conversation_plan::ending::close, conversation_plan::ending::reset,
                      conversation_plan::ending::half_close, conversation_plan::ending::stall});
    p.end_at = p.end == conversation_plan::ending::half_close || c.percent(40) ? 1000 + c.below(40) : c.below(1000);
    if (p.end == conversation_plan::ending::stall) p.end_at = c.below(1000);
    if (p.end == conversation_plan::ending::stall && c.percent(80)) p.end = conversation_plan::ending::reset;
  }
  p.goes_on = c.percent(80);
  p.cuts = c.one_of<std::size_t>({0, 0, 1, 3, 10});
  p.longest_pause = c.one_of<std::size_t>({0, 0, 2, 10});
  p.read_pause = c.percent(4) ? c.between(1, 40) : 0;
  p.lingers = c.one_of<std::size_t>({0, 2, 10, 40});
  return p;
}

answer_plan plan_answer(std::uint64_t seed, const request_plan& r, std::size_t attempt) {
  choices c{seed ^ 0xa5a5a5a5, (r.id << 8) + attempt};
  answer_plan a;
  a.status = status_for(c);
  // A 429 without a time would stop the upstream for a second, and with it all other conversations.
  a.asks_for_pause = a.status == 429 || (a.status == 503 && c.percent(50));
  if (r.has_body()) {
    a.begins = c.percent(70)   ? answer_plan::start::whole
               : c.percent(40) ? answer_plan::start::head
                               : answer_plan::start::part;
    // Close to the end the rest is on its way already.
    a.at = c.percent(50) ? c.below(r.size + 1) : r.size - std::min(r.size, c.below(200));
  }
  a.delay = c.percent(70) ? 0 : c.percent(85) ? c.below(25) : c.percent(90) ? c.below(120) : 10'000;
  a.interim = c.percent(95) ? 0 : c.one_of({100, 102, 103});
  a.frame = c.one_of({answer_plan::framing::length, answer_plan::framing::length, answer_plan::framing::chunked,
                      answer_plan::framing::until_end});
  if (a.frame == answer_plan::framing::until_end && c.percent(70)) a.frame = answer_plan::framing::length;
  a.size = c.percent(15)   ? 0
           : c.percent(85) ? c.below(900)
           : c.percent(60) ? c.below(20'000)
                           : c.one_of<std::size_t>({around(c, 64 * KiB), c.below(300'000)});
  a.cuts = c.one_of<std::size_t>({0, 0, 0, 1, 4});
  a.longest_pause = c.one_of<std::size_t>({0, 0, 3});
  if (c.percent(5)) a.breaks_at = c.below(1000);
  a.end = c.percent(82) ? answer_plan::ending::keep
                        : c.one_of({answer_plan::ending::announce, answer_plan::ending::close,
                                    answer_plan::ending::close, answer_plan::ending::reset});
  a.ends_after = c.percent(50) ? 0 : c.below(10);
  a.reads_no_more = a.begins != answer_plan::start::whole && c.percent(40);
  // An upstream that reads no more does not see which request its surplus bytes meet on their way.
  if (a.breaks_at == 1000 && !a.reads_no_more && a.frame != answer_plan::framing::until_end && c.percent(5)) {
    a.more =
        c.one_of({answer_plan::surplus::same_write, answer_plan::surplus::same_record, answer_plan::surplus::later});
    a.end = answer_plan::ending::keep;
    a.cuts = 0;
  }
  if (r.what == request_plan::kind::tunnel || !c.percent(8)) return a;
  using spelling = answer_plan::spelling;
  a.spelt = c.one_of(
      {spelling::coding_in_capitals, spelling::blank_behind_size, spelling::no_reason, spelling::size_of_letters});
  if (a.spelt != spelling::no_reason) a.frame = answer_plan::framing::chunked;
  if (a.spelt == spelling::size_of_letters) a.more = answer_plan::surplus::none;
  return a;
}

std::string text_of(std::uint64_t seed, const conversation_plan& p) {
  constexpr const char* paces[] = {"patient", "eager", "pipelined"};
  constexpr const char* endings[] = {"orderly", "closes", "resets", "half-closes", "stalls"};
  constexpr const char* kinds[] = {"", " absolute", " tunnel", " upgrade"};
  constexpr const char* flaws[] = {"",           " wrong key", " no route", " wrong chunk", " wrong expectation",
                                   " forbidden", " dead"};
  constexpr const char* frames[] = {"", " length ", " chunked "};
  constexpr const char* starts[] = {"head", "part", "whole"};
  constexpr const char* framings[] = {"length", "chunked", "until end"};
  constexpr const char* ends[] = {"keeps", "announces its end", "closes", "resets"};
  constexpr const char* surpluses[] = {"", ", surplus in another record", ", surplus in the same record",
                                       ", surplus later"};
  constexpr const char* spellings[] = {"", ", coding in capitals", ", blank behind the size", ", no reason",
                                       ", size of letters"};
  const auto at = [](const auto& names, auto which) { return std::string{names[static_cast<std::size_t>(which)]}; };
  std::string text = "conversation " + std::to_string(p.index) + ": " + at(paces, p.how) + ", " + at(endings, p.end);
  if (p.end != conversation_plan::ending::orderly) text += " at " + std::to_string(p.end_at);
  text += std::string{p.is_forward ? ", forward"
                      : p.is_tls   ? ", TLS"
                                   : ""} +
          (p.goes_on ? "" : ", leaves early") + (p.read_pause > 0 ? ", reads slowly" : "");
  for (const request_plan& r : p.requests) {
    text += "\n  " + text_of(r.id) + " " + r.method + at(kinds, r.what) + " " + upstreams[r.upstream].name +
            at(flaws, r.wrong) + at(frames, r.frame);
    if (r.frame != request_plan::framing::none) text += std::to_string(r.size);
    text += std::string{r.is_old ? " 1.0" : ""} + (r.closes ? " close" : "") + (r.expects_continue ? " expect" : "");
    if (r.behind > 0) text += " +" + std::to_string(r.behind);
    if (!r.longest_wait.empty()) text += " max-wait " + r.longest_wait;
    const answer_plan a = plan_answer(seed, r, 0);
    text += " -> " + std::to_string(a.status) + (a.asks_for_pause ? " retry-after" : "") + " at " +
            at(starts, a.begins) + (a.begins == answer_plan::start::part ? " " + std::to_string(a.at) : "") + " +" +
            std::to_string(a.delay) + " ms, " + at(framings, a.frame) + " " + std::to_string(a.size) +
            (a.breaks_at < 1000 ? ", breaks at " + std::to_string(a.breaks_at) : "") + ", " + at(ends, a.end) +
            (a.reads_no_more ? ", reads no more" : "") + at(surpluses, a.more) + at(spellings, a.spelt);
  }
  return text;
}

}  // namespace conversations
