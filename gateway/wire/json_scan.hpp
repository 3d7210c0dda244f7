#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace canigo::gateway {

/// Receives the parts of a JSON document in their order. Escapes in names and texts are decoded.
class json_visitor {
 public:
  virtual void begin_object() {}
  virtual void end_object() {}
  virtual void begin_list() {}
  virtual void end_list() {}
  /// Called with the name of a member, before its value.
  virtual void name(std::string_view) {}
  /// Called with a text of `size` bytes. `beginning`: the first bytes of the text, at most told_of_text of them.
  virtual void text(std::string_view beginning, std::size_t size) = 0;
  /// Called with a number without a sign, a fraction or an exponent.
  virtual void whole_number(std::uint64_t) = 0;
  /// Called with each number that is not passed to whole_number(). The argument is infinite if the number is too large;
  /// it is never NaN.
  virtual void other_number(double) = 0;
  virtual void boolean(bool) = 0;
  virtual void null() {}

 protected:
  ~json_visitor() = default;
};

/// The bytes that may follow the document: only blanks, or anything.
enum class json_end : std::uint8_t { blanks, anything };

/// The max number of bytes of a text that the visitor gets. Further bytes are only counted.
inline constexpr std::size_t told_of_text = 64;

/// The max depth of nested lists and objects. It is bounded, because each level uses a part of the stack.
inline constexpr std::size_t most_json_depth = 500;

/// Reads one document, and passes its parts to the visitor. Builds no tree, because the tree of a small document can be
/// large. Returns false if the document is no JSON (RFC 8259, in UTF-8, with or without a byte order mark), or is
/// nested too deeply. The visitor may then have received a part of it.
bool scan_json(std::string_view document, json_visitor& visitor, json_end end = json_end::blanks);

}  // namespace canigo::gateway
