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

/// The limits of models: each is a sublimit of the upstream's limiter.
///
/// Each model_limit has a sublimit. If its models have limits of their own, each of these models gets a further
/// sublimit when its first call comes. The rates of that sublimit start as if it had existed since this object was
/// created. After most_model_limits sublimits, further models use the sublimit of their model_limit. So do models whose
/// name is longer than 64 characters, is not visible ASCII, or has a '*'.
///
/// Threads: any.
class model_limits {
 public:
  /// `home`: the upstream's limiter; it must have been created with the sublimits options_of(terms), and must outlive
  /// this object.
  model_limits(limiter& home, std::vector<model_limit> terms);
  model_limits(const model_limits&) = delete;
  model_limits& operator=(const model_limits&) = delete;

  /// Returns the options of the sublimits for a new limiter: one for each element of `terms`.
  static std::vector<sublimit_options> options_of(const std::vector<model_limit>& terms);

  /// Returns the index of the sublimit for calls of this model; no_sublimit if no model_limit matches. May add a
  /// sublimit to the limiter.
  int of(std::string_view model);
  /// Returns the index of the model_limit to which a sublimit belongs.
  std::size_t entry_of(int sublimit) const;
  /// Changes the limits after a reload, also for calls that wait. Precondition: `next` has as many elements as before,
  /// and each element has as many rates as before, with the same units.
  void change(const std::vector<model_limit>& next);

 private:
  limiter& home_;
  const time_point began_;
  mutable std::mutex mutex_;  // guards the members below; is also held while a sublimit is added or changed
  std::vector<model_limit> terms_;
  std::vector<std::size_t> entries_;  // for each sublimit of the limiter: the index of its model_limit
  // one map for each model_limit: from the name of a model to the index of the model's sublimit
  std::vector<std::map<std::string, int, std::less<>>> by_name_;
};

}  // namespace canigo::gateway
