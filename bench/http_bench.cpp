// Measures GET requests to the server at BENCH_URL over kept connections, 64 at a time on one thread, each with a token
// (B15). For comparison, it measures the same without tokens, and libcurl's multi interface with its own event loop.

#include "canigo/http/client.hpp"
#include "canigo/scheduler.hpp"

#include "harness.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <curl/curl.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace net = canigo::net;
using namespace std::chrono_literals;

namespace {

constexpr int in_flight = 64;
constexpr std::int64_t requests = 20'000;

bench::sample ours(const std::string& url, bool limited) {
  net::io_context io{1};
  canigo::http::client client{io, {.connections_per_host = in_flight, .proxy = ""}};
  canigo::scheduler scheduler{io,
                              {.rate = canigo::rate{1, 1ns}, .burst = 1'000'000'000, .initial_tokens = 1'000'000'000}};
  std::int64_t left = requests;
  for (int i = 0; i < in_flight; ++i) {
    net::co_spawn(
        io,
        [&]() -> net::awaitable<void> {
          while (left-- > 0) {
            if (limited) co_await scheduler.acquire();
            const canigo::http::response r = co_await client.get(url);
            if (r.status != 200) throw std::runtime_error{"status " + std::to_string(r.status)};
          }
        },
        [](std::exception_ptr e) {
          if (e) std::rethrow_exception(e);
        });
  }
  return bench::measure(requests, [&] { io.run(); });
}

std::size_t discard(char*, std::size_t size, std::size_t count, void*) { return size * count; }

bench::sample bare_multi(const std::string& url) {
  CURLM* multi = curl_multi_init();
  std::vector<CURL*> handles;
  for (int i = 0; i < in_flight; ++i) {
    CURL* easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    // Makes the requests identical, because every other client sends a User-Agent.
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "canigo");
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, discard);
    curl_multi_add_handle(multi, easy);
    handles.push_back(easy);
  }
  std::int64_t started = in_flight;
  const auto s = bench::measure(requests, [&] {
    for (int running = 1; running > 0;) {
      curl_multi_perform(multi, &running);
      int queued = 0;
      while (CURLMsg* m = curl_multi_info_read(multi, &queued)) {
        if (m->msg != CURLMSG_DONE) continue;
        if (m->data.result != CURLE_OK) std::abort();
        CURL* easy = m->easy_handle;
        curl_multi_remove_handle(multi, easy);
        if (started++ < requests) {
          curl_multi_add_handle(multi, easy);
          running = 1;
        }
      }
      if (running > 0) curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
    }
  });
  for (CURL* easy : handles) curl_easy_cleanup(easy);
  curl_multi_cleanup(multi);
  return s;
}

}  // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const char* server = std::getenv("BENCH_URL");
  if (server == nullptr) return 0;
  const std::string url{server};
  bench::match{"B15", "HTTP GET over kept connections, 64 in flight"}
      .add("http::client, acquire before each", [&] { return ours(url, true); })
      .add("http::client alone", [&] { return ours(url, false); })
      .add("bare libcurl multi", [&] { return bare_multi(url); })
      .run(7);
}
