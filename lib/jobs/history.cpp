#include "history.hpp"

#include "number_text.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace canigo::jobs::detail {
namespace {

constexpr std::string_view letters = "fce";  // the letter of each event::type, in the order of the enum

/// Removes a number, and the blank after it, from the front of a line. Returns false if the line does not begin with a
/// number and a blank.
template <class Number>
bool take(std::string_view& line, Number& n) {
  if (!take_number(line, n) || !line.starts_with(' ')) return false;
  line.remove_prefix(1);
  return true;
}

}  // namespace

void add_event(std::vector<event>& history, event e) {
  if (history.size() == most_events) history.erase(history.begin());
  history.push_back(std::move(e));
}

std::string encode(const std::vector<event>& history) {
  std::string text;
  for (const event& e : history) {
    text += std::to_string(e.at.time_since_epoch().count()) + ' ' + std::to_string(e.attempt) + ' ';
    text += letters[static_cast<std::size_t>(e.what)];
    text += ' ' + e.text + '\n';
  }
  return text;
}

std::vector<event> decode_history(std::string_view text) {
  std::vector<event> history;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    std::int64_t at = 0;
    event e;
    if (!take(line, at) || !take(line, e.attempt) || line.size() < 2 || line[1] != ' ') continue;
    const std::size_t letter = letters.find(line[0]);
    if (letter == letters.npos) continue;
    e.at = instant{std::chrono::microseconds{at}};
    e.what = static_cast<event::type>(letter);
    e.text = line.substr(2);
    history.push_back(std::move(e));
  }
  return history;
}

}  // namespace canigo::jobs::detail
