#include "canigo/redis/command.hpp"

#include <hiredis/hiredis.h>

#include <cstddef>
#include <memory>
#include <new>

namespace canigo::redis {

std::string command::encoded() const {
  std::vector<const char*> texts;
  std::vector<std::size_t> lengths;
  texts.reserve(arguments_.size());
  lengths.reserve(arguments_.size());
  for (const auto& a : arguments_) {
    texts.push_back(a.data());
    lengths.push_back(a.size());
  }
  char* formatted = nullptr;
  const auto length = redisFormatCommandArgv(&formatted, static_cast<int>(texts.size()), texts.data(), lengths.data());
  const std::unique_ptr<char, decltype([](char* p) { redisFreeCommand(p); })> owner{formatted};
  if (length < 0) throw std::bad_alloc{};
  return {formatted, static_cast<std::size_t>(length)};
}

}  // namespace canigo::redis
