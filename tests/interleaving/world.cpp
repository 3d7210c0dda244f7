#include "world.hpp"

#include <utility>

namespace interleaving {

namespace {

/// Whether a thread of a loop can go on.
bool has_something(const void* of) {
  const auto* l = static_cast<const loop*>(of);
  return l->closing || !l->queue.empty();
}

}  // namespace

world::world(explorer& e) : explorer_{e} {
  context_.emplace();
  clock_.emplace(*context_, start);
}

world::~world() {
  // What was posted and never called may hold all that the model made.
  for (loop& l : loops_) {
    l.queue.drop();
    l.closing = true;
  }
  if (!explorer_.has_failed()) explorer_.let_threads_end();  // else some may wait for what is gone
}

loop_executor world::make_loop(const char* name, int threads) {
  loop& l = loops_.at(loops_made_++);
  l.context = &*context_;
  l.may_go = threads == 0;
  const bool has_several = threads > 1;
  for (int i = 0; i < threads; ++i) {
    work body{[&l, has_several] { run(l, has_several); }};
    explorer_.add_loop(name, has_several ? i : -1, &has_something, &l, std::move(body));
  }
  return loop_executor{l};
}

void world::run(loop& l, bool has_several) {
  for (;;) {
    if (!has_something(&l)) {
      explorer::wait(&has_something, &l);
      // Only another thread of the loop would see that something has left its queue.
      if (!has_several) explorer::is_unseen();
    } else if (has_several) {
      explorer::step("next");
    }
    if (l.queue.empty()) {
      if (l.closing) return;
      continue;
    }
    work next = l.queue.pop();
    next();
  }
}

void world::shut_down() {
  context_->end();
  for (loop& l : loops_) {
    l.is_gone = true;
    l.queue.drop();
  }
  for (loop& l : loops_) l.is_freed = true;
}

bool world::pass_to_next() {
  const canigo::time_point next = clock_->next();
  if (next == canigo::time_point::max()) return false;
  clock_->advance(next);
  return true;
}

void world::run() {
  do {
    explorer_.run_threads();
  } while (pass_to_next());
  for (const loop& l : loops_) {
    expect(!l.was_posted_to_late, "posted to a context that is gone");
    expect(!l.was_reached_late, "something reached for a context that is gone");
  }
}

}  // namespace interleaving
