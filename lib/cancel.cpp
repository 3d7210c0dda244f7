#include "canigo/cancel.hpp"

#include <mutex>

namespace canigo {

class cancel_source::registry {
 public:
  void add(registration& r) {
    const std::lock_guard lock{mutex_};
    if (cancelled_) throw std::system_error{net::error::operation_aborted};
    r.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &r;
    first_ = &r;
  }

  void remove(registration& r) noexcept {
    const std::lock_guard lock{mutex_};
    unlink(r);
  }

  void cancel() {
    for (;;) {
      std::shared_ptr<detail::child> c;
      {
        const std::lock_guard lock{mutex_};
        cancelled_ = true;
        if (first_ == nullptr) return;
        c = first_->child_;
        unlink(*first_);
      }
      c->cancel(net::cancellation_type::terminal);
    }
  }

  bool cancelled() const noexcept {
    const std::lock_guard lock{mutex_};
    return cancelled_;
  }

 private:
  void unlink(registration& r) noexcept {
    if (r.next_ != nullptr) r.next_->previous_ = r.previous_;
    if (r.previous_ != nullptr) r.previous_->next_ = r.next_;
    if (first_ == &r) first_ = r.next_;
    r.previous_ = r.next_ = nullptr;
  }

  mutable detail::mutex mutex_;
  bool cancelled_ = false;
  registration* first_ = nullptr;
};

cancel_source::registration::registration(std::shared_ptr<registry> r, std::shared_ptr<detail::child> c)
    : registry_{std::move(r)}, child_{std::move(c)} {
  registry_->add(*this);
}

cancel_source::registration::~registration() { registry_->remove(*this); }

cancel_source::cancel_source() : registry_{std::make_shared<registry>()} {}

cancel_source::~cancel_source() = default;

void cancel_source::cancel() { registry_->cancel(); }

bool cancel_source::cancelled() const noexcept { return registry_->cancelled(); }

}  // namespace canigo
