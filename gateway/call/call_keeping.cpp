#include "gateway/call/answer.hpp"
#include "gateway/call/call.hpp"
#include "gateway/policy/event_stream.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <utility>

// g++ 12 may destroy a temporary of a co_await expression twice. So no such temporary in this file needs a destructor.
namespace canigo::gateway {
namespace {

constexpr std::string_view close_line = "Connection: close\r\n";

}  // namespace

/// Creates the object that sends messages to the client while the call waits. It is created only if the client asks for
/// interim responses, or if the client reads event streams and the upstream's configuration allows comments.
void call::keep_client() {
  if (head_.version < 11 || is_tunnel() || plan_.is_websocket) return;
  const auto prepare = [this](const keeping_times& times, std::string (call::*next)()) {
    keeper_ = std::make_unique<client_keeper>(
        loop_.io.get_executor(), host_.stream(), settings().time.write_stall, times,
        [this, next] { return (this->*next)(); }, [this] { end_by_client(); });
  };
  if (const auto& wish = route_.granted.interim) {
    prepare({.after = wish->every, .every = wish->every, .most = interim_wish::most}, &call::interim_response);
  } else if (may_be_kept_by_events()) {
    prepare({.after = to().keep_alive->after, .every = to().keep_alive->every}, &call::waiting_events);
  }
}

/// Whether the comments of the event stream come often enough that the client's read timeout does not expire. They do
/// if the time before the first comment, and the time between two comments, is less than `silence`. `silence`: the part
/// of the read timeout that the wait may use.
bool call::outlasts(duration silence) const noexcept {
  if (!keeper_ || route_.granted.interim) return false;
  return to().keep_alive->after < silence && to().keep_alive->every < silence;
}

/// Whether the client may get comments of an event stream while its call waits. A client that is still sending its body
/// gets none, because it may read the response only after it has sent the whole body.
bool call::may_be_kept_by_events() const {
  return to().keep_alive && head_.method != "HEAD" && body_->is_read() && asks_for_events(head_, body_->ahead());
}

std::string call::interim_response() {
  if (record_.kept.empty()) services_.counts.kept_by_interim.fetch_add(1, std::memory_order_relaxed);
  record_.kept = "interim";
  return route_.granted.interim->status == 102 ? "HTTP/1.1 102 Processing\r\n\r\n" : "HTTP/1.1 103 Early Hints\r\n\r\n";
}

/// Returns the next comment for a client that waits for an event stream. The first result also contains the head of the
/// response, although the upstream has not answered yet.
std::string call::waiting_events() {
  std::optional<std::size_t> position;
  duration estimate{};
  const auto line = queue().recent_line();
  const auto own = std::ranges::find(*line, tag_, &waiting_request::tag);
  if (own != line->end()) {
    position = static_cast<std::size_t>(own - line->begin()) + 1;
    estimate = own->estimate;
  }
  const std::string comment = chunk_of(waiting_comment(position, estimate));
  if (has_begun_events()) return comment;
  const std::string_view goes_on = host_.goes_on() ? std::string_view{snapshot_->keep_alive_line} : close_line;
  std::string text = events_head(record_, goes_on) + comment;
  services_.counts.kept_by_events.fetch_add(1, std::memory_order_relaxed);
  record_.kept = by_events;
  return text;
}

/// Gives back the call's permits and its pass of the breaker. Call it if the call was ended while a message was written
/// to its client. Always returns false, because the call is not granted.
bool call::give_up_turn() {
  held_->give_back();
  held_.reset();
  why_ = turn_.why_called_off();
  return false;
}

/// Sends an event with the error to the client, and ends the event stream.
net::awaitable<void> call::end_events() {
  const std::string event =
      exchange_ ? failure_event(to().tokens.api, *why_, exchange_->failed) : failure_event(to().tokens.api, *why_);
  const std::string text = chunk_of(event) + "0\r\n\r\n";
  std::array pieces{net::const_buffer{text.data(), text.size()}};
  error_code error;
  co_await host_.stream().write(pieces, settings().time.write_stall, error);
  services_.counts.kept_failed.fetch_add(1, std::memory_order_relaxed);
  record_.bytes_out = event.size();
  record_.error = why_->error;
  texts_of(record_).detail = why_->detail;
  if (error) {
    host_.forbid_next();
  } else {
    host_.note_answered();
  }
  host_.end_record(record_);
}

}  // namespace canigo::gateway
