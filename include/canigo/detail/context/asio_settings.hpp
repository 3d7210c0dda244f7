#pragma once

#include <asio/detail/config.hpp>
#include <asio/detail/thread_info_base.hpp>
#include <asio/version.hpp>

namespace canigo::detail {

template <int Major, int Minor, int Patch>
struct asio_version;
template <bool Value>
struct asio_standalone;
template <bool Value>
struct asio_threads;
template <bool Value>
struct asio_exceptions;
template <bool Value>
struct asio_typeid;
template <bool Value>
struct asio_std_aligned_alloc;
template <bool Value>
struct asio_small_block_recycling;
template <int Blocks>
struct asio_recycling_allocator_cache_size;
template <bool Value>
struct asio_handler_tracking;
template <bool Value>
struct asio_buffer_debugging;
template <bool Value>
struct asio_epoll;
template <bool Value>
struct asio_eventfd;
template <bool Value>
struct asio_timerfd;
template <bool Value>
struct asio_io_uring;
template <bool Value>
struct asio_io_uring_as_default;
template <bool Value>
struct asio_futex;
template <bool Value>
struct asio_fortified_endpoints;

/// The library defines this function for each setting of Asio that it was built with, and for no other setting.
///
/// Asio consists of headers, and these settings change the layout of its objects. A program with another setting would
/// pass objects with the wrong layout to the library. So every file that includes a canigo header refers to this
/// function for all of its own settings. If a setting differs, the linker reports the missing function, whose name
/// tells the setting.
template <class Setting>
void library_was_not_built_with() noexcept;

/// A pointer to library_was_not_built_with<Setting>(). To set the pointer, the linker must find the function. No code
/// reads the pointer, so its attributes forbid the compiler and the linker to remove it.
template <class Setting>
#if defined(__ELF__)
[[gnu::used, gnu::retain]]
#else
[[gnu::used]]
#endif
inline constexpr auto* setting_of_library = &library_was_not_built_with<Setting>;

template <class... Settings>
struct asio_settings {
  // The address is taken, but not compared with nullptr: with the undefined-behaviour sanitizer, g++ does not accept
  // the comparison as a constant expression.
  static_assert((... && (static_cast<void>(&setting_of_library<Settings>), true)));
};

static_assert(sizeof(asio_settings<asio_version<ASIO_VERSION / 100000, ASIO_VERSION / 100 % 1000, ASIO_VERSION % 100>,
#if defined(ASIO_STANDALONE)
                                   asio_standalone<true>,
#else
                                   asio_standalone<false>,
#endif
#if defined(ASIO_HAS_THREADS)
                                   asio_threads<true>,
#else
                                   asio_threads<false>,
#endif
#if defined(ASIO_NO_EXCEPTIONS)
                                   asio_exceptions<false>,
#else
                                   asio_exceptions<true>,
#endif
#if defined(ASIO_NO_TYPEID)
                                   asio_typeid<false>,
#else
                                   asio_typeid<true>,
#endif
#if defined(ASIO_HAS_STD_ALIGNED_ALLOC)
                                   asio_std_aligned_alloc<true>,
#else
                                   asio_std_aligned_alloc<false>,
#endif
#if defined(ASIO_DISABLE_SMALL_BLOCK_RECYCLING)
                                   asio_small_block_recycling<false>,
#else
                                   asio_small_block_recycling<true>,
#endif
#if defined(ASIO_ENABLE_HANDLER_TRACKING) || defined(ASIO_CUSTOM_HANDLER_TRACKING)
                                   asio_handler_tracking<true>,
#else
                                   asio_handler_tracking<false>,
#endif
#if defined(ASIO_ENABLE_BUFFER_DEBUGGING) || (defined(_GLIBCXX_DEBUG) && !defined(ASIO_DISABLE_BUFFER_DEBUGGING))
                                   asio_buffer_debugging<true>,
#else
                                   asio_buffer_debugging<false>,
#endif
#if defined(ASIO_HAS_EPOLL)
                                   asio_epoll<true>,
#else
                                   asio_epoll<false>,
#endif
#if defined(ASIO_HAS_EVENTFD)
                                   asio_eventfd<true>,
#else
                                   asio_eventfd<false>,
#endif
#if defined(ASIO_HAS_TIMERFD)
                                   asio_timerfd<true>,
#else
                                   asio_timerfd<false>,
#endif
#if defined(ASIO_HAS_IO_URING)
                                   asio_io_uring<true>,
#else
                                   asio_io_uring<false>,
#endif
#if defined(ASIO_HAS_IO_URING_AS_DEFAULT)
                                   asio_io_uring_as_default<true>,
#else
                                   asio_io_uring_as_default<false>,
#endif
#if defined(ASIO_HAS_FUTEX)
                                   asio_futex<true>,
#else
                                   asio_futex<false>,
#endif
// With _FORTIFY_SOURCE, the endpoints of Asio 1.36 and 1.37 are larger. Boost 1.89 contains Asio 1.36.
#if (ASIO_VERSION / 100 == 1036 || ASIO_VERSION / 100 == 1037) && defined(_FORTIFY_SOURCE)
                                   asio_fortified_endpoints<true>,
#else
                                   asio_fortified_endpoints<false>,
#endif
                                   asio_recycling_allocator_cache_size<ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE>>) != 0);

}  // namespace canigo::detail
