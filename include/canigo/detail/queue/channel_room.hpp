#pragma once

#include <algorithm>
#include <cstdint>

namespace canigo::detail {

/// An amount of values: how many there are, and how many bytes they have together.
struct channel_load {
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
};

/// The room of a channel in one measure, items or bytes: its own bound, and the part of the shared room that no other
/// channel takes.
struct room_part {
  std::uint64_t limit = 0;
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;

  std::uint64_t kept() const noexcept { return std::max(used, reserved); }
  bool has_room_for(std::uint64_t n) const noexcept { return n <= limit && used <= limit - n; }
};

/// The room that several channels share, in one measure. `kept` is a sum over the channels: the room that each uses, or
/// that is reserved for it, whichever is more. While it is at most `limit`, each can use its reserved room.
struct room_total {
  static constexpr std::uint64_t no_bound = std::uint64_t{1} << 62;

  std::uint64_t limit = 0;
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;
  std::uint64_t kept = 0;

  /// Never lets all use more than there is. Beyond its own reserved room, a channel takes none that is reserved.
  bool has_room_for(std::uint64_t n, const room_part& p) const noexcept {
    if (n > limit || used > limit - n) return false;
    return is_reserved_for(n, p) || kept - p.kept() + p.used + n <= limit;
  }
  /// Where there is no bound, there is no need to reserve.
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

/// A capacity that several channels share. Values.
///
/// Threads: none; its owner holds a lock.
class shared_room {
 public:
  /// More than any channel holds: the capacity of one without a bound.
  static constexpr std::uint64_t most = room_total::no_bound;

  explicit shared_room(const channel_load& limit) noexcept {
    items_.limit = std::min(limit.items, most);
    bytes_.limit = std::min(limit.bytes, most);
  }

  channel_load used() const noexcept { return {items_.used, bytes_.used}; }
  channel_load limit() const noexcept { return {items_.limit, bytes_.limit}; }
  /// The most that can be reserved for a channel that joins.
  channel_load unassigned() const noexcept { return {items_.limit - items_.reserved, bytes_.limit - bytes_.reserved}; }
  /// Whether others still use room that is reserved for a channel that has joined lately.
  bool is_promised_twice() const noexcept { return items_.kept > items_.limit || bytes_.kept > bytes_.limit; }

  /// The charge to the share of a channel for a value of so many bytes: its part of the measure of which it takes most.
  /// The whole capacity is 2^20. At least 1.
  std::uint64_t charge_for(std::uint64_t bytes) const noexcept;

 private:
  friend class channel_room;
  room_total items_;
  room_total bytes_;
};

/// The room of one channel within a shared one.
///
/// Threads: none; its owner holds a lock.
class channel_room {
 public:
  /// `reserved`: it can always hold so much, whatever the other channels hold. At most `limit` and all.unassigned().
  channel_room(shared_room& all, const channel_load& limit, const channel_load& reserved) noexcept;
  channel_room(const channel_room&) = delete;
  channel_room& operator=(const channel_room&) = delete;

  /// Whether the channel's own bounds allow one more value of so many bytes.
  bool allows(std::uint64_t bytes) const noexcept { return items_.has_room_for(1) && bytes_.has_room_for(bytes); }
  /// Whether the value needs only room that is reserved for this channel.
  bool is_reserved_for(std::uint64_t bytes) const noexcept {
    return all_.items_.is_reserved_for(1, items_) && all_.bytes_.is_reserved_for(bytes, bytes_);
  }
  /// Whether there is room for it, of all channels together.
  bool is_there_for(std::uint64_t bytes) const noexcept {
    return all_.items_.has_room_for(1, items_) && all_.bytes_.has_room_for(bytes, bytes_);
  }
  /// The most bytes of a value that can ever come in.
  std::uint64_t largest() const noexcept { return all_.bytes_.most_for(bytes_); }
  /// Whether one value more can ever come in.
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

  /// Empties it and leaves the shared room, for good.
  void quit() noexcept;

  channel_load used() const noexcept { return {items_.used, bytes_.used}; }
  channel_load limit() const noexcept { return {items_.limit, bytes_.limit}; }

 private:
  shared_room& all_;
  room_part items_;
  room_part bytes_;
};

}  // namespace canigo::detail
