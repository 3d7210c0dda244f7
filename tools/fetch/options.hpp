#pragma once

#include <canigo/rate.hpp>
#include <canigo/time.hpp>

#include "call_queue.hpp"
#include "name_template.hpp"
#include "request.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace fetch {

/// The exit status of the process.
enum exit_code : int {
  all_ok = 0,
  some_failed = 1,    ///< a call had no response, or a response with a status of 400 or more
  bad_usage = 2,      ///< the usage is wrong, the input can't be read, or the output can't be written
  bad_input = 3,      ///< every call succeeded, but some lines were malformed or too long
  interrupted = 128,  ///< a signal ended the run: 128 plus the number of the signal, as shells report it
};

enum class output { text, json, none };

struct options {
  std::string input = "-";
  std::optional<canigo::rate> rate;  ///< the rate of all calls together; unset: only per_host has a rate
  std::uint64_t burst = 1;
  server_limits per_host;
  int priorities = 3;
  common_parts common;
  std::size_t connections = 16;
  int max_redirects = 5;  ///< 0: a redirect counts as the result
  bool verify_tls = true;
  std::string ca_file;       ///< empty: the system's trusted certificates
  std::string cert_file;     ///< the client's own certificate; empty: none
  std::string key_file;      ///< empty: cert_file also contains the key
  std::string key_password;  ///< empty: the key has no password
  bool decodes_bodies = false;
  bool only_public = false;  ///< refuses servers with private addresses
  canigo::duration timeout = std::chrono::seconds{10};
  std::size_t queue_limit = 1000;
  int attempts = 5;
  canigo::duration max_pause = std::chrono::minutes{5};
  canigo::duration grace = std::chrono::seconds{5};
  std::string journal;     ///< the path of the journal; empty: no journal
  std::string output_dir;  ///< empty: bodies are dropped
  name_template name{"{order}"};
  bool overwrite = false;
  std::uint64_t longest_file = std::uint64_t{1} << 30;  ///< the max size of a stored body, in bytes
  output format = output::text;
  std::optional<bool> shows_progress;  ///< unset: progress is shown only on a terminal
};

/// Parses the command line. For help, the version or a mistake it prints the text and ends the process.
options parse(int argc, char** argv);

}  // namespace fetch
