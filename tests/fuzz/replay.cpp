// Plays the inputs in files and folders through a target, as the fuzzer would. One that breaks a promise aborts.
//
//   replay_TARGET PATH...

#include "target.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace files = std::filesystem;

namespace {

std::vector<files::path> inputs(const files::path& path) {
  if (!files::is_directory(path)) return {path};
  std::vector<files::path> found;
  for (const auto& entry : files::directory_iterator{path}) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

void play(const files::path& path) {
  std::ifstream file{path, std::ios::binary};
  const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
  fuzz::require(file.good() || file.eof(), "the input can be read");
  // On the heap and of its very size, so that a sanitizer sees a read beyond the end.
  const std::vector<std::uint8_t> data{bytes.begin(), bytes.end()};
  LLVMFuzzerTestOneInput(data.data(), data.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t played = 0;
  for (int i = 1; i < argc; ++i) {
    for (const files::path& path : inputs(argv[i])) {
      std::printf("%s\n", path.filename().c_str());
      std::fflush(stdout);  // the last line names the input that aborts
      play(path);
      ++played;
    }
  }
  std::printf("%zu inputs\n", played);
  return played > 0 ? 0 : 1;
}
