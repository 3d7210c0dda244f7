// canigo-fetch: HTTP calls within a quota, the important ones first. docs/fetch.md says how to use it; fetcher.cpp is
// where canigo is used.

#include "fetcher.hpp"
#include "options.hpp"
#include "report.hpp"
#include "text.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <unistd.h>

namespace {

// A standard stream that is closed leaves its number to whatever is opened next, which would then be read or written
// in its place. So the number is taken by what can be neither read nor written, as the stream would be used.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const bool is_closed = ::fcntl(fd, F_GETFD) < 0 && errno == EBADF;
    if (is_closed && ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  std::setlocale(LC_CTYPE, "C.UTF-8");  // a host's name may have any letters
  std::signal(SIGPIPE, SIG_IGN);        // a server that hangs up is an error of its call, not our end
  std::signal(SIGXFSZ, SIG_IGN);        // and so is a file that may not grow
  const fetch::options options = fetch::parse(argc, argv);
  try {
    asio::io_context io{1};
    fetch::report report{options};
    fetch::fetcher fetcher{io, options, report};
    asio::co_spawn(io, fetcher.run(), [](const std::exception_ptr& e) {
      if (e) std::rethrow_exception(e);
    });
    io.run();
    report.summary(fetcher.signal());
    return report.exit_code(fetcher.signal());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "canigo-fetch: %s\n", fetch::printable(fetch::in_words_of_options(e.what())).c_str());
    return fetch::bad_usage;
  }
}
