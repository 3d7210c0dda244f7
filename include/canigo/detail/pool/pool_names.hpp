#pragma once

#include "canigo/pool.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::detail {

/// Counts how the tasks of a pool ended, by name. The address and name of an entry never change.
class pool_names {
 public:
  static constexpr std::size_t most = 256;

  /// The entry of a name. After 255 names, all further names share one entry. Throws std::bad_alloc.
  name_stats& of(std::string_view name);

  std::size_t size() const noexcept { return entries_.size(); }

  /// Writes all counts, without names, to `stats`, which must have size() entries. Appends pointers to the names to
  /// `texts`, which must have memory for them.
  void write(std::vector<name_stats>& stats, std::vector<const std::string*>& texts) const noexcept;

 private:
  std::map<std::string, name_stats, std::less<>> entries_;
};

}  // namespace canigo::detail
