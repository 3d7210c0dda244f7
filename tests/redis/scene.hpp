#pragma once

// A Redis server that a test plays by hand, command by command, while the clock stands still.
#include "canigo/redis/client.hpp"
#include "canigo/redis/detail/reply_reader.hpp"
#include "canigo/redis/semaphore.hpp"

#include "../lib/redis/sync.hpp"
#include "redis/member.hpp"
#include "redis/puppet.hpp"
#include "redis/stopped_clock.hpp"
#include "support/said_by.hpp"

#include <asio/co_spawn.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace ledger_test {

namespace net = canigo::net;
namespace redis = canigo::redis;
using redis_test::puppet;
using redis_test::run_for;
using redis_test::run_until;
using redis_test::stopped_clock;
using redis_test::waiting;

using canigo::duration;
using canigo::time_point;

using words = std::vector<std::string>;

/// The script's answer when it has nothing to grant. A test changes some of its values.
struct script_answer {
  std::int64_t next = -1;  // the time until the next useful call in microseconds; -1: none
  std::int64_t queue = 0;
  std::int64_t held = 0;
  std::int64_t quarantine = 0;  // the rest of the quarantine in microseconds
  std::int64_t epoch = 5;
  std::int64_t ahead = 0;
  std::int64_t told = 0;  // how many of `runs` were contained in an earlier answer or message
  std::int64_t now = 1'000'000;
  // each run: the first number, the number of requests, the weight, and the token
  std::vector<std::array<double, 4>> runs = {};
  std::string settings = {};
  bool is_limiter = false;

  std::string text() const {
    std::string packed;
    for (const auto& r : runs) packed += redis::detail::packed(r);
    std::string t = is_limiter ? "*13\r\n$2\r\nOK\r\n" : "*12\r\n$2\r\nOK\r\n";
    for (const auto n : {next, queue, held, quarantine, epoch, std::int64_t{0}, ahead}) {
      t += ":" + std::to_string(n) + "\r\n";
    }
    t += "$" + std::to_string(settings.size()) + "\r\n" + settings + "\r\n:" + std::to_string(told);
    t += "\r\n$" + std::to_string(packed.size()) + "\r\n" + packed + "\r\n:" + std::to_string(now) + "\r\n";
    return is_limiter ? t + "$0\r\n\r\n" : t;
  }
};

/// A call of the script, as Redis reads it.
struct call {
  explicit call(const words& w) : said{w} {
    numbers.resize(w.at(8).size() / sizeof(double));
    std::memcpy(numbers.data(), w.at(8).data(), w.at(8).size());
  }
  std::size_t count(std::size_t which) const { return static_cast<std::size_t>(numbers.at(16 + which)); }
  /// Whether the call contains exactly these lists: acknowledged, cancelled, then wanted.
  bool lists(const std::vector<double>& expected) const {
    return std::equal(numbers.begin() + 19, numbers.end(), expected.begin(), expected.end());
  }
  words said;
  std::vector<double> numbers;
  /// Returns the numbers of a limiter's further rates and units.
  std::vector<double> further() const {
    std::vector<double> all(said.at(11).size() / sizeof(double));
    std::memcpy(all.data(), said.at(11).data(), said.at(11).size());
    return all;
  }

  double sequence() const { return numbers.at(0); }
  double lease() const { return numbers.at(1); }
  double held() const { return numbers.at(2); }
  double charged() const { return numbers.at(5); }
  double permits() const { return numbers.at(8); }
  double seen() const { return numbers.at(13); }
  double latest() const { return numbers.at(14); }
  double epoch() const { return numbers.at(15); }
  const std::string& session() const { return said.at(7); }
  const std::string& flags() const { return said.at(10); }
};

/// A client, with a Redis server that a test plays by hand.
struct scene {
  explicit scene(const redis::client_options& o = {}) : client{time.io, server.url(), o} {}

  /// Returns all commands on that connection except those of the login.
  std::vector<words> commands(std::size_t connection = 1) const {
    std::vector<words> all;
    if (server.connections() < connection) return all;
    redis::detail::reply_reader reader{1 << 20};
    std::error_code ec = reader.feed(server.heard(connection));
    while (const auto r = reader.next(ec)) {
      words w;
      for (const auto& word : r->elements()) w.push_back(word.text());
      if (w.front() != "CLIENT" && w.front() != "HELLO" && w.front() != "INFO") all.push_back(std::move(w));
    }
    return all;
  }
  std::size_t calls() const {
    const auto all = commands();
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](const words& w) { return w.front().starts_with("EVAL"); }));
  }
  /// Waits for the call with that number, counted from 1, and returns it.
  call until_call(std::size_t n) {
    run_until(time.io, [&] { return calls() >= n; });
    std::vector<words> all = commands();
    std::erase_if(all, [](const words& w) { return !w.front().starts_with("EVAL"); });
    return call{all.at(n - 1)};
  }
  void answer(const script_answer& a = {}) { server.say(1, a.text()); }
  /// Answers the call with that number, and waits until the client has read the answer.
  call serve(std::size_t n, const script_answer& a = {}) {
    call c = until_call(n);
    answer(a);
    run_until(time.io, [&] { return client.stats().in_flight == 0 || calls() > n; });
    settle();
    return c;
  }
  /// Runs the loop until nothing has arrived for a while, because the stub answers on another thread.
  void settle() {
    time.io.restart();
    while (time.io.run_one_for(std::chrono::milliseconds{10}) != 0) {
    }
  }
  void until_ended(const waiting& w) {
    run_until(time.io, [&] { return w.ended(); });
  }
  /// Returns the error code and the text of a failed acquire.
  template <class L>
  std::pair<std::error_code, std::string> refusal(L& s, const canigo::request& r) {
    std::optional<std::pair<std::error_code, std::string>> end;
    net::co_spawn(time.io, s.acquire(r), [&](std::exception_ptr failure, const auto&) {
      try {
        if (failure) std::rethrow_exception(failure);
        end.emplace();
      } catch (const std::system_error& e) {
        end.emplace(e.code(), said_by(e));
      }
    });
    time.pass_until([&] { return end.has_value(); });
    return *end;
  }
  /// Waits until the second connection has subscribed to a channel this number of times.
  std::string until_listening(std::size_t times = 1) {
    run_until(time.io, [&] { return subscriptions() >= times; });
    return commands(2).front().at(1);
  }
  std::size_t subscriptions() const {
    const auto all = commands(2);
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](const words& w) { return w.front() == "SUBSCRIBE"; }));
  }
  void publish(const std::string& channel, const std::string& text) {
    server.say(2, "*3\r\n$7\r\nmessage\r\n" + bulk(channel) + bulk(text));
    settle();
  }
  void say_subscribed(const std::string& channel) {
    server.say(2, "*3\r\n$9\r\nsubscribe\r\n" + bulk(channel) + ":1\r\n");
    settle();
  }
  static std::string bulk(const std::string& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }

  stopped_clock time;
  puppet server{time.io};
  redis::client client;
};

}  // namespace ledger_test
