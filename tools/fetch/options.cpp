#include "options.hpp"

#include "json_call.hpp"
#include "text.hpp"
#include "tools/shared/pages.hpp"
#include "tools/shared/versions.hpp"

#include <CLI/CLI.hpp>
#include <curl/curl.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace fetch {

namespace {

constexpr const char* about = R"(Makes HTTP calls at a rate that is never exceeded, the important ones first.

Reads lines "PRIORITY URL" while it runs: a pipe may stay open, and a call that comes later but matters more
goes first. Priority 0 is the most important. Empty lines and lines that start with # are skipped.
A line may also be a JSON object with url, priority, id, method, headers, and body or body_file.

  printf '0 http://localhost:8080/a\n2 http://localhost:8080/b\n' | canigo-fetch --rate 10/3s)";

constexpr const char* notes =
    R"(Every request counts, also the one that a redirect asks for, and a second attempt.
After a response 429, 503 or 529 its call is tried again. If the server says for how long, as by Retry-After, all calls
to that server wait; the others go on. And the server is asked less often, until it takes what it is asked.
After a failed connection, a timeout, or a response 408, 500, 502 or 504 a call is tried again, too, but not with
POST or PATCH if the server may have executed it.
A TIME is a number with a unit, such as 500ms, 10s, 1m or 2h; more than 0, up to 277777h.
Ctrl-C stops taking new calls and lets those that run finish; again, or after the grace time, it cancels them.

Exit codes: 0 all calls were fine; 1 some failed; 2 bad usage, or input, output or journal failed; 3 all were fine,
but some lines were not understood; 130 interrupted, 143 terminated.)";

template <class Number>
CLI::Option* count_option(CLI::App& app, const std::string& name, Number& target, Number most,
                          const std::string& text) {
  return app.add_option(name, target, text)
      ->check(CLI::Range(Number{1}, most).description(""))
      ->type_name(fmt::format("1..{}", most))
      ->capture_default_str();
}

