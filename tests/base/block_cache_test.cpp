#include "canigo/detail/base/block_cache.hpp"

#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

using canigo::detail::allocate_block;
using canigo::detail::block_size;
using canigo::detail::deallocate_block;
using canigo::detail::reserve_blocks;

namespace {

/// Uses and frees a block.
void use_one(std::size_t size) {
  void* p = allocate_block(size);
  std::memset(p, 1, size);
  deallocate_block(p, size);
}

/// Of a thread: goes after what the thread keeps has gone, where it was there before.
struct last_of_all {
  ~last_of_all() {
    if (!is_used) return;
    deallocate_block(block, 1);
    reserve_blocks(2);
    use_one(block_size);
    is_used = false;
  }
  bool is_used = false;
  void* block = nullptr;
};
thread_local last_of_all at_the_end;

}  // namespace

TEST_CASE("blocks of any size are taken and given back", "[block_cache]") {
  for (const std::size_t size : {std::size_t{1}, block_size, block_size + 1, 100 * block_size}) use_one(size);
  reserve_blocks(4);
  use_one(block_size + 1);
  use_one(1);
}

TEST_CASE("a thread that ends may still use blocks, and keeps none", "[block_cache]") {
  std::thread{[] {
    at_the_end.is_used = true;
    reserve_blocks(2);
    at_the_end.block = allocate_block(1);
  }}.join();
  use_one(1);
}

TEST_CASE("a thread gets the blocks again that it has freed, the first one and those beyond what it keeps",
          "[block_cache]") {
  if (is_sanitized) return;  // then nothing is kept
  std::vector<void*> blocks(200);
  std::size_t others = 0;
  std::thread{[&] {
    void* const first = allocate_block(1);
    deallocate_block(first, 1);
    void* const again = allocate_block(1);
    if (again != first) ++others;
    deallocate_block(again, 1);
    for (void*& p : blocks) p = allocate_block(1);
    for (void* const p : blocks) {
      deallocate_block(p, 1);
      void* const same = allocate_block(1);
      if (same != p) ++others;
      deallocate_block(same, 1);
    }
  }}.join();
  CHECK(others == 0);
}

TEST_CASE("what one thread has freed another gets, each block once", "[block_cache]") {
  // More than a thread keeps, and than all of them share.
  std::vector<void*> blocks(3000);
  const auto take_all = [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      blocks[i] = allocate_block(block_size);
      std::memcpy(blocks[i], &i, sizeof(i));
    }
  };
  std::size_t changed = 0;
  const auto give_back_all = [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (std::memcmp(blocks[i], &i, sizeof(i)) != 0) ++changed;
      deallocate_block(blocks[i], block_size);
    }
  };
  for (int round = 0; round < 3; ++round) {
    std::thread{take_all}.join();
    std::thread{give_back_all}.join();
  }
  CHECK(changed == 0);
}
