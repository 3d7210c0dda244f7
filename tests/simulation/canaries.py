#!/usr/bin/env python3
"""Seeded defects: what the simulation must find. A checker that can't fail proves nothing.

canaries.py --list               prints the names, each with the source that it changes
canaries.py NAME SOURCE OUTPUT   copies SOURCE to OUTPUT with the defect NAME in it
canaries.py --hunt PROGRAM...    runs the simulation of each defect; fails if one finds nothing
"""

import pathlib
import subprocess
import sys
import time

ENGINE = "detail/admission.cpp"
QUEUE = "detail/wait_queue.cpp"
SUPPLIES = "detail/supplies.cpp"
BUCKET = "token_bucket.cpp"
POOL = "detail/pool_core.cpp"
TASK = "detail/pool_task.cpp"

# name: the source, what stands in it exactly once, and what stands there instead.
CANARIES = {
    "wake_up_lost": (ENGINE, "wake_at(queue_.empty() ? time_point::max() : next);", "wake_at(time_point::max());"),
    "wake_up_late": (ENGINE, "if (n->tokens > 1) next = std::min(next, queue_.next_promotion(now));", ""),
    "head_cancelled_unseen": (ENGINE,
                              "finish(w, outcome::aborted);\n  pump(time_->now());",
                              "finish(w, outcome::aborted);"),
    "cancelled_takes_tokens": (ENGINE, "finish(w, outcome::aborted);",
                               "finish(w, outcome::aborted);\n  supplies_.try_take(time_->now(), w.tokens);"),
    "head_expired_unseen": (ENGINE, "finish(w, to_outcome(errc::timed_out));\n        pump(now);",
                            "finish(w, to_outcome(errc::timed_out));"),
    "deadline_never_armed": (ENGINE, "!time_->arm(*w.limit_, r.deadline)", "true"),
    "deadline_refused_too_soon": (ENGINE, "earliest(r, now) > r.deadline", "earliest(r, now) >= r.deadline"),
    "newcomer_overtakes": (ENGINE, "r.deadline >= now && queue_.empty() &&", "r.deadline >= now &&"),
    "newcomer_first_unseen": (ENGINE, "if (evicted || queue_.front(now) == &w) pump(now);",
                              "if (evicted) pump(now);"),
    "queue_one_too_long": (ENGINE, "queue_.size() >= queue_limit_", "queue_.size() > queue_limit_"),
    "evicts_its_equals": (ENGINE, "victim->priority <= priority", "victim->priority < priority"),
    "pause_ignored": (ENGINE, "if (now < paused_until_) return true;", ""),
    "stop_forgotten": (ENGINE, "stopped_ = true;\n  while", "while"),
    "release_unseen": (ENGINE, "if (!queue_.empty()) pump(time_->now());\n  const bool last", "const bool last"),
    "too_large_waits": (ENGINE, "n->tokens > supplies_.largest_request()", "false"),
    "evicts_the_oldest_of_the_least": (QUEUE, "at(waiting_.last()).head->previous_", "at(waiting_.last()).head"),
    "last_in_first_out": (QUEUE, "head->sequence_ > best->sequence_", "head->sequence_ < best->sequence_"),
    "refund_twice": (SUPPLIES, "rate.refund(now, tokens);", "rate.refund(now, tokens * 2);"),
    "burst_grows_backwards": (BUCKET, "taken_ = std::min(taken_ + (burst - burst_), most_taken);", ""),
    "new_rate_a_nanosecond_early": (BUCKET, "fraction * period / (uint128{period_} * tokens))",
                                    "fraction * period / (uint128{period_} * tokens) + 1)"),
    "pool_wakes_nobody": (TASK, "queue_.push(t, now);\n  wake_one();", "queue_.push(t, now);"),
    "pool_keeps_its_workers_busy": (TASK, "--running_;\n  if (t.is_long())", "if (t.is_long())"),
    "pool_admits_nobody_held_back": (TASK, "!held_.empty() && mode_ == stop_mode{}", "false"),
    "pool_stops_without_the_delayed": (POOL, "} else {\n    for (wait_queue* q : {&queue_, &delayed_, &held_})",
                                       "} else {\n    for (wait_queue* q : {&queue_, &held_})"),
    "pool_stops_without_those_held_back": (POOL, "end_all(held_);", ""),
}


def spoil(name, source, output):
    path, there, instead = CANARIES[name]
    text = pathlib.Path(source).read_text(encoding="utf-8")
    if not source.endswith(path) or text.count(there) != 1:
        sys.exit(f"canaries.py: {name}: lib/{path} does not hold exactly once: {there}")
    pathlib.Path(output).write_text(text.replace(there, instead), encoding="utf-8")


def hunt(programs):
    missed = []
    for program in programs:
        start = time.monotonic()
        try:
            run = subprocess.run([program, "--seeds", "20000"], capture_output=True, text=True, timeout=60)
            found, said = run.returncode == 1 and "seed=" in run.stdout, run.stdout + run.stderr
        except subprocess.TimeoutExpired:
            found, said = False, "does not end"
        first = said.splitlines()[0] if said else "says nothing"
        name = pathlib.Path(program).name.removeprefix("canary_")
        print(f"{'found ' if found else 'MISSED'} {time.monotonic() - start:6.2f} s  {name}: {first}")
        if not found:
            missed.append(name)
    print(f"{len(programs) - len(missed)} of {len(programs)} found")
    return 1 if missed or not programs else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for canary, (where, _, _) in CANARIES.items():
            print(f"{canary}={where}")
    elif sys.argv[1:2] == ["--hunt"]:
        sys.exit(hunt(sys.argv[2:]))
    elif len(sys.argv) == 4:
        spoil(*sys.argv[1:])
    else:
        sys.exit(__doc__)
