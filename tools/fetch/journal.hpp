#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace fetch {

/// Which calls of a list have succeeded: a file with a line for each, so that an interrupted list can go on.
///
/// A line has the call's order and a hash of its line in the list, which tells a list from another. A last line that
/// was cut off, by a crash or a full disk, does not count.
class journal {
 public:
  /// Makes the file if there is none, and locks it. Throws std::system_error, which names the file, if it is no journal
  /// or another process has it.
  explicit journal(const std::string& path);
  ~journal();
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;

  static std::uint64_t hash_of(std::string_view line) noexcept;

  /// Whether the call has succeeded in an earlier run. Each is asked for once. Throws std::system_error if a call of
  /// this order, but of another line, has.
  bool has(std::size_t order, std::uint64_t hash);
  /// The call has succeeded. Throws std::system_error if the file can't take it.
  void add(std::size_t order, std::uint64_t hash);

 private:
  void read();
  void read_line(std::string_view line, std::size_t number);
  void write(std::string_view text);
  [[noreturn]] void fail(int why) const;
  [[noreturn]] void refuse(const std::string& why) const;

  const std::string path_;
  int file_ = -1;
  std::unordered_map<std::size_t, std::uint64_t> done_;  // the hash of each order
};

}  // namespace fetch
