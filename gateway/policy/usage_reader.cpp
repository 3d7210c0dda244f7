#include "gateway/policy/usage_reader.hpp"

#include "gateway/wire/json_scan.hpp"
#include "gateway/wire/text.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace canigo::gateway {
namespace {

/// The largest plausible number of tokens of a response. A greater number counts as an error of the upstream, and is
/// not charged.
constexpr std::uint64_t most_counted = 1'000'000'000;

/// Whether a top-level member with this name is an envelope, whose members count as top-level members. Events of
/// Anthropic, OpenAI, Cohere and Gemini have envelopes.
bool is_envelope(std::string_view name) noexcept {
  return name == "message" || name == "response" || name == "delta" || name == "interaction";
}

/// Finds the numbers of tokens in a JSON document: the values of the members that usage_names lists.
class usage_scan final : public json_visitor {
 public:
  usage_scan(usage_numbers& numbers, const usage_names& names) : numbers_{&numbers}, names_{&names} {}

  void boolean(bool) override { note(std::nullopt); }
  void whole_number(std::uint64_t value) override { note(value); }
  void other_number(double value) override {
    const bool is_whole = value >= 0 && value <= most_counted && value == std::floor(value);
    note(is_whole ? std::optional{static_cast<std::uint64_t>(value)} : std::nullopt);
  }
  void text(std::string_view, std::size_t) override { note(std::nullopt); }
  void begin_object() override {
    if (passed_over_ > 0 || outer_.size() == most_depth) {
      ++passed_over_;
      return;
    }
    if (outer_.size() == 1 && is_envelope(name_)) name_.clear();
    outer_.push_back(name_.size());
  }
  void end_object() override {
    if (passed_over_ > 0) {
      --passed_over_;
    } else {
      outer_.pop_back();
      if (outer_.empty()) name_.clear();
    }
  }
  /// Enters a list only if it is the document itself; skips all other lists.
  void begin_list() override {
    if (passed_over_ == 0 && outer_.empty() && !is_list_) {
      is_list_ = true;
    } else {
      ++passed_over_;
    }
  }
  void end_list() override {
    if (passed_over_ > 0) --passed_over_;
  }
  void name(std::string_view name) override {
    if (passed_over_ > 0) return;
    name_.resize(outer_.back());
    if (!name_.empty()) name_ += '.';
    // A name that is empty or contains a full stop is replaced by "?", which matches no name of a usage.
    name_.append(name.empty() || name.find('.') != name.npos ? "?" : name);
  }

 private:
  // The max nesting depth of a number of tokens in a document. It is one more than the max number of parts in a usage
  // name, because an envelope may contain the usage.
  static constexpr std::size_t most_depth = most_usage_parts + 1;

  /// Returns where to store the value of the current member; null if the member's name is not in usage_names.
  std::optional<std::uint64_t>* place() const noexcept {
    const auto is_in = [&](const std::vector<std::string>& names) {
      return std::ranges::find(names, name_) != names.end();
    };
    if (is_in(names_->input)) return &numbers_->input;
    if (is_in(names_->more_input)) return &numbers_->more_input;
    if (is_in(names_->output)) return &numbers_->output;
    if (is_in(names_->more_output)) return &numbers_->more_output;
    if (is_in(names_->cached_input)) return &numbers_->cached_input;
    if (is_in(names_->more_cached_input)) return &numbers_->more_cached_input;
    return is_in(names_->total) ? &numbers_->total : nullptr;
  }
  void note(std::optional<std::uint64_t> value) noexcept {
    if (passed_over_ > 0) return;
    const auto to = place();
    if (to == nullptr) return;
    const bool is_readable = value && *value <= most_counted;
    // An unreadable number of cached tokens is ignored, because the rest of the usage is valid without it.
    const bool is_of_cache = to == &numbers_->cached_input || to == &numbers_->more_cached_input;
    if (!is_readable && is_of_cache) {
      to->reset();
    } else if (!is_readable) {
      numbers_->is_unreadable = true;
    } else {
      *to = value;
    }
  }

