#include "link.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/time_source.hpp"
#include "canigo/timeout.hpp"

#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/error.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/ssl/error.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

namespace canigo::redis::detail {
namespace {

/// Returns the value of the line "key:value" in an INFO reply.
std::string line_of(std::string_view info, std::string_view key) {
  for (std::size_t at = 0; at < info.size();) {
    const auto end = info.find("\r\n", at);
    const auto line = info.substr(at, end == std::string_view::npos ? end : end - at);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ':') {
      return std::string{line.substr(key.size() + 1)};
    }
    if (end == std::string_view::npos) break;
    at = end + 2;
  }
  return {};
}

/// Returns the mode that a server names in its HELLO reply: "cluster", "standalone" or "sentinel"; "" if it names none.
///
/// The reply to INFO also contains the mode, but the field's name depends on the server: redis_mode or server_mode, for
/// example.
std::string mode_of(const reply& hello) {
  const auto& parts = hello.elements();
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    if (parts[i].text() == "mode") return parts[i + 1].text();
  }
  return {};
}

constexpr duration ask_sentinels_every = std::chrono::seconds{1};

/// Returns how many of the answers `named` name the master with address `a`.
std::size_t count_of(const endpoint::address& a, const std::vector<named_master>& named) {
  return static_cast<std::size_t>(std::ranges::count_if(
      named, [&a](const named_master& b) { return a.host == b.where.host && a.port == b.where.port; }));
}

net::awaitable<std::exception_ptr> failure_of(net::awaitable<void> work) {
  try {
    co_await std::move(work);
  } catch (...) {
    co_return std::current_exception();
  }
  co_return nullptr;
}

/// Whether the server has refused a command because the client is not logged in, or because its user lacks a
/// permission. In both cases a login may help.
bool wants_login(const reply& r) {
  if (!r.is_error()) return false;
  const error e = error_of(r.text());
  return e == error::auth_required || e == error::no_permission;
}

}  // namespace

std::optional<command> login_of(const std::string& user, const std::string& password) {
  if (!user.empty()) return command{"AUTH", user, password};
  if (!password.empty()) return command{"AUTH", password};
  return std::nullopt;
}

void on_read::operator()(std::error_code ec, std::size_t n) const noexcept { owner->has_read(ec, n); }
void on_written::operator()(std::error_code ec, std::size_t) const noexcept { owner->has_written(ec); }

link::link(net::any_io_executor strand, std::shared_ptr<const link_options> options,
           std::shared_ptr<link_listener> listener)
    : strand_{std::move(strand)}, options_{std::move(options)}, listener_{std::move(listener)} {}

void link::dial() {
  const auto done = [self = shared_from_this()](std::exception_ptr failure) noexcept {
    if (self->listener_ == nullptr) return;
    try {
      if (failure) std::rethrow_exception(failure);
      self->listener_->link_up();
    } catch (const std::system_error& e) {
      self->fail(e.code());
    } catch (...) {
      self->fail(errc::not_enough_memory);
    }
  };
  net::co_spawn(strand_, dialing_.wrap(with_timeout(connect(), options_->connect_timeout)), done);
}

net::awaitable<void> link::connect() {
  const auto keep = shared_from_this();
  if (options_->where.master.empty()) {
    endpoint::address only;
    if (!options_->where.addresses.empty()) only = options_->where.addresses.front();
    co_await connect_to(std::move(only));
    co_return;
  }
  using namespace net::experimental::awaitable_operators;
  endpoint::address master = co_await find_master();
  // If the master does not answer, another master may have replaced it. So the sentinels are asked again while this
  // process waits for the master's answer.
  for (;;) {
    // A sentinel may name a dead master for ever. Example: a sentinel leads a failover, the new master dies before all
    // replicas follow it, and the old master is promoted again. The sentinel then still names the new master. So the
    // next attempt to connect asks another sentinel first, unless the master that this sentinel has named accepts the
    // connection.
    doubt();
    auto first = co_await (failure_of(connect_to(master)) || successor_of(master));
    if (first.index() == 0) {
      if (const auto failure = std::get<0>(first)) std::rethrow_exception(failure);
      break;
    }
    named_master next = std::get<1>(std::move(first));
    master = std::move(next.where);
    sentinel_ = next.sentinel;
  }
  *options_->first_sentinel = sentinel_;
}

void link::doubt() noexcept {
  if (!options_->where.master.empty()) {
    *options_->first_sentinel = (sentinel_ + 1) % options_->where.addresses.size();
  }
}

net::awaitable<void> link::connect_to(endpoint::address a) {
  reader_.emplace(options_->max_reply);
  try {
    stream_ = co_await open_stream(options_->where, std::move(a), options_->tls);
  } catch (const stream_failure& e) {
    refusal_ = e.text();
    throw;
  }
  try {
    co_await log_in();
  } catch (const std::system_error& e) {
    // With TLS 1.3 the server checks the client's certificate after the handshake, so log_in() may fail because of the
    // certificate. In that case hint() returns an explanation, which becomes a part of the error's text.
    const std::string hint = stream_->hint();
    if (!hint.empty() && refusal_.empty() && e.code() != net::error::operation_aborted) {
      refusal_ = e.code().message() + hint;
    }
    throw;
  }
}

