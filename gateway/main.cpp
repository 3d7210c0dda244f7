// canigo-gateway forwards outbound HTTP calls within quotas, and the most important calls first. See
// docs/gateway-configuration.md.

#include "canigo/version.hpp"

#include "gateway/admin/admin.hpp"
#include "gateway/config/file_values.hpp"
#include "gateway/config/presets.hpp"
#include "gateway/config/reader.hpp"
#include "gateway/process/server.hpp"
#include "gateway/process/service.hpp"
#include "gateway/wire/standard_error.hpp"
#include "tools/shared/pages.hpp"
#include "tools/shared/versions.hpp"

#include <CLI/CLI.hpp>
#include <boost/version.hpp>
#include <fmt/core.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <openssl/crypto.h>
#include <toml++/toml.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <iostream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

// Options for jemalloc; they have no effect if the program is not linked with jemalloc. Without a background thread,
// jemalloc returns memory to the system only while requests come.
extern "C" [[gnu::visibility("default")]] const char* malloc_conf;
const char* malloc_conf = "background_thread:true";

namespace {

constexpr int wrong = 2;

/// Returns the versions of the libraries that only this program uses. tools::versions() adds the versions of the
/// libraries that all canigo programs use.
std::string own_libraries() {
  return fmt::format("Boost/{}.{}.{} {} toml++/{}.{}.{} nlohmann_json/{}.{}.{}", BOOST_VERSION / 100'000,
                     BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100, OpenSSL_version(OPENSSL_VERSION), TOML_LIB_MAJOR,
                     TOML_LIB_MINOR, TOML_LIB_PATCH, NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                     NLOHMANN_JSON_VERSION_PATCH);
}

/// Writes to standard error. If standard error is a pipe with a slow reader, waits for the reader for up to 5 s. Call
/// it only when no requests are served.
void complain(const std::string& text) noexcept {
  canigo::gateway::write_to_standard_error(text, std::chrono::seconds{5});
}

/// Opens /dev/null for each standard descriptor that is closed. Otherwise the next file or socket that the program
/// opens would become standard input, output or error.
void fill_standard_descriptors() noexcept {
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0; fd = ::dup(fd)) {
    if (fd <= STDERR_FILENO) continue;
    ::close(fd);
    break;
  }
}

/// Ignores SIGTERM, SIGINT and SIGHUP until the process ends, even after the server is destroyed. Otherwise a signal
/// could end the process before the last log lines are written.
void hold_signals() {
  static auto& loop = *new canigo::net::io_context;  // never destroyed: a signal may come until the process ends
  static auto& held = *new canigo::net::signal_set(loop);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) held.add(number);
}

/// Adds the option `--print-preset` to the command line: it prints the text of a preset, and ends the program.
void add_preset_option(CLI::App& app) {
  std::vector<std::string> names;
  for (const auto& p : canigo::gateway::presets()) names.emplace_back(p.name);
  app.add_option_function<std::string>(
         "--print-preset",
         [](const std::string& name) {
           std::string text{canigo::gateway::find_preset(name)->text};
           text.pop_back();  // removes the last line end of the text, because CLI11 adds one
           throw CLI::CallForVersion{text, 0};
         },
         "Print what an upstream of a provider has where the configuration says nothing else")
      ->check(CLI::IsMember(names).description(""))
      ->trigger_on_parse()  // runs before CLI11 reports that a required option is missing
      ->type_name(fmt::format("{}", fmt::join(names, "|")));
}

int run(canigo::gateway::config c, const std::string& file) {
  hold_signals();
  canigo::gateway::admin by;
  canigo::gateway::server s{std::move(c), file, by};
  for (const std::string& a : s.addresses()) complain(fmt::format("canigo-gateway: listening on {}\n", a));
  return s.run() ? 0 : 1;
}

int serve(const std::string& file, bool only_check) {
  auto read = canigo::gateway::read_config(file);
  for (const auto& e : read.errors) complain(canigo::gateway::message_of(e, file) + '\n');
  if (!read.value) return wrong;
  if (const auto& admin = read.value->admin; admin && !admin->listen.is_local()) {
    complain(fmt::format(
        "canigo-gateway: warning: other machines reach admin.listen, {}, and there is no TLS: the token can be read on "
        "the way\n",
        admin->listen.host));
  }
  const auto tell = [&](const canigo::gateway::value_error& e) {
    complain(canigo::gateway::message_of(read.values->locate(e), file) + '\n');
  };
  try {
    if (!only_check) return run(std::move(*read.value), file);
    canigo::gateway::service::check(*read.value);
  } catch (const canigo::gateway::start_failure& e) {
    tell(e.error);
    return EXIT_FAILURE;
  } catch (const canigo::gateway::config_mistake& e) {
    tell(e.error);
    return wrong;
  }
  fmt::print("{}: ok\n", file);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  fill_standard_descriptors();
  // If SIGPIPE and SIGXFSZ are ignored, a failed write returns an error and does not end the process. A SIGHUP that
  // comes before the server runs is ignored, because the configuration will be read anyway.
  for (const int number : {SIGPIPE, SIGXFSZ, SIGHUP}) std::signal(number, SIG_IGN);
  CLI::App app{"Outbound HTTP calls within quotas, the important ones first", "canigo-gateway"};
  app.footer(
      "SIGHUP reads the configuration again. SIGTERM ends the program when all who wait are served, or when their "
      "grace is over; a second one ends it now.\n\n"
      "Exit status: 0 all requests were served, 1 some were cut or it can't run, 2 the configuration or the command is "
      "wrong. docs/gateway-configuration.md describes the configuration.");
  std::string file;
  bool only_check = false;
  app.add_option("--config", file, "The configuration, in TOML")->type_name("FILE")->required();
  app.add_flag("--check", only_check, "Only read the configuration, and say what is wrong with it");
  app.set_version_flag("--version", tools::versions("canigo-gateway", own_libraries()));
  tools::add_page_option(app);
  add_preset_option(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (app.exit(e) != 0) return wrong;
    std::cout.flush();
    return std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0 ? 0 : EXIT_FAILURE;
  }
  return serve(file, only_check);
} catch (const std::exception& e) {
  complain(fmt::format("canigo-gateway: {}\n", e.what()));
  return EXIT_FAILURE;
}
