#include "explorer.hpp"

#include "world.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace interleaving {

namespace {

explorer* current = nullptr;

constexpr std::size_t most_threads = 16;
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
    if (!e.failure_.empty()) {
      v.schedule = e.schedule();
      v.replay = to_text(e.turns_);
    }
    e.threads_.clear();
    if (!v.replay.empty()) break;
  } while (e.strategy_->next_run());
  current = nullptr;
  v.failure = e.failure_;
  v.is_complete = v.ok() && e.strategy_->is_complete();
  return v;
}

void explorer::begin_run() {
  strategy_->begin_run();
  steps_.clear();
  turns_.clear();
}

/// Who goes on. nullptr if nobody can.
explorer::thread* explorer::choose() {
  std::array<std::uint8_t, most_threads> candidates;
  std::size_t count = 0;
  const bool can_go_on = running_ != nullptr && running_->can_go_on();
  if (can_go_on) candidates[count++] = running_->number;
  if (!can_go_on || strategy_->may_preempt()) {
    for (const thread& t : threads_) {
      if (&t != running_ && t.can_go_on()) candidates[count++] = t.number;
    }
  }
  if (count == 0) return nullptr;
  const std::uint8_t chosen = candidates[strategy_->choose({candidates.data(), count}, can_go_on)];
  turns_.push_back(chosen);
  return &threads_[chosen];
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
  if (threads_.size() == most_threads) std::abort();
  thread& t = threads_.emplace_back();
  t.number = static_cast<std::uint8_t>(threads_.size() - 1);
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