canigo::duration to_time(const std::string& option, const std::string& text) {
  constexpr double longest = 277'777;  // the longest duration that an option accepts, in hours
  const auto refuse = [&](const std::string& why) { throw CLI::ValidationError{option, text + why}; };
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [after, failed] = std::from_chars(text.data(), end, number);
  if (failed == std::errc::invalid_argument) refuse(" is no time; allowed: a number with a unit: ms, s, m, h");
  std::string unit{after, end};
  CLI::detail::trim(unit);
  if (unit.empty()) refuse(fmt::format(" needs a unit, for instance {}s", text));
  static const std::map<std::string, double> units{{"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
  const auto known = units.find(unit);
  if (known == units.end()) refuse(" has an unknown unit; allowed: ms, s, m, h");
  const double ns = number * known->second;
  if (failed != std::errc{} || !(ns >= 1 && ns <= longest * 3600e9)) {
    refuse(fmt::format(" is out of range; allowed: more than 0, up to {}h", longest));
  }
  return canigo::duration{static_cast<std::int64_t>(ns)};
}

void time_option(CLI::App& app, const std::string& name, canigo::duration& target, const std::string& text) {
  const std::string option = name.substr(name.find("--"));
  const auto set = [&target, option](const std::string& value) { target = to_time(option, value); };
  app.add_option_function<std::string>(name, set, text)->default_str(canigo::to_string(target))->type_name("TIME");
}

CLI::Option* rate_option(CLI::App& app, const std::string& name, std::optional<canigo::rate>& target,
                         const std::string& text) {
  const std::string option = name.substr(name.find("--"));
  const auto set = [&target, option](const std::string& value) {
    try {
      target = canigo::rate::parse(value);
    } catch (const std::system_error& e) {
      throw CLI::ValidationError{option, e.what()};
    }
  };
  return app.add_option_function<std::string>(name, set, text)->type_name("N/PERIOD");
}

void host_options(CLI::App& app, server_limits& of_each) {
  rate_option(app, "--per-host", of_each.rate, "Calls per period to each server: scheme, host and port");
  count_option<std::uint64_t>(app, "--per-host-burst", of_each.burst, 1'000'000,
                              "Most calls made at once to one server after a quiet time")
      ->needs("--per-host");
  count_option<std::size_t>(app, "--per-host-connections", of_each.connections, 65536,
                            "Most calls under way to one server");
}

void adaptive_option(CLI::App& app, options& o) {
  app.add_flag("--adaptive", o.per_host.is_adaptive,
               "Find out how many calls at a time each server answers best; the numbers of connections are the most");
}

void header_option(CLI::App& app, canigo::http::headers& target) {
  const auto add = [&target](const std::vector<std::string>& fields) {
    for (const std::string& field : fields) {
      const auto colon = field.find(':');
      // The message does not show the text, because the text may be a secret.
      if (colon == std::string::npos) throw CLI::ValidationError{"--header", "has no ':'; allowed: NAME: VALUE"};
      std::string name = field.substr(0, colon);
      std::string value = field.substr(colon + 1);
      CLI::detail::trim(value);
      if (const auto problem = problem_of_header(name, value); !problem.empty()) {
        throw CLI::ValidationError{"--header", problem};
      }
      target.add(name, value);
    }
  };
  app.add_option_function<std::vector<std::string>>("-H,--header", add, "A header field of all calls; may be repeated")
      ->type_name("NAME:VALUE")
      ->take_all()
      ->type_size(1)
      ->expected(1)
      // A word after the option's value is not a second value, but the input or another option.
      ->allow_extra_args(false);
}

void request_options(CLI::App& app, common_parts& common) {
  app.add_option_function<std::string>(
         "-X,--request",
         [&common](const std::string& method) {
           if (const auto allowed = problem_of_method(method); !allowed.empty()) {
             throw CLI::ValidationError{"--request", fmt::format("{}; allowed: {}", printable(method), allowed)};
           }
           common.method = method;
         },
         "Method of all calls; GET by default, and POST with a body")
      ->type_name("METHOD");
  header_option(app, common.headers);
  app.add_option_function<std::string>(
         "-d,--data",
         [&common](const std::string& data) {
           try {
             common.body = data.starts_with('@') ? file_text(data.substr(1)) : data;
           } catch (const std::system_error& e) {
             throw CLI::ValidationError{"--data", e.what()};
           }
         },
         "Body of all calls, as a form unless --header gives a Content-Type; @FILE: that of the file")
      ->type_name("TEXT");
  app.add_option_function<std::string>(
         "-u,--user",
         [&common](const std::string& text) {
           if (text.find(':') == std::string::npos) {
             throw CLI::ValidationError{"--user", "has no ':'; allowed: NAME:PASSWORD"};
           }
           common.credentials = to_credentials(text);
         },
         "Credentials for URLs that have none")
      ->type_name("NAME:PASSWORD");
}

void output_options(CLI::App& app, options& o) {
  app.add_option("-o,--output-dir", o.output_dir, "Folder that gets a file for each response below 400")
      ->type_name("DIR");
  app.add_option_function<std::string>(
         "--name",
         [&o](const std::string& text) {
           try {
             o.name = name_template{text};
           } catch (const std::system_error& e) {
             throw CLI::ValidationError{"--name", fmt::format("{}: {}", printable(text), e.what())};
           }
         },
         "Names of these files, with {order}, {class}, {id}, {host}, {file} in them")
      ->default_str("{order}")
      ->type_name("TEMPLATE")
      ->needs("--output-dir");
  app.add_flag("--overwrite", o.overwrite, "Replace files that are there; else their calls fail unsent")
      ->needs("--output-dir");
  count_option<std::uint64_t>(app, "--max-filesize", o.longest_file, std::uint64_t{1} << 50,
                              "Most bytes of such a file")
      ->needs("--output-dir");
}

void tls_options(CLI::App& app, options& o) {
  const auto file_option = [&app](const std::string& name, std::string& target, const std::string& text) {
    return app.add_option(name, target, text)->check(CLI::ExistingFile.description(""))->type_name("FILE");
  };
  file_option("--cacert", o.ca_file, "PEM file of the certificates that are trusted, instead of the system's");
  app.add_flag_callback(
         "-k,--insecure", [&o] { o.verify_tls = false; }, "Check no server's certificate")
      ->excludes("--cacert");
  file_option("--cert", o.cert_file, "PEM file of our certificate, for servers that ask for one; it may have the key");
  file_option("--key", o.key_file, "PEM file of its key")->needs("--cert");
  app.add_option("--pass", o.key_password, "Password of that key")->type_name("TEXT")->needs("--cert");
}

/// Throws if the options give a body to requests with the method GET or HEAD.
void check(const common_parts& common) {
  if (!common.body.empty() && (common.method == "GET" || common.method == "HEAD")) {
    throw CLI::ValidationError{"--request", common.method + " has no body; allowed with --data: another method"};
  }
}

}  // namespace

options parse(int argc, char** argv) {
  options o;
  CLI::App app{about, "canigo-fetch"};
  app.footer(notes);
  app.set_version_flag(
      "--version",
      [] { return tools::versions("canigo-fetch", fmt::format("{} {}", ::curl_version(), json_library())); },
      "Print the version, and those of the libraries");
  tools::add_page_option(app);
  app.add_option("input", o.input, "File to read from; - is the standard input")->capture_default_str();
  rate_option(app, "-r,--rate", o.rate, "Calls per period: 5/s, 10/3s, 1000/h; with --per-host no such limit")
      ->default_str("5/s");
  count_option<std::uint64_t>(app, "-b,--burst", o.burst, 1'000'000, "Most calls made at once after a quiet time");
  host_options(app, o.per_host);
  count_option<int>(app, "-p,--priorities", o.priorities, 1024, "Classes: 0 (first) to this less one");
  count_option<std::size_t>(app, "-c,--connections", o.connections, 65536, "Most calls under way at a time");
  adaptive_option(app, o);
  time_option(app, "-t,--timeout", o.timeout, "For one request, from sending to the last byte");
  count_option<std::size_t>(app, "-q,--queue-limit", o.queue_limit, 10'000'000,
                            "Most calls of one class that are read ahead");
  count_option<int>(app, "-a,--attempts", o.attempts, 1000,
                    "Most tries of a call that fails for a reason that may pass");
  app.add_option("--max-redirs", o.max_redirects, "Most redirects followed of a call; 0: the redirect is its result")
      ->check(CLI::Range(0, 100).description(""))
      ->type_name("0..100")
      ->capture_default_str();
  tls_options(app, o);
  app.add_flag("--no-private", o.only_public,
               "Connect to no address of a private network, nor behind a redirect; no proxy is used");
  app.add_flag("--compressed", o.decodes_bodies, "Ask for compressed responses, and decode them");
  time_option(app, "-m,--max-pause", o.max_pause, "Longest pause that a server gets which asks for one");
  time_option(app, "-g,--grace", o.grace, "For running calls to finish after Ctrl-C");
  request_options(app, o.common);
  output_options(app, o);
  app.add_option("-j,--journal", o.journal,
                 "File that notes which calls have succeeded; a later run of the same list leaves them out")
      ->type_name("FILE");
  const std::map<std::string, output> formats{{"text", output::text}, {"json", output::json}, {"none", output::none}};
  app.add_option_function<std::string>(
         "--format", [&](const std::string& name) { o.format = formats.at(name); },
         "Of the results: a line per call and a summary; or, with none, the summary alone")
      ->check(CLI::IsMember({"text", "json", "none"}).description(""))
      ->default_str("text")
      ->type_name("text|json|none");
  // The flag is set by a callback, because CLI11 would set a std::optional to false if the flag is not given.
  app.add_flag_callback(
      "--progress", [&o] { o.shows_progress = true; },
      "Show how far it is in a line on the standard error; by default if that is a terminal");
  app.add_flag_callback("--no-progress", [&o] { o.shows_progress = false; }, "Show no such line");
  try {
    app.parse(argc, argv);
    check(o.common);
    if (!o.rate && !o.per_host.rate) o.rate = canigo::rate::per_second(5);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e) == 0 ? all_ok : bad_usage);
  }
  return o;
}

}  // namespace fetch
