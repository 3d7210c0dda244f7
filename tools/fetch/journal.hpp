#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace fetch {

/// A file with one line for each call of an input list that has succeeded. A later run with the same list reads the
/// file, and skips these calls.
///
/// A line has the number of the call and a hash of the call's line in the list. The hash shows whether the journal
/// belongs to this list. If the last line was cut off by a crash or a full disk, it does not count.
class journal {
 public:
  /// Opens and locks the file. Creates it if it does not exist. Throws std::system_error, which names the file, if the
  /// file is no journal or another process uses it.
  explicit journal(const std::string& path);
  ~journal();
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;

  static std::uint64_t hash_of(std::string_view line) noexcept;

  /// Whether the call with this number succeeded in an earlier run. Call it once for each call. Throws
  /// std::system_error if the journal has a different hash for this number, because the journal then belongs to a
  /// different list.
  bool has(std::size_t order, std::uint64_t hash);
  /// Writes that the call has succeeded. Throws std::system_error if the file can't be written.
  void add(std::size_t order, std::uint64_t hash);

 private:
  void read();
  void read_line(std::string_view line, std::size_t number);
  void write(std::string_view text);
  [[noreturn]] void fail(int why) const;
  [[noreturn]] void refuse(const std::string& why) const;

  const std::string path_;
  int file_ = -1;
  // the hash of each successful call's line, by the call's number
  std::unordered_map<std::size_t, std::uint64_t> done_;
};

}  // namespace fetch
