#pragma once

#include <string>
#include <string_view>

namespace canigo::redis::detail {

/// Returns a name that can be a part of a key. Characters that would end the part, or the hash tag, become %xx.
std::string escaped(std::string_view name);

/// Returns "host:pid:random", by which people can identify the process.
std::string name_of_process();

}  // namespace canigo::redis::detail
