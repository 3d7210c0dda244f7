#include "canigo/error.hpp"
#include "canigo/version.hpp"

#include "gateway/config/reader.hpp"
#include "gateway/http/server.hpp"
#include "gateway/supported.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace {

constexpr std::string_view usage =
    R"(canigo-gateway --config FILE    outbound HTTP calls within quotas, the important ones first

  --config FILE   the configuration, in TOML
  --check         only reads the configuration, and says what is wrong with it
  --version       the version
  --help          this text

Exit status: 0 all requests were served, 1 some were cut or it can't run, 2 the configuration or the command is wrong.
docs/gateway-configuration.md describes the configuration.
)";

constexpr int wrong = 2;

int fail_usage(const std::string& why) {
  fmt::print(stderr, "canigo-gateway: {}\nTry: canigo-gateway --help\n", why);
  return wrong;
}

int serve(const std::string& file, bool only_check) {
  auto read = canigo::gateway::read_config(file);
  for (const auto& e : read.errors) fmt::print(stderr, "{}\n", canigo::gateway::message_of(e, file));
  if (!read.value) return wrong;
  const auto missing = canigo::gateway::unsupported(*read.value);
  for (const std::string& m : missing) fmt::print(stderr, "{}: {}\n", file, m);
  if (!missing.empty()) return wrong;
  if (only_check) {
    fmt::print("{}: ok\n", file);
    return 0;
  }
  canigo::gateway::server s{std::move(*read.value)};
  for (const std::string& a : s.addresses()) fmt::print(stderr, "canigo-gateway: listening on {}\n", a);
  return s.run() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string file;
  bool only_check = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      fmt::print("{}", usage);
      return 0;
    }
    if (option == "--version") {
      fmt::print("canigo-gateway {}\n", canigo::version());
      return 0;
    }
    if (option == "--check") {
      only_check = true;
    } else if (option == "--config" && i + 1 < argc) {
      file = argv[++i];
    } else {
      return fail_usage(fmt::format("{} is no option, or its value is missing", option));
    }
  }
  if (file.empty()) return fail_usage("--config is missing");
  return serve(file, only_check);
} catch (const std::exception& e) {
  fmt::print(stderr, "canigo-gateway: {}\n", e.what());
  return EXIT_FAILURE;
}
