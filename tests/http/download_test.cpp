#include "canigo/http/download.hpp"

#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/net.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "http/temporary_folder.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

using namespace http_test;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

const http::client_options without_proxy{.proxy = ""};

std::string content_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream{file}.rdbuf();
  return text.str();
}

std::size_t files_beside(const std::string& file) {
  const std::filesystem::directory_iterator all{std::filesystem::path{file}.parent_path()};
  return static_cast<std::size_t>(std::distance(all, {}));
}

}  // namespace

TEST_CASE("a download is the body of the response, and replaces what was there") {
  const temporary_folder folder;
  const std::string file = folder / "file";
  for (const std::size_t size : {0u, 1u, 3'000'000u}) {
    const std::string body(size, 'x');
    scripted_server server{answer(ok(body, "X-A: b\r\n"))};
    net::io_context io;
    http::client client{io, without_proxy};
    std::ofstream{file} << "old";
    const http::response r = run_to_end(io, http::download(client, server.url(), file));
    CHECK(r.status == 200);
    CHECK(r.headers.contains("X-A"));
    CHECK(r.body_size == size);
    CHECK(r.body.empty());
    CHECK(content_of(file) == body);
    CHECK(files_beside(file) == 1);
  }
  std::filesystem::remove(file);
  const mode_t before = ::umask(027);
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, without_proxy};
  run_to_end(io, http::download(client, server.url(), file));
  ::umask(before);
  CHECK(std::filesystem::status(file).permissions() == std::filesystem::perms{0640});
}

TEST_CASE("a response that is no success leaves no file, and keeps the old one") {
  const temporary_folder folder;
  const std::string file = folder / "file";
  scripted_server server{answer("HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno")};
  net::io_context io;
  http::client client{io, without_proxy};
  CHECK(run_to_end(io, http::download(client, server.url(), file)).status == 404);
  CHECK(files_beside(file) == 0);
  std::ofstream{file} << "old";
  CHECK(run_to_end(io, http::download(client, server.url(), file)).status == 404);
  CHECK(content_of(file) == "old");
}

TEST_CASE("a download takes the place of a regular file only, and else asks nothing") {
  const temporary_folder folder;
  const std::string pipe = folder / "pipe", link = folder / "link";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(::symlink(pipe.c_str(), link.c_str()) == 0);
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, without_proxy};
  for (const std::string& to : {pipe, link, std::filesystem::path{pipe}.parent_path().string()}) {
    const std::string text = text_of(io, http::download(client, server.url(), to));
    CHECK(text == "download.to is " + to + "; allowed: a regular file, or a name that is free: invalid argument");
  }
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(std::filesystem::is_symlink(link));
  CHECK(server.connections() == 0);
}

TEST_CASE("a download that fails leaves nothing behind") {
  const temporary_folder folder;
  const std::string file = folder / "file";
  std::ofstream{file} << "old";
  net::io_context io;
  scripted_server cut{[](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
  }};
  http::client client{io, without_proxy};
  CHECK(error_of(io, http::download(client, cut.url(), file)) == http::error::partial_response);
  CHECK(text_of(io, http::download(client, cut.url(), file)) ==
        make_error_code(http::error::partial_response).message());
  scripted_server strange{answer(ok("abc", "Content-Encoding: gzip\r\n"))};
  http::client decoding{io, {.decode_body = true, .proxy = ""}};
  CHECK(text_of(io, http::download(decoding, strange.url(), file)).starts_with("the body can't be decoded: "));
  CHECK(error_of(io, http::download(client, "http://127.0.0.1:1/", file)) == http::error::could_not_connect);
  CHECK(content_of(file) == "old");
  CHECK(files_beside(file) == 1);

  scripted_server server{answer(ok("x"))};
  const std::string absent = folder / "none/file";
  CHECK(error_of(io, http::download(client, server.url(), absent)) == std::errc::no_such_file_or_directory);
  CHECK(text_of(io, http::download(client, server.url(), absent)).starts_with(absent));
  const std::string taken = folder / "folder";
  scripted_server takes{[&](peer& p) -> net::awaitable<void> {
    co_await p.request();
    std::filesystem::create_directory(taken);
    co_await p.send(ok("x"));
  }};
  CHECK(error_of(io, http::download(client, takes.url(), taken)) == std::errc::is_a_directory);
  CHECK(files_beside(file) == 2);
}

TEST_CASE("a download for which the disk has no room ends with the system's reason, and leaves nothing behind") {
  const temporary_folder folder;
  const std::string file = folder / "file";
  scripted_server server{answer(ok(std::string(100'000, 'x')))};
  net::io_context io;
  http::client client{io, without_proxy};
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit less = before;
  less.rlim_cur = 50'000;
  ::setrlimit(RLIMIT_FSIZE, &less);
  const std::string said = text_of(io, http::download(client, server.url(), file));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  CHECK(said == file + ": " + std::generic_category().message(EFBIG));
  CHECK(files_beside(file) == 0);
}

TEST_CASE("a download that is cancelled leaves nothing behind") {
  const temporary_folder folder;
  const std::string file = folder / "file";
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    co_await p.linger();
  }};
  net::io_context io;
  http::client client{io, without_proxy};
  net::cancellation_signal signal;
  std::optional<std::error_code> result;
  const auto note = [&](std::exception_ptr e, const http::response&) {
    try {
      if (e) std::rethrow_exception(e);
    } catch (const std::system_error& failure) {
      result = failure.code();
    }
  };
  net::co_spawn(io, http::download(client, server.url(), file), net::bind_cancellation_slot(signal.slot(), note));
  while (files_beside(file) == 0) io.run_one();
  signal.emit(net::cancellation_type::terminal);
  io.run();
  CHECK(result == net::error::operation_aborted);
  CHECK(files_beside(file) == 0);
}
