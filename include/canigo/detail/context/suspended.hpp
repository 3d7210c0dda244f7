#pragma once

#include "canigo/detail/context/work_item.hpp"
#include "canigo/time.hpp"

#include <chrono>

namespace canigo::detail {

/// How many callers a drain resumes before the rest of the loop has its turn.
inline constexpr int resumptions_per_turn = 128;
/// A step that failed for lack of memory is tried again after this time.
inline constexpr duration retry_after = std::chrono::milliseconds{1};

/// A caller that is suspended: its completion handler, and the way back to it.
///
/// The code that ends the wait calls exactly one of resume, post and destroy, once. resume() frees this and calls the
/// handler: only on the handler's executor. destroy() gives back what was granted, frees this and the handler, and
/// calls nothing.
class suspended : public work_item {
 public:
  /// Posts resume() to the handler's executor. If that throws, nothing has happened.
  virtual void post() = 0;
  /// Like post(), for a caller whose executor is not that of the object it waits for.
  virtual void post_across() { post(); }

 protected:
  ~suspended() = default;
};

using suspended_list = item_list<suspended>;

}  // namespace canigo::detail
