#pragma once

#include "loop.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

namespace conversations {

/// The gateway process under test, from its start to its end.
class gateway_process {
 public:
  /// Starts the gateway. Returns when it listens at `places` addresses.
  gateway_process(loop& l, const std::string& program, const std::filesystem::path& folder, int places);
  ~gateway_process();
  gateway_process(const gateway_process&) = delete;
  gateway_process& operator=(const gateway_process&) = delete;

  void signal(int number) const;
  bool is_running() const;
  /// The status from waitpid() after the process has ended.
  std::optional<int> status() const;
  /// The end of what the process has written to standard error; after a defect, all of it.
  const std::string& said() const;
  /// Whether the process, or a sanitizer in it, has reported a defect.
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