/// Asks the sentinels again and again. Returns another master as soon as more sentinels name it than name `master`.
net::awaitable<named_master> link::successor_of(endpoint::address master) {
  for (;;) {
    co_await sleep_for(ask_sentinels_every);
    const std::vector<named_master> named = co_await named_masters();
    for (const auto& other : named) {
      if (count_of(other.where, named) > count_of(master, named)) co_return other;
    }
  }
}

/// Asks the sentinels for the master, until more than half of them name the same one. Returns one answer for each
/// sentinel that has answered.
net::awaitable<std::vector<named_master>> link::named_masters() {
  const std::size_t n = options_->where.addresses.size();
  std::vector<named_master> named;
  for (std::size_t i = 0; i < n; ++i) {
    try {
      const std::size_t sentinel = (sentinel_ + i) % n;
      auto answer = ask_in_time(sentinel);
      endpoint::address where = co_await std::move(answer);
      named.push_back({std::move(where), sentinel});
      if (2 * count_of(named.back().where, named) > n) break;
    } catch (const std::system_error& e) {
      if (e.code() == net::error::operation_aborted) throw;
      refusal_.clear();  // a sentinel's error is dropped, because the master may still answer
    }
  }
  co_return named;
}

net::awaitable<endpoint::address> link::ask_in_time(std::size_t sentinel) {
  const auto& sentinels = options_->where.addresses;
  // connect_timeout is divided among the sentinels and the master, so that a silent sentinel leaves time for the other
  // servers.
  const duration each = options_->connect_timeout / static_cast<duration::rep>(sentinels.size() + 1);
  auto answer = ask_sentinel(sentinels[sentinel]);
  co_return co_await with_timeout(std::move(answer), each);
}

net::awaitable<endpoint::address> link::find_master() {
  const std::size_t n = options_->where.addresses.size();
  const std::size_t first = *options_->first_sentinel;
  std::exception_ptr last;
  bool is_refused = false;
  for (std::size_t i = 0; i < n; ++i) {
    try {
      sentinel_ = (first + i) % n;
      auto answer = ask_in_time(sentinel_);
      co_return co_await std::move(answer);
    } catch (const std::system_error& e) {
      if (e.code() == net::error::operation_aborted) throw;
      // If one sentinel rejects the request and another one can't be reached, the rejection is reported.
      if (!std::exchange(is_refused, !refusal_.empty())) last = std::current_exception();
    }
  }
  std::rethrow_exception(last);
}

net::awaitable<endpoint::address> link::ask_sentinel(const endpoint::address& sentinel) {
  const std::string question = command{"SENTINEL", "get-master-addr-by-name", options_->where.master}.encoded();
  const auto s = co_await open_stream(options_->where, sentinel, options_->tls);
  reply_reader reader{options_->max_reply};
  const auto& login = options_->sentinel_login;
  const std::string with_login = login ? login->encoded() + question : "";
  const bool is_first = login && options_->is_sentinel_login_first;
  auto answers = co_await ask(*s, reader, is_first ? with_login : question, is_first ? 2 : 1);
  // The password in the URL may be meant only for the master. So a sentinel gets the password only if it demands a
  // login.
  if (login && !is_first && wants_login(answers.back())) answers = co_await ask(*s, reader, with_login, 2);
  // A sentinel that has no password rejects the login, but still answers the request for the master's address.
  if (answers.back().is_error()) {
    const bool is_login = answers.front().is_error() && wants_login(answers.back());
    const std::string& text = (is_login ? answers.front() : answers.back()).text();
    refusal_ = "sentinel " + sentinel.host + ":" + sentinel.port + ": " + text;
    throw std::system_error{is_login && answers.size() == 2 ? error::wrong_password : error_of(text)};
  }
  const auto& address = answers.back().elements();
  if (address.size() != 2) throw std::system_error{error::no_master};
  refusal_.clear();
  co_return endpoint::address{address[0].text(), address[1].text()};
}

