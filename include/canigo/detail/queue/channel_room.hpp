#pragma once

#include <algorithm>
#include <cstdint>

namespace canigo::detail {

/// The number of values, and the sum of their sizes in bytes.
struct channel_load {
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
};

/// The room of one channel, measured in values or in bytes: its own bound, and its reserved part of the shared room.
struct room_part {
  std::uint64_t limit = 0;
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;

  std::uint64_t kept() const noexcept { return std::max(used, reserved); }
  bool has_room_for(std::uint64_t n) const noexcept { return n <= limit && used <= limit - n; }
};

/// The room that several channels share, measured in values or in bytes. Each channel adds to `kept` its used room or
/// its reserved room, whichever is larger. As long as `kept` is at most `limit`, each channel can use all of its
/// reserved room.
struct room_total {
  static constexpr std::uint64_t no_bound = std::uint64_t{1} << 62;

  std::uint64_t limit = 0;
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;
  std::uint64_t kept = 0;

  /// Whether a channel can use `n` more values or bytes. All channels together never exceed the limit. Beyond its own
  /// reserved room, a channel never uses room that is reserved for another channel.
  bool has_room_for(std::uint64_t n, const room_part& p) const noexcept {
    if (n > limit || used > limit - n) return false;
    return is_reserved_for(n, p) || kept - p.kept() + p.used + n <= limit;
  }
  /// Whether `n` more values or bytes fit into the channel's reserved room. Always true if the shared room has no
  /// bound.
  bool is_reserved_for(std::uint64_t n, const room_part& p) const noexcept {
    return p.used + n <= p.reserved || limit == no_bound;
  }
  void change(room_part& p, std::uint64_t now_used) noexcept {
    kept -= p.kept();
    used -= p.used;
    p.used = now_used;
    used += p.used;
    kept += p.kept();
  }
  std::uint64_t most_for(const room_part& p) const noexcept {
    return std::min(p.limit, limit - (reserved - p.reserved));
  }
};

class channel_room;

/// A capacity that several channels share. This class is a value type.
///
/// Threads: not thread-safe; its owner must hold a lock.
class shared_room {
 public:
  /// The capacity that means "no bound": more than any channel can hold.
  static constexpr std::uint64_t most = room_total::no_bound;

  explicit shared_room(const channel_load& limit) noexcept {
    items_.limit = std::min(limit.items, most);
    bytes_.limit = std::min(limit.bytes, most);
  }

  channel_load used() const noexcept { return {items_.used, bytes_.used}; }
  channel_load limit() const noexcept { return {items_.limit, bytes_.limit}; }
  /// The room that can still be reserved for a new channel.
  channel_load unassigned() const noexcept { return {items_.limit - items_.reserved, bytes_.limit - bytes_.reserved}; }
  /// Whether other channels still use room that is reserved for a newly added channel.
  bool is_promised_twice() const noexcept { return items_.kept > items_.limit || bytes_.kept > bytes_.limit; }

  /// The part of the capacity that a value of this size takes, in units of 1/2^20 of the capacity; at least 1. It is
  /// the value's part of the max number of values or of the max bytes, whichever is larger.
  std::uint64_t charge_for(std::uint64_t bytes) const noexcept;

 private:
  friend class channel_room;
  room_total items_;
  room_total bytes_;
};

/// The room of one channel inside a shared capacity.
///
/// Threads: not thread-safe; its owner must hold a lock.
class channel_room {
 public:
  /// `reserved` is room that the channel can always use. It must be at most `limit` and all.unassigned().
  channel_room(shared_room& all, const channel_load& limit, const channel_load& reserved) noexcept;
  channel_room(const channel_room&) = delete;
  channel_room& operator=(const channel_room&) = delete;

  /// Whether the channel's own bounds allow one more value of this size.
  bool allows(std::uint64_t bytes) const noexcept { return items_.has_room_for(1) && bytes_.has_room_for(bytes); }
  /// Whether one more value of this size fits into the reserved room of this channel.
  bool is_reserved_for(std::uint64_t bytes) const noexcept {
    return all_.items_.is_reserved_for(1, items_) && all_.bytes_.is_reserved_for(bytes, bytes_);
  }
  /// Whether the shared room allows one more value of this size.
  bool is_there_for(std::uint64_t bytes) const noexcept {
    return all_.items_.has_room_for(1, items_) && all_.bytes_.has_room_for(bytes, bytes_);
  }
  /// The max size in bytes of a value that can ever enter the channel.
  std::uint64_t largest() const noexcept { return all_.bytes_.most_for(bytes_); }
  /// Whether a value of this size can ever enter the channel.
  bool can_ever_hold(std::uint64_t bytes) const noexcept {
    return bytes <= largest() && all_.items_.most_for(items_) != 0;
  }

  void enter(std::uint64_t bytes) noexcept {
    all_.items_.change(items_, items_.used + 1);
    all_.bytes_.change(bytes_, bytes_.used + bytes);
  }
  void leave(std::uint64_t bytes) noexcept {
    all_.items_.change(items_, items_.used - 1);
    all_.bytes_.change(bytes_, bytes_.used - bytes);
  }

  /// Removes all values of the channel, and leaves the shared room permanently.
  void quit() noexcept;

  channel_load used() const noexcept { return {items_.used, bytes_.used}; }
  channel_load limit() const noexcept { return {items_.limit, bytes_.limit}; }

 private:
  shared_room& all_;
  room_part items_;
  room_part bytes_;
};

}  // namespace canigo::detail
