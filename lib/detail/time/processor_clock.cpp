#include "canigo/detail/time/processor_clock.hpp"

#if defined(__linux__) && defined(__x86_64__)
#include <cpuid.h>
#endif
#ifdef __linux__
#include <fcntl.h>
#include <string_view>
#include <unistd.h>
#endif

namespace canigo::detail {
namespace {

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

/// Whether the kernel currently uses this clock source.
bool kernel_goes_by(std::string_view wanted) noexcept {
  const int file = ::open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char name[32];
  const ssize_t length = ::read(file, name, sizeof name);
  ::close(file);
  return length > 0 && std::string_view{name, static_cast<std::size_t>(length)} == wanted;
}

#endif

}  // namespace

constinit counter_clock<processor_counter> processor_clock;

bool processor_counter::is_trusted() noexcept {
#if defined(__linux__) && defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned invariant = 1u << 8;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & invariant) != 0 && kernel_goes_by("tsc\n");
#elif defined(__linux__) && defined(__aarch64__)
  return kernel_goes_by("arch_sys_counter\n");
#else
  return false;
#endif
}

}  // namespace canigo::detail
