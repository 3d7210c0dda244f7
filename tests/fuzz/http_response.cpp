// The bytes of an HTTP server that may be hostile, through libcurl into the client's own code for heads, bodies and
// Retry-After: bounds hold, and it is the same response wherever the bytes are cut.
//
// A socket pair stands for the connection: it is filled before curl reads, so that nothing waits.

#include "canigo/error.hpp"
#include "canigo/http/retry_after.hpp"

#include "../../lib/http/easy_handle.hpp"
#include "target.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <system_error>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

namespace http = canigo::http;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t max_body = 600;
constexpr std::size_t max_headers = 400;
constexpr int max_redirects = 3;

/// A transfer that nobody waits for.
struct probe final : http::detail::owning_transfer {
  explicit probe(http::request r) : owning_transfer{nullptr, std::move(r)} {}
  void resume() override {}
  void post() override {}
  void destroy() noexcept override {}
};

/// What a server sends on one connection after the other, in parts of `part` bytes each; the last again and again.
struct server final : http::detail::connection_source {
  server(std::vector<std::string_view> all, std::size_t size) : connections{std::move(all)}, part{size} {}

  std::vector<std::string_view> connections;
  std::size_t part;
  std::size_t opened = 0;
  std::vector<int> ends = {};

  ~server() {
    for (const int end : ends) close(end);
  }
  curl_socket_t open_socket(const curl_sockaddr&) noexcept override;
  bool spoil_if_unclean(int, bool) noexcept override { return false; }
  bool spoil_idle(int) noexcept override { return false; }
  void paused(const http::detail::easy_handle&) noexcept override {}
  void took(std::size_t) noexcept override {}
};

// A part is a packet: curl reads one at a time. A socket takes so much and no more than some 270 packets.
curl_socket_t server::open_socket(const curl_sockaddr&) noexcept {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) return CURL_SOCKET_BAD;
  std::string_view bytes = connections[std::min(opened++, connections.size() - 1)];
  bytes = bytes.substr(0, 64'000);
  const std::size_t packet = std::max(part, bytes.size() / 200 + 1);
  while (!bytes.empty()) {
    const auto sent = send(pair[1], bytes.data(), std::min(bytes.size(), packet), MSG_NOSIGNAL);
    fuzz::require(sent > 0, "a socket takes what is sent");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  shutdown(pair[1], SHUT_WR);
  ends.push_back(pair[1]);
  return pair[0];
}

int close_socket(void*, curl_socket_t socket) noexcept { return close(socket); }

struct exchange {
  std::error_code error;
  http::response response;
};

exchange perform(const char* method, std::string_view bytes, std::size_t part) {
  constexpr std::string_view next_connection = "\xff\xfe";
  server s{{}, part};
  for (auto at = bytes.find(next_connection); at != bytes.npos; at = bytes.find(next_connection)) {
    s.connections.push_back(bytes.substr(0, at));
    bytes.remove_prefix(at + next_connection.size());
  }
  s.connections.push_back(bytes);

  http::client_options options;
  options.max_body = max_body;
  options.max_headers = max_headers;
  options.max_redirects = max_redirects;
  options.proxy = "";
  http::detail::easy_handle easy{options, {}, s, close_socket, nullptr};
  // Wherever it is sent, it goes no further than to the pair, and asks no resolver.
  curl_slist* everywhere = curl_slist_append(nullptr, "::127.0.0.1:80");
  curl_easy_setopt(easy.get(), CURLOPT_CONNECT_TO, everywhere);
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(easy.get(), CURLOPT_REDIR_PROTOCOLS_STR, "http");
#else
  curl_easy_setopt(easy.get(), CURLOPT_REDIR_PROTOCOLS, CURLPROTO_HTTP);
#endif
  probe p{http::request{method, "http://127.0.0.1/"}};
  exchange result;
  result.error = easy.begin(p);
  fuzz::require(!result.error, "a plain request can be sent");
  const CURLcode code = curl_easy_perform(easy.get());
  result.error = easy.end(code);
  std::tie(std::ignore, result.response) = p.take_results();
  curl_slist_free_all(everywhere);
  return result;
}

bool is_trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  return text.empty() || (space.find(text.front()) == space.npos && space.find(text.back()) == space.npos);
}

void check(const exchange& e, bool is_head) {
  const http::response& r = e.response;
  fuzz::require(r.body.size() <= max_body, "a body is no longer than the bound");
  fuzz::require(!is_head || r.body.empty(), "what answers HEAD has no body");
  fuzz::require(r.redirects <= max_redirects, "no more redirects than the bound");
  fuzz::require(e.error || (r.status >= 100 && r.status <= 999), "success has a status");
  std::size_t bytes = 0;
  for (const auto [name, value] : r.headers) {
    fuzz::require(is_trimmed(name) && is_trimmed(value), "a field has no space around it");
    fuzz::require(value.find('\n') == value.npos, "a field is of one line");
    fuzz::require(r.headers.contains(name), "a field is found by its name");
    const auto all = r.headers.find_all(name);
    fuzz::require(std::ranges::find(all, value) != all.end(), "a value is among those of its name");
    bytes += name.size() + value.size();
  }
  fuzz::require(bytes <= max_headers, "the fields are no longer than the bound");
  const auto now = std::chrono::system_clock::time_point{1'700'000'000s};
  for (const canigo::duration most : {canigo::duration{24h}, canigo::duration{}, canigo::duration::max()}) {
    const auto wait = http::retry_after(r, now, most);
    fuzz::require(!wait || (*wait >= 0s && *wait <= most), "Retry-After lies between nothing and the most");
  }
}

bool same(const http::response& a, const http::response& b) {
  const auto same_field = [](http::header x, http::header y) { return x.name == y.name && x.value == y.value; };
  return a.status == b.status && a.body == b.body && a.redirects == b.redirects && a.url == b.url &&
         a.headers.size() == b.headers.size() &&
         std::equal(a.headers.begin(), a.headers.end(), b.headers.begin(), same_field);
}

}  // namespace

// libcurl's: the socket that it is given is connected. CURL_SOCKOPT_ALREADY_CONNECTED says so too, but 7.88 forgets it.
extern "C" int connect(int, const sockaddr*, socklen_t) { return 0; }

// If nothing got through to the client's code, every input would be fine.
static bool works() {
  std::signal(SIGPIPE, SIG_IGN);
  const exchange e = perform("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nRetry-After: 7\r\n\r\nhello", 16'000);
  return !e.error && e.response.status == 200 && e.response.body == "hello" && http::retry_after(e.response) == 7s;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool is_working = works();
  fuzz::require(is_working, "a plain response comes through");
  fuzz::input bytes{data, size};
  const std::uint8_t how = bytes.byte();
  const bool is_head = how % 8 == 7;
  const std::size_t part = how % 8 == 0 ? 1 : std::size_t{how};
  const char* const method = is_head ? "HEAD" : how % 8 == 6 ? "POST" : how % 8 == 5 ? "DELETE" : "GET";
  const exchange whole = perform(method, bytes.text(), 16'000);
  check(whole, is_head);
  const exchange cut = perform(method, bytes.text(), part);
  check(cut, is_head);
  if (whole.error || cut.error) return 0;  // how much of a response was there when it failed depends on the cut
  fuzz::require(same(whole.response, cut.response), "the same response wherever the bytes are cut");
  return 0;
}
