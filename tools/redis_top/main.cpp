// canigo-redis-top URL [SPACE] prints the limits in a Redis repeatedly, with their holders and the number of waiters.
#include <canigo/rate.hpp>
#include <canigo/redis/client.hpp>
#include <canigo/redis/error.hpp>
#include <canigo/timeout.hpp>

#include "tools/shared/text.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace redis = canigo::redis;

namespace {

double number(const std::string& text) { return text.empty() ? 0 : std::strtod(text.c_str(), nullptr); }

/// Returns the double that begins at byte `at` of a text, in little-endian order.
double packed(const std::string& text, std::size_t at) {
  std::uint64_t bits = 0;
  for (std::size_t i = 8; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(text.at(at + i));
  return std::bit_cast<double>(bits);
}

/// Returns the position of the byte at which a limiter's further rates begin in its record; 0 if the record is too
/// short to have any. The record's parts before the further rates are: the number of its format, three texts with their
/// lengths, the shape of the rates, and the number of rates.
std::size_t further_rates(const std::string& record) {
  std::size_t at = 153;
  for (int text = 0; text < 3 && at < record.size(); ++text) at += 1 + static_cast<unsigned char>(record[at]);
  return record.size() >= at + 16 ? at + 16 : 0;
}

/// Formats a rate as "10/s, burst 20". The three numbers of the rate begin at byte `at` of the record.
std::string rate_text(const std::string& record, std::size_t at) {
  const double tokens = packed(record, at), us = packed(record, at + 8), burst = packed(record, at + 16);
  const auto span = std::chrono::microseconds{static_cast<std::int64_t>(us)};
  return fmt::format("{}, burst {}", to_string(canigo::rate{static_cast<std::int64_t>(tokens), span}), burst);
}

/// Decodes the name of a limit in a key. In keys, all characters except letters, digits and "_.-" are written as %XX.
std::string given(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    unsigned byte = 0;
    const char* const hex = name.data() + i + 1;
    if (name[i] == '%' && i + 2 < name.size() && std::from_chars(hex, hex + 2, byte, 16).ptr == hex + 2) {
      text += static_cast<char>(byte);
      i += 2;
    } else {
      text += name[i];
    }
  }
  return tools::printable(text);
}

/// Returns "semaphore crm-api, space default" for the prefix of a limit's keys, such as "{canigo:default:crm-api}:s:".
std::string title(const std::string& prefix) {
  const std::size_t space = prefix.find(':') + 1, name = prefix.find(':', space) + 1, kind = prefix.size() - 2;
  const char letter = prefix[kind];
  const char* const what = letter == 's'   ? "semaphore"
                           : letter == 'r' ? "scheduler"
                           : letter == 'l' ? "limiter"
                                           : "limit";
  return fmt::format("{} {}, space {}", what, given(std::string_view{prefix}.substr(name, kind - 2 - name)),
                     given(std::string_view{prefix}.substr(space, name - 1 - space)));
}

asio::awaitable<void> show(redis::client& client, std::string prefix) {
  const redis::reply state = co_await client.run("HGETALL", prefix + "state");
  const redis::reply sessions = co_await client.run("ZRANGE", prefix + "sess", 0, -1, "WITHSCORES");
  const redis::reply queue = co_await client.run("ZCARD", prefix + "q");
  const redis::reply time = co_await client.run("TIME");
  std::map<std::string, std::string> of;
  for (std::size_t i = 0; i + 1 < state.elements().size(); i += 2) {
    of[state.elements()[i].text()] = state.elements()[i + 1].text();
  }
  const std::string all = of["*"];
  if (all.empty()) co_return;  // the limit was deleted between two reads
  // Byte 152 is the number of the record's format. Old versions of canigo wrote a printable character to byte 152, not
  // a number.
  const int form = all.size() > 152 ? static_cast<unsigned char>(all[152]) : 0;
  fmt::print("{}\n", title(prefix));
  if (form != 3) {
    fmt::print("  is in form {}, of another version of canigo; here is 3\n", form != 0 && form < 32 ? form : 1);
    co_return;
  }
  const auto field = [&all](std::size_t place) { return packed(all, place * 8); };
  // The numbers in the record, in this order: last fence total zu zr epoch hold off lying qseq due reap keep version
  // cap n p burst pause
  const double now = number(time.elements().at(0).text()) * 1e6 + number(time.elements().at(1).text()) + field(7);
  const double quarantine = field(6) - now;
  const double pause = field(18) - now;
  const auto seconds = [](double us) { return us / 1e6; };

  // The record has this cap if the limiter itself has no cap, but its alternatives have caps.
  constexpr double no_cap = std::uint64_t{1} << 31;
  if (field(14) == no_cap) fmt::print("  {} permits held\n", field(2));
  if (field(14) > 0 && field(14) != no_cap) fmt::print("  {} of {} permits held\n", field(2), field(14));
  if (field(15) > 0) fmt::print("  {}\n", rate_text(all, 15 * 8));
  if (const std::size_t from = further_rates(all); from != 0) {
    const auto end = from + 40 * static_cast<std::size_t>(packed(all, from - 8));
    for (std::size_t at = from; at + 40 <= std::min(end, all.size()); at += 40) {
      fmt::print("  {}\n", rate_text(all, at));
    }
    const std::size_t alternatives = all.size() >= end + 8 ? static_cast<std::size_t>(packed(all, end)) : 0;
    for (std::size_t i = 0; i < alternatives && end + 40 + 32 * i <= all.size(); ++i) {
      const std::size_t at = end + 8 + 32 * i;
      const double cap = packed(all, at), paused = packed(all, at + 8) - now;
      fmt::print("  alternative {}: {}{} permits held{}\n", i, packed(all, at + 16),
                 cap > 0 ? fmt::format(" of {}", cap) : "",
                 paused > 0 ? fmt::format(", paused for {:.1f} s more", seconds(paused)) : "");
    }
  }
  fmt::print("  {} waiting, last token {:.0f}, last call {:.1f} s ago\n", queue.integer(), field(1),
             seconds(now - field(0)));
  if (quarantine > 0) fmt::print("  in quarantine for {:.1f} s more\n", seconds(quarantine));
  if (pause > 0) fmt::print("  paused for {:.1f} s more\n", seconds(pause));
  const auto& list = sessions.elements();
  for (std::size_t i = 0; i + 1 < list.size(); i += 2) {
    const std::string& session = list[i].text();
    const double left = seconds(number(list[i + 1].text()) - now);
    const bool has_ended = left < 0;
    fmt::print("  session {:48} holds {:6}  lease {} {:.1f} s{}\n", tools::printable(session),
               of[session].empty() ? 0 : packed(of[session], 0), has_ended ? "ended" : "ends in",
               has_ended ? -left : left, has_ended ? " ago" : "");
  }
}

/// Returns a pattern that matches only this name, even if the name contains special characters of patterns.
std::string exactly(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (std::string_view{"*?[]^\\"}.find(c) != std::string_view::npos) text += '\\';
    text += c;
  }
  return text;
}

