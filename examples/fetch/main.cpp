// canigo-fetch: HTTP calls within a quota, the important ones first. docs/fetch.md says how to use it; fetcher.cpp is
// where canigo is used.

#include "fetcher.hpp"
#include "options.hpp"
#include "report.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <system_error>

int main(int argc, char** argv) {
  const fetch::options options = fetch::parse(argc, argv);
  std::signal(SIGPIPE, SIG_IGN);  // a server that hangs up is an error of its call, not our end
  try {
    asio::io_context io{1};
    fetch::report report{options};
    fetch::fetcher fetcher{io, options, report};
    asio::co_spawn(io, fetcher.run(), [](const std::exception_ptr& e) {
      if (e) std::rethrow_exception(e);
    });
    io.run();
    report.summary(fetcher.was_interrupted());
    return report.exit_code(fetcher.was_interrupted());
  } catch (const std::system_error& e) {
    fmt::print(stderr, "canigo-fetch: {}\n", e.what());
    return fetch::bad_usage;
  }
}
