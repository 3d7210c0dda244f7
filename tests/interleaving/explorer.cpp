#include "explorer.hpp"

#include "world.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace interleaving {

namespace {

explorer* current = nullptr;

constexpr std::size_t longest_run = 100'000;  // in steps; beyond it two threads wait for each other awake

}  // namespace

verdict explorer::explore(const search& how, const model& m) {
  explorer e{how};
  current = &e;
  verdict v;
  do {
    ++v.runs;
    e.begin_run();
    {
      world w{e};
      m(w);
    }
    e.running_ = nullptr;
    if (!e.failure_.empty()) v.schedule = e.schedule();
    e.threads_.clear();
    if (!v.schedule.empty()) break;
  } while (e.next_schedule());
  current = nullptr;
  v.failure = e.failure_;
  return v;
}

void explorer::begin_run() {
  preemptions_left_ = how_.preemptions;
  depth_ = 0;
  steps_.clear();
}

/// The last decision that has an alternative left takes it; those after it are open again.
bool explorer::next_schedule() {
  if (how_.random_runs > 0) return --how_.random_runs > 0;
  while (!trail_.empty() && trail_.back().taken + 1 == trail_.back().count) trail_.pop_back();
  if (trail_.empty()) return false;
  ++trail_.back().taken;
  return true;
}

std::size_t explorer::decide(std::size_t count) {
  if (count == 1) return 0;
  if (how_.random_runs > 0) return random_() % count;
  if (depth_ == trail_.size()) trail_.push_back({0, count});
  return trail_[depth_++].taken;
}

/// Who goes on: the running thread if it can, or another for the price of a preemption. nullptr if nobody can.
explorer::thread* explorer::choose() {
  std::array<thread*, 16> candidates;
  std::size_t count = 0;
  const bool can_go_on = running_ != nullptr && running_->can_go_on();
  if (can_go_on) candidates[count++] = running_;
  if (!can_go_on || preemptions_left_ > 0 || how_.random_runs > 0) {
    for (thread& t : threads_) {
      if (&t != running_ && t.can_go_on()) candidates[count++] = &t;
    }
  }
  if (count == 0) return nullptr;
  thread* chosen = candidates[decide(count)];
  if (can_go_on && chosen != running_) --preemptions_left_;
  return chosen;
}

void explorer::step(const char* what) noexcept {
  if (current == nullptr || current->running_ == nullptr) return;
  explorer& e = *current;
  thread& self = *e.running_;
  e.note(self, what);
  thread* next = e.choose();
  if (next == &self) return;
  e.running_ = next;
  self.stack->switch_to(*next->stack);
}

void explorer::wait(bool (*ready)(const void*), const void* object) noexcept {
  explorer& e = *current;
  if (e.running_ == nullptr) std::abort();  // a thread has ended and still holds a lock
  thread& self = *e.running_;
  self.ready = ready;
  self.object = object;
  thread* next = e.choose();
  if (next != &self) {
    e.running_ = next;
    self.stack->switch_to(next != nullptr ? *next->stack : e.main_);
  }
  self.ready = nullptr;
}

void explorer::add_thread(std::string name, std::function<void()> body, bool may_wait_for_ever) {
  thread& t = threads_.emplace_back();
  t.name = std::move(name);
  t.may_wait_for_ever = may_wait_for_ever;
  t.stack = std::make_unique<fiber>(std::move(body), [this, &t]() -> fiber& {
    t.has_ended = true;
    running_ = choose();
    return running_ != nullptr ? *running_->stack : main_;
  });
}

void explorer::run_threads() {
  running_ = nullptr;
  running_ = choose();
  if (running_ != nullptr) main_.switch_to(*running_->stack);
  for (const thread& t : threads_) {
    if (!t.has_ended && !t.may_wait_for_ever) fail(t.name + " waits for ever");
  }
}

void explorer::note(const thread& t, const char* what) {
  steps_.emplace_back(&t, what);
  if (steps_.size() < longest_run) return;
  std::fputs("the run does not end; its last steps:\n", stderr);
  steps_.erase(steps_.begin(), steps_.end() - 100);
  std::fputs(schedule().c_str(), stderr);
  std::abort();  // there is no way back from here
}

std::string explorer::schedule() const {
  std::string lines;
  const thread* last = nullptr;
  for (const auto& [t, what] : steps_) {
    if (t != last) lines += (last != nullptr ? "\n  " : "  ") + t->name + ":";
    lines += std::string{" "} + what;
    last = t;
  }
  return lines + "\n";
}

void explorer::fail(std::string text) {
  if (failure_.empty()) failure_ = std::move(text);
}

}  // namespace interleaving
