// canigo-redis-top URL [SPACE]: the limits in a Redis, their sessions, who holds what, and the queues.
#include <canigo/redis/client.hpp>
#include <canigo/redis/error.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>

namespace redis = canigo::redis;

namespace {

double number(const std::string& text) { return text.empty() ? 0 : std::strtod(text.c_str(), nullptr); }

/// The double that begins at this byte of a text, the least byte first.
double packed(const std::string& text, std::size_t at) {
  std::uint64_t bits = 0;
  for (std::size_t i = 8; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(text.at(at + i));
  return std::bit_cast<double>(bits);
}

/// Where the further rates of a limiter begin in its record; 0 if there are none. Before them stand the form and three
/// texts with their lengths, and then the shape of the rates and their number.
std::size_t further_rates(const std::string& record) {
  std::size_t at = 153;
  for (int text = 0; text < 3 && at < record.size(); ++text) at += 1 + static_cast<unsigned char>(record[at]);
  return record.size() > at + 16 ? at + 16 : 0;
}

void print_rate(const std::string& record, std::size_t at) {
  fmt::print("  {} tokens in {} us, burst {}", packed(record, at), packed(record, at + 8), packed(record, at + 16));
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
  if (all.empty()) co_return;  // gone meanwhile
  // Then comes the form of it all; a printable byte, where those had no numbers yet.
  const int form = all.size() > 152 ? static_cast<unsigned char>(all[152]) : 0;
  if (form != 3) {
    fmt::print("{}\n  in form {}, of another version; here is 3\n", prefix.substr(0, prefix.size() - 1),
               form != 0 && form < 32 ? form : 1);
    co_return;
  }
  const auto field = [&all](std::size_t place) { return packed(all, place * 8); };
  // last fence total zu zr epoch hold off lying qseq due reap keep version cap n p burst pause
  const double now = number(time.elements().at(0).text()) * 1e6 + number(time.elements().at(1).text()) + field(7);
  const double quarantine = field(6) - now;
  const double pause = field(18) - now;

  fmt::print("{}\n", prefix.substr(0, prefix.size() - 1));
  if (field(14) > 0) fmt::print("  held {} of {}", field(2), field(14));
  if (field(15) > 0) print_rate(all, 15 * 8);
  if (const std::size_t from = further_rates(all); from != 0) {
    for (std::size_t at = from; at + 40 <= all.size(); at += 40) print_rate(all, at);
  }
  fmt::print(", {} waiting, last token {:.0f}, last call {:.1f} s ago\n", queue.integer(), field(1),
             (now - field(0)) / 1e6);
  if (quarantine > 0) fmt::print("  quarantine for {:.1f} s more\n", quarantine / 1e6);
  if (pause > 0) fmt::print("  paused for {:.1f} s more\n", pause / 1e6);
  const auto& list = sessions.elements();
  for (std::size_t i = 0; i + 1 < list.size(); i += 2) {
    const std::string& session = list[i].text();
    fmt::print("  {:48} holds {:6}  lease {:7.1f} s\n", session, of[session].empty() ? 0 : packed(of[session], 0),
               (number(list[i + 1].text()) - now) / 1e6);
  }
}

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
  const redis::reply server = co_await client.run("INFO", "server");
  if (server.text().find("redis_mode:cluster") != std::string::npos) {
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
    if (foreign != nullptr) fmt::print("{}\n  {}\n", prefix.substr(0, prefix.size() - 1), foreign);
  }
  if (prefixes.empty()) fmt::print("no limits\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || argv[1][0] == '-') {
    std::puts(
        "Usage: canigo-redis-top URL [SPACE]\n\nShows the limits of canigo in a Redis: what is held, by which "
        "session (host:pid:…), and who waits.\nURL: redis://host, rediss://host, unix:/path. SPACE: that of the "
        "options; all, if there is none.");
    return argc > 1 && std::string{argv[1]} == "--help" ? 0 : 2;
  }
  try {
    asio::io_context io;
    redis::client client{io, argv[1]};
    std::exception_ptr failure;
    const std::string space = argc == 3 ? argv[2] : "*";
    asio::co_spawn(io, show_all(client, space), [&](std::exception_ptr e) { failure = e; });
    io.run();
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    fmt::print(stderr, "canigo-redis-top: {}\n", e.what());
    return 1;
  }
}
