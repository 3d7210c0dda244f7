#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// For each model of an upstream the moving ratio of the tokens that requests use to those that were estimated.
///
/// Each request counts for an eighth of its model's ratio. It knows the 256 models that were seen last; the ratio of
/// another model is 1.
///
/// Threads: any. Allocates: for a model that it sees for the first time.
class token_ratios {
 public:
  static constexpr double least = 0.1;
  static constexpr double most = 2;
  static constexpr std::size_t most_models = 256;

  /// The ratio of used to estimated tokens, from 0.1 to 2; 1 for a model that is not known.
  double of(std::string_view model) const;
  /// Learns from a request that has ended. `estimated`: before the ratio was applied; if it is 0, nothing is learned.
  void learn(std::string_view model, std::uint64_t estimated, std::uint64_t used);

 private:
  struct entry {
    double ratio = 1;
    std::uint64_t turn = 0;  // a later entry has a greater number
  };

  mutable std::mutex mutex_;
  std::map<std::string, entry, std::less<>> models_;
  std::uint64_t turn_ = 0;
};

}  // namespace canigo::gateway
