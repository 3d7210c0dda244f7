#pragma once

#include <cstdint>
#include <memory>

namespace canigo {

namespace detail {
class shared_places;
}

struct shared_cap_options {
  std::uint64_t permits = 1;  ///< most that are out at once, of all limiters together; 1 to 2^62
};

/// One cap on concurrency for several limiters, each of which has rates, classes and a queue of its own:
///
///     canigo::shared_cap connections{{.permits = 2}};
///     canigo::limiter reports{io, {.rates = {{canigo::rate::per_minute(3)}}, .share = connections}};
///     canigo::limiter payments{io, {.rates = {{canigo::rate::per_second(100)}}, .share = connections}};
///
/// A request takes a place of the cap in one step with the tokens of its limiter. While it waits for its rate, it
/// holds no place. At no instant are more permits out, of all limiters together, than there are.
///
/// A place that comes back goes, in the same instant, to a limiter whose first waiter could go now. The most important
/// class goes first; inside a class, the limiter that has lacked a place for longest. So no limiter starves another
/// one of the same class, even with a long queue.
///
/// A copy is the same cap. The cap may be destroyed before its limiters and their permits: they keep what they need of
/// it. The limiters may live on different execution contexts.
///
/// Threads: any, all members, at once. Allocates: in the constructor.
class shared_cap {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  explicit shared_cap(const shared_cap_options& options);
  shared_cap(const shared_cap& other) = default;  // and no move: every cap has places
  shared_cap& operator=(const shared_cap& other) = default;
  ~shared_cap() = default;

  /// Changes the number of permits, 1 to 2^62. Revokes none: after a smaller number, no request is granted until enough
  /// permits have been dropped.
  void resize(std::uint64_t permits);

  /// The permits of all limiters that are out, or granted and on their way.
  std::uint64_t held() const noexcept;
  /// All permits; less than `held()` for a while after a resize() to less.
  std::uint64_t permits() const noexcept;

 private:
  friend class limiter;
  std::shared_ptr<detail::shared_places> places_;
};

}  // namespace canigo
