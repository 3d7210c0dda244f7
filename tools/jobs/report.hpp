#pragma once

#include <canigo/jobs/job_info.hpp>

#include <string_view>

/// Prints a job: all about it, or what a list has.
void print(const canigo::jobs::job_info& j, bool as_json, bool is_whole);

void print_head_of_list();

/// Prints the counts of a queue as a line of JSON.
void print_as_json(const canigo::jobs::queue_count& q);

/// Says what became of a job, and passes on whether that was wanted.
bool told(canigo::jobs::job_id id, std::string_view what, bool is_wanted);
