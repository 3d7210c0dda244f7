#include "canigo/detail/pool/pool_turn.hpp"

namespace canigo::detail {

constinit thread_local pool_turn* pool_turn::innermost_ = nullptr;

}  // namespace canigo::detail
