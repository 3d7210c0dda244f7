#include "fetcher.hpp"

#include <canigo/error.hpp>
#include <canigo/http/asked_wait.hpp>
#include <canigo/http/public_address.hpp>
#include <canigo/timeout.hpp>

#include "redirect.hpp"
#include "request.hpp"
#include "retry.hpp"
#include "text.hpp"
#include "url.hpp"

#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/error.hpp>
#include <asio/signal_set.hpp>
#include <asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace fetch {

using namespace std::chrono_literals;
namespace http = canigo::http;

namespace {

canigo::time_point now() { return std::chrono::steady_clock::now(); }

double per_second(const canigo::rate& r) {
  return static_cast<double>(r.tokens()) / std::chrono::duration<double>(r.period()).count();
}

/// Returns the highest rate at which the options allow calls to one server.
double most_per_second(const options& o) {
  double most = std::numeric_limits<double>::infinity();
  if (o.rate) most = per_second(*o.rate);
  if (o.per_host.rate) most = std::min(most, per_second(*o.per_host.rate));
  return most;
}

server_limits limits_of_each(const options& o) {
  server_limits limits = o.per_host;
  // An adaptive limit of a server is at most the number of all connections. Without an adaptive limit, only the limiter
  // counts all connections. So a server whose calls use all of them still counts as able to get calls.
  if (limits.is_adaptive) limits.connections = std::min(limits.connections, o.connections);
  return limits;
}

canigo::limiter_options limits_of(const options& o) {
  canigo::limiter_options limits{.concurrency = o.connections};
  if (o.rate) limits.rates.push_back({*o.rate, o.burst});
  return limits;
}

std::string to_text(canigo::duration d) {
  return canigo::to_string(d < 10s ? std::chrono::ceil<std::chrono::milliseconds>(d)
                                   // A long duration is rounded down, because duration::max() can't be rounded up.
                                   : std::chrono::floor<std::chrono::seconds>(d));
}

// Completion handler of coroutines: throws the coroutine's exception, which ends the program. An example is the error
// of a write to standard output after its reader has closed the pipe.
void rethrow(const std::exception_ptr& e) {
  if (e) std::rethrow_exception(e);
}

// Like rethrow(), but ignores the error of a cancelled operation. When all calls have ended, the other operations are
// cancelled.
void rethrow_failure(const std::exception_ptr& e) {
  try {
    rethrow(e);
  } catch (const std::system_error& failure) {
    if (failure.code() != asio::error::operation_aborted) throw;
  }
}

}  // namespace

fetcher::fetcher(asio::io_context& io, const options& o, report& r)
    : io_{io},
      options_{o},
      report_{r},
      input_{io.get_executor(), o.input},
      queue_{io.get_executor(),  o.priorities,      o.queue_limit,
             most_per_second(o), limits_of_each(o), [this](const call& c) { return obstacle_of(c).has_value(); }},
      limits_{io, limits_of(o)},
      http_{io,
            {.connections = o.connections,
             // unlimited, because call_queue limits the connections of each server
             .connections_per_host = canigo::unlimited,
             .timeout = o.timeout,
             .max_redirects = 0,
             .decode_body = o.decodes_bodies,
             .user_agent = "canigo-fetch",
             .verify_tls = o.verify_tls,
             .ca_file = o.ca_file,
             .cert_file = o.cert_file,
             .key_file = o.key_file,
             .key_password = o.key_password,
             .proxy = o.only_public ? std::optional<std::string>{""} : std::nullopt,
             .allow_address = o.only_public ? http::is_public : nullptr}},
      backoff_{
          .first = std::min<canigo::duration>(500ms, o.max_pause), .cap = o.max_pause, .jitter = canigo::jitter::equal},
      news_{io.get_executor()},
      room_{io.get_executor()} {
  if (!o.journal.empty()) journal_.emplace(o.journal);
  if (!o.output_dir.empty()) folder_.emplace(o.output_dir, o.overwrite);
}

asio::awaitable<void> fetcher::run() {
  asio::co_spawn(io_, over_.wrap(obey_signals()), rethrow_failure);
  asio::co_spawn(io_, over_.wrap(show_progress()), rethrow_failure);
  asio::co_spawn(io_, read_lines(), rethrow);
  co_await let_go();
  for (call& c : queue_.take_all()) {
    c.error = canigo::errc::stopped;
    report_.finished(c);
  }
  while (running_ > 0) co_await news_.wait_until();
  over_.cancel();
}

