#pragma once

#include "canigo/limiter.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// The limits of models: sublimits of their upstream's limiter.
///
/// Each model_limit has one. If its pattern ends in '*', each model that comes gets one more, until the upstream has
/// most_model_limits of them. Models that come later, and names that no operator would write, share that of the
/// model_limit. A model gets its limits when its first call comes, with what they would have gathered by then.
///
/// Threads: any.
class model_limits {
 public:
  /// `home` has the sublimits of options_of() first. It must outlive this object.
  model_limits(limiter& home, std::vector<model_limit> terms);
  model_limits(const model_limits&) = delete;
  model_limits& operator=(const model_limits&) = delete;

  static std::vector<sublimit_options> options_of(const std::vector<model_limit>& terms);

  /// The sublimit that a call for this model names; no_sublimit: none.
  int of(std::string_view model);
  /// The index of the model_limit of a sublimit.
  std::size_t entry_of(int sublimit) const;
  /// Changes the terms for all calls that wait. There are as many as before, of the same rates.
  void change(const std::vector<model_limit>& next);

 private:
  limiter& home_;
  const time_point began_;
  mutable std::mutex mutex_;  // guards the members below; the limiter is changed under it
  std::vector<model_limit> terms_;
  std::vector<std::size_t> entries_;                              // of each sublimit: the index of its model_limit
  std::vector<std::map<std::string, int, std::less<>>> by_name_;  // of each model_limit
};

}  // namespace canigo::gateway
