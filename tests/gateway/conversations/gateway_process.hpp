#pragma once

#include "loop.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

namespace conversations {

/// The program under test, from its start until it has ended.
class gateway_process {
 public:
  /// Starts it, and returns when it listens at so many places.
  gateway_process(loop& l, const std::string& program, const std::filesystem::path& folder, int places);
  ~gateway_process();
  gateway_process(const gateway_process&) = delete;
  gateway_process& operator=(const gateway_process&) = delete;

  void signal(int number) const;
  bool is_running() const;
  /// The status of waitpid(), once it has ended.
  std::optional<int> status() const;
  /// What it has written to standard error: the end of it, and of a defect all.
  const std::string& said() const;
  /// Whether it has told of a defect, itself or by a sanitizer.
  bool has_told_of_defect() const;

 private:
  class listener;
  loop& loop_;
  pid_t process_ = -1;
  std::shared_ptr<listener> errors_;
  int descriptor_ = -1;
  mutable std::optional<int> status_;
};

}  // namespace conversations
