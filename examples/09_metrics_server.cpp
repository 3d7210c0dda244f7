// An existing RESTinio server gets limits, a page for Prometheus and a health check: the lines marked with (*) are new.
// The client below runs in the same program, over the loopback. With a port as argument, the program serves until
// Ctrl-C.
#include <canigo/limiter.hpp>
#include <canigo/metrics/exporter.hpp>
#include <canigo/strand_pool.hpp>
#include <canigo/timeout.hpp>

#include <asio.hpp>
#include <fmt/format.h>
#include <restinio/all.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>

using asio::ip::tcp;
using namespace std::chrono_literals;

struct service {
  explicit service(asio::io_context& context) : io{context} {}

  asio::io_context& io;
  canigo::limiter quota{io, {.rates = {{canigo::rate::per_second(20), 5, 5}}, .concurrency = 8}};  // (*)
  canigo::strand_pool workers{io, {.concurrency = 2, .queue_limit = 100}};                         // (*)
  canigo::metrics::exporter metrics;                                                               // (*)
  canigo::metrics::exporter::registration shown[2] = {metrics.add("quota", quota),                 // (*)
                                                      metrics.add("workers", workers)};
};

asio::awaitable<void> greet(restinio::request_handle_t request, service& s) {
  const canigo::permit inside = co_await s.quota.acquire();               // (*)
  const auto render = [] { return std::string{"hello\n"}; };              //
  std::string page = co_await s.workers.run(render, {.name = "render"});  // (*)
  request->create_response().set_body(std::move(page)).done();
}

restinio::request_handling_status_t answer(const restinio::request_handle_t& request, service& s) {
  const auto path = request->header().path();
  if (path == "/hello") {
    asio::co_spawn(s.io, greet(request, s), [request](std::exception_ptr error) {
      if (error) request->create_response(restinio::status_internal_server_error()).done();
    });
  } else if (path == "/metrics") {  // (*)
    request->create_response().append_header("Content-Type", s.metrics.content_type).set_body(s.metrics.text()).done();
  } else if (path == "/healthz") {  // (*) whether the server can take more requests
    const bool ready = s.workers.stats().queued < 90;
    const auto status = ready ? restinio::status_ok() : restinio::status_service_unavailable();
    request->create_response(status).set_body(ready ? "ok\n" : "busy\n").done();
  } else {
    request->create_response(restinio::status_not_found()).done();
  }
  return restinio::request_accepted();
}

asio::awaitable<std::string> get(std::uint16_t port, std::string path) {
  tcp::socket socket{co_await asio::this_coro::executor};
  co_await socket.async_connect({asio::ip::address_v4::loopback(), port}, asio::use_awaitable);
  const auto text = fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
  co_await asio::async_write(socket, asio::buffer(text), asio::use_awaitable);
  std::string reply;
  std::error_code until_the_server_hangs_up;
  co_await asio::async_read(socket, asio::dynamic_buffer(reply),
                            asio::redirect_error(asio::use_awaitable, until_the_server_hangs_up));
  co_return reply;
}

/// A client of the server that prints the responses.
asio::awaitable<void> visit(std::uint16_t port) {
  for (int i = 0; i < 8; ++i) co_await get(port, "/hello");
  const std::string health = co_await get(port, "/healthz");
  fmt::print("GET /healthz: {}", health.substr(health.find("\r\n\r\n") + 4));
  const std::string page = co_await get(port, "/metrics");
  for (const std::string series :
       {"canigo_requests_total{name=\"quota\",outcome=\"granted\"}", "canigo_permits_capacity{name=\"quota\"}",
        "canigo_wait_seconds_count{name=\"quota\",class=\"0\"}",
        "canigo_pool_workers{name=\"workers\",state=\"working\"}",
        "canigo_pool_processed_total{name=\"workers\",outcome=\"succeeded\"}",
        "canigo_pool_run_seconds_count{name=\"workers\",task=\"render\"}"}) {
    const auto at = page.find("\n" + series + " ");
    fmt::print("{}\n",
               at == std::string::npos ? "missing: " + series : page.substr(at + 1, page.find('\n', at + 1) - at - 1));
  }
}

struct traits : restinio::default_single_thread_traits_t {};

int main(int arguments, char** values) {
  asio::io_context io;
  service s{io};
  std::uint16_t port = 0;
  restinio::http_server_t<traits> server{
      restinio::external_io_context(io), [&](auto& settings) {
        settings.address("127.0.0.1")
            .port(arguments > 1 ? static_cast<std::uint16_t>(std::atoi(values[1])) : 0)
            .acceptor_post_bind_hook([&](tcp::acceptor& acceptor) { port = acceptor.local_endpoint().port(); })
            .request_handler([&](auto request) { return answer(request, s); });
      }};
  asio::post(io, [&] { server.open_sync(); });

  asio::signal_set signals{io, SIGINT, SIGTERM};
  signals.async_wait([&](std::error_code, int) { io.stop(); });
  const auto then_stop = [&](const std::exception_ptr& e) {
    if (e) std::rethrow_exception(e);
    io.stop();
  };
  if (arguments == 1) asio::post(io, [&] { asio::co_spawn(io, visit(port), then_stop); });
  io.run();
}