net::awaitable<std::vector<reply>> link::ask(stream& s, reply_reader& reader, std::string bytes, std::size_t replies) {
  std::vector<reply> answers;
  std::exception_ptr unwritten;
  try {
    co_await s.write_all(net::buffer(bytes));
  } catch (const std::system_error& e) {
    if (e.code() == net::error::operation_aborted) throw;
    unwritten = std::current_exception();
  }
  try {
    // The server may send an error as the reason before it closes the connection. This error can be read even after the
    // write has failed.
    std::array<char, 4096> part;
    while (answers.size() < replies) {
      const std::size_t n = co_await s.read_some(net::buffer(part));
      std::error_code ec = reader.feed({part.data(), n});
      while (!ec && answers.size() < replies) {
        auto r = reader.next(ec);
        if (!r) break;
        answers.push_back(std::move(*r));
      }
      if (ec) throw std::system_error{ec};
    }
  } catch (const std::system_error& e) {
    // A server that rejects the client, for example because it has too many clients, sends a reason and closes the
    // connection.
    if (!answers.empty() && answers.back().is_error()) refusal_ = answers.back().text();
    // A server that rejects the TLS handshake sends its reason as a TLS alert. So if the read ends with a TLS error,
    // that error is reported instead of the failed write.
    if (unwritten && e.code().category() != net::error::get_ssl_category()) std::rethrow_exception(unwritten);
    throw;
  }
  co_return answers;
}

net::awaitable<void> link::log_in() {
  const auto& where = options_->where;
  enum class step { auth, select, name, hello, info, role };
  std::vector<step> steps;
  std::string bytes;
  const auto say = [&](step s, const command& c) {
    steps.push_back(s);
    bytes += c.encoded();
  };
  if (const auto login = login_of(where.user, where.password)) say(step::auth, *login);
  if (where.database != 0) say(step::select, command{"SELECT", where.database});
  if (!options_->name.empty()) say(step::name, command{"CLIENT", "SETNAME", options_->name});
  say(step::hello, command{"HELLO"});
  say(step::info, command{"INFO", "server"});
  if (!where.master.empty()) say(step::role, command{"ROLE"});

  time_source& time = time_source::of(strand_);
  const time_point asked_at = time.now();
  const auto answers = co_await ask(*stream_, *reader_, std::move(bytes), steps.size());
  round_trip_ = time.now() - asked_at;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const reply& r = answers[i];
    if (r.is_error()) {
      const error what = steps[i] == step::auth ? error::wrong_password : error_of(r.text());
      // The connection also works if the user lacks the permission for one of these commands, except SELECT. Old
      // servers and proxies may not know HELLO.
      if (steps[i] == step::hello) continue;
      if (what == error::no_permission && steps[i] != step::select) continue;
      if (what == error::command_failed && steps[i] == step::name) continue;
      refusal_ = r.text();
      throw std::system_error{what};
    }
    if (steps[i] == step::hello) {
      const std::string mode = mode_of(r);
      may_be_in_cluster_ = mode.empty() || mode == "cluster";
    }
    if (steps[i] == step::info) run_id_ = line_of(r.text(), "run_id");
    // The sentinel's answer may be outdated, so this code checks that the server is really a master.
    if (steps[i] == step::role && (r.elements().empty() || r.elements().front().text() != "master")) {
      throw std::system_error{error::no_master};
    }
  }
}

void link::send(std::string_view bytes) {
  out_ += bytes;
  if (!is_writing_) flush();
}

void link::flush() {
  if (out_.empty()) return;
  writing_.clear();
  writing_.swap(out_);
  is_writing_ = true;
  try {
    stream_->write_all(net::buffer(writing_), on_written{shared_from_this()});
  } catch (...) {
    is_writing_ = false;
    fail(errc::not_enough_memory);
  }
}

void link::has_written(std::error_code ec) noexcept {
  is_writing_ = false;
  if (listener_ == nullptr) return;
  if (ec) return fail(error::connection_lost, ec);
  flush();
}

void link::read() {
  if (is_reading_) return;
  is_reading_ = true;
  try {
    stream_->read_some(net::buffer(in_), on_read{shared_from_this()});
  } catch (...) {
    is_reading_ = false;
    fail(errc::not_enough_memory);
  }
}

void link::has_read(std::error_code ec, std::size_t n) noexcept {
  is_reading_ = false;
  if (listener_ == nullptr) return;
  if (ec) return fail(error::connection_lost, ec);
  ec = reader_->feed({in_.data(), n});
  while (!ec) {
    auto r = reader_->next(ec);
    if (!r) break;
    if (!listener_->link_reply(std::move(*r))) ec = error::bad_reply;
  }
  if (ec) return fail(ec);
  if (listener_->link_wants_more()) read();
}

void link::fail(std::error_code ec, std::error_code cause) noexcept {
  // If there is no listener, the link is already closed. If a failure closed the link, that failure was reported then.
  if (listener_ == nullptr) return;
  const auto keep = shared_from_this();
  const auto listener = listener_;
  close();
  listener->link_down(ec, cause, refusal_);
}

void link::close() noexcept {
  listener_.reset();
  if (stream_ != nullptr) {
    stream_->close();
  } else {
    try {
      dialing_.cancel();
    } catch (...) {
      // There is no memory to cancel the attempt to connect, so the attempt continues. Its result is ignored, because
      // the link has no listener any more.
    }
  }
}

}  // namespace canigo::redis::detail
