#include "canigo/cancel.hpp"

#include <mutex>

namespace canigo {

class cancel_source::registry {
 public:
  void add(registration& r) {
    const std::lock_guard lock{mutex_};
    if (cancelled_) throw std::system_error{net::error::operation_aborted};
    link(r, untold_);
  }

  void remove(registration& r) noexcept {
    const std::lock_guard lock{mutex_};
    unlink(r);
  }

  void cancel() {
    while (tell_next()) {
    }
  }

  bool cancelled() const noexcept {
    const std::lock_guard lock{mutex_};
    return cancelled_;
  }

 private:
  static void link(registration& r, registration*& first) noexcept {
    r.next_ = first;
    if (first != nullptr) first->previous_ = &r;
    first = &r;
  }

  void unlink(registration& r) noexcept {
    if (r.next_ != nullptr) r.next_->previous_ = r.previous_;
    if (r.previous_ != nullptr) r.previous_->next_ = r.next_;
    if (untold_ == &r) untold_ = r.next_;
    if (told_ == &r) told_ = r.next_;
    r.previous_ = r.next_ = nullptr;
  }

  /// Cancels the next operation. Returns false if no operation is left to cancel.
  bool tell_next() {
    std::unique_lock lock{mutex_};
    cancelled_ = true;
    if (untold_ == nullptr) return false;
    registration& r = *untold_;
    unlink(r);
    link(r, told_);
    // This thread holds the lock and `r` is registered, so the operation of `r` and its execution context still exist.
    // So this thread may begin to use the context here.
    const detail::context_visit visit{r.context_->visits()};
    if (!visit.lasts()) return true;  // the context is being destroyed, which also ends the operation
    const std::shared_ptr<detail::child> c = r.child_;
    lock.unlock();
    try {
      c->end();
    } catch (...) {
      untell(*c);
      throw;
    }
    return true;
  }

  /// Makes the next call of cancel() cancel `c` again, unless `c` has ended meanwhile.
  void untell(const detail::child& c) noexcept {
    const std::lock_guard lock{mutex_};
    for (registration* r = told_; r != nullptr; r = r->next_) {
      if (r->child_.get() != &c) continue;
      unlink(*r);
      link(*r, untold_);
      return;
    }
  }

  mutable detail::mutex mutex_;
  bool cancelled_ = false;
  registration* untold_ = nullptr;
  registration* told_ = nullptr;
};

cancel_source::registration::registration(std::shared_ptr<registry> r, std::shared_ptr<detail::child> c)
    : registry_{std::move(r)}, child_{std::move(c)}, context_{&detail::context_service::of(child_->executor())} {
  registry_->add(*this);
}

cancel_source::registration::~registration() { registry_->remove(*this); }

cancel_source::cancel_source() : registry_{std::make_shared<registry>()} {}

cancel_source::~cancel_source() = default;

void cancel_source::cancel() { registry_->cancel(); }

bool cancel_source::cancelled() const noexcept { return registry_->cancelled(); }

}  // namespace canigo
