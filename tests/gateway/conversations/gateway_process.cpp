#include "gateway_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <stdexcept>
#include <string_view>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace conversations {
namespace {

constexpr std::size_t most_kept = 64 << 10;

std::size_t count_of(const std::string& text, std::string_view what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

class gateway_process::listener : public loop::handler {
 public:
  listener(loop& l, int descriptor) : loop_{l}, descriptor_{descriptor} {}
  void ready(std::uint32_t) override {
    std::array<char, 4096> bytes;
    const auto n = ::read(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return loop_.forget(descriptor_);
    text.append(bytes.data(), static_cast<std::size_t>(n));
    for (const char* sign : {"Sanitizer", ": runtime error: ", ": a connection ended", "Assertion"})
      has_defect = has_defect || text.find(sign) != std::string::npos;
    if (text.size() > most_kept && !has_defect) text.erase(0, text.size() - most_kept / 2);
  }
  std::string text;
  bool has_defect = false;

 private:
  loop& loop_;
  int descriptor_;
};

gateway_process::gateway_process(loop& l, const std::string& program, const std::filesystem::path& folder, int places)
    : loop_{l} {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error{errno, std::system_category(), "pipe"};
  const std::string file = folder / "gateway.toml", certificate = folder / "cert.pem";
  process_ = ::fork();
  if (process_ < 0) throw std::system_error{errno, std::system_category(), "fork"};
  if (process_ == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::setenv("CANIGO_ADMIN_TOKEN", "an-admin-of-the-test", 1);
    ::setenv("CANIGO_TEST_CREDENTIAL", "Bearer of-the-gateway", 1);
    ::setenv("SSL_CERT_FILE", certificate.c_str(), 1);
    ::execl(program.c_str(), program.c_str(), "--config", file.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  descriptor_ = ends[0];
  ::fcntl(descriptor_, F_SETFL, O_NONBLOCK);
  errors_ = std::make_shared<listener>(l, descriptor_);
  l.watch(descriptor_, EPOLLIN, errors_);
  while (count_of(errors_->text, "listening on") < static_cast<std::size_t>(places)) {
    if (is_running()) {
      l.turn(milliseconds{10});
      continue;
    }
    l.forget(descriptor_);
    ::close(descriptor_);
    throw std::runtime_error{"the gateway does not start: " + errors_->text};
  }
}

gateway_process::~gateway_process() {
  if (is_running()) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  errors_.reset();
  loop_.forget(descriptor_);
  ::close(descriptor_);
}

void gateway_process::signal(int number) const {
  if (is_running()) ::kill(process_, number);
}

bool gateway_process::is_running() const {
  if (status_) return false;
  int status = 0;
  if (::waitpid(process_, &status, WNOHANG) != process_) return true;
  status_ = status;
  return false;
}

std::optional<int> gateway_process::status() const {
  static_cast<void>(is_running());
  return status_;
}

const std::string& gateway_process::said() const { return errors_->text; }
bool gateway_process::has_told_of_defect() const { return errors_->has_defect; }

}  // namespace conversations
