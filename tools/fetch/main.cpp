// canigo-fetch makes HTTP calls within a quota, the most important first. docs/fetch.md says how to use it. The code
// that uses canigo is in fetcher.cpp.

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

// Opens /dev/null for each standard stream that is closed. Otherwise the next opened file would get the descriptor of
// that stream, so a print could overwrite the file. A read from a replaced standard input fails, and a write to a
// replaced output fails.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const bool is_closed = ::fcntl(fd, F_GETFD) < 0 && errno == EBADF;
    if (is_closed && ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  std::setlocale(LC_CTYPE, "C.UTF-8");  // needed for host names with non-ASCII letters
  // Without this, a server that closes its connection could end the program. Now only the call fails.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit then causes an error instead of ending the program
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
