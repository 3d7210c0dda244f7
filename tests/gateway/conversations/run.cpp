#include "run.hpp"

#include "admin.hpp"
#include "certificate.hpp"
#include "client.hpp"
#include "gateway_process.hpp"
#include "loop.hpp"
#include "model.hpp"
#include "upstream.hpp"
#include "world.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace conversations {
namespace {

constexpr auto patience = std::chrono::seconds{180};  // with a gateway that ends

/// Ports that nobody listens on.
std::vector<std::uint16_t> free_ports(std::size_t count) {
  std::vector<int> sockets;
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 0; i < count; ++i) {
    const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (s < 0 || ::bind(s, reinterpret_cast<const sockaddr*>(&at), size) != 0 ||
        ::getsockname(s, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      throw std::system_error{errno, std::system_category(), "bind"};
    sockets.push_back(s);
    ports.push_back(ntohs(at.sin_port));
  }
  for (const int s : sockets) ::close(s);
  return ports;
}

/// A folder that goes with it.
class folder {
 public:
  folder() {
    std::string name = std::filesystem::temp_directory_path() / "canigo-conversations-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error{errno, std::system_category(), "mkdtemp"};
    path = name;
  }
  ~folder() {
    try {
      std::filesystem::remove_all(path);
    } catch (const std::filesystem::filesystem_error&) {  // somebody else has removed it
    }
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  std::filesystem::path path;
};

class player {
 public:
  explicit player(const run_options& o)
      : options_{o},
        certificate_{folder_.path},
        model_{o.seed, o.with_tls},
        upstreams_{loop_, model_, places_, o.with_tls ? certificate_.of_server() : nullptr},
        random_{o.seed, 0x70616365},
        next_{o.from},
        end_{o.from + o.count},
        begun_{clock::now()} {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    if (std::filesystem::is_regular_file("/proc/self/exe")) std::setvbuf(stdout, nullptr, _IOLBF, 0);
  }

  bool play() {
    while (next_ < end_ && !is_enough()) play_life();
    model_.end();
    return report();
  }

 private:
  bool is_enough() const {
    return (options_.stops_at_first && model_.has_failed()) ||
           (options_.seconds > 0 && clock::now() - begun_ > std::chrono::seconds{options_.seconds});
  }

  void choose_ports() {
    const auto ports = free_ports(5);
    places_.plain = ports[0];
    places_.secure = ports[1];
    places_.forward = ports[2];
    places_.admin = ports[3];
    places_.dead = ports[4];
  }

  void write_configuration(const configuration& c) {
    const auto path = folder_.path / "next.toml";
    std::ofstream{path} << text_of(c, places_, folder_.path, options_.with_tls);
    std::filesystem::rename(path, folder_.path / "gateway.toml");
  }

  /// A gateway that listens. Another program may have taken a port that was free, and then others are chosen.
  std::unique_ptr<gateway_process> start_gateway(const configuration& c) {
    constexpr int most_tries = 10;
    for (int tries = 1;; ++tries) {
      choose_ports();
      write_configuration(c);
      try {
        return std::make_unique<gateway_process>(loop_, options_.gateway, folder_.path, options_.with_tls ? 4 : 3);
      } catch (const std::runtime_error& failed) {
        if (tries == most_tries || std::string_view{failed.what()}.find("already in use") == std::string_view::npos)
          throw;
      }
    }
  }

  /// A gateway, from its start to its end.
  void play_life() {
    const configuration& first = configurations[random_.below(3)];
    model_.is_changing = model_.is_draining = false;
    model_.called_off.clear();
    ++life_;  // what the life before has left to do is not done
    const auto started = start_gateway(first);
    gateway_process& gateway = *started;
    gateway_ = &gateway;
    const std::uint64_t last = std::min(end_, next_ + options_.life);
    const bool ends_amid = last < end_ && life_ % 2 == 1;
    reload_later(life_);
    call_off_later(life_);
    while (next_ < last && !is_enough() && gateway.is_running()) {
      while (model_.under_way() < options_.parallel && next_ < last) begin_one();
      loop_.turn(milliseconds{20});
    }
    if (!ends_amid) wait_for([this] { return model_.under_way() == 0; });
    if (!gateway.is_running()) return judge_end(false);
    if (!ends_amid) judge_rest();
    model_.is_draining = true;
    gateway.signal(SIGTERM);
    if (ends_amid) {
      for (std::uint64_t i = 0; i < 20 && next_ < end_; ++i) begin_one();
    }
    const bool has_ended = wait_for([&] { return !gateway.is_running(); });
    if (!has_ended) model_.fail("the gateway does not end", next_, gateway.said());
    wait_for([this] { return model_.under_way() == 0; });
    // What waits in its pipe.
    for (int i = 0; i < 5; ++i) loop_.turn(milliseconds{1});
    if (has_ended) judge_end(ends_amid);
    gateway_ = nullptr;
  }

  void begin_one() {
    // Not by make_shared(), whose memory would stay as long as a timer has a weak pointer.
    const std::shared_ptr<client> one{
        new client{loop_, model_, model_.begin(next_++), places_, certificate_.of_client()}};
    one->start();
  }

  bool wait_for(const std::function<bool()>& condition) {
    const auto until = clock::now() + patience;
    while (!condition() && clock::now() < until) loop_.turn(milliseconds{20});
    return condition();
  }

  void reload_later(std::uint64_t life) {
    loop_.after(milliseconds{random_.between(100, 900)}, [this, life] {
      if (life != life_ || model_.is_draining) return;
      model_.is_changing = true;
      write_configuration(configurations[random_.below(configurations.size())]);
      gateway_->signal(SIGHUP);
      model_.count("reloads");
      reload_later(life);
    });
  }

  /// As an operator who ends some requests.
  void call_off_later(std::uint64_t life) {
    loop_.after(milliseconds{random_.between(20, 200)}, [this, life] {
      if (life != life_ || model_.is_draining) return;
      ask_admin(loop_, places_.admin, "GET", "/api/state", [this, life](const std::string& state) {
        if (life != life_ || model_.is_draining) return;
        call_off(state);
        call_off_later(life);
      });
    });
  }

  void call_off(const std::string& state) {
    constexpr std::string_view mark = "\"id\":\"";
    std::vector<std::string> ids;
    // Those before are of the last errors, and have ended.
    const auto start = std::min(state.find("\"forwarded_"), state.find("\"upstreams\""));
    for (auto at = state.find(mark, std::min(start, state.size())); at != std::string::npos && ids.size() < 1000;
         at = state.find(mark, at + 1)) {
      const auto from = at + mark.size();
      ids.push_back(state.substr(from, state.find('"', from) - from));
    }
    for (int i = 0; i < 4 && !ids.empty(); ++i) {
      const std::string& id = ids[random_.below(ids.size())];
      model_.called_off.insert(id);
      ask_admin(loop_, places_.admin, "DELETE", "/api/requests/" + id,
                [this](const std::string&) { model_.count("requests that the operator ended, or wanted to"); });
    }
  }

  /// When all conversations are over, nothing is left in the gateway.
  void judge_rest() {
    std::string left = "nothing was told";
    bool asks = false;
    const bool is_empty = wait_for([&] {
      if (left.empty()) return true;
      if (!std::exchange(asks, true)) {
        ask_admin(loop_, places_.admin, "GET", "/metrics", [&](const std::string& text) {
          asks = false;
          left = text.empty() ? left : what_is_left(text);
        });
      }
      return !gateway_->is_running();
    });
    wait_for([&] { return !asks; });
    if (!is_empty) model_.fail("something is left in the gateway", next_, left);
  }

  static std::string what_is_left(const std::string& metrics) {
    std::string left;
    for (std::size_t from = 0; from < metrics.size();) {
      const auto to = std::min(metrics.find('\n', from), metrics.size());
      const std::string line = metrics.substr(from, to - from);
      from = to + 1;
      for (const char* name : {"canigo_gateway_running", "canigo_gateway_waiting", "canigo_gateway_tunnels",
                               "canigo_gateway_forwarded_waiting"}) {
        if (line.starts_with(name) && !line.ends_with(" 0")) left += line + "; ";
      }
    }
    return left;
  }

  void judge_end(bool may_cut) {
    const int status = *gateway_->status();
    const std::string& said = gateway_->said();
    const std::string tail = said.size() > 3000 ? said.substr(0, 3000) : said;
    if (gateway_->has_told_of_defect()) {
      std::printf("%s\n", said.c_str());
      model_.fail("the gateway tells of a defect", next_, tail);
    }
    if (!model_.is_draining) {
      model_.fail("the gateway has ended by itself", next_, std::to_string(status) + ": " + tail);
    } else if (!WIFEXITED(status)) {
      model_.fail("the gateway was ended by a signal", next_, std::to_string(status) + ": " + tail);
    } else if (WEXITSTATUS(status) != 0 && !(may_cut && WEXITSTATUS(status) == 1)) {
      model_.fail("the gateway ended with another status", next_, std::to_string(WEXITSTATUS(status)) + ": " + tail);
    }
  }

  bool report() {
    const double seconds = std::chrono::duration<double>(clock::now() - begun_).count();
    const std::uint64_t played = next_ - options_.from;
    // Or the rest would prove nothing.
    if (played >= 1000 && model_.counted("answers of upstreams") < played / 10)
      model_.fail("hardly any request was answered by its upstream", next_, "");
    std::printf("seed %llu%s: %llu conversations in %.1f s, %llu gateways\n",
                static_cast<unsigned long long>(options_.seed), options_.with_tls ? " with TLS" : "",
                static_cast<unsigned long long>(played), seconds, static_cast<unsigned long long>(life_));
    model_.print_counts();
    model_.print_failures("conversations --gateway " + options_.gateway + " --seed " + std::to_string(options_.seed) +
                          " --from " + std::to_string(options_.from) + " --count " + std::to_string(played) +
                          (options_.with_tls ? " --tls" : ""));
    if (!options_.expected.empty()) {
      const auto kinds = model_.kinds();
      const bool is_found =
          std::ranges::any_of(kinds, [&](const std::string& k) { return k.find(options_.expected) != k.npos; });
      std::printf("%s: %s\n", is_found ? "found" : "MISSED", options_.expected.c_str());
      return is_found;
    }
    return !model_.has_failed();
  }

  run_options options_;
  folder folder_;
  certificate certificate_;
  places places_;
  loop loop_;
  model model_;
  upstream_servers upstreams_;
  choices random_;
  gateway_process* gateway_ = nullptr;
  std::uint64_t life_ = 0;
  std::uint64_t next_;
  std::uint64_t end_;
  clock::time_point begun_;
};

}  // namespace

bool play(const run_options& o) { return player{o}.play(); }

}  // namespace conversations