asio::awaitable<void> fetcher::read_lines() {
  std::size_t lines = 0;
  while (const auto line = co_await input_.next()) {
    ++lines;
    parsed_line parsed = parse_line(line->text, options_.priorities);
    if (parsed.value && !line->is_whole) {
      parsed = {{}, fmt::format("longer than {} bytes", line_reader::longest_line)};
    }
    if (parsed.value) {
      parsed.value->order = calls_read_ + 1;
      parsed.value->line_hash = journal::hash_of(line->text);
      parsed.problem = name_file(*parsed.value);
    }
    if (!parsed.problem.empty()) report_.bad_line(lines, parsed.problem);
    if (!parsed.value || !parsed.problem.empty()) continue;
    ++calls_read_;
    if (journal_ && journal_->has(parsed.value->order, parsed.value->line_hash)) {
      report_.done_before();
      continue;
    }
    parsed.value->queued = now();
    queue_.add(std::move(*parsed.value));
    news_.give();
    while (queue_.is_full() && !is_stopping()) co_await room_.wait_until();
  }
  if (input_.error()) report_.input_failed(options_.input, input_.error());
  has_read_all_ = true;
  news_.give();
}

/// Sets the name of the file for the call's response. Returns the problem with the name; empty if there is none.
std::string fetcher::name_file(call& c) const {
  if (!folder_) return {};
  auto [name, problem] = options_.name.name_of(c);
  c.file = std::move(name);
  return problem;
}

bool fetcher::is_over() const noexcept {
  return is_stopping() || (has_read_all_ && running_ == 0 && queue_.waiting() == 0);
}

asio::awaitable<void> fetcher::let_go() {
  while (!is_over()) {
    const bool has_next = queue_.has_next(now());
    if (refuse_hopeless()) continue;
    if (!has_next) {
      co_await news_.wait_until(queue_.next_at());
      continue;
    }
    canigo::permit may_go;
    try {
      may_go = co_await limits_.acquire();
    } catch (const std::system_error&) {
      co_return;  // limits_ was stopped, so no further call is made
    }
    // The next call is chosen only now, after the limiter has granted a token. If no server may get a call any more,
    // the token is given back.
    auto c = queue_.take(now());
    refuse_hopeless();
    room_.give();
    if (c) {
      ++running_;
      asio::co_spawn(io_, make(std::move(*c), std::move(may_go)), rethrow);
    } else {
      may_go.settle(0);
    }
  }
}

/// Returns why the call can't be made, if that is known before the call is sent; otherwise returns nothing.
std::optional<std::system_error> fetcher::obstacle_of(const call& c) const {
  if (folder_) {
    if (const auto error = folder_->check(c.file)) {
      return std::system_error{error, fmt::format("--output-dir: {}, without --overwrite", printable(c.file))};
    }
  }
  if (c.body_file.empty()) return std::nullopt;
  try {
    check_file(c.body_file);
  } catch (const std::system_error& e) {
    return e;
  }
  return std::nullopt;
}

/// Ends with an error each call that can't be made. Returns false if there were no such calls.
bool fetcher::refuse_hopeless() {
  auto all = queue_.take_hopeless();
  for (call& c : all) {
    c.started = now();
    c.waited += c.started - c.queued;
    ++c.attempts;
    c.failed(obstacle_of(c).value_or(std::system_error{canigo::make_error_code(canigo::errc::stopped)}));
    report_.finished(c);
  }
  if (!all.empty()) room_.give();
  return !all.empty();
}

asio::awaitable<void> fetcher::make(call c, canigo::permit may_go) {
  http::response response;
  bool was_sent = false;
  try {
    http::request request = begin(c);
    was_sent = true;
    if (folder_) {
      response = co_await download(c, std::move(request));
    } else {
      response = co_await http_.send(std::move(request));
    }
  } catch (const output_error&) {
    throw;  // an error of the output folder ends the program
  } catch (const std::system_error& e) {
    c.failed(e);
  }
  if (!was_sent) may_go.settle(0);
  c.status = response.status;
  c.is_refused = is_refused(response);
  c.is_final = is_final(response);
  c.bytes = response.body_size;
  report_.sent_again(c, response.resends);
  answered(std::move(c), response);
}

