#pragma once

#include "gateway/wire/message.hpp"
#include "gateway/wire/text.hpp"

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// The value of the first field of that name.
std::optional<std::string_view> value_of(const message_head& head, std::string_view name) noexcept;
std::size_t count_of(const message_head& head, std::string_view name) noexcept;
/// Whether the request signs its connection in, and not itself, by NTLM or Negotiate. The request of another client
/// over the same connection would then pass for this client's.
///
/// Source: RFC 4559, section 5; [MS-NTHT].
bool signs_in_connection(const message_head& head) noexcept;

/// The elements of all Connection fields, as views into `head`.
std::vector<std::string_view> named_by_connection(const message_head& head);

/// Whether a field belongs to one connection, and not to the message: "Connection", "Keep-Alive", "Proxy-*", "TE",
/// "Trailer", "Transfer-Encoding", "Upgrade".
bool is_of_connection(std::string_view name) noexcept;

/// Whether `names` has this name, in any case of its letters.
bool is_one_of(std::string_view name, const std::vector<std::string_view>& names) noexcept;

}  // namespace canigo::gateway
