#include "pool_plan.hpp"

#include <iterator>

namespace simulated {

namespace {

constexpr const char* names_of_steps[] = {"run_short",  "run_long",   "await_run",  "submit", "post",
                                          "run_nested", "run_family", "wait_group", "cancel", "cancel_group",
                                          "resize",     "stop",       "destroy"};

// What one deed of sixteen is, as rolled.
pool_deed deed_of(dice& d, const pool_plan& p) {
  switch (d.roll(16)) {
    case 0:
      return pool_deed::cancel;
    case 1:
      return d.one_in(2) ? pool_deed::cancel_group : pool_deed::wait_group;
    case 2:
      return p.is_resized ? pool_deed::resize : pool_deed::cancel;
    case 3:
      return d.one_in(5) ? pool_deed::stop : pool_deed::post;
    case 4:
      return d.one_in(10) ? pool_deed::destroy : pool_deed::submit;
    case 5:
      return d.one_in(2) ? pool_deed::run_nested : pool_deed::run_family;
    case 6:
    case 7:
      return pool_deed::await_run;
    case 8:
    case 9:
    case 10:
      return pool_deed::run_short;
    default:
      return pool_deed::run_long;
  }
}

std::string ms(std::int64_t n) { return std::to_string(n) + "ms"; }

}  // namespace

pool_plan make_pool_plan(std::uint64_t seed, dice d) {
  pool_plan p;
  p.seed = seed;
  p.workers = 1 + d.roll(4);
  p.is_resized = d.one_in(3);
  p.queue_limit = d.one_in(3) ? 1 + d.roll(3) : 1000;
  constexpr canigo::overflow policies[] = {canigo::overflow::wait, canigo::overflow::evict_oldest,
                                           canigo::overflow::evict_least_important, canigo::overflow::reject_new};
  p.on_overflow = policies[d.roll(std::size(policies))];
  p.is_abandoned = d.one_in(8);
  p.context_goes_first = d.one_in(2);
  p.is_short = d.one_in(4);
  const std::uint64_t many = 5 + d.roll(40);
  for (std::uint64_t i = 0; i < many; ++i) {
    pool_step s;
    s.what = deed_of(d, p);
    if (d.one_in(2)) {
      s.then = static_cast<std::int64_t>(d.roll(4));
    } else {
      s.handlers = d.roll(6);
    }
    s.id = static_cast<int>(i);
    s.target = static_cast<int>(d.roll(i + 1));
    s.priority = static_cast<int>(d.roll(2));
    if (d.one_in(3)) s.group = 1 + d.roll(2);
    if (d.one_in(4)) s.timeout = static_cast<std::int64_t>(1 + d.roll(3));
    if (d.one_in(4)) s.delay = static_cast<std::int64_t>(d.roll(3));
    if (d.one_in(8)) s.deadline = static_cast<std::int64_t>(d.roll(6));
    if (d.one_in(4)) s.attempts = static_cast<std::uint32_t>(2 + d.roll(2));
    s.lasts = static_cast<std::int64_t>(d.roll(5));
    s.throws = d.one_in(4);
    s.heeds = !d.one_in(5);
    s.makes_its_own = d.one_in(3);
    s.leaves_one = d.one_in(6);
    s.workers = 1 + d.roll(4);
    s.mode = static_cast<canigo::stop_mode>(1 + d.roll(3));
    if (d.one_in(2)) s.grace = static_cast<std::int64_t>(d.roll(4));
    if (p.is_short) {
      // A strand of Asio's that has no memory to be made ends the program; limits of time and families make some.
      if (s.what == pool_deed::await_run) s.what = pool_deed::run_long;
      if (s.what == pool_deed::run_family) s.what = pool_deed::run_nested;
    }
    if (p.is_short && s.what != pool_deed::resize && d.one_in(3)) s.fails_at = static_cast<int>(d.roll(4));
    if (p.is_short && d.one_in(3)) s.fails_inside_at = static_cast<int>(d.roll(3));
    // Nor does a worker of Asio's begin without memory.
    if (p.is_short && !p.is_resized && d.one_in(6)) s.fails_after_at = static_cast<int>(d.roll(8));
    p.steps.push_back(s);
  }
  return p;
}

std::string describe(const pool_plan& p) {
  return "pool: " + std::to_string(p.workers) + " workers, queue of " + std::to_string(p.queue_limit) + ", overflow " +
         std::to_string(static_cast<int>(p.on_overflow)) + (p.is_short ? ", short of memory" : "") +
         (p.is_abandoned ? ", abandoned" : "") + (p.is_abandoned && p.context_goes_first ? ", the context first" : "");
}

std::string describe(const pool_step& s) {
  std::string text = "#" + std::to_string(s.id) + " " + names_of_steps[static_cast<std::size_t>(s.what)];
  switch (s.what) {
    case pool_deed::cancel:
      text += " #" + std::to_string(s.target);
      break;
    case pool_deed::cancel_group:
    case pool_deed::wait_group:
      text += " " + std::to_string(s.group);
      break;
    case pool_deed::resize:
      text += " " + std::to_string(s.workers);
      break;
    case pool_deed::stop:
      text += " mode " + std::to_string(static_cast<int>(s.mode));
      if (s.grace >= 0) text += " grace " + ms(s.grace);
      break;
    case pool_deed::destroy:
      break;
    default:
      text += " priority " + std::to_string(s.priority) + " lasts " + ms(s.lasts);
      if (s.group != 0) text += " group " + std::to_string(s.group);
      if (s.timeout != 0) text += " timeout " + ms(s.timeout);
      if (s.delay != 0) text += " delay " + ms(s.delay);
      if (s.deadline >= 0) text += " deadline " + ms(s.deadline);
      if (s.attempts > 1) text += " attempts " + std::to_string(s.attempts);
      if (s.throws) text += " throws";
      if (!s.heeds) text += " heeds nothing";
      if (s.makes_its_own) text += " makes something else of its cancellation";
      if (s.leaves_one) text += " leaves one behind";
      break;
  }
  if (s.fails_at >= 0) text += ", allocation " + std::to_string(s.fails_at) + " fails";
  if (s.fails_inside_at >= 0) text += ", allocation " + std::to_string(s.fails_inside_at) + " inside fails";
  text += ", then " + (s.then >= 0 ? ms(s.then) : std::to_string(s.handlers) + " handlers");
  if (s.fails_after_at >= 0) text += ", allocation " + std::to_string(s.fails_after_at) + " of which fails";
  return text;
}

}  // namespace simulated
