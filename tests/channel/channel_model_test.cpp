// Random calls on channels that share a capacity, beside a model that looks through all of its lists at each step.

#include "canigo/channel.hpp"

#include "support/catch.hpp"
#include "support/outcome.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

using namespace canigo;

namespace {

struct sized_value {
  int id = 0;
  std::uint64_t size = 0;
  int priority = 0;
};

struct room_bounds {
  std::uint64_t items, bytes;
};

/// Everything that can be said of a channel, in lists.
struct model_channel {
  room_bounds limit{}, reserved{};
  std::vector<sized_value> inside;
  std::vector<sized_value> senders;  // in the order of arrival, as are all lists
  std::vector<int> receivers;
  std::size_t promised = 0;
  bool is_closed = false;
  std::uint64_t tag = 0;
  bool has_seat = false;
  int seat_class = 0;
  std::uint64_t seated = 0;

  room_bounds used() const {
    room_bounds sum{inside.size(), 0};
    for (const sized_value& v : inside) sum.bytes += v.size;
    return sum;
  }
  /// The first of the most important class.
  static std::size_t first(const std::vector<sized_value>& list) {
    const auto least = std::min_element(list.begin(), list.end(), [](const sized_value& a, const sized_value& b) {
      return a.priority < b.priority;  // of equal ones, the first
    });
    return static_cast<std::size_t>(least - list.begin());
  }
};

class channels_model {
 public:
  channels_model(room_bounds all, std::vector<model_channel> channels) : all_{all}, channels_{std::move(channels)} {}

  bool can_ever(std::size_t c, std::uint64_t size) const {
    std::uint64_t items = all_.items, bytes = all_.bytes;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      if (i == c) continue;
      items -= channels_[i].reserved.items;
      bytes -= channels_[i].reserved.bytes;
    }
    return size <= std::min(bytes, channels_[c].limit.bytes) && items > 0;
  }

