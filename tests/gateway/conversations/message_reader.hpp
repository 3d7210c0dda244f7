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

  /// Returns the value of the only field with this name, in lower case; nothing if there are several.
  std::optional<std::string> value_of(std::string_view name) const;
  std::size_t count_of(std::string_view name) const;
  /// The status of an answer; 0 if the first line has none.
  int status() const noexcept;
  std::string method() const { return first_line.substr(0, first_line.find(' ')); }
  std::string target() const;
};

/// Parses one message after the other, and rejects everything that the gateway would never write.
class message_reader {
 public:
  /// How a message's body is framed.
  enum class framing : std::uint8_t { none, length, chunked, until_end };
  struct user {
    /// Called with a head, and with the framing that the head names. Returns the framing of the body.
    std::function<framing(const message_head&, framing f)> head;
    std::function<void(std::string_view)> body;
    /// Called when a message is complete.
    std::function<void()> done;
  };

  explicit message_reader(user u) : user_{std::move(u)} {}

  /// Returns false if the bytes are not valid HTTP. Bytes that arrive while a callback runs belong to no message yet.
  bool read(std::string_view bytes);
  /// Call it at the end of the stream. Returns false if that is in the middle of a message.
  bool end();
  /// Whether a part of a message has arrived, but not all of it.
  bool is_inside() const noexcept { return stage_ != stage::head || !waiting_.empty(); }
  bool has_head() const noexcept { return stage_ != stage::head; }
  /// The text that was read last, for a report.
  const std::string& wrong() const noexcept { return wrong_; }
  /// Stops parsing: all further bytes go to `tunnel`.
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
