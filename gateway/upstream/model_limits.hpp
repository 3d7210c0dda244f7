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
/// Each model_limit has a sublimit. If models that match a model_limit have limits of their own, each such model gets
/// another sublimit when its first call comes. Its rates start as if the sublimit had existed since this object was
/// created. After most_model_limits sublimits, a new model uses the sublimit of its model_limit. So does a model whose
/// name is longer than 64 characters, is not visible ASCII, or has a '*'.
///
/// Threads: any.
class model_limits {
 public:
  /// `home`: the upstream's limiter, whose first sublimits are options_of(terms). `home` must outlive this object.
  model_limits(limiter& home, std::vector<model_limit> terms);
  model_limits(const model_limits&) = delete;
  model_limits& operator=(const model_limits&) = delete;

  /// Returns the options of one sublimit for each element of `terms`.
  static std::vector<sublimit_options> options_of(const std::vector<model_limit>& terms);

  /// Returns the number of the sublimit for calls of this model; no_sublimit if no model_limit matches. May add a
  /// sublimit to the limiter.
  int of(std::string_view model);
  /// Returns the index of the model_limit to which a sublimit belongs.
  std::size_t entry_of(int sublimit) const;
  /// Changes the limits after a reload, also for calls that wait. Precondition: `next` has as many elements as before,
  /// and each element has as many rates as before, of the same units.
  void change(const std::vector<model_limit>& next);

 private:
  limiter& home_;
  const time_point began_;
  mutable std::mutex mutex_;  // guards the members below, and is held while a sublimit is added or changed
  std::vector<model_limit> terms_;
  std::vector<std::size_t> entries_;                              // for each sublimit: the index of its model_limit
  std::vector<std::map<std::string, int, std::less<>>> by_name_;  // for each model_limit: sublimits by model name
};

}  // namespace canigo::gateway
