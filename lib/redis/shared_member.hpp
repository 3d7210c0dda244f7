#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/context_service.hpp"
#include "canigo/net.hpp"
#include "canigo/time_source.hpp"

#include <asio/any_io_executor.hpp>

#include <memory>

namespace canigo::redis::detail {

/// A member of a context that is counted by shared pointers: counted_member for those that need weak ones, too. Its
/// context may go earlier, later, or just then on another thread.
class shared_member : private canigo::detail::context_member {
 protected:
  explicit shared_member(const net::any_io_executor& executor);
  virtual ~shared_member() = default;

  /// The first pointer to what was made just now.
  template <class T>
  static std::shared_ptr<T> shared(T* made) {
    std::shared_ptr<T> first{made, [](T* last) noexcept { static_cast<shared_member*>(last)->unreferenced(); }};
    static_cast<shared_member*>(made)->join();
    return first;
  }

  /// A pointer to this, if there is still one.
  virtual std::shared_ptr<void> reference() noexcept = 0;
  /// Gives up what reaches for the context, also when it goes with this. Under the lock, where nobody refers to this;
  /// maybe twice.
  virtual void let_go_of_context() noexcept = 0;
  /// The context is going: destroy what waits, call nothing, touch the context no more. With a reference held.
  virtual void end_with_context() noexcept = 0;

  mutable canigo::detail::mutex mutex_;
  bool context_gone_ = false;
  time_source* const time_;

 private:
  void context_shutdown() noexcept final;
  void join() noexcept;
  void unreferenced() noexcept;

  canigo::detail::context_service* const context_;
  bool is_known_ = false;            // to the context
  bool is_left_to_context_ = false;  // unreferenced when the context was about to shut it down: deleted by that
};

}  // namespace canigo::redis::detail
