#pragma once

#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/rate.hpp"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace canigo::redis {}

namespace redis_test {

// The common declarations of all tests of Redis.
namespace net = canigo::net;
namespace redis = canigo::redis;
using canigo::errc;
using canigo::rate;

/// A folder that the destructor removes.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "canigo-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"mkdtemp"};
    path_ = name;
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The test's own redis-server on a Unix domain socket. The destructor stops it.
class redis_server {
 public:
  explicit redis_server(std::vector<std::string> arguments = {}) : arguments_{std::move(arguments)} { start(); }
  ~redis_server() { kill(); }
  redis_server(const redis_server&) = delete;
  redis_server& operator=(const redis_server&) = delete;

  std::string path() const { return folder_ / "redis.sock"; }
  std::string url() const { return "unix:" + path(); }
  pid_t pid() const noexcept { return pid_; }
  const temporary_folder& folder() const noexcept { return folder_; }

  void start() {
    std::vector<std::string> all{"redis-server",  "--port",      "0", "--unixsocket", path(),    "--dir",
                                 folder_ / "",    "--save",      "",  "--loglevel",   "warning", "--logfile",
                                 folder_ / "log", "--daemonize", "no"};
    all.insert(all.end(), arguments_.begin(), arguments_.end());
    std::vector<char*> argv;
    for (auto& a : all) argv.push_back(a.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the kernel ends the server if the test crashes
      const int nowhere = ::open("/dev/null", O_RDWR);
      for (const int fd : {0, 1, 2}) ::dup2(nowhere, fd);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    if (pid_ < 0) throw std::runtime_error{"redis-server can't be started"};
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (!answers()) {
      if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error{"redis-server does not answer"};
      std::this_thread::yield();
    }
  }

  /// Simulates a loss of power.
  void kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
    is_paused_ = false;
    ::unlink(path().c_str());
  }
  void restart() {
    kill();
    start();
  }
  void pause() {
    is_paused_ = true;
    ::kill(pid_, SIGSTOP);
  }
  void resume() {
    is_paused_ = false;
    ::kill(pid_, SIGCONT);
  }

  /// Waits until the server has handled all earlier requests. Returns whether it runs.
  bool has_answered() const { return pid_ != 0 && !is_paused_ && answers() && answers(); }

 private:
  bool answers() const {
    const int s = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    char answer[16] = {};
    const bool ok = ::connect(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                    ::send(s, "PING\r\n", 6, MSG_NOSIGNAL) == 6 && ::recv(s, answer, sizeof answer - 1, 0) > 0 &&
                    (answer[0] == '+' || std::string_view{answer}.starts_with("-NOAUTH"));
    ::close(s);
    return ok;
  }

  temporary_folder folder_;
  std::vector<std::string> arguments_;
  pid_t pid_ = 0;
  bool is_paused_ = false;
};

}  // namespace redis_test
