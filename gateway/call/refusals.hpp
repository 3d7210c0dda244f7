#pragma once

#include "canigo/error.hpp"
#include "canigo/request.hpp"

#include "gateway/policy/refusal.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/upstream/attempt_end.hpp"
#include "gateway/upstream/upstream_queue.hpp"
#include "gateway/wire/request_body.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// The gateway's own answers to a call that has waited or was sent.
namespace canigo::gateway {

/// The answer to a call that an operator has ended.
refusal ended_by_operator();
/// The answer to a call that ends because the instance ends.
refusal ended_by_drain();

/// The answer to a call whose wait for a place of `q` has ended with this error.
/// `tenant`: an index into config::tenants.
refusal refusal_of(const error_code& error, upstream_queue& q, std::size_t tenant, const request& ask);

/// 404 for a model that no target of its upstream serves.
refusal refusal_of_model(std::string_view model);

/// A quota of a day, of which the call needs a part, is used up; nothing: none is.
std::optional<refusal> refusal_by_quota(const upstream_queue& q, std::size_t tenant, const token_estimate& needs);

/// The answer to a call whose attempt has ended so, before the client had anything of a response. Nothing: the gateway
/// has nothing to say.
///
/// `failure`: why there is no connection, if that is known.
std::optional<refusal> refusal_of(attempt_end end, request_body::status body, const std::string& failure = {});

}  // namespace canigo::gateway
