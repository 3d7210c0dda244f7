#include "world.hpp"

namespace interleaving {

world::world(explorer& e) : explorer_{e}, context_{std::make_unique<context>()} { clock_.emplace(*context_, start); }

world::~world() {
  // What was posted and never called may hold all that the model made.
  for (loop& l : loops_) {
    l.queue.clear();
    l.closing = true;
  }
  if (!explorer_.has_failed()) explorer_.run_threads();  // else some may wait for what is gone
}

loop_executor world::make_loop(const std::string& name, int threads) {
  loop& l = loops_.emplace_back();
  l.context = context_.get();
  for (int i = 0; i < threads; ++i) {
    const auto body = [&l] {
      for (;;) {
        const auto has_something = [](const void* p) {
          const auto* own = static_cast<const loop*>(p);
          return own->closing || !own->queue.empty();
        };
        explorer::step("next");
        if (!has_something(&l)) explorer::wait(has_something, &l);
        if (l.queue.empty()) return;
        work w{std::move(l.queue.front())};
        l.queue.pop_front();
        w();
      }
    };
    explorer_.add_thread(threads > 1 ? name + std::to_string(i) : name, body, true);
  }
  return loop_executor{l};
}

void world::shut_down() {
  for (loop& l : loops_) {
    l.is_gone = true;
    l.queue.clear();
  }
  context_->end();
}

void world::thread(std::string name, std::function<void()> body) {
  explorer_.add_thread(std::move(name), std::move(body), false);
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
}

}  // namespace interleaving
