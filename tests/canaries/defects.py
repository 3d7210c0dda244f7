"""The seeded defects: what stands in the library and what stands there instead.

Each has a source, by its path from lib/, the harness that must find it, and what that harness is run with. The text
must stand in the source exactly once; what is between « and » is replaced, the rest says where. It is a statement, or
an expression; with nothing between them a statement is put in.
"""

ENGINE = "detail/admission/admission.cpp"
ENGINE_LIFE = "detail/admission/admission_life.cpp"
ENGINE_UNITS = "detail/admission/admission_units.cpp"
QUEUE = "detail/queue/wait_queue.cpp"
FAIR = "detail/queue/fair_queue.cpp"
FAIR_FLOWS = "detail/queue/fair_queue_flows.cpp"
FAIR_LOOK = "detail/queue/fair_queue_look.cpp"
FAIR_LANES = "detail/queue/fair_queue_lanes.cpp"
FAIR_SHED = "detail/queue/fair_queue_shed.cpp"
ANY_OF = "detail/queue/alternatives.cpp"
ENGINE_ANY_OF = "detail/admission/admission_alternatives.cpp"
FLOWS = "detail/admission/admission_flows.cpp"
FLOW_HOST = "detail/admission/flow_host.cpp"
DELAYS = "detail/queue/delay_watch.cpp"
ENGINE_OVERLOAD = "detail/admission/admission_overload.cpp"
ENGINE_FULL = "detail/admission/admission_full.cpp"
ENGINE_SHADOW = "detail/admission/admission_shadow.cpp"
SHARED = "detail/queue/shared_places.cpp"
SUPPLIES = "detail/queue/supplies.cpp"
UNITS = "detail/queue/units.cpp"
RATES = "detail/queue/rate_set.cpp"
WINDOW_LOG = "detail/queue/window_log.cpp"
BUCKET = "algorithms/token_bucket.cpp"
ATTEMPT_END = "detail/pool/attempt_end.cpp"
BACKLOG = "detail/pool/pool_backlog.cpp"
POOL = "detail/pool/pool_core.cpp"
POOL_FLOWS = "detail/pool/pool_flows.cpp"
STOP = "detail/pool/pool_core_stop.cpp"
TASKS = "detail/pool/pool_core_tasks.cpp"
WAITER = "detail/pool/pool_waiter.cpp"
SELF_WAIT = "detail/pool/self_wait.cpp"
WORK = "detail/pool/pool_core_work.cpp"
WORKER = "detail/pool/pool_worker.cpp"
WORKERS = "detail/pool/pool_core_workers.cpp"
WHEEL = "detail/time/timing_wheel.cpp"
ABANDON = "detail/coro/abandonable.cpp"
CHILD = "detail/coro/child.cpp"
LIMITER = "limiter.cpp"
CHANNEL = "detail/channel/channel_core.cpp"
CHANNELS = "detail/channel/channel_group.cpp"
CHANNEL_CALL = "detail/channel/channel_call.cpp"
CHANNEL_ROOM = "detail/queue/channel_room.cpp"
CANCEL = "cancel.cpp"
VISIT = "detail/context/context_visit.cpp"
COUNTED = "detail/context/counted_member.cpp"
DELIVERY = "detail/context/delivery.cpp"
INBOX = "detail/context/loop_inbox.cpp"
PERMIT = "permit.cpp"
PUMP = "detail/stealing/pump.cpp"
PUMPS = "detail/stealing/pump_crew.cpp"
RING = "detail/stealing/steal_ring.cpp"
WITH_LIMIT = "../include/canigo/with_limit.hpp"
RETRY = "detail/coro/retry_plan.cpp"
POLICY = "detail/policy/policy_core.cpp"
HEDGE = "detail/coro/hedge_race.cpp"
LATENCIES = "algorithms/latency_window.cpp"
LAG = "loop_lag.cpp"
KEYED_BASE = "detail/keyed/keyed_base.cpp"
KEYED = "../include/canigo/detail/keyed/keyed_core.hpp"
CLOCK = "../include/canigo/detail/time/counter_clock.hpp"
KEY_TABLE = "../include/canigo/detail/keys/key_table.hpp"
HTTP_HANDLE = "http/easy_handle.cpp"
HTTP_HEAD = "http/response_head.cpp"
HTTP_MULTI = "http/multi.cpp"
HTTP_SOCKETS = "http/socket_table.cpp"
CIRCUIT = "algorithms/circuit.cpp"
BREAKER = "detail/around/breaker_core.cpp"
KNEE = "algorithms/knee.cpp"
WINDOWED = "detail/base/windowed_limit.cpp"
TUNER = "detail/around/tuner.cpp"
JOB_SERVICE = "jobs/service_core.cpp"
JOB_LEASES = "jobs/service_leases.cpp"
JOB_REPORT = "jobs/run_report.cpp"
JOB_RUNS = "jobs/service_runs.cpp"
JOB_TABLE = "jobs/sqlite_table.cpp"
JOB_TABLE_LOOK = "jobs/sqlite_table_look.cpp"
JOB_TABLE_RUNS = "jobs/sqlite_table_runs.cpp"
JOB_LINE = "jobs/sqlite_line.cpp"
JOB_SCHEDULE = "jobs/schedule.cpp"
JOB_FIELD = "jobs/cron_field.cpp"
JOB_REPEATS = "jobs/service_repeats.cpp"
JOB_MEMORY = "jobs/memory_table.cpp"
SYNC_PLAN = "redis/sync_plan.cpp"
LEDGER = "redis/ledger.cpp"
TERMS = "redis/terms.cpp"
ANY_TERMS = "redis/terms_alternatives.cpp"
BOOK = "redis/book.cpp"
REDIS_ENGINE = "redis/engine_link.cpp"

SIMULATION = ("simulation", "--seeds", "20000")
POLICY_SIMULATION = ("policy_simulation", "--seeds", "5000")
CHOICES = ("policy_simulation", "--only", "choices", "--seeds", "5000")
TORTURE = ("torture",)
KEYS = ("keyed", "~[realtime]")
OUTAGES = ("redis", "who asks after an outage*,who waits and who asks*,only who has waited*,what is open*,"
           "a quota that is open*")
PROBES = ("redis", "while requests come and Redis fails*")


def cause(test):
    return ("redis", test)


def tests(test):
    return ("tests", test)


def tests_of(*files):
    """All tests of these files that have virtual time."""
    return ("tests", "--filenames-as-tags", ",".join(f"[#{file}]~[realtime]" for file in files))


def interleaving(test):
    return ("interleaving", test)


def jobs(test):
    return ("jobs", test)


def http(test):
    return ("http", test)


AROUND = tests_of("adaptive_limit_test", "circuit_breaker_test", "circuit_test", "knee_test")
POLICIES = tests_of("policy_inside_test", "policy_test", "retry_test")
HEDGES = tests_of("hedge_test", "policy_test")
WINDOWS = tests_of("latency_window_test")
INBOXES = tests_of("loop_inbox_test")
LAGS = tests_of("loop_lag_test")


MODEL_OF_CHANNELS = tests("channels do what a simple model*")

