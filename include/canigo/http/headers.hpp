#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::http {

/// One header field. Its views are valid until the headers object that they come from changes.
struct header {
  std::string_view name;
  std::string_view value;
};

/// Header fields in the order in which they were added. A name may occur several times. Lookups ignore the case of
/// names.
///
/// All text is stored in one string, so a list of any length needs only two allocations. More than 4 GiB of text is
/// errc::invalid_argument.
class headers {
 public:
  class iterator {
   public:
    using value_type = header;
    using difference_type = std::ptrdiff_t;
    using reference = header;
    using iterator_category = std::input_iterator_tag;

    iterator() = default;
    header operator*() const { return (*list_)[index_]; }
    iterator& operator++() {
      ++index_;
      return *this;
    }
    iterator operator++(int) {
      const iterator before = *this;
      ++index_;
      return before;
    }
    bool operator==(const iterator& other) const noexcept { return index_ == other.index_; }

   private:
    friend class headers;
    iterator(const headers* list, std::size_t index) noexcept : list_{list}, index_{index} {}
    const headers* list_ = nullptr;
    std::size_t index_ = 0;
  };

  headers() = default;

  /// Adds a field, and keeps existing fields of the same name.
  void add(std::string_view name, std::string_view value);
  /// Replaces all fields of this name by one field.
  void set(std::string_view name, std::string_view value);
  /// Removes all fields of this name.
  void remove(std::string_view name);
  /// Appends to the value of the last field, for obsolete line folding. Does nothing in an empty list.
  void append_to_last(std::string_view text);
  void clear() noexcept;

  /// The value of the first field of this name.
  std::optional<std::string_view> find(std::string_view name) const noexcept;
  /// The values of all fields of this name.
  std::vector<std::string_view> find_all(std::string_view name) const;
  bool contains(std::string_view name) const noexcept { return find(name).has_value(); }

  header operator[](std::size_t index) const noexcept;
  std::size_t size() const noexcept { return fields_.size(); }
  bool empty() const noexcept { return fields_.empty(); }
  iterator begin() const noexcept { return {this, 0}; }
  iterator end() const noexcept { return {this, size()}; }

 private:
  struct field {
    std::uint32_t name_at;
    std::uint32_t name_size;
    std::uint32_t value_at;
    std::uint32_t value_size;
  };

  std::string text_;
  std::vector<field> fields_;
};

}  // namespace canigo::http
