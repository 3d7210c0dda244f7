// Selects a mutant, and notes which mutants were reached. scripts/mutate adds this to each source file of the library.
#pragma once

#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <type_traits>

namespace canigo_mutation {

inline constexpr int most = 1'000'000;
inline unsigned char nowhere[most];

/// The notes are in shared memory, so that they survive a killed process.
inline unsigned char* map_reached() noexcept {
  const char* file = std::getenv("CANIGO_REACHED");
  const int fd = file ? ::open(file, O_RDWR | O_CLOEXEC) : -1;
  void* map = fd < 0 ? MAP_FAILED : ::mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return map == MAP_FAILED ? nowhere : static_cast<unsigned char*>(map);
}

inline int choose() noexcept {
  const char* mutant = std::getenv("CANIGO_MUTANT");
  return mutant ? std::atoi(mutant) : -1;
}

inline unsigned char* reached = map_reached();
inline int chosen = choose();

inline bool is_chosen(int mutant) noexcept {
  if (reached) reached[mutant] = 1;
  return chosen == mutant;
}

constexpr bool is(int mutant) noexcept { return !std::is_constant_evaluated() && is_chosen(mutant); }

}  // namespace canigo_mutation
