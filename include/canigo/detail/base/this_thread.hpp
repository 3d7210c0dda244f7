#pragma once

namespace canigo::detail {

class context_visit;

// What a thread has of its own. The interleaving tests have fibers in the place of threads.

/// The visit that the calling thread has begun last and not ended, or nullptr.
context_visit*& innermost_visit() noexcept;

/// Waits until another thread has made `ready(object)` true: for what is seldom waited for, and soon so.
void wait_until(bool (*ready)(const void*), const void* object) noexcept;

}  // namespace canigo::detail
