#include "../../lib/jobs/wake_socket.hpp"

#include "sqlite_world.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

using canigo::jobs::detail::wake_socket;
using numbers = std::vector<std::int64_t>;

namespace {

/// What a process leaves behind that was killed.
void leave_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int s = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  REQUIRE(::bind(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  ::close(s);
}

}  // namespace

TEST_CASE("processes with one file wake each other, with news and without", "[jobs]") {
  scratch_folder folder;
  const std::string path = folder.file("wake");
  std::optional<wake_socket> first{std::in_place, path, 1};
  CHECK(first->ring(true).empty());
  wake_socket second{path, 2};
  CHECK(second.descriptor() >= 0);
  CHECK_FALSE(second.drain());
  CHECK_FALSE(first->drain());  // it learns of the second one
  CHECK(first->ring(false).empty());
  CHECK_FALSE(second.drain());
  CHECK(first->ring(true).empty());
  CHECK(second.drain());
  CHECK_FALSE(second.drain());
  CHECK(second.ring(true).empty());
  CHECK(second.ring(false).empty());
  CHECK(first->drain());
  first.reset();
  CHECK_FALSE(std::filesystem::exists(path + "/1"));
  CHECK(second.ring(true).empty());  // who went in order left nothing to end
}

TEST_CASE("a socket is not inherited, not shared, and closed at its end", "[jobs]") {
  scratch_folder folder;
  const std::string path = folder.file("wake");
  std::optional<wake_socket> first{std::in_place, path, 1};
  const int descriptor = first->descriptor();
  CHECK((::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(descriptor, F_GETFL) & O_NONBLOCK) != 0);
  {
    wake_socket twin{path, 1};
    CHECK(twin.descriptor() == -1);
    CHECK(::fcntl(descriptor + 1, F_GETFD) == -1);
    CHECK(twin.ring(true).empty());
  }
  CHECK(std::filesystem::exists(path + "/1"));
  first.reset();
  CHECK(::fcntl(descriptor, F_GETFD) == -1);
}

TEST_CASE("the socket of a process that was killed is found once, and goes", "[jobs]") {
  scratch_folder folder;
  const std::string path = folder.file("wake");
  {
    wake_socket first{path, 1};
    leave_socket(path + "/77");
    leave_socket(path + "/78");
    CHECK(first.ring(true).empty());  // it has not looked
    first.look_round();
    CHECK(first.ring(false) == numbers{77, 78});
    CHECK_FALSE(std::filesystem::exists(path + "/77"));
    first.look_round();
    CHECK(first.ring(true).empty());
    leave_socket(path + "/79");
    wake_socket second{path, 2};
    CHECK(second.ring(true) == numbers{79});
    CHECK(first.drain());
  }
  CHECK_FALSE(std::filesystem::exists(path));  // the last one removes the folder
}

TEST_CASE("news makes nobody look for newcomers", "[jobs]") {
  scratch_folder folder;
  const std::string path = folder.file("wake");
  wake_socket first{path, 1};
  wake_socket second{path, 2};
  first.drain();
  leave_socket(path + "/77");
  second.ring(true);
  CHECK(first.drain());
  CHECK(first.ring(true).empty());
  wake_socket third{path, 3};
  CHECK_FALSE(first.drain());
  CHECK(first.ring(true) == numbers{77});
}

TEST_CASE("what is no number names no socket of another process", "[jobs]") {
  scratch_folder folder;
  const std::string path = folder.file("wake");
  wake_socket first{path, 1};
  for (const char* name : {"77x", "x", "99999999999999999999", "1 "}) leave_socket(path + "/" + name);
  first.look_round();
  CHECK(first.ring(true).empty());
  for (const char* name : {"77x", "x", "99999999999999999999", "1 "}) {
    CHECK(std::filesystem::exists(path + "/" + name));
  }
}

TEST_CASE("a folder whose name is too long for a socket has none", "[jobs]") {
  scratch_folder folder;
  const std::string path = folder.file(std::string(sizeof(sockaddr_un::sun_path), 'x'));
  wake_socket none{path, 1};
  CHECK(none.descriptor() == -1);
  CHECK_FALSE(std::filesystem::exists(path));
  none.look_round();
  CHECK(none.ring(true).empty());
  const std::size_t room = sizeof(sockaddr_un::sun_path) - 1 - folder.file("").size() - 2;
  const wake_socket longest{folder.file(std::string(room, 'y')), 1};
  CHECK(longest.descriptor() >= 0);
  const wake_socket longer{folder.file(std::string(room + 1, 'z')), 1};
  CHECK(longer.descriptor() == -1);
}
