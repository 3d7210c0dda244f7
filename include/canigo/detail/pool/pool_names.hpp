#pragma once

#include "canigo/pool.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::detail {

/// How the tasks of a pool ended, by name. An entry stays where it is, and its name never changes.
class pool_names {
 public:
  static constexpr std::size_t most = 256;

  /// The entry of a name; once there are many, one entry for all new names. Throws std::bad_alloc.
  name_stats& of(std::string_view name);

  std::size_t size() const noexcept { return entries_.size(); }

  /// Writes all but the names to `stats`, which has size() entries, and pointers to the names to `texts`, which has
  /// memory for them.
  void write(std::vector<name_stats>& stats, std::vector<const std::string*>& texts) const noexcept;

 private:
  std::map<std::string, name_stats, std::less<>> entries_;
};

}  // namespace canigo::detail
