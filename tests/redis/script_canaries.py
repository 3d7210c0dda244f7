#!/usr/bin/env python3
"""Seeded defects of the script behind all limits, which the tests by tables must find: script_canaries.py REDIS_TESTS.

The script is text that Redis runs, so nothing is compiled for this: each defect is a copy of that text, with what
stands in the source exactly once replaced, and the tests named "script: …" send that copy. Ends with the totals that
Catch2 prints.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "lib/redis/script.cpp"
BUDGET = 120  # seconds, for each; what takes longer does not end

DEFECTS = {
    "lease_moved_twice": ("if text and select(4, unpacked('<dddd', text)) == ends then", "if text then"),
    "lease_not_moved": ("if is_new or (not is_measured and now - last > ttl / 2) then", "if is_new then"),
    "step_forward_trusted": ("if is_measured and now > latest + floor(ttl / 16) then now = latest end", ""),
    "step_back_trusted": ("if now < last then now = last end", ""),
    "measured_in_another_epoch": ("latest > 0 and latest_epoch == epoch", "latest > 0"),
    "lost_key_not_missed": ("if is_first or counted ~= counts() then", "if is_first then"),
    "sessions_miscounted": ("members = members - call('ZREM', KEYS[2], id)", "call('ZREM', KEYS[2], id)"),
    "queue_miscounted": ("length = length - call('ZREM', KEYS[3], place_of(id, wants))",
                         "call('ZREM', KEYS[3], place_of(id, wants))"),
    "token_behind_the_time": ("fence = math.max(fence + 1, raw)", "fence = fence + 1"),
    "token_behind_a_caller": ("if seen > fence then fence = seen end", ""),
    "quarantine_ends_with_a_step": ("if not is_measured and hold > last and", "if false and"),
    "quarantine_without_end": ("hold > last and hold <= epoch + ttl and", "hold > last and"),
    "key_without_an_end": ("  call('PEXPIRE', KEYS[1], lasts)  -- if all keys were lost, this key is a new one\n", ""),
    "no_quarantine": ("then hold = now + ttl end", "then hold = 0 end"),
    "no_quarantine_after_a_crash": ("parts[3] == 0 and parts", "parts"),
    "no_quarantine_after_a_loss": ("and parts[#parts - 3] == counts() and", "and"),
    "no_quarantine_after_a_restart": (" and parts[#parts - 2] == A[1]", ""),
    "no_quarantine_without_a_run_id": ("and string.byte(A[1]) ~= 63 and parts", "and parts"),
    "no_quarantine_during_another": ("parts[7] <= raw + parts[8]", "true"),
    "dead_not_counted_out": ("  remember()\n  call('PEXPIRE', KEYS[1], lasts)", "  call('PEXPIRE', KEYS[1], lasts)"),
    "unknown_run_id_counts": ("if string.byte(run_now) == 63 and run ~= '' then run_now = run end", ""),
    "settings_lost_with_a_key": ("local mine_count = is_first or", "local mine_count = not known[1] or"),
    "late_call_counts": ("if known[2] and seq <= select(2, unpacked('<dd', known[2])) then return {'STALE'} end", ""),
    "granted_twice": ("    if token_of[id] then\n      -- granted", "    if false then\n      -- granted"),
    "overtaken": ("elseif length == 0 and not is_too_much", "elseif not is_too_much"),
    "over_the_cap": ("  if cap > 0 and total + places(wants) > cap then\n", "  if cap > 0 and total > cap then\n"),
    "all_but_one_rate": ("    b.next_u, b.next_r = plus(b, tokens)\n", "    b.next_u, b.next_r = plus(b, tokens)\n"
                         "      if #rates > 1 and b == rates[#rates] then b.next_u, b.next_r = b.u, b.r end\n"),
    "tokens_taken_though_one_rate_refuses": (
        "  if ready then return ready end\n  for _, b in ipairs(rates) do b.u, b.r = b.next_u, b.next_r end",
        "  for _, b in ipairs(rates) do b.u, b.r = b.next_u, b.next_r end\n  if ready then return ready end"),
    "a_refused_one_takes_a_place": ("    if ready then blocked = 'rate' end",
                                    "    if ready then blocked, total = 'rate', total + 1 end"),
    "weight_counts_as_places": ("return has_rate and 1 or wants[1] end", "return wants[1] end"),
    "unit_not_charged": ("for i = 1, more_units do charge(i + 1, charges[i].now - settled[i + 1]) end", ""),
    "unit_charged_again": ("  for i = 1, more_charges do settled[i + 1], from = unpacked('<d', known[3], from) end",
                           "  for i = 1, more_charges do _, from = unpacked('<d', known[3], from) end"),
    "session_charges_again": ("local process = '~' .. (match(me, '^(.*):%d+$') or me)", "local process = '~' .. me"),
    "earlier_session_charges": ("says_less = by > number", "says_less = false"),
    "rounds_without_bound": (" and rounds < 1000 do", " do"),
    "key_ends_before_a_debt": ("lasts = lasts + math.ceil(fills / 1000)", ""),
    "gives_back_one_unit_only": ("in ipairs(rates) do b.u, b.r = plus(b, -(wants[b.unit] or 0))",
                                 "in ipairs(rates) do b.u, b.r = plus(b, b.unit == 1 and -wants[1] or 0)"),
    "waits_for_a_unit_it_does_not_want": ("    if tokens > 0 then\n      fill(b, as_of)",
                                          "    if tokens >= 0 then\n      fill(b, as_of)"),
    "another_shape_is_taken_over": (" or unpacked('<d', known[1], tail) ~= shape then", " then"),
    "further_buckets_not_emptied": ("  for _, b in ipairs(further) do b.u = -1 end\n", ""),
    "dead_waited_for": ("number % 1 > 0 and listeners(session) == 0}", "false}"),
    "never_seen_stepped_over": ("is_deaf = number % 1 > 0 and listeners", "is_deaf = listeners"),
    "seen_without_a_look": ("(was_seen or (listeners(me) or 0) > 0)", "true"),
    "called_at_once_for_the_dead": ("if passed > 0 and passed == length then blocked = 'deaf' end\n", ""),
    "seen_at_another_node": ("if is_new and number and number % 1 > 0 then", "if false then"),
    "seen_itself_at_another_node": ("was_seen = was_seen % 1 > 0 and not is_new", "was_seen = was_seen % 1 > 0"),
    "living_wait_behind_many_dead": (
        "if blocked == 'deaf' and rounds == 1000 and passed < 1000 and passed < length then blocked = nil end\n", ""),
    "called_at_once_behind_too_many_dead": ("rounds == 1000 and passed < 1000 and passed < length",
                                            "rounds == 1000 and passed < length"),
    "late_by_the_time_for_a_place": ("  -- A waiter that lacks a place, or can't be told of a grant, "
                                     "is not late for a token.\n"
                                     "  next_call = reap - now + 1000\n  due = -1", "  next_call = reap - now + 1000"),
    "alternative_over_its_cap": ("a.total >= a.cap", "a.total > a.cap"),
    "alternative_not_counted": ("    if any then chosen.total = chosen.total + 1 end\n", ""),
    "alternative_held_by_the_dead": ("any[which].total = any[which].total + n", "any[which].total = 0"),
    "alternative_of_a_session_counts_again": ("any[i].was = held", "any[i].was = 0"),
    "a_waiter_keeps_no_alternative": ("        any.kept[a] = true\n", ""),
    "a_waiter_keeps_all_alternatives": ("      lane.is_kept = true\n      for _, a in ipairs(members_of(wants)) do",
                                        "      lane.is_kept = true\n      for _, a in ipairs(any) do"),
    "a_try_takes_kept_alternatives": ("  for _, try in ipairs(tries) do\n",
                                      "  any.kept = {}\n  for _, try in ipairs(tries) do\n"),
    "preferred_last": ("a.prefer < best.prefer", "a.prefer > best.prefer"),
    "least_room_first": ("if other > room then", "if other < room then"),
    "paused_alternative_serves": ("t, a.waited = math.max(t, a.pause), -1 end", "t, a.waited = t, -1 end"),
    "longer_pause_replaces": ("a.pause = math.max(a.pause, end_of(a.my_pause))", "a.pause = end_of(a.my_pause)"),
    "alternative_is_not_charged": ("charge(unit, charges[n].now - settled[n + 1], a.rates)", "n = 0"),
    "alternative_keeps_what_is_cancelled": ("any and any[weight_of[id]].rates or {}", "{}"),
    "alternative_pays_nothing": ("        fill(b, since)\n        b.u, b.r = plus(b, tokens)\n", ""),
    "more_lanes_than_scores": ("if free > 256 then return end", ""),
    "lane_of_another_set": ("lane.low == wants.low and lane.high == wants.high", "lane.low == wants.low or i == 1"),
    "classes_of_a_lane_are_one": (" + class * class_size\n", "\n"),
}


def run(tests, script):
    """(whether it found something, what it said)."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        try:
            ran = subprocess.run([tests, "script:*", "--abort"], capture_output=True, text=True, timeout=BUDGET,
                                 check=False, env={**os.environ, "CANIGO_TEST_SCRIPT": file.name})
        except subprocess.TimeoutExpired:
            return False, "does not end"
    said = next((line.strip() for line in ran.stdout.splitlines() if "CHECK(" in line or "ERR" in line), "")
    return ran.returncode != 0, said


def main(tests):
    source = SOURCE.read_text(encoding="utf-8")
    script = re.search(r'R"lua\((.*)\)lua"', source, re.S).group(1)
    found, said = run(tests, script)
    failed = int(found)
    print("finds something where there is no defect: " + said if found else "nothing found where there is no defect")
    for name, (there, instead) in DEFECTS.items():
        if script.count(there) != 1:
            sys.exit(f"script_canaries: {name}: the script does not hold exactly once: {there}")
        found, said = run(tests, script.replace(there, instead))
        failed += not found
        print(f"{'found ' if found else 'MISSED'} {name}: {said[:100]}", flush=True)
    total = len(DEFECTS) + 1
    if failed:
        print(f"test cases: {total} | {total - failed} passed | {failed} failed")
    else:
        print(f"All tests passed ({total} assertions in {total} test cases)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
