#pragma once

namespace canigo::detail {

class context_visit;

// The things that each thread has for itself. In the interleaving tests a fiber takes the place of a thread.

/// The visit that the calling thread has begun last and not ended, or nullptr.
context_visit*& innermost_visit() noexcept;

/// Waits until another thread has made `ready(object)` true. It polls: use it for a wait that is rare and short.
void wait_until(bool (*ready)(const void*), const void* object) noexcept;

}  // namespace canigo::detail
