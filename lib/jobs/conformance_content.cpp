// Tests that any job store must pass: for the content of jobs, for refused operations, and for wake-ups.
#include "canigo/error.hpp"

#include "conformance_cases.hpp"

#include <chrono>
#include <tuple>

namespace canigo::jobs::conformance {
namespace {

using namespace std::chrono_literals;

std::string many_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t x = 1;
  for (char& c : bytes) c = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  return bytes;
}

void bit_for_bit(world& w) {
  tool s{w};
  for (const std::string& bytes : {std::string{}, std::string("\0", 1), std::string("a\0\xff\n", 4), many_bytes(4095),
                                   many_bytes(4096), many_bytes(4097), many_bytes(std::size_t{16} << 20)}) {
    const auto id = s.put({.payload = bytes});
    const auto run = s.claim_one();
    same(run.payload, bytes);
    same(s.complete(run.lease, bytes), verdict::accepted);
    const auto info = s.look(id);
    same(info.payload, bytes);
    same(info.result, bytes);
    same(s.remove(id), remove_answer::removed);
  }
}

void keeps_what_it_was_told(world& w) {
  tool s{w};
  const auto id = s.put({.queue = "q\"'; --",
                         .kind = "\xc3\xa9",
                         .payload = "p",
                         .priority = 7,
                         .delay = 1500us,
                         .expires_in = 1h,
                         .max_attempts = 9,
                         .unique_key = "k"});
  const auto info = s.look(id);
  same(info.queue, "q\"'; --");
  same(info.kind, "\xc3\xa9");
  same(info.priority, 7);
  same(info.max_attempts, 9u);
  same(info.unique_key, "k");
  expect(info.run_at - info.created_at == 1500us, "the delay counts from the put on");
  expect(info.deadline && *info.deadline - info.created_at == 1h, "so does the deadline");
  s.advance(1h - 1us);
  const auto run = s.claim(1, "q\"'; --");
  same(run.size(), 1u);
  same(run[0].kind, "\xc3\xa9");
  same(run[0].max_attempts, 9u);
  same(run[0].expires_in, duration{1us});
  expect(run[0].run_at == info.run_at, "the claim tells when it was due");
}

void refuses(world& w) {
  tool s{w};
  const auto refused = [&](new_job j, std::error_code with, const place& at = place::current()) {
    if (j.kind.empty()) j.kind = "kind";
    same(s.error_of((*s).put(std::move(j))).value(), with.value(), at);
  };
  refused({.queue = ""}, errc::invalid_argument);
  refused({.kind = std::string(most_name + 1, 'k')}, errc::invalid_argument);
  refused({.priority = -1}, errc::invalid_priority);
  refused({.priority = most_priorities}, errc::invalid_priority);
  refused({.delay = -1ns}, errc::invalid_argument);
  refused({.expires_in = 0s}, errc::invalid_argument);
  refused({.max_attempts = 0}, errc::invalid_argument);
  refused({.payload = std::string(most_bytes + 1, 'x')}, errc::too_large);
  refused({.unique_key = "k", .scope = unique_scope::for_a_time}, errc::invalid_argument);
  std::vector<new_job> list(3, new_job{.kind = "kind"});
  list.back().priority = 99;
  expect(s.error_of((*s).put_all(list)) == make_error_code(errc::invalid_priority), "one bad job refuses the batch");
  same(s.claim(9).size(), 0u);
  same(s.wait((*s).put_all({})).size(), 0u);
}

void refuses_in_every_call(world& w) {
  tool s{w};
  s.put({});
  const lease run = s.claim_one().lease;
  const auto refused = [&]<class T>(net::awaitable<T> call, errc with, const place& at = place::current()) {
    same(s.error_of(std::move(call)).value(), static_cast<int>(with), at);
  };
  for (const std::string& queue : {std::string{}, std::string(most_name + 1, 'q')}) {
    refused((*s).claim({.queue = queue}), errc::invalid_argument);
    refused((*s).trim({.queue = queue}), errc::invalid_argument);
    refused((*s).pause(queue), errc::invalid_argument);
    refused((*s).resume(queue), errc::invalid_argument);
    refused((*s).next_due(queue), errc::invalid_argument);
  }
  const std::string longest(most_name, 'q');
  s.next_due(longest);
  s.wait((*s).pause(longest));
  refused((*s).trim({.limit = 0}), errc::invalid_argument);
  refused((*s).fail(run, "it broke", -1ns), errc::invalid_argument);
  refused((*s).extend(run, 0ns, std::nullopt), errc::invalid_argument);
  const std::string too_much(most_bytes + 1, 'x');
  refused((*s).extend(run, 1h, too_much), errc::too_large);
  refused((*s).complete(run, too_much), errc::too_large);
  same(s.complete(run), verdict::accepted);
}

void tells_of_changes(world& w) {
  tool s{w};
  auto seen = s.wait((*s).changed(0));
  const auto rises = [&](const place& at = place::current()) {
    const auto now = s.wait((*s).changed(0));
    if (now == seen) fail("a change was not told", at);
    seen = now;
  };
  const auto id = s.put({});
  rises();
  const auto run = s.claim_one().lease;
  s.cancel(id);
  rises();
  s.complete(run);
  rises();
  s.requeue(id);
  rises();
  s.wait((*s).pause("default"));
  rises();
  same(s.wait((*s).changed(seen - 1)), seen);
}

void lists(world& w) {
  tool s{w};
  const auto listed = [&](list_request r) {
    std::vector<job_id> ids;
    for (const job_info& i : s.wait((*s).list(std::move(r)))) ids.push_back(i.id);
    return ids;
  };
  using ids = std::vector<job_id>;
  const auto first = s.put({.payload = std::string(5000, 'p'), .unique_key = "k"});
  const auto other = s.put({.queue = "other", .delay = 1h});
  const auto last = s.put({.kind = "last"});
  const auto run = s.claim_one().lease;
  same(run.id, first);
  s.fail_run(run);
  s.complete(s.claim_one().lease, "result");
  expect(listed({}) == ids{first, other, last}, "jobs are listed by number");
  expect(listed({.queue = "other"}) == ids{other}, "a list is of one queue");
  expect(listed({.state = job_state::waiting}) == ids{other, last}, "a list is of one state");
  expect(listed({.queue = "default", .state = job_state::done}) == ids{first}, "or of both");
  expect(listed({.after = first, .limit = 1}) == ids{other}, "a list goes on behind the last one");
  expect(listed({.queue = "nobody knows it"}).empty(), "a queue that is unknown has no jobs");
  auto info = s.look(first);
  const auto shown = s.wait((*s).list({.limit = 1}));
  same(info.history.size(), 1u);
  info.payload = info.result = "";
  info.history.clear();
  expect(shown.front() == info, "a list has all but payload, result and history");
  same(s.error_of((*s).list({.limit = 0})).value(), static_cast<int>(errc::invalid_argument));
  same(s.error_of((*s).list({.limit = 1001})).value(), static_cast<int>(errc::invalid_argument));
}

void stops(world& w) {
  tool s{w};
  const auto id = s.put({});
  (*s).stop();
  (*s).stop();
  same(s.error_of((*s).look(id)).value(), static_cast<int>(errc::stopped));
  same(s.error_of((*s).put({.kind = "kind"})).value(), static_cast<int>(errc::stopped));
  same(s.error_of((*s).changed(0)).value(), static_cast<int>(errc::stopped));
}

}  // namespace

void add_content_cases(std::vector<test_case>& list) {
  list.insert(list.end(), {
                              {43, "payloads and results are kept bit for bit", bit_for_bit},
                              {43, "a job is kept as it was handed in", keeps_what_it_was_told},
                              {46, "arguments outside their range are refused, and nothing is written", refuses},
                              {46, "arguments of the other calls are refused as well", refuses_in_every_call},
                              {41, "changes are told", tells_of_changes},
                              {44, "jobs are listed by queue and state", lists},
                              {46, "a store that was stopped says so", stops},
                          });
}

}  // namespace canigo::jobs::conformance
