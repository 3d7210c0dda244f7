// Conformance cases about jobs with unique keys.
#include "conformance_cases.hpp"

#include <chrono>

namespace canigo::jobs::conformance {
namespace {

using namespace std::chrono_literals;
using requeued = requeue_answer::type;

new_job unique(std::string key, unique_scope scope = unique_scope::until_ended, duration span = {}) {
  return {.kind = "kind", .unique_key = std::move(key), .scope = scope, .unique_for = span};
}

void one_of_a_key(world& w) {
  tool s{w};
  tool other{w};
  const auto first = s.wait((*s).put(unique("order-7")));
  same(first.is_new, true);
  const auto before = s.look(first.id);
  auto another = unique("order-7");
  another.payload = "other";
  const auto second = other.wait((*other).put(another));
  same(second.is_new, false);
  same(second.id, first.id);
  expect(s.look(first.id) == before, "the job that is there was left as it is");
  same(s.wait((*s).put(unique("order-8"))).is_new, true);
}

void one_of_a_key_in_a_batch(world& w) {
  tool s{w};
  const auto taken = s.wait((*s).put(unique("taken"))).id;
  const auto answers = s.wait((*s).put_all({unique("taken"), unique("new"), unique(""), unique("new"), unique("")}));
  same(answers.size(), 5u);
  same(answers[0].id, taken);
  same(answers[0].is_new, false);
  same(answers[1].is_new, true);
  same(answers[2].is_new, true);
  same(answers[3].is_new, false);
  same(answers[3].id, answers[1].id);
  same(answers[4].is_new, true);
  same(s.claim(9).size(), 4u);
}

void scopes(world& w) {
  tool s{w};
  const auto is_new = [&](const new_job& j) { return s.wait((*s).put(j)).is_new; };
  const auto begun = unique("begun", unique_scope::until_begun);
  same(is_new(begun), true);
  same(is_new(begun), false);
  const auto run = s.claim_one().lease;
  same(is_new(begun), true);
  s.complete(run);
  s.complete(s.claim_one().lease);

  const auto ended = unique("ended");
  same(is_new(ended), true);
  const auto second = s.claim_one().lease;
  same(is_new(ended), false);
  s.fail_run(second);
  same(is_new(ended), false);
  s.complete(s.claim_one().lease);
  same(is_new(ended), true);
  s.cancel(s.claim_one().lease.id);
  s.advance(1h);
  s.reap();
  same(is_new(ended), true);
  s.complete(s.claim_one().lease);

  const auto hourly = unique("hourly", unique_scope::for_a_time, 1h);
  same(is_new(hourly), true);
  s.complete(s.claim_one().lease);
  s.advance(1h - 1us);
  same(is_new(hourly), false);
  s.advance(1us);
  same(is_new(hourly), true);
  s.advance(1h);
  same(is_new(hourly), true);
  same(s.claim(9).size(), 2u);
}

void keys_are_bytes(world& w) {
  tool s{w};
  for (const auto& key :
       {std::string("\0", 1), std::string("\0\0", 2), std::string("\xff\xfe\0x", 4), std::string("\xff")}) {
    const auto answer = s.wait((*s).put(unique(key)));
    same(answer.is_new, true);
    same(s.look(answer.id).unique_key, key);
    same(s.wait((*s).put(unique(key))).is_new, false);
  }
  expect(s.error_of((*s).put(unique(std::string(most_name + 1, 'k')))) == std::errc::invalid_argument,
         "a key that is too long is refused");
}

void no_change_conflicts(world& w) {
  tool s{w};
  const auto begun = unique("begun", unique_scope::until_begun);
  const auto first = s.put(begun);
  auto run = s.claim_one().lease;
  const auto successor = s.put(begun);
  same(s.fail_run(run, 1h), verdict::accepted);
  run = s.claim_one().lease;
  same(run.id, successor);
  const auto third = s.put(begun);
  same(s.give_back(run), verdict::accepted);
  std::ignore = s.claim(9);
  s.advance(2h);
  s.reap();
  s.advance(2h);
  const auto back = s.ids(9);
  same(back.size(), 3u);
  for (const auto id : back) s.cancel(id);
  s.advance(2h);
  s.reap();
  const auto fourth = s.put(begun);
  for (const auto id : {first, successor, third}) {
    const auto answer = s.requeue(id);
    same(answer.what, requeued::key_taken);
    same(answer.holder, fourth);
  }
  same(s.remove(fourth), remove_answer::removed);
  same(s.requeue(first).what, requeued::requeued);
  same(s.requeue(third).what, requeued::key_taken);
}

}  // namespace

void add_unique_cases(std::vector<test_case>& list) {
  list.insert(list.end(),
              {
                  {35, "there is one job of a key", one_of_a_key},
                  {37, "no change of a job fails by the key of another", no_change_conflicts},
                  {38, "a key is taken until its scope ends", scopes},
                  {38, "a key is any bytes", keys_are_bytes},
                  {39, "a duplicate in a batch is answered, and the others are added", one_of_a_key_in_a_batch},
              });
}

}  // namespace canigo::jobs::conformance