  usage_numbers* numbers_;
  const usage_names* names_;
  std::string name_;                // the dotted name of the next value, such as usage.total_tokens
  std::vector<std::size_t> outer_;  // for each open object: the length that `name_` had when the object began
  bool is_list_ = false;            // true: the whole document is a list
  std::size_t passed_over_ = 0;     // the number of open objects and lists that can't contain a usage
};

/// Reads the numbers of a whole document. If the document is not JSON, leaves `numbers` unchanged.
void read_document(std::string_view text, const usage_names& names, usage_numbers& numbers) {
  usage_numbers found = numbers;
  usage_scan scan{found, names};
  if (scan_json(text, scan)) numbers = found;
}

/// Reads the usage from the end of a document whose beginning was dropped. Searches `text` backwards for one of the
/// names in `roots`, such as `"usage":`, and reads the object that follows this name.
void read_tail(std::string_view text, const usage_names& names, const std::vector<std::string_view>& roots,
               usage_numbers& numbers) {
  // The last occurrence of a name may be inside a string. So up to this many occurrences are tried, from the end.
  constexpr int most_looks = 8;
  for (int i = 0; i < most_looks; ++i) {
    std::size_t at = text.npos;
    std::string_view root;
    for (const std::string_view r : roots) {
      const std::size_t found = text.rfind("\"" + std::string{r} + "\"");
      if (found == text.npos || (at != text.npos && found < at)) continue;
      at = found;
      root = r;
    }
    if (at == text.npos) return;
    const std::string_view rest = text.substr(at + root.size() + 2);
    const auto colon = rest.find_first_not_of(" \t\r\n");
    const auto brace = colon == rest.npos ? rest.npos : rest.find_first_not_of(" \t\r\n", colon + 1);
    // A backslash before the quote means that the name is inside a string, so it is no key.
    const bool is_key = at == 0 || text[at - 1] != '\\';
    if (is_key && brace != rest.npos && rest[colon] == ':' && rest[brace] == '{') {
      usage_numbers found;
      usage_scan scan{found, names};
      scan.begin_object();
      scan.name(root);
      if (scan_json(rest.substr(brace), scan, json_end::anything) && found.sum()) {
        numbers = found;
        return;
      }
    }
    text = text.substr(0, at);
  }
}

/// Returns the first part of each dotted name, each part once: "usage" for "usage.total_tokens".
std::vector<std::string_view> roots_of(const usage_names& names) {
  std::vector<std::string_view> roots;
  for (const auto* list : {&names.input, &names.more_input, &names.output, &names.more_output, &names.total,
                           &names.cached_input, &names.more_cached_input}) {
    for (const std::string_view name : *list) {
      const std::string_view root = name.substr(0, name.find('.'));
      if (std::ranges::find(roots, root) == roots.end()) roots.push_back(root);
    }
  }
  return roots;
}

}  // namespace

usage_form usage_form_of(std::string_view content_type) noexcept {
  const std::string_view type = trim(content_type.substr(0, content_type.find(';')));
  if (same_text(type, "text/event-stream")) return usage_form::events;
  if (same_text(type, "application/vnd.amazon.eventstream")) return usage_form::frames;
  constexpr std::string_view suffix = "+json";
  const bool is_json = same_text(type, "application/json") ||
                       (type.size() > suffix.size() && same_text(type.substr(type.size() - suffix.size()), suffix));
  return is_json ? usage_form::json : usage_form::none;
}

std::optional<token_usage> usage_numbers::sum() const noexcept {
  if (is_unreadable) return std::nullopt;
  if (input || output) {
    const std::uint64_t in = input.value_or(0) + more_input.value_or(0);
    return token_usage{in, output.value_or(0) + more_output.value_or(0), std::min(cached_input.value_or(0), in),
                       more_cached_input.value_or(0)};
  }
  if (total) return token_usage{*total, 0};
  return std::nullopt;
}

usage_reader::usage_reader(usage_form form, const usage_names& names)
    : form_{form}, names_{&names}, is_cut_{form == usage_form::frames} {
  if (form == usage_form::events) roots_ = roots_of(names);
}

void usage_reader::take(std::string_view piece) {
  if (form_ == usage_form::json || form_ == usage_form::frames) take_document(piece);
  if (form_ == usage_form::events) take_events(piece);
}

void usage_reader::take_document(std::string_view piece) {
  if (!is_cut_ && document_.size() + piece.size() <= most_document) {
    document_.append(piece);
    return;
  }
  if (!is_cut_) {
    is_cut_ = true;
    // Keeps only the last bytes, and frees the memory of the whole document.
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
    // If an event is too large, only the first byte of each further line is kept. Without this byte the line would look
    // like the empty line that ends an event.
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
  // Most events contain none of the names of a usage. Such events are not parsed.
  const bool has_name =
      std::ranges::any_of(roots_, [&](std::string_view root) { return document_.find(root) != document_.npos; });
  if (!is_cut_ && has_name) read_document(document_, *names_, numbers_);
  if (is_cut_ || !document_.empty()) ++events_;
  document_.clear();
  is_cut_ = false;
}

std::optional<token_usage> usage_reader::finish() {
  if (form_ == usage_form::frames || (form_ == usage_form::json && is_cut_)) {
    const std::string_view all = document_;
    read_tail(all.substr(all.size() - std::min(all.size(), tail)), *names_, roots_of(*names_), numbers_);
  } else if (form_ == usage_form::json) {
    read_document(document_, *names_, numbers_);
  }
  form_ = usage_form::none;
  return numbers_.sum();
}

}  // namespace canigo::gateway
