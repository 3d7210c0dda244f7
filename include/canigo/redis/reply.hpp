#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace canigo::redis {

/// The reply of Redis to a command. A reply object owns its data, so a copy of it is independent.
class reply {
 public:
  enum class kind : std::uint8_t { nil, status, string, integer, error, array };

  reply() noexcept = default;
  reply(kind k, std::string text) : text_{std::move(text)}, kind_{k} {}
  explicit reply(std::int64_t n) noexcept : integer_{n}, kind_{kind::integer} {}
  explicit reply(std::vector<reply> elements) noexcept : elements_{std::move(elements)}, kind_{kind::array} {}

  kind type() const noexcept { return kind_; }
  bool is_nil() const noexcept { return kind_ == kind::nil; }
  bool is_error() const noexcept { return kind_ == kind::error; }

  /// The text of a reply that is a status, a string or an error; empty for other replies.
  const std::string& text() const noexcept { return text_; }
  /// The value of a reply that is an integer; 0 for other replies.
  std::int64_t integer() const noexcept { return integer_; }
  /// The elements of a reply that is an array; empty for other replies.
  const std::vector<reply>& elements() const noexcept { return elements_; }

 private:
  friend class reply_builder;

  std::string text_;
  std::vector<reply> elements_;
  std::int64_t integer_ = 0;
  kind kind_ = kind::nil;
};

}  // namespace canigo::redis