DEFECTS = {
    # Channels.
    "channel_keeps_room_of_what_was_taken": (CHANNEL, MODEL_OF_CHANNELS,
                                             "«room_.leave(n.tokens);»\n  give_back", ""),
    "channel_room_that_nobody_gets": (CHANNEL, MODEL_OF_CHANNELS,
                                      "«if (group_.has_waiting(*this)) group_.serve(*this);»", ""),
    "channel_value_promised_twice": (CHANNEL, MODEL_OF_CHANNELS, "receivers_.remove(n);\n    «++promised_;»", ""),
    "channel_takes_what_is_promised": (CHANNEL, MODEL_OF_CHANNELS,
                                       "if («values_.size() > promised_») return &take_first();", "!values_.empty()"),
    "channel_overtakes_in_itself": (CHANNEL, MODEL_OF_CHANNELS, "overtakes = «!senders_.empty()»", "false"),
    "channel_overtakes_others": (CHANNEL, MODEL_OF_CHANNELS,
                                 "|| «(!group_.seats_->empty() && !room_.is_reserved_for(bytes))»", "false"),
    "channel_first_sender_not_looked_at": (CHANNEL, MODEL_OF_CHANNELS,
                                           "«if (first_sender() == &w) group_.serve(*this);»", ""),
    "channel_closed_before_its_receivers": (CHANNEL, MODEL_OF_CHANNELS,
                                            "end_senders(ended_);\n  «end_receivers(ended_);»\n  group_", ""),
    "channel_queue_without_a_bound": (CHANNEL, tests("only so many may wait"),
                                      "«senders_.size() >= queue_limit_»", "false"),
    "channel_drops_what_is_promised": (CHANNEL, tests("a value that was promised reaches*"),
                                       "while (values_.size() > «promised_») {\n    wait_node", "0u"),
    "channel_fills_a_node_that_is_not_empty": (CHANNEL, tests("a value whose move uses the channel*"),
                                               "while (*place != nullptr && «!(*place)->is_empty()»)", "false"),
    "channel_promise_lost_with_its_receiver": (CHANNEL_CALL, tests("a receiver that is destroyed when*"),
                                               "«if (has_promise) "
                                               "static_cast<channel_core*>(channel_)->drop_promise();»",
                                               "if (has_promise) channel_->let_go();"),
    "channel_promise_not_passed_on": (CHANNEL, tests("a receiver that is destroyed when*"),
                                      "if (has_handle_) {\n      «serve_receivers();»", ""),
    "channel_gone_in_its_turn": (CHANNEL, tests("a channel is destroyed while a coroutine lets*"),
                                 "const std::lock_guard lock{group_.mutex_};\n  «++in_hand_;»", ""),
    "channel_cancelled_head_unseen": (CHANNELS, MODEL_OF_CHANNELS, "«if (is_sender) serve(channel);»", ""),
    "channel_served_without_charge": (CHANNELS, MODEL_OF_CHANNELS, "«c.tag_ += room_.charge_for(w.tokens);»", ""),
    "channel_saves_its_share_up": (CHANNELS, MODEL_OF_CHANNELS, "«c.tag_ = std::max(c.tag_, virtual_time_);»", ""),
    "channel_seat_keeps_its_class": (CHANNELS, MODEL_OF_CHANNELS,
                                     "is_due && «c.seat_.priority == first->priority»", "true"),
    "channel_seat_without_own_room": (CHANNELS, MODEL_OF_CHANNELS, "«c.room_.allows(first->tokens)»", "true"),
    "channel_reserved_room_has_to_wait": (CHANNELS, MODEL_OF_CHANNELS, "seat_anew(c);\n  «let_in_reserved(c);»", ""),
    "channel_late_reservation_forgotten": (CHANNELS, tests("late reserved room goes to*"),
                                           "«for (channel_core* other : channels_) let_in_reserved(*other);»", ""),
    "channel_waits_for_what_never_comes": (CHANNELS, tests("a channel that joins late ends senders*"),
                                           "«c->senders_.for_each_heavier_than(c->room_.largest(), end);»", ""),
    "channel_leaves_its_reservation": (CHANNEL_ROOM, tests("a channel that joins late gets*,only so much can be*"),
                                       "«t.reserved -= p.reserved;»", ""),
    "channel_pays_for_bytes_alone": (CHANNEL_ROOM, tests("a value is charged by the measure*"),
                                     "std::max({std::uint64_t{1}, by_bytes, «whole / items_.limit»})",
                                     "std::uint64_t{1}"),
    # Scheduler, semaphore, limiter: the engine.
    "wake_up_lost": (ENGINE, SIMULATION, "wake_at(«queue.empty() ? time_point::max() : next»);", "time_point::max()"),
    "wake_up_late": (ENGINE, SIMULATION,
                     "may be lighter.\n          «if (n->tokens > 1) "
                     "next = std::min(next, queue.next_promotion(now));»", ""),
    "head_cancelled_unseen": (ENGINE, SIMULATION, "finish(w, outcome::aborted);\n  «pump(time_->now());»", ""),
    "cancelled_takes_tokens": (ENGINE, SIMULATION, "finish(w, outcome::aborted);«»",
                               "supplies_.try_take(time_->now(), w.tokens);"),
    "head_expired_unseen": (ENGINE, SIMULATION,
                            "finish(w, to_outcome(errc::timed_out));\n        «pump(now);»", ""),
    "deadline_never_armed": (ENGINE, SIMULATION, "«!time_->arm(*w.limit_, r.deadline)»", "true"),
    "deadline_refused_too_soon": (ENGINE, SIMULATION, "«earliest(r, now) > r.deadline»",
                                  "earliest(r, now) >= r.deadline"),
    "newcomer_overtakes": (ENGINE, SIMULATION, "if («queue_.empty()» && (paused_until_", "true"),
    "newcomer_first_unseen": (ENGINE, SIMULATION, "if («evicted || (!ways_.through && delays_) || queue_.front(now) == "
                              "&w») pump(now);", "evicted"),
    "queue_one_too_long": (ENGINE, SIMULATION, "«queue_.size() >= queue_limit_»", "queue_.size() > queue_limit_"),
    "evicts_its_equals": (QUEUE, SIMULATION, "«least->priority <= priority»", "least->priority < priority"),
    "pause_ignored": (ENGINE, SIMULATION, "«if (now < paused_until_) return true;»", ""),
    "stop_forgotten": (ENGINE_LIFE, SIMULATION, "«stopped_ = true;»\n  choose_ways();", ""),
    "release_unseen": (ENGINE, SIMULATION, "«pump(time_->now());»\n  unlock();\n}\n\n/// Releases slots", ""),
    "too_large_waits": (ENGINE, SIMULATION, "«finish(static_cast<waiter&>(n), to_outcome(errc::too_large));»", ""),
    "cancelled_after_its_end": (ENGINE, interleaving("who is cancelled while the permit is given back*"),
                                "«if (w.state_ != waiter::state::queued) return;»", ""),
    "call_of_a_limit_without_reference": (ENGINE, interleaving("a deadline that passes while the permit*"),
                                          "still uses the engine\n    «add_ref();»", ""),
    "end_waits_for_its_limit": (ENGINE, interleaving("a deadline that passes while the permit*"),
                                "«if (w.state_ == waiter::state::awaiting_limit) {\n      release = true;\n"
                                "      ready(w);\n    }»", ""),
    "failed_post_drops_the_handler": (DELIVERY, TORTURE, "«if (keep(*s, home)) continue;»", ""),
    "failed_drain_forgotten": (DELIVERY, TORTURE, "«if (!ready_.empty()) retry_soon();»", ""),
    "failed_post_is_never_tried_again": (DELIVERY, TORTURE, "home.push(s);\n  «retry_soon();»", ""),
    "retry_too_late": (DELIVERY, SIMULATION, "retry_.arm(«time_->now() + retry_after»);",
                       "time_->now() + retry_after * 10"),
    "retry_hands_over_nothing": (DELIVERY, TORTURE, "«d.is_due_ = true;»\n               d.retry();", ""),
    "waiters_outlive_the_context": (ENGINE_LIFE, TORTURE, "«while (suspended* s = waiters.pop()) s->destroy();»", ""),
    # Its queue and its supplies.
    "evicts_the_oldest_of_the_least": (QUEUE, SIMULATION, "«at(waiting_.last()).tail»",
                                       "at(waiting_.last()).head"),
    "last_in_first_out": (QUEUE, SIMULATION, "«best->arrived_before(*head)»", "head->arrived_before(*best)"),
    "refund_twice": (RATES, SIMULATION, "«refund(i, now, wanted_of(i, d), granted_at);»",
                     "refund(i, now, wanted_of(i, d) * 2, granted_at);"),
    "ready_a_nanosecond_late": (RATES, SIMULATION, "«std::max(ready, rate_ready_at(i, now, d))»",
                                "std::max(ready, rate_ready_at(i, now, d) > now ? rate_ready_at(i, now, d) + "
                                "duration{1} : now)"),
    "first_rate_pays": (RATES, SIMULATION, "«(void)rates_[i].try_take(as_of, amount);»",
                        "(void)rates_.front().try_take(as_of, amount);"),
    "debts_of_the_first_rate": (RATES, SIMULATION, "«charge(i, now, used - wanted);»",
                                "charge(0, now, used - wanted);"),
    "largest_by_the_first_rate": (RATES, SIMULATION,
                                  "«largest = std::min(largest, rates_[i].burst());»",
                                  "largest = std::min(largest, rates_.front().burst());"),
    "burst_grows_backwards": (BUCKET, SIMULATION, "«taken_ = std::min(taken_ + (burst - burst_), most_taken);»", ""),
    "new_rate_a_nanosecond_early": (BUCKET, SIMULATION, "«fraction * period / (uint128{period_} * tokens)»",
                                    "fraction * period / (uint128{period_} * tokens) + 1"),
    "charge_keeps_what_brims": (BUCKET, SIMULATION,
                                "«if (overflows(gained(now))) fill(now);»\n  if (taken_ > reanchor_above)", ""),
    "limiter_changes_its_first_rate": (LIMITER, SIMULATION,
                                       "rates.set_rate(«checked_index(rates, index, field)», now, r);", "0"),
    "limiter_changes_its_first_burst": (LIMITER, SIMULATION,
                                        "bucket = rates[«checked_index(rates, index, field)»];", "0"),
    "limiter_keeps_its_cap": (LIMITER, SIMULATION, "«s.set_capacity(concurrency);»", ""),
    "split_copies": (PERMIT, SIMULATION, "«places_ -= places;»", ""),
    "settles_from_the_start": (PERMIT, SIMULATION, "«std::exchange(kept_, used)»", "kept_"),
    # Flows.
    "flow_never_pays": (FAIR, SIMULATION, "«move_tag(r, c, charge);»", ""),
    "flow_saves_its_share_up": (FAIR, SIMULATION, "«c.tag = time;»", ""),
    "one_virtual_time_for_all_classes": (FAIR, SIMULATION,
                                         "uint128& fair_queue::virtual_time(int of_class) noexcept {\n"
                                         "  class_state& s = classes_[«static_cast<std::size_t>(of_class)»];", "0"),
    "flow_pays_for_grants_at_once": (FAIR, SIMULATION, "«++busy_period_;»", ""),
    "ceiling_binds_a_token_early": (FAIR, SIMULATION, "ceiling.ready_at(now_, «wanted_by(n)», places_for(n.tokens));",
                                    "demand{n.tokens - 1}"),
    "ceiling_takes_no_place": (FAIR, SIMULATION, "x.ceiling.take(as_of, wanted_by(node), "
                               "«places_for(node.tokens)», now_);", "0"),
    "held_flow_holds_up_others": (FAIR, SIMULATION, "return «!may_any_go()» && r.size == 0", "size_ == 0"),
    "flow_pause_unnoticed": (FAIR_FLOWS, SIMULATION, "look_whether_limited(flow);\n  «look_at_ceiling(flow);»\n}\n\n"
                             "void fair_queue::end_pause_if_over", ""),
    "flow_pause_counts_for_ever": (FAIR_FLOWS, SIMULATION,
                                   "ceiling.pause_until(time_point::min());\n  «look_whether_limited(flow);»", ""),
    "flow_of_a_pool_resumes_unnoticed": (POOL_FLOWS, tests("the tasks of a paused flow wait*"),
                                         "queue.ceiling(flow).paused_until()));\n  «look_again();»", ""),
    "flow_held_for_ever": (FAIR_FLOWS, SIMULATION, "ceiling.release(places);\n  «look_at_ceiling(flow);»", ""),
    "risen_waiter_stays_behind_its_flow": (FAIR, SIMULATION,
                                           "if («head_class > best_class || (head_class == best_class && "
                                           "best->arrived_before(*head))») continue;", "true"),
    "flow_catches_up_too_much": (ENGINE, SIMULATION, "queue.grant(*n, «caught_up»);", "saturating_add(now, -catch_up)"),
    "wake_up_of_held_flows_lost": (ENGINE, SIMULATION, "«if (n == nullptr) next = queue.next_change();»", ""),
    "flood_keeps_a_full_queue": (FAIR_LOOK, SIMULATION, "return «found != nullptr» && waits_more(", "false"),
    "flows_displace_in_turn": (FAIR_LOOK, SIMULATION, "waits_more(found->flow_, flow, «1»)", "0u"),
    "flow_evicts_anothers": (FLOWS, SIMULATION, "victim = «flows_->oldest_of(flow)»;", "flows_->oldest()"),
    "flow_keeps_its_rate": (FLOWS, SIMULATION,
                                       "advance_flows();\n  «flows_->set_rate(flow, index, r);»", ""),
    "flow_pays_in_the_first_unit": (ENGINE_FULL, tests("a flow of long requests gets no more*"),
                                    "«supplies_.charge_for(wanted)»", "n->tokens"),
    "ceiling_of_the_first_unit": (FLOW_HOST, SIMULATION,
                                  "if («of != nullptr && of->has_units()») terms.units", "false"),
    "settles_a_unit_of_the_limit_alone": (ENGINE_UNITS, tests("a flow in debt for one unit*"),
                                          "«flows_->settle(flow, unit, was, used, record.granted_at);»", ""),
    "flow_counts_units_that_have_left": (FAIR, tests("those that wait when the first flow comes*"),
                                         "«if (amounts_ != nullptr) count_others(node, row_number, false);»", ""),
    # Alternatives of a limiter.
    "small_ones_take_the_room_of_a_large_one": (ENGINE_ANY_OF, CHOICES,
                                                "any.choose(«record.set & open.alternatives()», as_of, now, wanted)",
                                                "record.set"),
    "one_alternative_holds_up_another": (ENGINE_ANY_OF, CHOICES, "«continue;»\n      }\n      const time_point ready",
                                         "break;"),
    "common_tokens_go_past_the_first": (ENGINE_ANY_OF, CHOICES, "«open.keep_all();»\n        break;",
                                        "open.keep_alternatives(key_of_node(*n));"),
    "newcomer_takes_what_others_wait_for": (ENGINE_ANY_OF, CHOICES,
                                            "->choose(«key.set & left_open_.alternatives()», now, now, wanted)",
                                            "key.set"),
    "alternative_with_least_room_serves": (ANY_OF, CHOICES, "is_equal && «!has_more_room(m, now, d, of_best)») return;",
                                           "has_more_room(m, now, d, of_best)"),
    "alternative_of_highest_number_serves": (ANY_OF, CHOICES, "«m.prefer > members_[best.index].prefer») return;",
                                             "m.prefer < members_[best.index].prefer"),
    "permit_that_moves_keeps_its_place": (ENGINE_ANY_OF, tests("a permit that moves takes its place*"),
                                          "«any.undo(record.alternative, now, amounts, record.granted_at);»", ""),
    "place_of_an_alternative_is_lost": (ENGINE, CHOICES,
                                        "«supplies_.any_of()->release(to_record(kept)->alternative);»", ""),
    "alternative_is_not_settled": (ENGINE_UNITS, CHOICES,
                                   "if («s.any_of() != nullptr») (*s.any_of())[record.alternative]", "false"),
    "waiter_keeps_a_set_that_is_too_small": (ENGINE_ANY_OF, CHOICES, "«record.set = set;»\n    flows_->move_to", ""),
    "closed_alternative_serves": (ANY_OF, CHOICES, "if («!members_[i].is_closed») not_closed", "true"),
    "estimate_is_that_of_one_alternative": (ANY_OF, CHOICES,
                                            "first = «std::min(first, std::max(m.rates.ready_at(now, own), paused))»;",
                                            "std::max(m.rates.ready_at(now, own), paused)"),
    "lane_keeps_its_credit": (FAIR_LANES, tests("a flow that waited for its alternative*"),
                              "if («c.tag + moved >= time») return;", "true"),
    "row_pays_alone": (FAIR_LANES, tests("flows share the alternatives by weight*"),
                       "«move_tag(rows_[other], c, charge);»", ""),
    "order_of_arrival_ends_at_a_lane": (FAIR_LANES, CHOICES,
                                        "if («r.front->arrived_before(*first)») first = r.front;", "false"),
    "held_row_lets_others_pass": (FAIR_LANES, tests("the ceiling of a flow is one*"),
                                  "«!goes_before(*front, *held)»", "front == held"),
    "permit_of_another_request": (UNITS, tests("a promised record is found by*"),
                                  "return «r.asked == asked.set» && r.sublimit", "true"),
    # Sublimits of a limiter.
    "one_sublimit_holds_up_another": (ENGINE_ANY_OF, CHOICES,
                                      "open.keep_sublimit(record.sublimit);\n        «continue;»", "break;"),
    "waiter_keeps_a_sublimit_that_it_lacks_no_more": (ENGINE_ANY_OF, CHOICES,
                                                      "if («open.is_needed(sublimit)») {",
                                                      "open.is_needed(sublimit) && false"),
    "newcomer_takes_a_sublimit_that_others_wait_for": (ENGINE_ANY_OF, CHOICES,
                                                       "now < paused_until_ || «!left_open_.has(key)» ||",
                                                       "(key.set & left_open_.alternatives()) == 0"),
    "newcomer_takes_a_sublimit_that_others_need": (ENGINE_ANY_OF, CHOICES,
                                                   "|| «left_open_.is_needed(key.sublimit)») return", "false"),
    "place_of_a_sublimit_is_lost": (ENGINE, CHOICES, "«supplies_.named()->release(to_record(kept)->sublimit);»", "{}"),
    "sublimit_is_not_settled": (ENGINE_UNITS, CHOICES, "if («s.named() != nullptr») s.named()->settle", "false"),
    "estimate_leaves_the_sublimit_out": (ENGINE_ANY_OF, tests("the reason of a wait names the sublimit*"),
                                         "if («supplies_.named() != nullptr») ready = std::max", "false"),
    "permit_of_another_sublimit": (UNITS, tests("a promised record is found by*"),
                                   "«r.sublimit == asked.sublimit» && r.amounts", "true"),
    # Places that limiters share.
    "share_taken_before_the_rate": (ENGINE_FULL, SIMULATION,
                                    "if («ready > now») {\n        next = slack_",
                                    "false"),
    "share_not_passed_on": (ENGINE, SIMULATION,
                            "«if (sought != nullptr) sought->pass_on();»\n  if (last) release_ref();\n}\n\n/// If",
                            ""),
    "share_kept_by_what_nobody_took": (ENGINE, SIMULATION,
                                       "«sought = put_back(supplies_.places_for(w.tokens));»", ""),
    "share_unaware_of_age": (ENGINE_FULL, SIMULATION, "«next = queue.next_promotion(now);»  // the others", ""),
    "share_without_a_bound": (SUPPLIES, SIMULATION, "«if (shared_ != nullptr && !shared_->try_take()) return false;»",
                              ""),
    "share_keeps_its_class": (SHARED, SIMULATION, "«if (s.linked() && s.priority != priority) seekers_->remove(s);»",
                              ""),
    "share_out_of_turn": (SHARED, SIMULATION, "«seekers_->remove(s);»\n  ++occupied_", ""),
    "share_grows_unseen": (SHARED, SIMULATION, "«pass_on();»\n}\n\nstd::uint64_t shared_places::capacity", ""),
    "share_taken_before_who_waits": (SHARED, interleaving("nobody takes a shared place before who waits for it"),
                                     "occupied_ >= capacity_ || «!seekers_->empty()»", "false"),
    # The end of a context.
    "context_goes_during_a_post": (VISIT, interleaving("the context goes while a permit comes back to one who*"),
                                   "«static_cast<const context_visits*>(v)->count_.load(std::memory_order_acquire) == "
                                   "over»", "v != nullptr"),
    "share_posted_to_what_is_gone": (VISIT, interleaving("a context goes while a shared place*"),
                                     "«(v.count_.fetch_add(1, std::memory_order_acquire) & context_visits::over) != 0»",
                                     "v.count_.fetch_add(1, std::memory_order_acquire) == ~std::uint32_t{0}"),
    "ready_when_the_context_goes": (DELIVERY,
                                    interleaving("the context goes while a limit that somebody waits for is d*"),
                                    "«leave_to_context();»", ""),
    "source_cancels_without_the_context": (CANCEL, interleaving("the context goes while a source cancels*"),
                                           "«if (!visit.lasts()) return true;»", ""),
    "pool_grows_without_its_context": (WORKERS, interleaving("the context goes while its pool grows"),
                                       "«if (!here.lasts()) return;»", ""),
    # Several units, overload, and limits that only count.
    "amount_of_the_first_unit": (RATES, tests("a request takes its own amount of each unit"),
                                 "amount = «wanted_of(i, d)»;\n    if (amount == 0) continue;\n    window_log* const w",
                                 "d.tokens"),
    "one_unit_is_taken_before_all_are_there": (SUPPLIES, tests("what one unit refuses is taken from no other"),
                                               "«if (!rates_.can_take(now, d)) return false;»",
                                               "for (std::size_t i = 0; i < rates_.size(); ++i) "
                                               "if (!rates_[i].try_take(now, d.of(rates_.unit_of(i)))) return false;"),
    "window_ends_before_its_end": (WINDOW_LOG, tests("both ends of a window belong to it"),
                                   "s.last, period_), «duration{1}»)", "duration{0}"),
    "window_forgets_merged_grants": (WINDOW_LOG, tests("grants of one part leave together*"),
                                     "«s.last = std::max(s.last, now);»", ""),
    "window_gives_back_what_has_left": (WINDOW_LOG, tests("what has left the window gives no room back"),
                                        "«if (granted_at <= forgotten_) return;»", ""),
    "window_gives_back_the_last_grant": (WINDOW_LOG, tests("property: no closed window ever holds more*"),
                                         "while («i < size_ && at(i).last < granted_at») ++i;", "i < size_"),
    "window_lets_the_bucket_fill": (WINDOW_LOG, tests("after its burst those that wait go at the rate*"),
                                    "«b.charge(then, static_cast<std::uint64_t>(there - most));»", ""),
    "window_counts_when_it_was_due": (RATES, tests("a strict window counts a late grant*"),
                                      "w->add(«now», amount);\n  }\n}\n\nvoid rate_set::refund", "as_of"),
    "window_without_room_grants": (RATES, tests("what a permit settles for less makes room*"),
                                   " || «(w != nullptr && !w->has_room(now, amount))») return false;", "false"),
    "room_of_a_window_is_not_waited_for": (RATES, tests("a strict rate of a limiter passes its quota in no window*"),
                                           "return «w != nullptr ? std::max(ready, w->ready_at(now, amount)) : ready»;",
                                           "ready"),
    "grant_has_no_time": (ENGINE_FULL, tests("a permit that was waited for makes room*"),
                          "«if (wanted.others != nullptr) static_cast<waiter&>(*n).amounts_->granted_at = now;»", ""),
    "units_that_leave_still_count": (ENGINE_UNITS, tests("a waiter of units that leaves*"),
                                     "«for (std::size_t unit = 1; unit < most_units; ++unit) sum[unit] -= "
                                     "w.amounts_->amounts[unit];»", ""),
    "shadow_refuses": (ENGINE_SHADOW, tests("requests that would have been refused go*"),
                       "counts_.add_grant_at_once(r.priority);\n  return «outcome::granted»;",
                       "to_outcome(errc::queue_full)"),
    "shadow_takes_places_twice": (ENGINE_SHADOW, tests("a semaphore in shadow mode counts*"),
                                  "«supplies_.take_over(supplies_.places_for(n.tokens));»", ""),
    "sheds_the_important_first": (ENGINE_OVERLOAD, tests("of those to be shed at one instant*"),
                                  "if (queue_.size() == 1) return;\n«»      if (delays_",
                                  "if (c > 0 && queue_.oldest(0) != nullptr) n = queue_.oldest(0);"),
    "sheds_the_last": (ENGINE_OVERLOAD, tests("those that have waited too long are shed*"),
                       "«if (queue_.size() == 1) return;»", ""),
    "overload_begins_unseen": (ENGINE_OVERLOAD, SIMULATION, "next = std::min(next, «becomes_another» ?", "false"),
    "sheds_without_overload": (DELAYS, tests("a wait of more than twice*"),
                               "return «std::max(overloaded_at(met_at), saturating_add(too_long, duration{1}))»;",
                               "saturating_add(too_long, duration{1})"),
    "flow_is_shed_although_it_meets_the_target": (FAIR, SIMULATION,
                                                  "if («delays_.is_met(here.head->since_, now_)») meet", "false"),
    "flows_shed_the_important_first": (FAIR_SHED, SIMULATION, "uint128{«most_classes - n->priority»} << (64",
                                       "std::uint16_t{n->priority}"),
    "flow_serves_its_oldest_when_overloaded": (FAIR, SIMULATION, "«now_ >= delays_.overloaded_at(c.met_at)» ?",
                                               "false"),
    "flows_shed_the_last": (ENGINE_OVERLOAD, SIMULATION, "«if (flows_->size() == 1) return;»", ""),
    "flow_that_comes_later_forgets_delays": (FAIR, tests("each flow is shed by its own delays*"),
                                             "«if (delays != nullptr) at(nameless, c).met_at = "
                                             "delays->met_at(c);»", ""),
    "shadow_counts_phantoms_of_flows": (FAIR, SIMULATION, "if («!is_phantom») {\n    ++rows_[flow].granted;", "true"),
    "shadow_makes_a_flow_pay_its_cap_twice": (FAIR, tests("a flow that goes in shadow mode takes its phantoms*"),
                                              "«if (is_phantom) x.ceiling.take_over(places_for(node.tokens));»", ""),
    "shadow_forgets_the_queue_limit_of_a_flow": (ENGINE_SHADOW, SIMULATION,
                                                 "if (flows_ != nullptr) «return finds_room_in_flow(flow, r.priority, "
                                                 "evicted);»", "return true;"),
    "slack_loses_tokens": (ENGINE_OVERLOAD, tests("with slack the windows keep*"),
                           "«std::min(saturating_add(ready, to_next), supplies_.ready_without_loss(now, ready))»",
                           "saturating_add(ready, to_next)"),
    # Work inside a limit.
    "limit_left_before_the_work": (WITH_LIMIT, SIMULATION,
                                   "}\n      «co_return co_await std::move(op);»\n    }\n  } else {",
                                   "const_cast<permit&>(p).release(); co_return co_await std::move(op);"),
    "work_begins_without_the_limit": (WITH_LIMIT, SIMULATION,
                                      "} else {\n    «co_await only->acquire(r);»\n    *started = true;", ""),
    # Timers.
    "wheel_forgets_a_level": (WHEEL, SIMULATION, "«if (used_[level] == 0) used_levels_ &= ~(1u << level);»",
                              "used_levels_ &= ~(1u << level);"),
    "wheel_loses_the_last": (WHEEL, SIMULATION, "«file(*node);\n    if (node == last) return;»",
                             "if (node == last) return;\n    file(*node);"),
    "timeout_cancels_nothing": (CHILD, SIMULATION, "[](child& c) { «c.end();» }", ""),
    "left_operation_has_no_deadline": (ABANDON, tests("[abandon]"), "request{.deadline = «t»}", "time_point::max()"),
    "end_in_time_unseen": (ABANDON, tests("[abandon]"),
                           "«if (inside_) end_->has_ended_.store(true, std::memory_order_release);»", ""),
    "timeout_is_told_as_cancelled": (CHILD, SIMULATION,
                                     "«if (for_good) self->request_.by_owner();»", ""),
    # Pools.
    "pool_wakes_nobody": (TASKS, SIMULATION, "backlog_.queue(t, now);\n  «wake_one();»", ""),
    "pool_keeps_its_workers_busy": (WORK, SIMULATION, "«crew_.end(w, t.is_long());»", ""),
    "pool_admits_nobody_held_back": (TASKS, SIMULATION, "while («backlog_.held() > 0» &&", "false"),
    "pool_tells_what_a_cancelled_one_threw": (WORK, SIMULATION,
                                              "e ? task_life::state_after_throw(«w.end_.cause»)",
                                              "pool_task::cause::none"),
    "pool_stops_without_the_delayed": (BACKLOG, SIMULATION, "«if (n == nullptr) n = delayed_.oldest();»", ""),
    "pool_stops_without_those_held_back": (STOP, SIMULATION,
                                           "stop_.is_draining() ? «backlog_.take_any_held()» :", "nullptr"),
    "pool_ignores_delays": (TASKS, SIMULATION, "x != nullptr && «x->delay > duration::zero()» ?", "false"),
    "pool_tries_once_more": (ATTEMPT_END, SIMULATION,
                             "life == nullptr || «life->is_last_attempt()» ||",
                             "life->attempts.load(std::memory_order_relaxed) > life->retry.attempts"),
    "pool_forgets_that_it_has_told": (TASKS, SIMULATION, "«t.is_told_ = true;»", ""),
    "pool_takes_the_oldest_of_all": (WORK, SIMULATION,
                                     "pool_task* first = «backlog_.take(flows_)»;",
                                     "[this] { pool_task* t = backlog_.oldest(); if (t == nullptr) return t; "
                                     "backlog_.remove(*t); t->state_.store(task_state::running); return t; }()"),
    "pool_group_waits_for_ever": (TASKS, SIMULATION, "groups_.leave(*x);\n  «ready_all(waiters);»", ""),
    "pool_deadlock_unseen": (SELF_WAIT, SIMULATION, "«blocked_ + 1 >= able»", "false"),
    "pool_deadlock_of_fewer_unseen": (WORKER, SIMULATION, "crew_.retire(*this);\n  «home_->end_hopeless_wait();»", ""),
    "pool_wait_inside_never_over": (SELF_WAIT, SIMULATION, "if (own.first_ == nullptr) «--blocked_;»", ""),
    "pool_lost_worker_stays_away": (WORKERS, SIMULATION, "«if (is_missed) retry_soon();»", ""),
    "pool_frees_strands_late": (COUNTED, interleaving("the context goes while*"),
                                "«let_go_of_context();»\n      is_left_to_context_", ""),
    "pool_counts_what_is_left_behind": (WAITER, SIMULATION,
                                        "if («is_at_work && operation == w->mark()»)", "true"),
    "pool_sleeps_beside_work": (WORKER, interleaving("one posts while a worker goes to sleep"),
                                "} else if («core.backlog_.has_ready()») {", "false"),
    "pool_cancels_nothing_that_runs": (TASKS, interleaving("a group is cancelled while one joins it"),
                                       "«if (what == task_life::action::ask) t.worker_->cancel();»\n  "
                                       "return true;", ""),
    # Flows of pools.
    "pool_flow_forgets_those_that_come_later": (BACKLOG, POLICY_SIMULATION,
                                                "if (is_of_flow(t)) «flows_->note_coming(t.flow());»", ";"),
    "pool_forgets_the_flow": (BACKLOG, tests("flows of a pool share its workers*"),
                              "flows_->push(t, «t.flow()»);", "fair_queue::nameless"),
    "pool_keeps_the_places_of_flows": (POOL_FLOWS, tests("*goes on when one of its tasks ends"),
                                       "«queue.release(t.flow(), 1);»", ""),
    "pool_sleeps_while_a_flow_returns": (POOL_FLOWS, tests("ceilings of a flow change at once"),
                                         "} else {\n    «watch();»\n  }\n}\n\ntime_point", ""),
    "pool_flows_share_a_worker_to_count_on": (BACKLOG, tests("two flows do not both count*"),
                                              "min(free_workers, «of_others»);", "std::size_t{0}"),
    "pool_ignores_the_queue_limit_of_a_flow": (BACKLOG, tests("*beyond the workers that are about to take them"),
                                               "flows_ != nullptr && «!has_room_in_flow(t, free_workers, now)») {",
                                               "false"),
    # Limits in Redis: an outage.
    "probe_stops": (SYNC_PLAN, OUTAGES, "if («is_failing_ && is_wanted_») return true;", "false"),
    "all_give_up_with_the_first": (SYNC_PLAN, OUTAGES,
                                   "saturating_add(«std::max(r.since, failing_since_)», options_", "failing_since_"),
    "failure_is_believed_for_ever": (SYNC_PLAN, OUTAGES, "known_until_ = saturating_add(now, «known_for»);",
                                     "std::chrono::hours{1}"),
    "calls_ever_more_seldom": (SYNC_PLAN, PROBES,
                               "retry_at_ = saturating_add(now, «after_failures.delay(failures_, "
                               "canigo::detail::next_random(random_))»);",
                               "std::chrono::milliseconds{500} * failures_"),
    "connects_ever_more_seldom": (REDIS_ENGINE, OUTAGES, "not_before_ = saturating_add(since, «reconnect_.delay("
                                  "failures_, canigo::detail::next_random(random_))»);",
                                  "std::chrono::seconds{1} * failures_"),
    "hopeless_is_waited_for": (SYNC_PLAN, cause("a Redis without the command*"),
                               "«if (is_permanent_) return cause_;»", ""),
    # Limits in Redis: several rates, units and a cap.
    "settles_against_what_was_asked": (LEDGER, cause("redis limiter: a call says*"),
                                       "before = «std::exchange(h.amounts[unit], used)»;", "h.amounts[unit]"),
    "settles_all_as_the_first_unit": (TERMS, cause("redis limiter: a call says*"),
                                      "«charged_.own[unit] += amount;»", "charged_.own[0] += amount;"),
    "settles_what_nobody_granted": (LEDGER, cause("redis limiter: while Redis is away*"),
                                    "!options_.rates.empty() && «token != 0»;", "true"),
    "share_of_the_first_rate_only": (SYNC_PLAN, cause("redis limiter: while Redis is away*"),
                                     "return «amount == 0» || s.bucket.can_take(now, amount);",
                                     "amount == 0 || s.unit != 0"),
    "settles_at_the_first_alternative": (LEDGER, cause("redis limiter: a settlement counts at*"),
                                         "terms_.charge_at(«h.alternative», unit", "0"),
    "counts_the_place_of_a_released_alternative": (BOOK, cause("redis limiter: a request takes from*"),
                                                   "«--held_at_[h.alternative];»", ""),
    "estimates_the_slowest_alternative": (ANY_TERMS, cause("redis limiter: a settlement counts at*"),
                                          "least = «std::min(least, std::max(pause, time_in(first_rates_[a], "
                                          "end_of_rates(a), own, now)))»;",
                                          "std::max(least == duration::max() ? duration::zero() : least, "
                                          "std::max(pause, time_in(first_rates_[a], end_of_rates(a), own, now)))"),
    "extended_pause_ends_earlier": (ANY_TERMS, cause("redis limiter: a pause of an alternative*"),
                                    "until = «std::max(until, t)»;", "t"),
    "evicts_who_came_last": (LEDGER, cause("a full queue in front of Redis*"),
                             "waiter_of(«is_oldest ? book_.oldest() : book_.least_important()»)",
                             "book_.least_important()"),
    "workers_outlive_the_context": (POOL, TORTURE, "«while (suspended* s = workers.pop()) s->destroy();»", ""),
    # Circuit breakers.
    "breaker_lets_one_more_through": (CIRCUIT, AROUND, "«probing_ + all_.calls >= probes_»",
                                      "probing_ + all_.calls > probes_"),
    "breaker_counts_probes_twice": (CIRCUIT, AROUND, "«--probing_;»\n    count(failed", ""),
    "breaker_keeps_the_place_of_a_lost_probe": (CIRCUIT, AROUND,
                                                "state_ == circuit_state::half_open) «--probing_;»\n}", ""),
    "breaker_never_forgets": (CIRCUIT, AROUND, "«oldest = {};»", ""),
    "breaker_forgets_too_soon": (CIRCUIT, AROUND, "i < «std::min<std::uint64_t>(over, buckets)»",
                                 "std::min<std::uint64_t>(over + 1, buckets)"),
    "breaker_does_not_back_off": (CIRCUIT, AROUND, "open_for_ = «open_for_ > most_open_for_ / 2 ? most_open_for_ "
                                  ": open_for_ * 2»;", "open_for_"),
    "breaker_backs_off_for_ever": (CIRCUIT, AROUND, "return;\n  «open_for_ = first_open_for_;»", ""),
    "breaker_counts_calls_from_before": (CIRCUIT, AROUND, "«if (e != epoch_) return;»", ""),
    "breaker_takes_late_failures_of_before": (CIRCUIT, AROUND,
                                              "if («e != epoch_ || state_ != circuit_state::closed») return;",
                                              "state_ != circuit_state::closed"),
    "breaker_counts_a_late_failure_as_a_call": (CIRCUIT, AROUND, "if («all_.failed == all_.calls») {",
                                                "all_.calls > 0"),
    "breaker_opens_too_late": (CIRCUIT, AROUND, "t.failed * 100 >= failures_ * of || «t.slow * 100 >= "
                               "slow_percent_ * of»", "false"),
    "breaker_counts_what_never_reported": (BREAKER, AROUND, "«circuit_.leave(e);»",
                                           "circuit_.report(e, true, false, now);"),
    "breaker_refuses_in_shadow": (BREAKER, AROUND, "!epoch && «mode_ == enforcement::enforce»", "true"),
    # Adaptive limits.
    "knee_baseline_only_falls": (KNEE, AROUND, "baseline_ = «is_new ? measured : (baseline_ + measured) / 2»;",
                                 "std::min(baseline_, measured)"),
    "knee_ignores_drops": (KNEE, AROUND, "if («drops_too_many()») return heed", "false"),
    "knee_cuts_by_the_share_of_drops": (KNEE, AROUND, "double next = "
                                        "«std::clamp(succeed, limit_ / 2, .95 * limit_)»;", "limit_ / 2"),
    "knee_blames_the_load_for_all_drops": (KNEE, AROUND, "if («!has_cut_in_vain()») return cut", "true"),
    "knee_blames_the_load_for_no_drops": (KNEE, AROUND, "«!is_slow && window_.dropped_share() > .5 * trial_share_ &&\n"
                                          "         window_.dropped_time_share() > .8 * trial_time_share_»", "true"),
    "knee_falls_while_it_learns_nothing": (KNEE, AROUND, "«if (window_.ok() < least_ok) next = std::min(limit_, "
                                           "std::max(limit_ / 2, carried_ / 2));»", ""),
    "knee_starves_for_ever": (KNEE, AROUND, "«set(from + std::max(1., from / 2), limit_reason::starved, now);»", ""),
    "knee_starves_before_it_knows": (KNEE, AROUND, "«if (known == 0) known = window_.mean_ns();»", ""),
    "knee_grows_right_after_drops": (KNEE, AROUND, "«hold_until_ = saturating_add(now, as_duration(5 * second * "
                                     "any_of(.75, 1.25)));»", ""),
    "knee_counts_all_that_was_cancelled": (KNEE, AROUND, "static_cast<double>(s.latency.count()) <= «2 * known»",
                                           "0 * known"),
    "knee_does_not_settle": (WINDOWED, AROUND, "is_settling_ = «limit_ <= before - 1»;", "false"),
    "knee_grows_where_nobody_needs_it": (KNEE, AROUND, "if («!is_bound») {", "false"),
    "knee_probes_when_it_likes": (KNEE, AROUND, "saturating_add(now, «period - wall % period + "
                                  "as_duration(any_of(0, 50 * ms))»)", "period"),
    "knee_stops_at_the_first_step": (KNEE, AROUND, "if («x < .8 * probe_latency_ && probe_step_ < most_steps && "
                                     "limit_ > least_») {", "false"),
    "adaptive_limit_is_not_told": (TUNER, AROUND, "«if (has_changed) home.change_supplies([this](supplies& all, "
                                   "time_point) { all.set_capacity(limit()); });»", ""),
    "adaptive_limit_forgets_who_left": (TUNER, AROUND, "«in_flight_.fetch_sub(1, std::memory_order_relaxed);»", ""),
    # Policies.
    "policy_blames_the_upstream_for_its_own_queue": (
        POLICY, POLICIES, "operations_ > 0 && «had_ >= waited && had_ >= core_.blamed_from»)", "true"),
    "policy_blames_for_any_hurry": (POLICY, POLICIES,
                                    "return «least == duration::max() ? duration::zero() : least»;",
                                    "duration::zero()"),
    "policy_blames_at_its_timeout_only": (POLICY, POLICIES, "std::min(least, «*o.timeout / 2»)", "*o.timeout"),
    "policy_forgives_a_hang": (POLICY, POLICIES, "had_ >= core_.blamed_from) «pass_.failed();»", ";"),
    "policy_counts_its_queue_as_slowness": (POLICY, POLICIES, "«pass_.begin();»", ";"),
    "policy_forgets_its_timeout": (POLICY, POLICIES, "«if (end < request_.deadline) request_.deadline = end;»", ""),
    "policy_retries_its_own_refusals": (POLICY, POLICIES, "«return is_failure_of_callee(error);»",
                                        "return error != nullptr;"),
    "policy_counts_the_innermost_wait_alone": (
        POLICY, POLICIES,
        "«for (auto* m = call.outer_.get(); depth_ < depth; m = m->outer.get(), ++depth_) ++m->waits;\n"
        "  core.account_->self_waits += more;»",
        "++call.outer_->waits;\n  depth_ = 1;\n  ++core.account_->self_waits;"),
    "policy_counts_waits_that_are_over": (
        POLICY, POLICIES, "«if (mark_->waits > 0) --call_.core_.account_->self_waits;»", ""),
    "policy_keeps_what_is_given_back": (POLICY, interleaving("a request that begins as its operation ends*"),
                                        "while («holders > 0») {", "true"),
    "policy_waits_for_those_who_left": (POLICY, POLICIES, "m != nullptr && «m->is_running»; m", "true"),
    # Retries and hedges.
    "retry_given_up_is_paid_for": (RETRY, POLICY_SIMULATION,
                                   "if (at >= deadline_) «return time_point::max();»",
                                   "if (policy_.budget != nullptr) static_cast<void>(policy_.budget->try_take());\n"
                                   "return time_point::max();"),
    "retry_of_a_cancelled_call": (RETRY, POLICIES, "attempt_ >= policy_.attempts || «is_aborted(failure)»", "false"),
    "retry_past_its_deadline": (RETRY, POLICIES, "«at >= deadline_»", "false"),
    "retry_beyond_its_budget": (RETRY, POLICIES, "«policy_.budget != nullptr && !policy_.budget->try_take()»", "false"),
    "retry_sooner_than_asked": (RETRY, POLICIES, "«std::max(policy_.backoff.delay(attempt_, random), *least)»",
                                "policy_.backoff.delay(attempt_, random)"),
    "hedge_asks_its_budget_again": (HEDGE, POLICY_SIMULATION, "«if (self->may_start_) self->start_next();»",
                                    "if (self->may_start_) { self->start_next(); } else { self->may_start_ = true; "
                                    "self->last_start_ = self->time().now(); }"),
    "hedge_ends_before_its_losers": (HEDGE, HEDGES,
                                     "«while (self->running_ > 0) co_await self->wait_until(time_point::max());»", ""),
    "hedge_leaves_its_losers_running": (HEDGE, tests("a copy of a slow operation wins*"),
                                        "«self->end_all();»\n  if (self->options_.group", ""),
    "hedge_goes_on_when_cancelled": (HEDGE, HEDGES, "is_cancelled_ = true;\n  «end_all();»", ""),
    "hedge_beyond_its_budget": (HEDGE, HEDGES, "self->may_start_ = «self->options_.budget->try_take()»;", "true"),
    "hedge_knows_fast_calls_only": (HEDGE, HEDGES, "if («index == 0 || !is_first_noted_») note_latency();",
                                    "index == 0"),
    "window_never_forgets": (LATENCIES, WINDOWS, "older_ = «is_previous(now) ? younger_ : wait_histogram{}»;",
                             "younger_"),
    # Keyed limits, and the lag of a loop.
    "key_with_a_debt_forgotten": (KEYED, KEYS, "!e.value.is_room() && «limit_.is_fresh(e.value.level(), now)»;",
                                  "true"),
    "key_refused_without_a_word": (KEYED, KEYS, "if (refused != errc{}) {\n          «*error = refused;»", ""),
    "waiters_of_a_key_do_not_age": (KEYED_BASE, POLICY_SIMULATION, ".ageing = «o.ageing»,", "duration::max()"),
    "one_key_too_many": (KEYED_BASE, KEYS, "while («n < bounds_.most_keys») {", "n <= bounds_.most_keys"),
    "key_as_new_after_its_waiters": (KEYED, KEYS, "«e.value = key_state{limit_.take_back(*r.engine)};»",
                                     "e.value = key_state{limit_.fresh(now)};"),
    "keys_never_forgotten": (KEYED, KEYS, "«if (n > 0) this->give_up_keys(n);»", ""),
    "key_stopped_too_late": (KEYED, KEYS, "if («this->is_stopped()») return step::stopped;", "false"),
    "key_lost_behind_an_erased_one": (KEY_TABLE, KEYS, "«marks_[next] >= 2 * one_place»; at = next", "false"),
    "inbox_leaves_the_rest": (INBOX, INBOXES,
                              "«if (size() > 0 && !is_turn_posted_ && !has_lookout()) post_turn();»", ""),
    "inbox_forgets_at_lookout": (INBOX, interleaving("who comes while a thread looks out*"),
                                 "«if (size() > 0 && !is_turn_posted_) post_turn();»", ""),
    "inbox_lookout_keeps_no_work": (INBOX, INBOXES, "const auto work = «net::make_work_guard(executor_)»;",
                                    "[this] { auto w = net::make_work_guard(executor_); w.reset(); return w; }()"),
    "inbox_turn_goes_on": (INBOX, INBOXES, "left = «std::min(size(), resumptions_per_turn)»;", "resumptions_per_turn"),
    # Pumps that take from each other.
    "thief_forgets_all_but_one": (RING, interleaving("two pumps take from a third*"), "if («n > 1») tail_", "false"),
    "thief_trusts_a_number_that_came_again": (RING, interleaving("a thief that sleeps*"),
                                              "if («!victim.take(head, n)») continue;",
                                              "[&] { std::uint64_t now = victim.head_.load(); "
                                              "return (now - head) % 8 != 0 || !victim.take(now, n); }()"),
    "work_unseen_on_its_way_to_the_ring": (PUMP, interleaving("work is seen while it goes*"),
                                           "return «list_size() > 0 || !ring_.empty()»;",
                                           "!ring_.empty() || list_size() > 0"),
    "idle_pump_looks_no_more": (PUMPS, interleaving("work comes from outside*"),
                                "std::atomic_thread_fence(std::memory_order_seq_cst);\n  "
                                "«if (has_work()) call_help();»", ""),
    "added_work_calls_no_help": (PUMPS, interleaving("an item waits for the one*"), "if («is_continuation») return;",
                                 "true"),
    "last_seeker_calls_no_help": (PUMPS, interleaving("*item*,work*"),
                                  "if («seekers_.fetch_sub(1, std::memory_order_seq_cst) == 1 && has_work()»)",
                                  "seekers_.fetch_sub(1, std::memory_order_seq_cst) < 0"),
    "turn_calls_no_help": (PUMPS, interleaving("a pump that seeks is sent away*"),
                           "«if (done == 0 && p.has_work()) call_help();»", ""),
    "pump_lost_by_an_exception": (PUMPS, interleaving("an item throws*"), "--running_;\n  }\n  «bring(p);»",
                                  "if (std::uncaught_exceptions() == 0) bring(p);"),
    "pump_that_is_needed_goes": (PUMPS, interleaving("an item waits for the one*"),
                                 "if («working_ < threads_.load(std::memory_order_relaxed)») {", "working_ == 0"),
    # Limits that push the callers that they let go.
    "pushed_callers_lost_but_one": (DELIVERY, interleaving("of two requests on pumps*"),
                                    "post_each(foreign, foreign_, visit);\n  «push_each(pumps, pushed);»",
                                    "if (suspended* s = pushed.pop()) pumps->push(*s, false);"),
    "pushed_caller_calls_no_help": (DELIVERY, interleaving("a function on pumps lets*"),
                                    "suspended* s = list.pop()) pumps->push(*s, «false»);", "true"),
    "lag_unseen_while_a_handler_blocks": (LAG, LAGS, "«std::max(stats_.last, clock() - due_)»", "stats_.last"),
    "clock_ahead_of_the_system": (CLOCK, KEYS, "static_cast<std::uint64_t>(«ns_per_tick_ * slowness» *",
                                  "ns_per_tick_"),
    "clock_ahead_by_half_a_tick": (CLOCK, KEYS, "- «static_cast<std::int64_t>(ns_per_tick_) - 1»", "0"),
    "clock_trusts_an_old_anchor": (CLOCK, KEYS, "if («since < window») [[likely]]", "true"),
    "clock_forgives_a_jump": (CLOCK, KEYS, "if («!agrees(at)») {", "false"),
    "clock_forgives_each_jump": (CLOCK, KEYS, "if («++disagreements_ == most_disagreements») return", "false"),
    "clock_takes_what_is_not_trusted": (CLOCK, KEYS, "if («!source_.is_trusted()») return", "false"),
    "clock_takes_a_slow_reading": (CLOCK, KEYS, "if («after - before <= closeness») {", "true"),
    "clock_tries_slow_readings_for_ever": (CLOCK, KEYS, "if («++slow_readings_ == most_slow_readings») {", "false"),
    "clock_believes_one_measurement": (CLOCK, KEYS,
                                       "if («std::abs(ns_per_tick_ - once) > ns_per_tick_ * (1 - slowness)») return;",
                                       "false"),
    "clock_steered_ahead": (CLOCK, KEYS, "<= passed + «static_cast<double>(closeness.count())» &&", "6e3"),
    # HTTP, whose servers may be anybody.
    "http_sends_again_what_may_not": (HTTP_HANDLE, http("a request that may not arrive twice*"),
                                      "may_resend_ = «is_idempotent(r.method)» && ", "true"),
    "http_sends_again_in_silence": (HTTP_HANDLE, http("a request that may arrive twice*"),
                                    "«++transfer_->response_.resends;»", ""),
    "http_opens_another_to_send_again": (HTTP_HANDLE, http("a server that has gone since*"),
                                         "if («!h.may_resend_ && h.was_sent_in_this_hop()») {\n    h.is_worn_",
                                         "false"),
    "http_resends_over_a_stale_one": (HTTP_HANDLE, http("behind a redirect*"),
                                      "if («was_broken && is_reused && "
                                      "source_->spoil_idle(local_port)») return true;", "false"),
    "http_resends_are_used_up": (HTTP_MULTI, http("each request has its own resend*"), "if («h.is_worn()») {", "false"),
    "http_takes_what_was_unasked": (HTTP_HANDLE, http("what a server says before*"),
                                    "if («source_->spoil_if_unclean(local_port, is_reused && has_unread_tls())») {",
                                    "false"),
    "http_sees_the_end_alone": (HTTP_SOCKETS, http("what a server says before*"),
                                "«size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)»",
                                "size != 0"),
    "http_leaves_a_stream_to_its_server": (HTTP_MULTI, http("the server of a cancelled HTTP/2 request*"),
                                           "«if (port != 0 && sockets_.is_in_use(port)) flush(port);»", ""),
    "http_takes_a_paused_connection_for_idle": (HTTP_SOCKETS, http("a request that is sent again spoils no*"),
                                                "if (w == nullptr || «!w->is_idle()») continue;",
                                                "!w->is_http1 || w->wanted != 0"),
    "http_connects_to_what_is_refused": (HTTP_HANDLE, http("an address that the client refuses*"),
                                         "if («(*allow_address_)(at.address())») return true;", "true"),
    "http_shortens_a_pause": ("http/server_pause.cpp", http("http: a limit pauses for all*"),
                              "«limit_.extend_pause(until)»;", "limit_.pause_until(until)"),
    "http_repeats_what_may_not": ("http/call_error.cpp", http("http: what was not executed*"),
                                  "may_help && «detail::is_idempotent(r.method)»", "true"),
    "http_believes_the_last_length": (HTTP_HEAD, http("a body whose length is said in two ways*"),
                                      "«!is_number || length_.value_or(length) != length»", "!is_number"),
    # Durable jobs: what the service promises, and the store in SQLite.
    "job_without_a_job_costs_a_token": (JOB_RUNS, jobs("the tokens and permits*"),
                                        "«if (list.empty() && admission != nullptr) admission->unused();»", ""),
    "jobs_claimed_that_can_not_begin": (JOB_RUNS, jobs("a job that comes later and matters more*"),
                                        ".limit = «places», .lease", "places + 1"),
    "job_result_given_up": (JOB_RUNS, jobs("a result that can't be written*"),
                            "if («code == errc::stopped || is_abandoned_») co_return;", "true"),
    "jobs_of_one_queue_trimmed": (JOB_RUNS, jobs("each queue forgets*"), "if («now < q.trim_at») co_return;", "true"),
    "job_stop_waits_for_the_store": (JOB_RUNS, jobs("a stop waits for a store*"),
                                     "over = saturating_add(r->renewed_at, «options_.lease»)", "options_.lease * 9"),
    "job_stopped_has_failed": (JOB_REPORT, jobs("a job that the stop cancels*"),
                               "«if (is_undone(end)) return {.what = type::give_back};»", ""),
    "job_hopeless_tried_again": (JOB_REPORT, jobs("a hopeless job*"), "«is_hopeless(end.error)»", "false"),
    "job_snooze_forgotten": (JOB_REPORT, jobs("a job runs again after the time*"),
                             "«if (end.snooze) return {.what = type::snooze, .span = *end.snooze};»", ""),
    "job_lost_and_goes_on": (JOB_LEASES, jobs("a handler whose job another process has*"),
                             "«r->end(running_job::reason::lost);»", ""),
    "job_cancelled_elsewhere_goes_on": (JOB_LEASES, jobs("a cancellation of which no message*"),
                                        "«r->end(running_job::reason::cancelled);»", ""),
    "job_lease_renewed_too_late": (JOB_LEASES, jobs("a job may run for longer*"), "is_good ? «options_.lease / 3»",
                                   "options_.lease * 2"),
    "job_results_told_to_nobody": (JOB_SERVICE, jobs("*may wait for its result"),
                                   "«core->store_news_->bump();»", ""),
    "job_store_asked_without_rest": (JOB_SERVICE, jobs("a service asks a store that fails*"),
                                     "options_.store_retry.delay(«failures», random())", "1"),
    "job_token_of_a_lost_claim": (JOB_TABLE, jobs("a claim that a loss of power*"),
                                  "std::max(due.integer(1) + 1, «number(now)»)", "std::int64_t{0}"),
    "job_of_a_stranger_claimed": (JOB_TABLE, jobs("a file's values that another program*"),
                                  "«is_sound» + \" ORDER BY run_at, id LIMIT ?4\"", "std::string{\"1\"}"),
    "job_crash_is_an_attempt": (JOB_TABLE_RUNS, jobs("the store in SQLite*"),
                                "«count_down(r.attempt);»\n    count_up(r.crashes);", ""),
    "job_result_of_a_stale_holder": (JOB_TABLE_RUNS, jobs("the store in SQLite*"),
                                     "if («changed == 0») return verdict::superseded;\n  free_key", "false"),
    "job_counted_as_failed_for_good": (JOB_SERVICE, jobs("a service counts its runs*"),
                                       "«r.claimed.attempt >= r.claimed.max_attempts || report.span == "
                                       "duration::max()»", "false"),
    "job_counts_without_rest": (JOB_SERVICE, jobs("a count that is slow*"),
                                "(now - begun_at) * «count_pause»", "0"),
    "job_counted_without_end": (JOB_TABLE_LOOK, jobs("a count of a table ends*"),
                                "ended.start(id, «most»);", "std::int64_t{9'000'000}"),
    "job_commit_failed_unseen": (JOB_LINE, jobs("a step on the disk that fails*"),
                                 "«db.sql(\"COMMIT\").run();»",
                                 "try { db.sql(\"COMMIT\").run(); } catch (const std::system_error&) {}"),
    "job_commit_failed_and_undone": (JOB_LINE, jobs("a step on the disk that fails*"),
                                     "if («is_at_the_end && is(failed, {error::io})») {", "false"),
    "job_file_moved_unseen": (JOB_LINE, jobs("a store says what is wrong with its file*"),
                              "«if (db.has_moved()) throw_gone();»\n  } catch", ""),
    "job_repeated_by_each_process": (JOB_REPEATS, jobs("a job runs at each time of its schedule*"),
                                     "j.unique_key = key_of(«r.name», at);", "r.name + std::to_string("
                                     "reinterpret_cast<std::uintptr_t>(core.get()))"),
    "job_repeated_at_once": (JOB_REPEATS, jobs("a job runs at each time of its schedule*"), "«j.at = at;»", ""),
    "job_repeated_until_a_failure": (JOB_REPEATS, jobs("a schedule goes on after its store*"),
                                     "«co_await core->pause_after(++failures);»", "co_return;"),
    "job_times_of_now": (JOB_SCHEDULE, jobs("a span is repeated at the same instants*"),
                         "const instant next{«before - into + period_»};", "before + period_"),
    "job_day_of_both_fields": (JOB_SCHEDULE, jobs("a day has to match one*"),
                               "return «needs_both_days_» ?", "true"),
    "job_sunday_forgotten": (JOB_SCHEDULE, jobs("a text of cron names minutes"), "if («has(s.weekdays_, 7)»)", "false"),
    "job_step_of_its_own": (JOB_FIELD, jobs("a text of cron names minutes"), "v <= *last; «v += step»)", "++v"),
    "job_begins_before_its_batch": (JOB_MEMORY, jobs("the store in memory passes*"),
                                    "«if (unended_.contains(batch)) return;»", ""),
    "job_of_no_batch_never_begins": (JOB_TABLE, jobs("the store in SQLite*"),
                                     "«if (j.after_batch.empty()) continue;»", "continue;"),
    "job_place_not_free_in_time": (JOB_RUNS, jobs("a result that is on its way*"),
                                   "most - std::min(«q.taken - q.reporting», most);", "q.taken"),
    "job_results_pile_up": (JOB_RUNS, jobs("a store that takes no results*"),
                            "return «std::min(free, 2 * most - std::min(q.taken, 2 * most))»;", "free"),
    "job_key_never_free": (JOB_TABLE_RUNS, jobs("the store in SQLite*"), "«free_key(l.id, now);»", ""),
}
