#include "canigo/http/headers.hpp"

#include "canigo/error.hpp"

#include "text.hpp"

#include <algorithm>
#include <limits>

namespace canigo::http {
namespace {

// Enough space for most messages. Such a message needs only two allocations: one for the fields, one for the text.
constexpr std::size_t first_fields = 8;
constexpr std::size_t first_text = 256;

void check_room(std::size_t used, std::size_t more) {
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  if (more > most - used) canigo::detail::throw_invalid("headers", more, "4 GiB of text in all");
}

}  // namespace

void headers::add(std::string_view name, std::string_view value) {
  const std::size_t at = text_.size();
  check_room(at, name.size() + value.size());
  if (fields_.size() == fields_.capacity()) fields_.reserve(std::max(first_fields, fields_.size() * 2));
  const std::size_t wanted = at + name.size() + value.size();
  if (wanted <= text_.capacity()) {
    text_.append(name).append(value);
  } else {
    // The new text is built separately, because the arguments may be views into the old text. A reallocation would free
    // the old text.
    std::string grown;
    grown.reserve(std::max({wanted, text_.capacity() * 2, first_text}));
    grown.append(text_).append(name).append(value);
    text_.swap(grown);
  }
  fields_.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(name.size()),
                     static_cast<std::uint32_t>(at + name.size()), static_cast<std::uint32_t>(value.size())});
}

void headers::set(std::string_view name, std::string_view value) {
  // The arguments are copied first, because they may be views into this list.
  const std::string own_name{name};
  const std::string own_value{value};
  remove(own_name);
  add(own_name, own_value);
}

void headers::remove(std::string_view name) {
  using detail::same_text;
  std::erase_if(fields_, [&](const field& f) { return same_text(name, {text_.data() + f.name_at, f.name_size}); });
}

void headers::append_to_last(std::string_view text) {
  if (fields_.empty()) return;
  check_room(text_.size(), text.size());
  field& last = fields_.back();
  if (last.value_at + last.value_size != text_.size()) return;
  text_.append(text);
  last.value_size += static_cast<std::uint32_t>(text.size());
}

void headers::clear() noexcept {
  text_.clear();
  fields_.clear();
}

std::optional<std::string_view> headers::find(std::string_view name) const noexcept {
  for (const auto h : *this) {
    if (detail::same_text(name, h.name)) return h.value;
  }
  return std::nullopt;
}

std::vector<std::string_view> headers::find_all(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const auto h : *this) {
    if (detail::same_text(name, h.name)) values.push_back(h.value);
  }
  return values;
}

header headers::operator[](std::size_t index) const noexcept {
  const field& f = fields_[index];
  return {{text_.data() + f.name_at, f.name_size}, {text_.data() + f.value_at, f.value_size}};
}

}  // namespace canigo::http
