#pragma once

#include <canigo/jobs/job_info.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The command and the options of canigo-jobs.
struct options {
  std::string place;
  std::string command;
  bool as_json = false;
  std::vector<canigo::jobs::job_id> ids = {};
  std::string queue = {};
  std::string batch = {};
  bool makes_queue = false;
  std::optional<canigo::jobs::job_state> state = {};
  canigo::jobs::job_id after = 0;
  std::size_t limit = 100;
  std::string to_queue = {};
  std::string to_place = {};
  double every = 2;
  std::size_t rounds = SIZE_MAX;
  std::optional<double> days = {};
  std::optional<std::size_t> keep = {};
};

/// Parses the command line. Ends the program with status 2 for wrong usage, and with 0 after help or the version.
options parse(int argc, char** argv);
