#pragma once

#include "canigo/jobs/job_info.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace canigo::jobs::detail {

/// Adds an entry to a history. If there are more than most_events, the oldest ones are removed.
void add_event(std::vector<event>& history, event e);

/// Encodes a history for a database: one line per entry, with its instant, kind, attempt and text.
std::string encode(const std::vector<event>& history);
/// Decodes the text that encode() has made. Malformed lines are skipped.
std::vector<event> decode_history(std::string_view text);

}  // namespace canigo::jobs::detail