/// Prints all limits of the spaces that match the pattern `space`.
asio::awaitable<void> show_all(redis::client& client, std::string space) {
  std::set<std::string> prefixes;
  std::string cursor = "0";
  do {
    const redis::reply page =
        co_await client.run("SCAN", cursor, "MATCH", "{canigo:" + space + ":*}:?:state", "COUNT", 1000);
    cursor = page.elements().at(0).text();
    for (const auto& key : page.elements().at(1).elements()) {
      prefixes.insert(key.text().substr(0, key.text().size() - 5));
    }
  } while (cursor != "0");
  const redis::reply cluster = co_await client.run("INFO", "cluster");
  if (cluster.text().find("cluster_enabled:1") != std::string::npos) {
    fmt::print("one node of a cluster: the limits that others have are not here\n");
  }
  for (const auto& prefix : prefixes) {
    const char* foreign = nullptr;
    try {
      co_await show(client, prefix);
    } catch (const std::system_error& e) {
      if (e.code() != redis::error::wrong_type) throw;
      foreign = "has a key of another type";
    } catch (const std::out_of_range&) {
      foreign = "has a session that is none of ours";
    }
    if (foreign != nullptr) fmt::print("{}\n  {}\n", title(prefix), foreign);
  }
  if (prefixes.empty()) fmt::print("no limits\n");
}

