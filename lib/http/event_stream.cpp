#include "canigo/http/event_stream.hpp"

#include "canigo/error.hpp"

#include "text.hpp"

#include <asio/buffer.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <system_error>

namespace canigo::http {

bool event_parser::take(std::string_view part, std::deque<server_event>& events) {
  return std::ranges::all_of(part, [&](char c) { return take_byte(c, events); });
}

bool event_parser::take_byte(char c, std::deque<server_event>& events) {
  const bool is_second_of_pair = c == '\n' && was_return_;
  was_return_ = c == '\r';
  if (is_second_of_pair) return true;
  if (c == '\r' || c == '\n') {
    end_line(events);
    return true;
  }
  if (line_.size() + data_.size() >= max_event_) return false;
  line_ += c;
  return true;
}

void event_parser::end_line(std::deque<server_event>& events) {
  std::string_view line = line_;
  constexpr std::string_view mark = "\xef\xbb\xbf";  // the byte order mark of UTF-8
  if (std::exchange(is_first_line_, false) && line.starts_with(mark)) line.remove_prefix(mark.size());
  if (line.empty()) {
    dispatch(events);
  } else {
    const auto colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    std::string_view value = colon == std::string_view::npos ? std::string_view{} : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (name == "data") {
      data_.append(value).push_back('\n');
    } else if (name == "event") {
      type_ = value;
    } else if (name == "id") {
      if (value.find('\0') == std::string_view::npos) id_ = value;
    } else if (name == "retry" && !value.empty() && std::ranges::all_of(value, detail::is_digit)) {
      std::int64_t ms = 0;
      constexpr std::int64_t most = std::chrono::milliseconds{std::chrono::hours{24 * 365}}.count();
      const bool fits = std::from_chars(value.data(), value.data() + value.size(), ms).ec == std::errc{};
      retry_ = std::chrono::milliseconds{fits ? std::min(ms, most) : most};
    }
  }
  line_.clear();
}

void event_parser::dispatch(std::deque<server_event>& events) {
  last_id_ = id_;
  if (!data_.empty()) {
    data_.pop_back();
    events.push_back({type_.empty() ? "message" : std::move(type_), std::move(data_), last_id_});
  }
  type_.clear();
  data_.clear();
}

event_stream::event_stream(http::exchange x, std::size_t max_event)
    : exchange_{std::move(x)}, parser_{max_event}, room_(std::size_t{16} << 10) {
  if (max_event == 0) canigo::detail::throw_invalid("event_stream max_event", max_event, "1 or more");
}

net::awaitable<std::optional<server_event>> event_stream::next() {
  while (events_.empty()) {
    if (is_too_large_) throw std::system_error{errc::too_large};
    const std::size_t size = co_await exchange_.read_some(net::buffer(room_));
    if (size == 0) co_return std::nullopt;
    is_too_large_ = !parser_.take({room_.data(), size}, events_);
  }
  std::optional<server_event> event{std::move(events_.front())};
  events_.pop_front();
  co_return event;
}

}  // namespace canigo::http
