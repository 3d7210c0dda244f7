#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Keeps, for each model of an upstream, a moving average of the ratio of used tokens to estimated tokens.
///
/// Each request contributes an eighth to its model's ratio. The 256 models that were used last are kept; the ratio of
/// any other model is 1.
///
/// Threads: any. Allocates: for the first request of a model.
class token_ratios {
 public:
  static constexpr double least = 0.1;
  static constexpr double most = 2;
  static constexpr std::size_t most_models = 256;

  /// Returns the model's ratio of used to estimated tokens, from 0.1 to 2; 1 for a model that is not known.
  double of(std::string_view model) const;
  /// Updates the model's ratio after a request has ended. `estimated`: the estimate before the ratio was applied; if it
  /// is 0, the function does nothing.
  void learn(std::string_view model, std::uint64_t estimated, std::uint64_t used);

 private:
  struct entry {
    double ratio = 1;
    std::uint64_t turn = 0;  // grows with each use: the entry that was used last has the greatest number
  };

  mutable std::mutex mutex_;
  std::map<std::string, entry, std::less<>> models_;
  std::uint64_t turn_ = 0;
};

}  // namespace canigo::gateway