struct options {
  std::string url;
  std::string space;  // only limits of this space are printed; empty: those of all spaces
  double every = 2;
  std::uint64_t rounds = UINT64_MAX;
};

asio::awaitable<void> look_again_and_again(redis::client& client, const options& o) {
  const std::string space = o.space.empty() ? "*" : exactly(o.space);
  for (std::uint64_t round = 0; round < o.rounds; ++round) {
    if (round > 0) {
      co_await canigo::sleep_for(std::chrono::round<canigo::duration>(std::chrono::duration<double>(o.every)));
    }
    if (::isatty(STDOUT_FILENO) != 0) fmt::print("\033[H\033[2J");
    co_await show_all(client, space);
    std::fflush(stdout);
  }
}

/// Parses the whole text as a number from `least` to `most`. Throws std::invalid_argument if the text is no such
/// number. `name`: the name of the option, for the error.
double number_of(const std::string& name, const std::string& text, double least, double most) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value >= least && value <= most)) {
    throw std::invalid_argument{fmt::format("{}: {}, not a number from {} to {}", name, text, least, most)};
  }
  return value;
}

/// Parses the command line. Throws std::invalid_argument if an option is unknown or has a wrong value.
options options_of(const std::vector<std::string>& words) {
  options o;
  std::vector<std::string> places;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.empty() || word[0] != '-') {
      places.push_back(word);
    } else if ((word == "--every" || word == "--rounds") && i + 1 < words.size()) {
      const std::string& value = words[++i];
      if (word == "--every") {
        o.every = number_of(word, value, 0.01, 86400);
      } else {
        o.rounds = static_cast<std::uint64_t>(number_of(word, value, 1, 1e15));
      }
    } else {
      throw std::invalid_argument{word + ": no such option, or it has no value"};
    }
  }
  if (places.empty() || places.size() > 2) throw std::invalid_argument{"a URL is wanted, and maybe a space"};
  o.url = places[0];
  if (places.size() > 1) o.space = places[1];
  return o;
}

const char* const usage =
    "Usage: canigo-redis-top URL [SPACE] [--every SECONDS] [--rounds NUMBER]\n\n"
    "Shows the limits of canigo in a Redis: the permits that are held, by which session (host:pid:…), the rates, and\n"
    "how many requests wait; again and again.\n\n"
    "URL        redis://host, rediss://host or unix:/path\n"
    "SPACE      that of the options of the limits; all, if there is none\n"
    "--every    how often; 2 by default\n"
    "--rounds   end after so many looks\n";

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words{argv + (argc > 0 ? 1 : 0), argv + argc};
  if (words.size() == 1 && words[0] == "--help") {
    std::fputs(usage, stdout);
    return 0;
  }
  options o;
  try {
    o = options_of(words);
  } catch (const std::invalid_argument& e) {
    fmt::print(stderr, "canigo-redis-top: {}\n\n{}", e.what(), usage);
    return 2;
  }
  try {
    asio::io_context io;
    redis::client client{io, o.url};
    std::exception_ptr failure;
    asio::co_spawn(io, look_again_and_again(client, o), [&](std::exception_ptr e) { failure = e; });
    io.run();
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    fmt::print(stderr, "canigo-redis-top: {}\n", e.what());
    return 1;
  }
}
