#include "canigo/detail/queue/channel_room.hpp"

#include "canigo/time.hpp"

namespace canigo::detail {

std::uint64_t shared_room::charge_for(std::uint64_t bytes) const noexcept {
  constexpr std::uint64_t whole = std::uint64_t{1} << 20;
  const auto by_bytes = static_cast<std::uint64_t>(uint128{bytes} * whole / bytes_.limit);
  return std::max({std::uint64_t{1}, by_bytes, whole / items_.limit});
}

channel_room::channel_room(shared_room& all, const channel_load& limit, const channel_load& reserved) noexcept
    : all_{all},
      items_{.limit = std::min(limit.items, shared_room::most), .reserved = reserved.items},
      bytes_{.limit = std::min(limit.bytes, shared_room::most), .reserved = reserved.bytes} {
  const auto join = [](room_total& t, const room_part& p) {
    t.reserved += p.reserved;
    t.kept += p.reserved;
  };
  join(all_.items_, items_);
  join(all_.bytes_, bytes_);
}

void channel_room::quit() noexcept {
  const auto leave = [](room_total& t, room_part& p) {
    t.change(p, 0);
    t.reserved -= p.reserved;
    t.kept -= p.reserved;
    p = {};
  };
  leave(all_.items_, items_);
  leave(all_.bytes_, bytes_);
}

}  // namespace canigo::detail
