#include "gateway/wire/json_scan.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>  // includes the source of Boost.JSON, so that its library need not be linked

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>

namespace canigo::gateway {
namespace {

namespace boost_json = boost::json;
using boost_error = boost::system::error_code;

/// Receives the events of Boost.JSON's parser and passes them to a json_visitor. The parser passes a text with escapes
/// in several parts; this class joins them.
class part_handler {
 public:
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  explicit part_handler(json_visitor& visitor) : visitor_{&visitor} {}

  bool on_document_begin(boost_error&) { return true; }
  bool on_document_end(boost_error&) { return true; }
  bool on_object_begin(boost_error&) {
    visitor_->begin_object();
    return true;
  }
  bool on_object_end(std::size_t, boost_error&) {
    visitor_->end_object();
    return true;
  }
  bool on_array_begin(boost_error&) {
    visitor_->begin_list();
    return true;
  }
  bool on_array_end(std::size_t, boost_error&) {
    visitor_->end_list();
    return true;
  }
  bool on_key_part(boost_json::string_view part, std::size_t, boost_error&) {
    parts_.append(part.data(), part.size());
    return true;
  }
  bool on_key(boost_json::string_view part, std::size_t size, boost_error&) {
    if (part.size() == size) {
      visitor_->name({part.data(), part.size()});
      return true;
    }
    parts_.append(part.data(), part.size());
    visitor_->name(parts_);
    parts_.clear();
    return true;
  }
  bool on_string_part(boost_json::string_view part, std::size_t, boost_error&) {
    keep_beginning(part);
    return true;
  }
  bool on_string(boost_json::string_view part, std::size_t size, boost_error&) {
    if (part.size() == size) {
      visitor_->text({part.data(), std::min(part.size(), told_of_text)}, size);
      return true;
    }
    keep_beginning(part);
    visitor_->text(parts_, size);
    parts_.clear();
    return true;
  }
  bool on_number_part(boost_json::string_view, boost_error&) { return true; }
  bool on_int64(std::int64_t value, boost_json::string_view, boost_error&) {
    if (value < 0) {
      visitor_->other_number(static_cast<double>(value));
    } else {
      visitor_->whole_number(static_cast<std::uint64_t>(value));
    }
    return true;
  }
  bool on_uint64(std::uint64_t value, boost_json::string_view, boost_error&) {
    visitor_->whole_number(value);
    return true;
  }
  bool on_double(double value, boost_json::string_view, boost_error&) {
    visitor_->other_number(std::isnan(value) ? 0 : value);  // Boost 1.81 returns NaN for 0e309, which is zero
    return true;
  }
  bool on_bool(bool value, boost_error&) {
    visitor_->boolean(value);
    return true;
  }
  bool on_null(boost_error&) {
    visitor_->null();
    return true;
  }
  bool on_comment_part(boost_json::string_view, boost_error&) { return true; }
  bool on_comment(boost_json::string_view, boost_error&) { return true; }

 private:
  void keep_beginning(boost_json::string_view part) {
    parts_.append(part.data(), std::min(part.size(), told_of_text - parts_.size()));
  }

  json_visitor* visitor_;
  std::string parts_;  // the parts of a name so far, or the beginning of a text
};

/// If the text begins with an escape such as `\u00e9`, returns its UTF-16 code unit; otherwise returns nothing.
std::optional<unsigned> escaped_unit(std::string_view text) noexcept {
  constexpr std::size_t length = 6;
  if (text.size() < length || text[0] != '\\' || text[1] != 'u') return std::nullopt;
  unsigned unit = 0;
  const char* const last = text.data() + length;
  const auto [end, error] = std::from_chars(text.data() + 2, last, unit, 16);
  return error == std::errc{} && end == last ? std::optional{unit} : std::nullopt;
}

/// Replaces each lone half of an escaped surrogate pair in the document by U+FFFD. JavaScript writes a lone half if it
/// cuts a text inside a pair. Boost.JSON rejects lone halves, but most servers accept them. Returns nothing if the
/// document has none.
std::optional<std::string> with_whole_characters(std::string_view document) {
  constexpr std::size_t length = 6;
  constexpr auto is_first = [](unsigned unit) { return unit >= 0xd800 && unit < 0xdc00; };
  constexpr auto is_second = [](unsigned unit) { return unit >= 0xdc00 && unit < 0xe000; };
  std::optional<std::string> mended;
  for (std::size_t at = document.find('\\'); at < document.size(); at = document.find('\\', at)) {
    const auto unit = escaped_unit(document.substr(at));
    if (!unit) {
      at += 2;  // skips the backslash and the escaped character, which may be a backslash, too
      continue;
    }
    const auto next = escaped_unit(document.substr(at + length));
    if (is_first(*unit) && next && is_second(*next)) {
      at += 2 * length;
      continue;
    }
    if (is_first(*unit) || is_second(*unit)) {
      if (!mended) mended = document;
      mended->replace(at, length, "\\ufffd");
    }
    at += length;
  }
  return mended;
}

bool scan_mended_json(std::string_view document, json_visitor& visitor, json_end end) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (document.starts_with(byte_order_mark)) document.remove_prefix(byte_order_mark.size());
  boost_json::parse_options options;
  options.max_depth = most_json_depth;
  boost_json::basic_parser<part_handler> parser{options, visitor};
  boost_error error;
  const std::size_t read = parser.write_some(false, document.data(), document.size(), error);
  return !error && (end == json_end::anything || read == document.size());
}

}  // namespace

bool scan_json(std::string_view document, json_visitor& visitor, json_end end) {
  if (const auto mended = with_whole_characters(document)) return scan_mended_json(*mended, visitor, end);
  return scan_mended_json(document, visitor, end);
}

}  // namespace canigo::gateway
