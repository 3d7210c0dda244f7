#include "canigo/error.hpp"
#include "canigo/request.hpp"

namespace canigo {

void unit_amounts::add(unit_key unit, std::uint64_t amount) {
  if (size_ == most) detail::throw_invalid("request.amounts.size()", most + 1, "0 to 4");
  append({unit, amount});
}

}  // namespace canigo
