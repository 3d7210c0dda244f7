// A client for tests/http/real_servers.py, which starts servers that others wrote:
//
//     http_calls [OPTION VALUE …] send|open|upload|download|events URL [FILE]
//
// Prints a line "head" once the head of a response is there, and at the end an object of JSON: status, size and
// Adler-32 of the body, or the error and its problem. Of `events` it prints a line for each one.
#include "canigo/http/client.hpp"
#include "canigo/http/download.hpp"
#include "canigo/http/event_stream.hpp"
#include "canigo/http/public_address.hpp"
#include "canigo/timeout.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace http = canigo::http;
namespace net = canigo::net;
using std::chrono::milliseconds;

namespace {

class checksum {
 public:
  void add(std::string_view part) noexcept {
    for (const char c : part) {
      a_ = (a_ + static_cast<unsigned char>(c)) % prime;
      b_ = (b_ + a_) % prime;
    }
    size_ += part.size();
  }
  std::uint32_t value() const noexcept { return (b_ << 16) | a_; }
  std::uint64_t size() const noexcept { return size_; }

 private:
  static constexpr std::uint32_t prime = 65521;
  std::uint32_t a_ = 1, b_ = 0;
  std::uint64_t size_ = 0;
};

std::string json_text(std::string_view text) {
  std::string all{'"'};
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || c == '"' || c == '\\') {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", code);
      all += escape;
    } else {
      all += c;
    }
  }
  return all + '"';
}

void tell(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

struct call_options {
  http::client_options client{.connections = 100, .connections_per_host = canigo::unlimited, .proxy = ""};
  http::request request;
  std::string what, file;
  std::size_t size = 0;                     // of an upload
  bool is_length_known = true;              // of an upload
  std::size_t part = 64 << 10;              // of a read, and of a write
  milliseconds pause{0};                    // between two of them
  std::size_t events = 1;                   // so many, over several connections
  std::size_t many = 1;                     // such calls at once
  std::string beside;                       // read whole between the head of an exchange and its body
  std::size_t most_read = ~std::size_t{0};  // then it lets go of the exchange, and waits for SIGUSR1
};

std::string pattern(std::uint64_t from, std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (from + i) * 31 % 26);
  return text;
}

void set(call_options& o, std::string_view name, const std::string& value) {
  http::client_options& c = o.client;
  const auto number = [&] { return static_cast<std::size_t>(std::strtoull(value.c_str(), nullptr, 10)); };
  const auto time = [&] { return milliseconds{static_cast<long>(number())}; };
  if (name == "--method")
    o.request.method = value;
  else if (name == "--header")
    o.request.headers.add(value.substr(0, value.find('=')), value.substr(value.find('=') + 1));
  else if (name == "--version")
    c.version = value == "1" ? http::http_version::http1 : http::http_version::http2;
  else if (name == "--ca")
    c.ca_file = value;
  else if (name == "--cert")
    c.cert_file = value;
  else if (name == "--key")
    c.key_file = value;
  else if (name == "--unix")
    c.unix_socket = value;
  else if (name == "--public")
    c.allow_address = value == "only" ? http::is_public : decltype(c.allow_address){};
  else if (name == "--known")
    c.known_addresses.push_back(
        {"localhost", static_cast<std::uint16_t>(number()), net::ip::make_address("127.0.0.1")});
  else if (name == "--decode")
    c.decode_body = true;
  else if (name == "--max-body")
    c.max_body = number();
  else if (name == "--timeout")
    c.timeout = time();
  else if (name == "--connect-timeout")
    c.connect_timeout = time();
  else if (name == "--connections")
    c.connections = number();
  else if (name == "--size")
    o.size = number();
  else if (name == "--length")
    o.is_length_known = value != "unknown";
  else if (name == "--part")
    o.part = number();
  else if (name == "--pause")
    o.pause = time();
  else if (name == "--events")
    o.events = number();
  else if (name == "--many")
    o.many = number();
  else if (name == "--beside")
    o.beside = value;
  else if (name == "--most-read")
    o.most_read = number();
  else
    throw std::invalid_argument{std::string{name}};
}

void tell_end(const http::response& r, const checksum& body, std::string more = "") {
  tell("{\"status\":" + std::to_string(r.status) + ",\"size\":" + std::to_string(body.size()) +
       ",\"sum\":" + std::to_string(body.value()) + ",\"url\":" + json_text(r.url) +
       ",\"type\":" + json_text(r.headers.find("Content-Type").value_or("")) +
       ",\"reused\":" + (r.reused ? "true" : "false") + more + "}");
}

net::awaitable<void> read(http::exchange& x, const call_options& o, checksum& body) {
  std::vector<char> room(o.part);
  while (body.size() < o.most_read) {
    const std::size_t n = co_await x.read_some(net::buffer(room));
    if (n == 0) break;
    body.add({room.data(), n});
    if (o.pause > milliseconds{0}) co_await canigo::sleep_for(o.pause);
  }
}