/// Builds the next request of the call. Throws std::system_error if the request's body can't be read, or if the file
/// for the response already exists.
http::request fetcher::begin(call& c) {
  c.started = now();
  c.waited += c.started - c.queued;
  c.error = {};
  if (!std::exchange(c.was_led_here, false)) ++c.attempts;
  http::request request = request_of(c, options_.common);
  request.keep_body = false;
  if (const auto obstacle = obstacle_of(c)) throw *obstacle;
  report_.sent(c);
  return request;
}

/// Sends a request like http::client::send(), but stores the body of a successful response in the call's file.
asio::awaitable<http::response> fetcher::download(call& c, http::request request) {
  http::exchange x = co_await http_.open(std::move(request));
  http::response r = x.head();
  r.redirect = redirect_of(r, c.target());
  std::optional<output_dir::part> file;
  if (r.status < 400 && (r.redirect.empty() || options_.max_redirects == 0)) file.emplace(*folder_, c.file);
  const auto until = canigo::saturating_add(c.started, options_.timeout);
  try {
    r.body_size = co_await canigo::with_deadline(copy(x, file ? &*file : nullptr), until);
  } catch (const output_error&) {
    throw;
  } catch (const std::system_error& e) {
    if (e.code() == canigo::errc::timed_out) {
      const std::string limit = canigo::to_string(options_.timeout);
      throw std::system_error{e.code(), fmt::format("--timeout of {} passed before the end of the body", limit)};
    }
    if (x.problem().empty()) throw;
    throw std::system_error{e.code(), x.problem()};
  }
  if (file) {
    if (const auto error = file->keep()) {
      throw std::system_error{error, fmt::format("--output-dir: {}, without --overwrite", printable(c.file))};
    }
    c.is_saved = true;
  }
  co_return r;
}

/// Reads a response's body to its end, and returns the body's size in bytes. `to`: the file for the body; null: the
/// body is dropped.
asio::awaitable<std::uint64_t> fetcher::copy(http::exchange& from, output_dir::part* to) const {
  constexpr std::size_t room_size = 64 << 10;
  // A body that is not stored is read, too, up to this size. If the body has been read to its end, its connection can
  // serve further calls.
  constexpr std::uint64_t longest_dropped = 16 << 20;
  const std::uint64_t most = to != nullptr ? options_.longest_file : longest_dropped;
  std::vector<char> room(room_size);
  std::uint64_t size = 0;
  while (const std::size_t n = co_await from.read_some(asio::buffer(room))) {
    size += n;
    if (size > most) {
      const auto* bound = to != nullptr ? "--max-filesize" : "the bound";
      throw std::system_error{canigo::make_error_code(canigo::errc::too_large),
                              fmt::format("the body has more than {}, {} bytes", bound, most)};
    }
    if (to != nullptr) to->write({room.data(), n});
  }
  co_return size;
}

/// Handles a response: ends the call, or queues the call again for its next request.
void fetcher::answered(call c, const http::response& r) {
  server& s = queue_.server_of(c);
  give_back_place(c);
  std::optional<canigo::time_point> next;
  if (c.is_refused) {
    next = told_to_wait(c, s, r);
  } else {
    if (!c.error) s.pace.taken(c.started, now());
    if (may_try_again(c)) next = after_backoff(c);
  }
  queue_.done(s, now());
  if (!next && !c.is_refused && is_led_on(c, r)) next = now();
  --running_;
  if (next) {
    c.queued = now();
    queue_.put_back(std::move(c), *next);
  } else {
    report_.finished(c);
    if (journal_ && c.ok()) journal_->add(c.order, c.line_hash);
  }
  news_.give();
}

/// Reports the result of the call to the adaptive limit of its server. Does nothing if the server has no such limit.
void fetcher::give_back_place(call& c) {
  if (c.is_refused || c.error == canigo::errc::timed_out) {
    c.place_at_server.dropped();
  } else if (c.error) {
    c.place_at_server.release();
  } else {
    c.place_at_server.succeeded();
  }
}

