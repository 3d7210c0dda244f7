#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace conversations {

/// The head of a request or of an answer.
struct message_head {
  std::string first_line;
  std::vector<std::pair<std::string, std::string>> fields;

  /// The only field of this name, in lower case; none if there are several.
  std::optional<std::string> value_of(std::string_view name) const;
  std::size_t count_of(std::string_view name) const;
  /// Of an answer; 0 if the first line has none.
  int status() const noexcept;
  std::string method() const { return first_line.substr(0, first_line.find(' ')); }
  std::string target() const;
};

/// Reads one message after the other, and takes nothing that the gateway would not write.
class message_reader {
 public:
  /// How a message's body is framed.
  enum class framing : std::uint8_t { none, length, chunked, until_end };
  struct user {
    /// What comes behind the head; `f` is what the head says.
    std::function<framing(const message_head&, framing f)> head;
    std::function<void(std::string_view)> body;
    /// The message is whole.
    std::function<void()> done;
  };

  explicit message_reader(user u) : user_{std::move(u)} {}

  /// False: this is no HTTP. Bytes that come while user's functions run are of no message yet.
  bool read(std::string_view bytes);
  /// The stream has ended. False: in the middle of a message.
  bool end();
  /// Bytes of a message have come, and not all of it.
  bool is_inside() const noexcept { return stage_ != stage::head || !waiting_.empty(); }
  bool has_head() const noexcept { return stage_ != stage::head; }
  /// What was read last, for a report.
  const std::string& wrong() const noexcept { return wrong_; }
  /// Reads nothing more; all bytes go to `tunnel`.
  void become(std::function<void(std::string_view)> tunnel) { tunnel_ = std::move(tunnel); }

 private:
  enum class stage : std::uint8_t { head, body, chunk_size, chunk, chunk_end, trailer };

  bool step();
  bool read_head();
  bool read_line(std::string& line);
  bool fail(std::string_view why);
  void finish();

  user user_;
  stage stage_ = stage::head;
  framing framing_ = framing::none;
  std::size_t left_ = 0;
  std::string waiting_;
  std::size_t at_ = 0;
  std::string wrong_;
  std::function<void(std::string_view)> tunnel_;
};

}  // namespace conversations
