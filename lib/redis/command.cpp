#include "canigo/redis/command.hpp"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace canigo::redis {

std::string command::encoded() const {
  std::vector<const char*> texts(arguments_.size());
  std::vector<std::size_t> lengths(arguments_.size());
  std::ranges::transform(arguments_, texts.begin(), [](const std::string& a) { return a.data(); });
  std::ranges::transform(arguments_, lengths.begin(), [](const std::string& a) { return a.size(); });
  char* formatted = nullptr;
  const auto length = redisFormatCommandArgv(&formatted, static_cast<int>(texts.size()), texts.data(), lengths.data());
  const std::unique_ptr<char, decltype([](char* p) { redisFreeCommand(p); })> owner{formatted};
  if (length < 0) throw std::bad_alloc{};
  return {formatted, static_cast<std::size_t>(length)};
}

}  // namespace canigo::redis
