#pragma once

#include <canigo/histogram.hpp>
#include <canigo/time.hpp>

#include "call.hpp"
#include "options.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace fetch {

/// Tells what happens: a line per finished call and a summary on the standard output, the rest on the standard error.
class report {
 public:
  explicit report(const options& o);

  void finished(const call& c);
  void bad_line(std::size_t number, std::string_view problem);
  void note(std::string_view text);
  /// One line on a terminal, written over again and again.
  void progress(std::size_t running, std::size_t waiting);
  void summary(bool was_interrupted);

  int exit_code(bool was_interrupted) const noexcept;
  /// Calls of any outcome.
  std::size_t calls() const noexcept;

 private:
  struct of_class {
    std::size_t count = 0;
    std::size_t failures = 0;
    canigo::wait_histogram wait;
    canigo::time_point first_start = canigo::time_point::max();
    canigo::time_point last_start = canigo::time_point::min();
  };

  void print_row(const call& c);
  void print_object(const call& c);
  void clear_progress();
  double rate_of(const of_class& c) const noexcept;

  output format_;
  canigo::time_point begin_;
  bool shows_progress_;
  bool progress_shown_ = false;
  std::size_t bad_lines_ = 0;
  std::vector<of_class> classes_;
};

}  // namespace fetch