  bool try_send(std::size_t c, const sized_value& v) {
    model_channel& at = channels_[c];
    if (at.is_closed || !at.senders.empty() || !own_room(at, v.size) || !room(c, v.size)) return false;
    const bool others_wait = std::any_of(channels_.begin(), channels_.end(), [](const auto& o) { return o.has_seat; });
    if (others_wait && !is_reserved(at, v.size)) return false;
    come_in(at, v);
    return true;
  }
  void send(std::size_t c, const sized_value& v) {
    if (channels_[c].is_closed) return tell("send", v.id, "closed");
    if (!can_ever(c, v.size)) return tell("send", v.id, "too_large");
    if (try_send(c, v)) return tell("send", v.id, "sent");
    channels_[c].senders.push_back(v);
    if (channels_[c].senders[model_channel::first(channels_[c].senders)].id == v.id) serve(c);
  }
  std::optional<int> try_receive(std::size_t c) {
    if (channels_[c].inside.size() <= channels_[c].promised) return std::nullopt;
    return take(c);
  }
  void receive(std::size_t c, int id) {
    model_channel& at = channels_[c];
    if (at.inside.size() > at.promised) {
      ++at.promised;
      promises_.push_back({"", c, id});
    } else if (at.is_closed) {
      tell("receive", id, "closed");
    } else {
      at.receivers.push_back(id);
    }
  }
  void cancel(int id) {
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      model_channel& at = channels_[c];
      if (std::erase(at.receivers, id) > 0) tell("receive", id, "cancelled");
      if (std::erase_if(at.senders, [&](const sized_value& v) { return v.id == id; }) > 0) {
        tell("send", id, "cancelled");
        serve(c);
      }
    }
  }
  void close(std::size_t c) {
    model_channel& at = channels_[c];
    if (at.is_closed) return;
    at.is_closed = true;
    while (!at.senders.empty()) {
      const std::size_t i = model_channel::first(at.senders);
      tell("send", at.senders[i].id, "closed");
      at.senders.erase(at.senders.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (const int id : at.receivers) tell("receive", id, "closed");
    at.receivers.clear();
    serve(c);
  }
  /// All that is told until nothing is left to tell.
  std::vector<std::string> poll() {
    std::vector<std::string> log;
    for (; !promises_.empty(); promises_.pop_front()) {
      const promise& p = promises_.front();
      if (!p.text.empty()) {
        log.push_back(p.text);
        continue;
      }
      --channels_[p.channel].promised;
      const int got = take(p.channel);
      log.push_back("receive " + std::to_string(p.id) + " " + std::to_string(got));
    }
    return log;
  }
  const model_channel& channel(std::size_t c) const { return channels_[c]; }

 private:
  /// A line to be told, or a receiver that takes a value when its turn comes.
  struct promise {
    std::string text;
    std::size_t channel;
    int id;
  };

  void tell(const std::string& what, int id, const std::string& how) {
    promises_.push_back({what + " " + std::to_string(id) + " " + how, 0, 0});
  }
  static bool own_room(const model_channel& c, std::uint64_t size) {
    return c.inside.size() < c.limit.items && c.used().bytes + size <= c.limit.bytes;
  }
  static bool is_reserved(const model_channel& c, std::uint64_t size) {
    return c.inside.size() + 1 <= c.reserved.items && c.used().bytes + size <= c.reserved.bytes;
  }
  bool room(std::size_t c, std::uint64_t size) const {
    room_bounds sum{}, kept{};
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      room_bounds used = channels_[i].used();
      if (i == c) used = {used.items + 1, used.bytes + size};
      sum = {sum.items + used.items, sum.bytes + used.bytes};
      kept = {kept.items + std::max(used.items, channels_[i].reserved.items),
              kept.bytes + std::max(used.bytes, channels_[i].reserved.bytes)};
    }
    return sum.items <= all_.items && sum.bytes <= all_.bytes && kept.items <= all_.items && kept.bytes <= all_.bytes;
  }
  void come_in(model_channel& c, const sized_value& v) {
    c.inside.push_back(v);
    while (!c.receivers.empty() && c.inside.size() > c.promised) {
      ++c.promised;
      promises_.push_back({"", static_cast<std::size_t>(&c - channels_.data()), c.receivers.front()});
      c.receivers.erase(c.receivers.begin());
    }
  }
  int take(std::size_t c) {
    model_channel& at = channels_[c];
    const std::size_t i = model_channel::first(at.inside);
    const int id = at.inside[i].id;
    at.inside.erase(at.inside.begin() + static_cast<std::ptrdiff_t>(i));
    serve(c);
    return id;
  }
  void seat(model_channel& c) {
    const bool is_due = !c.senders.empty() && own_room(c, c.senders[model_channel::first(c.senders)].size);
    const int its_class = is_due ? c.senders[model_channel::first(c.senders)].priority : 0;
    if (c.has_seat && is_due && c.seat_class == its_class) return;
    c.has_seat = is_due;
    if (!is_due) return;
    c.seat_class = its_class;
    c.tag = std::max(c.tag, virtual_time_);
    c.seated = ++seatings_;
  }
  void let_in(std::size_t i) {
    model_channel& c = channels_[i];
    const std::size_t first = model_channel::first(c.senders);
    const sized_value v = c.senders[first];
    c.senders.erase(c.senders.begin() + static_cast<std::ptrdiff_t>(first));
    virtual_time_ = std::max(virtual_time_, c.tag);
    constexpr std::uint64_t whole = 1 << 20;
    c.tag += std::max({std::uint64_t{1}, v.size * whole / all_.bytes, whole / all_.items});
    c.has_seat = false;
    come_in(c, v);
    tell("send", v.id, "sent");
    seat(c);
  }
  void serve(std::size_t i) {
    model_channel& c = channels_[i];
    seat(c);
    const auto next = [](const model_channel& m) { return m.senders[model_channel::first(m.senders)].size; };
    while (c.has_seat && is_reserved(c, next(c)) && room(i, next(c))) let_in(i);
    for (;;) {
      std::optional<std::size_t> first;
      const auto rank = [&](std::size_t k) {
        return std::tuple{channels_[k].seat_class, channels_[k].tag, channels_[k].seated};
      };
      for (std::size_t k = 0; k < channels_.size(); ++k) {
        if (channels_[k].has_seat && (!first || rank(k) < rank(*first))) first = k;
      }
      if (!first || !room(*first, next(channels_[*first]))) return;
      let_in(*first);
    }
  }

  room_bounds all_;
  std::vector<model_channel> channels_;
  std::deque<promise> promises_;
  std::uint64_t virtual_time_ = 0;
  std::uint64_t seatings_ = 0;
};

/// The channels themselves, with the log that the model has.
struct channels_world {
  net::io_context io;
  std::optional<channel_capacity> shared;
  std::vector<std::unique_ptr<canigo::channel<sized_value>>> channels;
  std::deque<net::cancellation_signal> signals;
  std::vector<std::string> log;

  void send(std::size_t c, const sized_value& v) {
    channels[c]->async_send(v, v.priority,
                            net::bind_cancellation_slot(slot(v.id), [this, id = v.id](std::error_code e) {
                              note("send", id, e ? word(e) : "sent");
                            }));
  }
  void receive(std::size_t c, int id) {
    channels[c]->async_receive(
        net::bind_cancellation_slot(slot(id), [this, id](std::error_code e, std::optional<sized_value> v) {
          note("receive", id, e ? word(e) : std::to_string(v->id));
        }));
  }
  net::cancellation_slot slot(int id) {
    while (signals.size() <= static_cast<std::size_t>(id)) signals.emplace_back();
    return signals[static_cast<std::size_t>(id)].slot();
  }
  void note(const std::string& what, int id, const std::string& how) {
    log.push_back(what + " " + std::to_string(id) + " " + how);
  }
  static std::string word(std::error_code e) {
    if (e == net::error::operation_aborted) return "cancelled";
    return e == errc::closed ? "closed" : e == errc::too_large ? "too_large" : e.message();
  }
  std::vector<std::string> poll() {
    io.restart();
    io.poll();
    return std::exchange(log, {});
  }
};

