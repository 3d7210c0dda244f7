#pragma once

#include <canigo/jobs/job_info.hpp>

#include <string_view>

/// Prints a job. `is_whole`: prints all fields of the job; otherwise only the fields that a list shows.
void print(const canigo::jobs::job_info& j, bool as_json, bool is_whole);

void print_head_of_list();

/// Prints the numbers of jobs in a queue as a line of JSON.
void print_as_json(const canigo::jobs::queue_count& q);

/// Prints the job's number and the text `what`, which says what happened to the job. Returns `is_wanted`.
bool told(canigo::jobs::job_id id, std::string_view what, bool is_wanted);
