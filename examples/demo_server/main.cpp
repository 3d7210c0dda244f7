// A small HTTP server with a quota, for trying out clients. It is an ordinary RESTinio server on its own io_context;
// the quota is a canigo::scheduler on the same io_context.
//
//   GET /job/anything?class=0   answers 200 after --delay; with --enforce, answers 429 and Retry-After above the quota
//   GET /verdict, /verdict.json  reports the requests so far, and whether the quota was kept

#include <canigo/scheduler.hpp>
#include <canigo/timeout.hpp>

#include "verdict.hpp"

#include <CLI/CLI.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <fmt/format.h>
#include <restinio/all.hpp>

#include <cstdio>
#include <exception>
#include <memory>

using namespace std::chrono_literals;

namespace {

// Rethrows an error, which asio::detached would drop. A client that has disconnected is not an error.
void report(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& e) {
    fmt::print(stderr, "demo_server: {}\n", e.what());
  }
}

struct options {
  std::uint16_t port = 0;
  canigo::rate quota = canigo::rate::per_second(10);
  std::uint64_t burst = 1;
  bool enforce = false;
  canigo::duration delay = 0ms;
  canigo::duration tolerance = 50ms;
  std::uint64_t fail_every = 0;
};

options parse(int argc, char** argv) {
  options o;
  std::string quota = "10/s";
  int delay_ms = 0;
  int tolerance_ms = 50;
  CLI::App app{"HTTP server with a quota on the loopback; prints its port and serves until SIGINT or SIGTERM.",
               "demo_server"};
  app.add_option("--port", o.port, "0: any free one")->capture_default_str();
  app.add_option("--quota", quota, "Requests per period")->capture_default_str();
  app.add_option("--burst", o.burst, "Requests at once after a quiet time")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_flag("--enforce", o.enforce, "Answer 429 to what exceeds the quota");
  app.add_option("--delay", delay_ms, "Milliseconds that an answer takes")
      ->check(CLI::Range(0, 3'600'000))
      ->capture_default_str();
  app.add_option("--tolerance", tolerance_ms, "Milliseconds by which the judge lets requests be closer")
      ->check(CLI::Range(0, 60'000))
      ->capture_default_str();
  app.add_option("--fail-every", o.fail_every, "Answer 500 to each so many-th request; 0: never")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    o.quota = canigo::rate::parse(quota);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e) == 0 ? 0 : 2);
  } catch (const std::system_error& e) {
    fmt::print(stderr, "--quota: {}\n", e.what());
    std::exit(2);
  }
  o.delay = std::chrono::milliseconds{delay_ms};
  o.tolerance = std::chrono::milliseconds{tolerance_ms};
  return o;
}

class service {
 public:
  service(asio::io_context& io, const options& o)
      : io_{io},
        options_{o},
        quota_{io, {.rate = o.quota, .burst = o.burst, .initial_tokens = o.burst}},
        judge_{o.quota, o.burst, o.tolerance} {}

  restinio::request_handling_status_t handle(restinio::request_handle_t request) {
    const auto path = request->header().path();
    if (path == "/verdict") return answer(*request, restinio::status_ok(), judge_.text());
    if (path == "/verdict.json") return answer(*request, restinio::status_ok(), judge_.json());
    if (path.substr(0, 5) != "/job/") return answer(*request, restinio::status_not_found(), "no such path\n");

    const auto query =
        restinio::parse_query<restinio::parse_query_traits::javascript_compatible>(request->header().query());
    const auto priority = restinio::opt_value<int>(query, "class").value_or(0);
    const bool refused = options_.enforce && !quota_.try_acquire();
    judge_.note({std::chrono::steady_clock::now(), priority, refused});
    if (refused) {
      const auto wait = std::chrono::ceil<std::chrono::seconds>(quota_.estimate({}));
      return request->create_response(restinio::status_too_many_requests())
          .append_header(restinio::http_field::retry_after, std::to_string(wait.count()))
          .set_body("too many requests\n")
          .done();
    }
    asio::co_spawn(io_, work(std::move(request)), report);
    return restinio::request_accepted();
  }

 private:
  static restinio::request_handling_status_t answer(restinio::request_t& request, restinio::http_status_line_t status,
                                                    std::string text) {
    return request.create_response(std::move(status))
        .append_header(restinio::http_field::content_type, "text/plain")
        .set_body(std::move(text))
        .done();
  }

  // The server calls a callback, which starts a coroutine. The request is a shared handle, so the coroutine can keep it
  // while it waits.
  asio::awaitable<void> work(restinio::request_handle_t request) {
    if (options_.delay > 0ms) co_await canigo::sleep_for(options_.delay);
    ++served_;
    const bool fails = options_.fail_every > 0 && served_ % options_.fail_every == 0;
    answer(*request, fails ? restinio::status_internal_server_error() : restinio::status_ok(),
           fails ? "failed\n" : "done\n");
  }

  asio::io_context& io_;
  const options& options_;
  canigo::scheduler quota_;
  demo::judge judge_;
  std::uint64_t served_ = 0;
};

struct traits : restinio::default_single_thread_traits_t {
  using request_handler_t = std::function<restinio::request_handling_status_t(restinio::request_handle_t)>;
};

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  asio::io_context io;
  service s{io, o};

  restinio::http_server_t<traits> server{
      restinio::external_io_context(io), [&](auto& settings) {
        settings.address("127.0.0.1").port(o.port).request_handler([&](restinio::request_handle_t r) {
          return s.handle(std::move(r));
        });
        settings.acceptor_post_bind_hook([](asio::ip::tcp::acceptor& acceptor) {
          fmt::print("{}\n", acceptor.local_endpoint().port());
          std::fflush(stdout);
        });
      }};
  asio::signal_set signals{io, SIGINT, SIGTERM};
  signals.async_wait([&](std::error_code error, int) {
    if (!error) server.close_async([&] { io.stop(); }, [](std::exception_ptr) {});
  });
  try {
    server.open_sync();
    io.run();
  } catch (const std::exception& e) {
    fmt::print(stderr, "demo_server: {}\n", e.what());
    return 1;
  }
}
