#pragma once

#include "canigo/http/detail/linked_list.hpp"
#include "canigo/http/detail/transfer.hpp"
#include "canigo/rate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace canigo::http::detail {

/// One scheme, host and port, with the transfers that wait for it and the number of its occupied slots.
struct host : list_node<host, struct with_room> {
  std::string_view key;
  std::size_t running = 0;
  linked_list<transfer, in_queue> waiting;
};

/// Returns the host of a URL as a text for people, with the port unless it is the default port of the scheme. Empty:
/// the URL has no host.
std::string host_in(std::string_view url);

/// Chooses the next transfer to start. It limits the number of slots in total and for each host.
///
/// The transfers of one host start in the order of their arrival. Hosts with a free slot and a waiting transfer take
/// turns.
class host_queue {
 public:
  /// `places`: the number of slots in total. `per_host`: the number of slots for each host; `unlimited`: hosts are not
  /// distinguished, and their transfers wait in one queue.
  host_queue(std::size_t places, std::uint64_t per_host) noexcept : places_{places}, per_host_{per_host} {}

  /// Adds a transfer. If it throws std::bad_alloc, nothing has changed.
  void push(transfer& t);
  /// Returns the next transfer for which a slot is free, and gives it the slot. Null if there is none.
  transfer* next() noexcept;
  /// Removes `t` from the queue if it waits, or releases its slot if it holds one. Otherwise does nothing.
  void remove(transfer& t) noexcept;

  std::size_t waiting() const noexcept { return waiting_; }
  std::size_t running() const noexcept { return running_; }
  std::size_t most_per_host() const noexcept { return std::min<std::uint64_t>(places_, per_host_); }

  static bool is_waiting(const transfer& t) noexcept;

  /// Returns the key of a host: scheme, host and port in lower case, without the default port.
  static std::string key_of(std::string_view url);

 private:
  void update(host& h) noexcept;

  const std::size_t places_;
  const std::uint64_t per_host_;
  std::size_t waiting_ = 0;
  std::size_t running_ = 0;
  std::map<std::string, host, std::less<>> hosts_;
  linked_list<host, with_room> turn_;
};

}  // namespace canigo::http::detail