void compare_channels(unsigned seed) {
  std::minstd_rand random{seed + 1};
  const auto up_to = [&](std::uint64_t n) { return random() % (n + 1); };
  const room_bounds all{1 + up_to(8), 1 + up_to(30)};
  channels_world real;
  real.shared.emplace(real.io, channel_capacity_options{.capacity = all.items, .bytes = all.bytes});
  std::vector<model_channel> modelled;
  room_bounds free = all;
  const std::size_t channels = 1 + up_to(2);
  for (std::size_t c = 0; c < channels; ++c) {
    model_channel m;
    if (up_to(1) == 0) m.reserved = {up_to(free.items), up_to(free.bytes)};
    free = {free.items - m.reserved.items, free.bytes - m.reserved.bytes};
    m.limit = {std::max(m.reserved.items, 1 + up_to(8)), std::max({m.reserved.bytes, 1 + up_to(30)})};
    real.channels.push_back(std::make_unique<canigo::channel<sized_value>>(
        real.io, channel_options<sized_value>{.capacity = m.limit.items,
                                              .bytes = m.limit.bytes,
                                              .size_of = [](const sized_value& v) { return v.size; },
                                              .shared = real.shared,
                                              .reserved_capacity = m.reserved.items,
                                              .reserved_bytes = m.reserved.bytes,
                                              .priorities = 3}));
    modelled.push_back(std::move(m));
  }
  channels_model wanted{all, std::move(modelled)};

  int next = 0;
  for (int step = 0; step < 300; ++step) {
    CAPTURE(step);
    const std::size_t c = up_to(channels - 1);
    const sized_value v{next, up_to(8), static_cast<int>(up_to(2))};
    switch (up_to(11)) {
      case 0:
      case 1:
      case 2:
      case 3:
        ++next;
        real.send(c, v);
        wanted.send(c, v);
        break;
      case 4: {
        ++next;
        if (!wanted.can_ever(c, v.size) && !wanted.channel(c).is_closed) {
          CHECK_THROWS_AS(real.channels[c]->try_send(v, v.priority), std::system_error);
          break;
        }
        const bool was_sent = real.channels[c]->try_send(v, v.priority);
        REQUIRE(was_sent == wanted.try_send(c, v));
        break;
      }
      case 5:
      case 6:
      case 7:
        real.receive(c, next);
        wanted.receive(c, next++);
        break;
      case 8: {
        const std::optional<sized_value> got = real.channels[c]->try_receive();
        const std::optional<int> id = wanted.try_receive(c);
        REQUIRE(got.has_value() == id.has_value());
        if (got) REQUIRE(got->id == *id);
        break;
      }
      case 9:
        if (next > 0) {
          const int id = next - 1 - static_cast<int>(up_to(static_cast<std::uint64_t>(std::min(next - 1, 15))));
          real.slot(next);
          real.signals[static_cast<std::size_t>(id)].emit(net::cancellation_type::total);
          wanted.cancel(id);
        }
        break;
      case 10:
        if (up_to(60) == 0) {
          real.channels[c]->close();
          wanted.close(c);
        }
        break;
      default:
        REQUIRE(real.poll() == wanted.poll());
    }
    const channel_stats s = real.channels[c]->stats();
    const model_channel& m = wanted.channel(c);
    REQUIRE((s.items == m.inside.size() && s.bytes == m.used().bytes));
    REQUIRE((s.senders == m.senders.size() && s.receivers == m.receivers.size()));
    REQUIRE(s.sent == s.received + s.items);
  }
  for (std::size_t c = 0; c < channels; ++c) {
    real.channels[c]->close();
    wanted.close(c);
  }
  REQUIRE(real.poll() == wanted.poll());
  for (std::size_t c = 0; c < channels; ++c) {
    for (;;) {
      const std::optional<sized_value> got = real.channels[c]->try_receive();
      const std::optional<int> id = wanted.try_receive(c);
      REQUIRE(got.has_value() == id.has_value());
      if (!got) break;
      REQUIRE(got->id == *id);
    }
  }
  REQUIRE(real.shared->stats().items == 0);
}

}  // namespace

TEST_CASE("channels do what a simple model of them does", "[channel]") {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    compare_channels(seed);
  }
}
