#pragma once

#include "canigo/jobs/job_info.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace canigo::jobs::detail {

/// Adds an entry, and drops the oldest beyond most_events.
void add_event(std::vector<event>& history, event e);

/// A history as a database keeps it: a line for each entry, with its instant, kind, attempt and text.
std::string encode(const std::vector<event>& history);
/// The entries of such a text. It leaves out lines that it does not understand.
std::vector<event> decode_history(std::string_view text);

}  // namespace canigo::jobs::detail
