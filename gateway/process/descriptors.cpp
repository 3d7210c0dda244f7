#include "gateway/process/descriptors.hpp"

#include "gateway/wire/standard_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <unistd.h>

namespace canigo::gateway {

rlim_t raise_descriptor_limit(const config& c, std::size_t loops) {
  // Each event loop needs up to four file descriptors, and one more for each of its listening sockets.
  const rlim_t fewest = 40 + loops * (4 + c.listeners.size());
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return RLIM_INFINITY;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < fewest) {
    throw std::runtime_error{
        fmt::format("this process may open {} files (RLIMIT_NOFILE); allowed: {} or more, with {} threads and {} "
                    "listeners",
                    files.rlim_max, fewest, loops, c.listeners.size())};
  }
  if (files.rlim_max < c.connections.all) {
    say("this process may open {} files (RLIMIT_NOFILE), fewer than the {} of limits.connections.all; who has "
        "connected beyond that is not heard",
        files.rlim_max, c.connections.all);
  }
  return files.rlim_max;
}

int next_descriptor() noexcept {
  const int next = ::dup(STDERR_FILENO);
  if (next >= 0) ::close(next);
  return next;
}

descriptor_shares divide_descriptors(rlim_t files) noexcept {
  if (files > static_cast<rlim_t>(std::numeric_limits<int>::max())) return {};
  const auto all = static_cast<int>(files);
  const int clients = std::max(all - std::min(all / 4, 1024) - next_descriptor(), 1);
  return {.clients = static_cast<std::size_t>(clients), .first_reserved = all - std::clamp(all / 16, 8, 64)};
}

}  // namespace canigo::gateway
