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

/// How the process ends, as its user sees it.
enum exit_code : int {
  all_ok = 0,
  some_failed = 1,    ///< a call had no response, or one with a status of 400 or more
  bad_usage = 2,      ///< or the input can't be read, or the output not written
  bad_input = 3,      ///< every call was fine, but some lines were not understood
  interrupted = 128,  ///< and the number of the signal, as a shell says it
};

enum class output { text, json, none };

struct options {
  std::string input = "-";
  std::optional<canigo::rate> rate;  ///< of all calls together; unset: per_host has one
  std::uint64_t burst = 1;
  server_limits per_host;
  int priorities = 3;
  common_parts common;
  std::size_t connections = 16;
  int max_redirects = 5;  ///< 0: a redirect is the result
  bool verify_tls = true;
  std::string ca_file;       ///< empty: the system's
  std::string cert_file;     ///< the client's own; empty: none
  std::string key_file;      ///< empty: cert_file has the key, too
  std::string key_password;  ///< empty: it has none
  bool decodes_bodies = false;
  bool only_public = false;  ///< no server with a private address
  canigo::duration timeout = std::chrono::seconds{10};
  std::size_t queue_limit = 1000;
  int attempts = 5;
  canigo::duration max_pause = std::chrono::minutes{5};
  canigo::duration grace = std::chrono::seconds{5};
  std::string journal;     ///< path; empty: none
  std::string output_dir;  ///< empty: bodies are dropped
  name_template name{"{order}"};
  bool overwrite = false;
  std::uint64_t longest_file = std::uint64_t{1} << 30;  ///< bytes
  output format = output::text;
  std::optional<bool> shows_progress;  ///< unset: on a terminal
};

/// The options of the command line. Prints the help, the version or the mistake, and ends the process, if there is
/// cause.
options parse(int argc, char** argv);

}  // namespace fetch
