#include "canigo/detail/pool/pool_worker.hpp"

#include "canigo/detail/pool/pool_core.hpp"

namespace canigo::detail {

pool_worker::pool_worker(pool_core& home, std::size_t index)
    : home_{&home},
      index_{index},
      strand_{worker_strand::make(home.executor(), this, &home)},
      context_{*this},
      wake_{*this},
      hand_over_{*this},
      cancel_{*this},
      rest_{*this} {}

// A posted call holds a reference to the pool.
void pool_worker::wake_call::post() { worker->strand_->post(*this); }

void pool_worker::wake_call::resume() {
  struct release {
    pool_core* core;
    ~release() { core->release_ref(); }
  };
  const release at_the_end{worker->home_};
  worker->home_->woken(*worker);
}

void pool_worker::wake_call::destroy() noexcept { worker->home_->release_ref(); }

void pool_worker::hand_over_call::resume() {
  try {
    worker->strand_->dispatch(worker->wake_);
  } catch (...) {
    worker->home_->post_later(worker->wake_);
  }
}

void pool_worker::hand_over_call::post() { worker->wake_.post(); }

void pool_worker::hand_over_call::destroy() noexcept { worker->wake_.destroy(); }

void pool_worker::cancel_call::post() { worker->strand_->post(*this); }

void pool_worker::cancel_call::resume() {
  pool_core& core = *worker->home_;
  core.do_cancel(*worker);
  core.release_ref();
}

void pool_worker::cancel_call::destroy() noexcept { worker->home_->release_ref(); }

pool_worker::rest_alarm::rest_alarm(pool_worker& w) noexcept
    : engine_alarm{*w.home_,
                   [](delivery& d, engine_alarm& a) noexcept {
                     static_cast<pool_core&>(d).rest_is_over(*static_cast<rest_alarm&>(a).worker);
                   }},
      worker{&w} {}

}  // namespace canigo::detail
