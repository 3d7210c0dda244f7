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
  std::optional<canigo::rate> rate;  ///< the max rate of all calls together; none: only per_host limits the rate
  std::uint64_t burst = 1;
  server_limits per_host;
  int priorities = 3;
  common_parts common;
  std::size_t connections = 16;
  int max_redirects = 5;  ///< how many redirects a call follows; 0: a redirect is the result of the call
  bool verify_tls = true;
  std::string ca_file;       ///< the trusted certificate authorities; empty: those of the system
  std::string cert_file;     ///< the certificate that the client shows; empty: none
  std::string key_file;      ///< the key of cert_file; empty: cert_file also contains the key
  std::string key_password;  ///< the password of the key; empty: it has none
  bool decodes_bodies = false;
  bool only_public = false;  ///< whether servers with private addresses are refused
  canigo::duration timeout = std::chrono::seconds{10};
  std::size_t queue_limit = 1000;
  int attempts = 5;
  canigo::duration max_pause = std::chrono::minutes{5};
  canigo::duration grace = std::chrono::seconds{5};
  std::string journal;     ///< the path of the journal; empty: no journal
  std::string output_dir;  ///< the folder for the bodies of responses; empty: bodies are dropped
  name_template name{"{order}"};
  bool overwrite = false;
  std::uint64_t longest_file = std::uint64_t{1} << 30;  ///< the max size of a stored body, in bytes
  output format = output::text;
  std::optional<bool> shows_progress;  ///< whether progress is shown; none: only if standard error is a terminal
};

/// Parses the command line. If it asks for help or the version, or has a mistake, prints the text and ends the process.
options parse(int argc, char** argv);

}  // namespace fetch
