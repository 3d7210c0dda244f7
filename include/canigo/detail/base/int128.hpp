#pragma once

namespace canigo::detail {

// The product of two 64-bit counts, exactly. g++ and clang have the type on every 64-bit target; the
// keyword tells -Wpedantic that it is meant.
__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;

}  // namespace canigo::detail
