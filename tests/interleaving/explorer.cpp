#include "explorer.hpp"

#include "world.hpp"

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
    e.end_run();
  } while (!e.has_failed() && e.strategy_->next_run());
  current = nullptr;
  if (e.has_failed()) {
    v.failure = e.failure_;
    v.schedule = e.schedule();
    v.replay = to_text(e.turns_);
  }
  v.is_complete = v.ok() && e.strategy_->is_complete();
  return v;
}

void explorer::begin_run() {
  strategy_->begin_run();
  notes_.clear();
  turns_.clear();
  count_ = 0;
  is_ending_ = false;
}

void explorer::end_run() {
  running_ = nullptr;
  for (std::size_t i = 0; i < count_; ++i) threads_[i].body = {};
}

/// Who goes on. nullptr if nobody can.
explorer::thread* explorer::choose() {
  std::array<std::uint8_t, most_threads> candidates;
  std::size_t count = 0;
  is_looking_ = true;
  const bool can_go_on = running_ != nullptr && running_->can_go_on();
  if (can_go_on) candidates[count++] = running_->number;
  if (!can_go_on || (strategy_->may_preempt() && !is_ending_)) {
    for (std::size_t i = 0; i < count_; ++i) {
      const thread& t = threads_[i];
      if (&t != running_ && t.can_go_on()) candidates[count++] = t.number;
    }
  }
  is_looking_ = false;
  if (count == 0) return nullptr;
  if (is_ending_) return &threads_[candidates[0]];
  const std::uint8_t chosen = candidates[strategy_->choose({candidates.data(), count}, can_go_on)];
  turns_.push_back(chosen);
  return &threads_[chosen];
}

void explorer::step(const char* what) noexcept {
  if (current == nullptr || current->running_ == nullptr || current->is_looking_) return;
  explorer& e = *current;
  thread& self = *e.running_;
  e.add_note(self, what);
  if (self.is_unseen) {
    self.is_unseen = false;
    return;
  }
  thread* next = e.choose();
  if (next == &self) return;
  e.running_ = next;
  self.stack.switch_to(next->stack);
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
    self.stack.switch_to(next != nullptr ? next->stack : e.main_);
  }
  self.ready = nullptr;
}

void explorer::is_unseen() noexcept { current->running_->is_unseen = true; }

std::size_t explorer::this_thread() noexcept { return current->running_->number; }

canigo::detail::context_visit*& explorer::innermost_visit() noexcept {
  static canigo::detail::context_visit* outside = nullptr;
  if (current == nullptr || current->running_ == nullptr) return outside;
  return current->running_->innermost_visit;
}

fiber& explorer::run_body(void* of) {
  auto& self = *static_cast<thread*>(of);
  self.ready = nullptr;
  self.body();
  explorer& e = *current;
  self.has_ended = true;
  e.running_ = e.choose();
  return e.running_ != nullptr ? e.running_->stack : e.main_;
}

explorer::thread& explorer::add(const char* name, work body) {
  if (count_ == most_threads) std::abort();
  thread& t = threads_[count_];
  t.name = name;
  t.of_several = -1;
  t.number = static_cast<std::uint8_t>(count_++);
  t.may_wait_for_ever = false;
  t.is_unseen = true;
  t.has_ended = false;
  t.ready = nullptr;
  t.innermost_visit = nullptr;
  t.body = std::move(body);
  t.stack.begin(&run_body, &t);
  return t;
}

void explorer::add_thread(const char* name, work body) { add(name, std::move(body)); }

void explorer::add_loop(const char* name, int of_several, bool (*ready)(const void*), const void* object, work body) {
  thread& t = add(name, std::move(body));
  t.of_several = of_several;
  t.may_wait_for_ever = true;
  t.ready = ready;
  t.object = object;
}

void explorer::run_threads() {
  running_ = nullptr;
  running_ = choose();
  if (running_ != nullptr) main_.switch_to(running_->stack);
  for (std::size_t i = 0; i < count_; ++i) {
    const thread& t = threads_[i];
    if (!t.has_ended && !t.may_wait_for_ever) fail(std::string{t.name} + " waits for ever");
  }
}

void explorer::let_threads_end() {
  is_ending_ = true;
  run_threads();
}

void explorer::add_note(const thread& t, const char* what) {
  notes_.push_back({what, t.number});
  if (notes_.size() < longest_run) return;
  std::fputs("the run does not end; its last steps:\n", stderr);
  notes_.erase(notes_.begin(), notes_.end() - 100);
  std::fputs(schedule().c_str(), stderr);
  std::abort();  // there is no way back from here
}

std::string explorer::schedule() const {
  std::string lines;
  const thread* last = nullptr;
  for (const note& n : notes_) {
    const thread& t = threads_[n.thread];
    if (&t != last) {
      lines += std::string{last != nullptr ? "\n  " : "  "} + t.name;
      if (t.of_several >= 0) lines += std::to_string(t.of_several);
      lines += ":";
    }
    lines += std::string{" "} + n.what;
    last = &t;
  }
  return lines + "\n";
}

void explorer::fail(std::string text) {
  if (failure_.empty()) failure_ = std::move(text);
}

}  // namespace interleaving
