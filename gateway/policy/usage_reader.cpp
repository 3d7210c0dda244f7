#include "gateway/policy/usage_reader.hpp"

#include "gateway/wire/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace canigo::gateway {
namespace {

using nlohmann::json;

/// No response uses more. A greater number is a mistake of the upstream, and not charged.
constexpr std::uint64_t most_counted = 1'000'000'000;

/// Finds the numbers of a usage in a document without making a tree of it.
class usage_scan {
 public:
  enum class part : std::uint8_t { root, list, top, inner, usage, other };

  usage_scan(usage_numbers& numbers, part root) : numbers_{&numbers}, parts_{root} {}

  bool null() { return true; }
  bool boolean(bool) { return note(std::nullopt); }
  bool number_integer(std::int64_t) { return note(std::nullopt); }  // a negative one
  bool number_unsigned(std::uint64_t value) { return note(value); }
  bool number_float(double value, const std::string&) {
    const bool is_whole = value >= 0 && value <= most_counted && value == std::floor(value);
    return note(is_whole ? std::optional{static_cast<std::uint64_t>(value)} : std::nullopt);
  }
  bool string(const std::string&) { return note(std::nullopt); }
  bool binary(json::binary_t&) { return true; }
  bool start_object(std::size_t) {
    parts_.push_back(object_in(parts_.back()));
    return true;
  }
  bool start_array(std::size_t) {
    parts_.push_back(parts_.back() == part::root ? part::list : part::other);
    return true;
  }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  bool key(const std::string& name) {
    key_ = name;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

 private:
  /// The number that the key stands for; null: it stands for none.
  std::optional<std::uint64_t>* place() const noexcept {
    if (parts_.back() != part::usage) return nullptr;
    if (key_ == "prompt_tokens" || key_ == "input_tokens" || key_ == "promptTokenCount") return &numbers_->input;
    if (key_ == "cache_creation_input_tokens") return &numbers_->cached_input;
    if (key_ == "completion_tokens" || key_ == "output_tokens" || key_ == "candidatesTokenCount")
      return &numbers_->output;
    return key_ == "thoughtsTokenCount" ? &numbers_->thoughts : nullptr;
  }
  bool note(std::optional<std::uint64_t> value) noexcept {
    const auto to = place();
    if (to == nullptr) return true;
    if (!value || *value > most_counted) {
      numbers_->is_unreadable = true;
    } else {
      *to = value;
    }
    return true;
  }
  part object_in(part outer) const noexcept {
    const bool is_usage = key_ == "usage" || key_ == "usageMetadata";
    switch (outer) {
      case part::root:
      case part::list:
        return part::top;
      case part::top:
        return is_usage ? part::usage : key_ == "message" || key_ == "response" ? part::inner : part::other;
      case part::inner:
        return is_usage ? part::usage : part::other;
      default:
        return part::other;
    }
  }
  bool leave() {
    parts_.pop_back();
    key_.clear();
    return true;
  }

  usage_numbers* numbers_;
  std::vector<part> parts_;
  std::string key_;
};

/// Takes the numbers of a whole document, if it is JSON.
void read_document(std::string_view text, usage_numbers& numbers) {
  usage_numbers found = numbers;
  usage_scan scan{found, usage_scan::part::root};
  if (json::sax_parse(text.begin(), text.end(), &scan)) numbers = found;
}

/// Takes the numbers of the object behind the last `"usage":` of a document whose beginning is gone.
void read_tail(std::string_view text, usage_numbers& numbers) {
  // Some of the matches may be parts of something else.
  constexpr int most_looks = 8;
  std::size_t end = text.npos;
  for (int i = 0; i < most_looks; ++i) {
    const std::size_t at = text.rfind("\"usage", end);
    if (at == text.npos) return;
    std::string_view rest = text.substr(at + 1);
    const std::string_view name = rest.substr(0, rest.find('"'));
    // A quote inside a string has a backslash before it.
    const bool is_key = (at == 0 || text[at - 1] != '\\') && (name == "usage" || name == "usageMetadata");
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    const auto colon = rest.find_first_not_of(" \t\r\n");
    const auto brace = colon == rest.npos ? rest.npos : rest.find_first_not_of(" \t\r\n", colon + 1);
    if (is_key && brace != rest.npos && rest[colon] == ':' && rest[brace] == '{') {
      rest.remove_prefix(brace);
      usage_numbers found;
      // Scans it as the value of "usage" at the top.
      usage_scan scan{found, usage_scan::part::top};
      scan.key("usage");
      if (json::sax_parse(rest.begin(), rest.end(), &scan, nlohmann::detail::input_format_t::json, false) &&
          found.sum()) {
        numbers = found;
        return;
      }
    }
    if (at == 0) return;
    end = at - 1;
  }
}

}  // namespace

usage_form usage_form_of(std::string_view content_type) noexcept {
  const std::string_view type = trim(content_type.substr(0, content_type.find(';')));
  if (same_text(type, "text/event-stream")) return usage_form::events;
  constexpr std::string_view suffix = "+json";
  const bool is_json = same_text(type, "application/json") ||
                       (type.size() > suffix.size() && same_text(type.substr(type.size() - suffix.size()), suffix));
  return is_json ? usage_form::json : usage_form::none;
}

std::optional<token_usage> usage_numbers::sum() const noexcept {
  if (is_unreadable || (!input && !output)) return std::nullopt;
  return token_usage{input.value_or(0) + cached_input.value_or(0), output.value_or(0) + thoughts.value_or(0)};
}

void usage_reader::take(std::string_view piece) {
  if (form_ == usage_form::json) take_document(piece);
  if (form_ == usage_form::events) take_events(piece);
}

void usage_reader::take_document(std::string_view piece) {
  if (!is_cut_ && document_.size() + piece.size() <= most_document) {
    document_.append(piece);
    return;
  }
  if (!is_cut_) {
    is_cut_ = true;
    // Gives back the memory of the whole document.
    document_ = document_.substr(document_.size() - std::min(document_.size(), tail));
  }
  document_.append(piece.substr(piece.size() - std::min(piece.size(), tail)));
  if (document_.size() > 2 * tail) document_.erase(0, document_.size() - tail);
}

void usage_reader::take_events(std::string_view piece) {
  while (!piece.empty()) {
    if (std::exchange(was_return_, false) && piece.front() == '\n') {
      piece.remove_prefix(1);
      continue;
    }
    const auto end = piece.find_first_of("\r\n");
    const std::string_view part = piece.substr(0, end);
    is_cut_ = is_cut_ || line_.size() + document_.size() + part.size() > most_event;
    // A line that is too large keeps one byte, so that it is not taken for the empty line that ends an event.
    if (!is_cut_) {
      line_.append(part);
    } else if (line_.empty()) {
      line_.append(part.substr(0, 1));
    }
    if (end == piece.npos) return;
    was_return_ = piece[end] == '\r';
    piece.remove_prefix(end + 1);
    end_line();
  }
}

void usage_reader::end_line() {
  constexpr std::string_view mark = "\xef\xbb\xbf";  // the byte order mark of UTF-8, before the first line
  std::string_view line = line_;
  if (line.starts_with(mark)) line.remove_prefix(mark.size());
  if (line.empty()) {
    end_event();
  } else if (line.starts_with("data:") && !is_cut_) {
    document_.append(line.substr(5)).append("\n");
  }
  line_.clear();
}

void usage_reader::end_event() {
  // Most events have no usage.
  if (!is_cut_ && document_.find("\"usage") != document_.npos) read_document(document_, numbers_);
  document_.clear();
  is_cut_ = false;
}

std::optional<token_usage> usage_reader::finish() {
  if (form_ == usage_form::json && is_cut_) {
    const std::string_view all = document_;
    read_tail(all.substr(all.size() - std::min(all.size(), tail)), numbers_);
  } else if (form_ == usage_form::json) {
    read_document(document_, numbers_);
  }
  form_ = usage_form::none;
  return numbers_.sum();
}

}  // namespace canigo::gateway