/// Handles a refusal by the server. Returns when to try the call again; nothing: there is no further attempt. If the
/// server asks for a pause, only calls to this server wait.
std::optional<canigo::time_point> fetcher::told_to_wait(const call& c, server& s, const http::response& r) {
  const auto asked = http::asked_wait(r, std::chrono::system_clock::now(), canigo::duration::max()).value_or(0s);
  const auto pause = std::min(asked, options_.max_pause);
  const auto until = canigo::saturating_add(now(), pause);
  s.told_pace = std::max(s.told_pace, s.pace.per_second());
  s.pace.refused(c.started, now(), pause);
  // While a server pauses, it may refuse several running calls. Such a pause is reported only once.
  const bool is_new_pause = pause > 0s && until > canigo::saturating_add(s.paused_until, pause / 2);
  if (pause > 0s) {
    s.paused_until = std::max(s.paused_until, until);
    queue_.hold(s, s.paused_until);
    room_.give();
  }
  if (is_new_pause || s.pace.per_second() < 0.8 * s.told_pace) {
    s.told_pace = s.pace.per_second();
    std::string text = fmt::format("{}: {}; its calls", printable(s.origin), c.status);
    if (is_new_pause) text += " wait for " + to_text(pause);
    if (asked > pause) text += fmt::format(" (--max-pause; it asks for {})", to_text(asked));
    if (is_new_pause && s.pace.is_slowed()) text += ", then";
    if (s.pace.is_slowed()) text += fmt::format(" go at {:.3g}/s", s.pace.per_second());
    report_.note(text);
  }
  if (!may_try_again(c)) return std::nullopt;
  return pause > 0s ? now() : after_backoff(c);
}

bool fetcher::may_try_again(const call& c) const {
  const bool is_bad = c.error || c.status >= 400;
  return is_bad && c.attempts < options_.attempts && !is_stopping() &&
         is_worth_another(c, method_of(c, options_.common));
}

canigo::time_point fetcher::after_backoff(const call& c) {
  return canigo::saturating_add(now(), backoff_.delay(static_cast<std::uint32_t>(c.attempts), random_()));
}

/// Whether the response is a redirect that the call follows. If so, the call's next request must wait in the queue like
/// any other request.
bool fetcher::is_led_on(call& c, const http::response& r) const {
  if (c.error || r.redirect.empty() || options_.max_redirects == 0) return false;
  if (is_stopping()) {
    c.error = canigo::errc::stopped;
  } else if (!is_http(r.redirect)) {
    c.error = http::error::unsupported_protocol;
  } else if (c.redirects == options_.max_redirects) {
    c.error = http::error::too_many_redirects;
  } else {
    lead_on(c, options_.common, r.redirect);
  }
  return !c.error;
}

asio::awaitable<void> fetcher::obey_signals() {
  asio::signal_set signals{io_, SIGINT, SIGTERM};
  signal_ = co_await signals.async_wait(asio::use_awaitable);
  if (running_ == 0) {
    report_.note("stopping");
  } else {
    report_.note(fmt::format("stopping: {} may finish within {}",
                             running_ == 1 ? "1 call" : fmt::format("{} calls", running_),
                             canigo::to_string(options_.grace)));
  }
  input_.stop();
  limits_.stop();
  news_.give();
  room_.give();
  give_up_after(options_.grace);
  // A second signal within 100 ms is ignored: timeout(1) signals the process and then its process group, so one signal
  // may arrive twice.
  const canigo::time_point one_until = now() + 100ms;
  do {
    co_await signals.async_wait(asio::use_awaitable);
  } while (now() < one_until);
  http_.stop();
}

void fetcher::give_up_after(canigo::duration grace) {
  const auto wait = [](fetcher* self, canigo::duration d) -> asio::awaitable<void> {
    co_await canigo::sleep_for(d);
    self->http_.stop();  // ends the requests that still run
  };
  asio::co_spawn(io_, over_.wrap(wait(this, grace)), rethrow_failure);
}

asio::awaitable<void> fetcher::show_progress() {
  while (report_.shows_progress()) {
    co_await canigo::sleep_for(200ms);
    report_.show(how_far());
  }
}

progress fetcher::how_far() const {
  progress p;
  p.running = running_;
  p.waiting = queue_.waiting_of_classes();
  const auto part = input_.part_read();
  if (has_read_all_) {
    p.unread = 0;
  } else if (part && *part > 0) {
    p.unread = static_cast<std::size_t>(static_cast<double>(calls_read_) * (1 / *part - 1));
  }
  return p;
}

}  // namespace fetch
