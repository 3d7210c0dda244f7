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

// These functions build the answers that the gateway itself gives to a call, after the call has waited or was sent to
// an upstream.
namespace canigo::gateway {

/// Builds the answer to a call that an operator has ended.
refusal ended_by_operator();
/// Builds the answer to a call that is ended because the process ends.
refusal ended_by_drain();

/// Builds the answer to a call whose wait for a place at the upstream of `q` has ended with `error`. `tenant`: an index
/// into config::tenants.
refusal refusal_of(const error_code& error, upstream_queue& q, std::size_t tenant, const request& ask);

/// Builds the answer 404 for a model that no target of the upstream serves.
refusal refusal_of_model(std::string_view model);

/// Builds the refusal of a call if a quota is used up at each target that could serve the call. Returns nothing if at
/// least one of these targets has no used-up quota for the call.
std::optional<refusal> refusal_by_quota(const upstream_queue& q, std::size_t tenant, const token_estimate& needs,
                                        target_set among);

/// Builds the answer to a call whose attempt ended before the client got a byte of a response. Returns nothing if no
/// answer is sent for this end of an attempt.
///
/// `failure`: why the connection failed; empty if that is unknown.
std::optional<refusal> refusal_of(attempt_end end, request_body::status body, const std::string& failure = {});

}  // namespace canigo::gateway
