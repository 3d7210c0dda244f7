#pragma once

namespace canigo::detail {

class context_visit;

// Data that each thread has for itself. In the interleaving tests a fiber takes the place of a thread.

/// The context_visit that the calling thread began last and has not ended, or nullptr.
context_visit*& innermost_visit() noexcept;

/// Waits until another thread has made `ready(object)` true. It polls, so use it only for rare and short waits.
void wait_until(bool (*ready)(const void*), const void* object) noexcept;

}  // namespace canigo::detail