net::awaitable<void> open(http::client& client, const call_options& o) {
  checksum body;
  std::string problem, error;
  int status = 0;
  {
    http::exchange x = co_await client.open(o.request);
    status = x.head().status;
    tell("head " + std::to_string(status));
    try {
      if (!o.beside.empty()) {
        checksum ignored;
        http::exchange other = co_await client.open({"GET", o.beside});
        co_await read(other, o, ignored);
      }
      co_await read(x, o, body);
    } catch (const std::system_error& e) {
      error = e.code().message();
      problem = x.problem();
    }
    if (error.empty()) tell_end(x.head(), body);
  }
  if (!error.empty()) {
    tell("{\"error\":" + json_text(error) + ",\"problem\":" + json_text(problem) +
         ",\"status\":" + std::to_string(status) + ",\"size\":" + std::to_string(body.size()) + "}");
  }
}

net::awaitable<void> upload(http::client& client, const call_options& o) {
  http::upload u =
      client.start_upload(o.request, o.is_length_known ? std::optional<std::uint64_t>{o.size} : std::nullopt);
  std::size_t written = 0;
  while (written < o.size) {
    const std::string part = pattern(written, std::min(o.part, o.size - written));
    const std::size_t n = co_await u.write_some(net::buffer(part));
    if (n == 0) break;
    written += n;
    if (o.pause > milliseconds{0}) co_await canigo::sleep_for(o.pause);
  }
  http::exchange x = co_await u.finish();
  checksum body;
  std::string text;
  std::vector<char> room(o.part);
  while (const std::size_t n = co_await x.read_some(net::buffer(room))) {
    body.add({room.data(), n});
    text.append(room.data(), n);
  }
  tell_end(x.head(), body, ",\"written\":" + std::to_string(written) + ",\"text\":" + json_text(text.substr(0, 2000)));
}

net::awaitable<void> events(http::client& client, const call_options& o) {
  std::string last_id;
  for (std::size_t left = o.events; left > 0;) {
    http::request r = o.request;
    r.with_header("Accept", "text/event-stream");
    if (!last_id.empty()) r.with_header("Last-Event-ID", last_id);
    http::exchange x = co_await client.open(std::move(r));
    if (x.head().status != 200) {
      tell("{\"status\":" + std::to_string(x.head().status) + "}");
      co_return;
    }
    http::event_stream stream{std::move(x)};
    try {
      while (left > 0) {
        const auto event = co_await stream.next();
        if (!event) break;
        tell("{\"type\":" + json_text(event->type) + ",\"data\":" + json_text(event->data) +
             ",\"id\":" + json_text(event->id) + "}");
        --left;
      }
    } catch (const std::system_error& e) {
      tell("{\"lost\":" + json_text(e.code().message()) + "}");
    }
    last_id = stream.last_event_id();
    if (left > 0) co_await canigo::sleep_for(stream.retry().value_or(milliseconds{100}));
  }
}

net::awaitable<void> call(http::client& client, const call_options& o) {
  if (o.what == "send") {
    http::request r = o.request;
    if (o.size > 0) r.body = pattern(0, o.size);
    const http::response answer = co_await client.send(std::move(r));
    checksum body;
    body.add(answer.body);
    tell_end(answer, body, ",\"text\":" + json_text(answer.body.substr(0, 2000)));
  } else if (o.what == "open") {
    co_await open(client, o);
  } else if (o.what == "upload") {
    co_await upload(client, o);
  } else if (o.what == "events") {
    co_await events(client, o);
  } else if (o.what == "download") {
    const http::response answer = co_await http::download(client, o.request, o.file);
    checksum none;
    tell_end(answer, none, ",\"bytes\":" + std::to_string(answer.body_size));
  } else {
    throw std::invalid_argument{o.what};
  }
}

net::awaitable<void> call_and_tell(http::client& client, const call_options& o) {
  try {
    co_await call(client, o);
  } catch (const std::system_error& e) {
    tell("{\"error\":" + json_text(e.code().message()) + ",\"what\":" + json_text(e.what()) + "}");
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  call_options o;
  int at = 1;
  for (; at + 1 < argc && std::string_view{argv[at]}.starts_with("--"); at += 2) set(o, argv[at], argv[at + 1]);
  o.what = argv[at];
  o.request.url = argv[at + 1];
  if (at + 2 < argc) o.file = argv[at + 2];
  net::io_context io{1};
  http::client client{io, o.client};
  net::cancellation_signal stop;
  std::size_t left = o.many;
  net::signal_set asked{io, SIGUSR1};
  asked.async_wait([&](std::error_code ec, int) {
    if (!ec) stop.emit(net::cancellation_type::terminal);
  });
  for (std::size_t i = 0; i < o.many; ++i) {
    const auto ended = [&](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
      if (--left == 0 && o.most_read == ~std::size_t{0}) asked.cancel();
    };
    if (o.many == 1)
      net::co_spawn(io, call_and_tell(client, o), net::bind_cancellation_slot(stop.slot(), ended));
    else
      net::co_spawn(io, call_and_tell(client, o), ended);
  }
  io.run();
}
