#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/units.hpp"
#include "gateway/wire/message.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The targets of an upstream, as a set; bit 0 for an upstream without any.
target_set targets_of(const upstream& u) noexcept;

/// The targets that serve a model: those that name it, and those that name none. Without a model, all.
target_set serving(const upstream& u, std::string_view model) noexcept;

/// The settings of an upstream as they are for one target: with its URL, its credential, its
/// cap, and its provider's ways to refuse a call.
upstream settings_at(const upstream& u, const target& t);

/// The target in the request line for a target of an upstream. A path of target::paths is changed; its query goes in
/// front of the client's. The model is percent-encoded (RFC 3986, 2.1).
std::string target_at(const upstream& u, const target& t, std::string_view path, std::string_view model);

/// Names the calls that belong together; nothing: the call lacks the field, the cookie or the body. `body`: the part
/// that was read.
std::optional<std::uint64_t> sticky_key(const sticky_options& o, const message_head& head, std::string_view body);

/// The target for the calls of a key: always the same one of a set. Another set moves only the keys whose target it
/// lacks. It is one of those with the lowest `prefer`; nothing: the set is empty.
///
/// Source: D. Thaler, C. Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", 1998 (rendezvous hashing).
std::optional<std::size_t> target_of_key(const upstream& u, target_set of, std::uint64_t key) noexcept;

/// Whether a status says that the target does not take this key or account: 401 and 402. A 403 is often about the call.
constexpr bool refuses_key(int status) noexcept { return status == 401 || status == 402; }

}  // namespace canigo::gateway
