// Loaded into a redis-server before all else: its clock on the wall is wrong by as many microseconds as the first eight
// bytes of the file say that CANIGO_CLOCK names. What does not go by that clock is right.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

std::int64_t shift() noexcept {
  static const std::atomic<std::int64_t>* const shared = [] {
    const char* name = std::getenv("CANIGO_CLOCK");
    const int file = name != nullptr ? ::open(name, O_RDONLY | O_CLOEXEC) : -1;
    void* page = file >= 0 ? ::mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    return page != MAP_FAILED ? static_cast<const std::atomic<std::int64_t>*>(page) : nullptr;
  }();
  return shared != nullptr ? shared->load() : 0;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* t) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, t));
  if (result == 0 && clock == CLOCK_REALTIME) {
    const std::int64_t us = std::int64_t{t->tv_sec} * 1'000'000 + t->tv_nsec / 1000 + shift();
    t->tv_sec = us / 1'000'000;
    t->tv_nsec = us % 1'000'000 * 1000;
  }
  return result;
}

extern "C" int gettimeofday(timeval* t, void*) noexcept {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return result;
}

extern "C" time_t time(time_t* t) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (t != nullptr) *t = now.tv_sec;
  return now.tv_sec;
}
