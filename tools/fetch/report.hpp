#pragma once

#include <canigo/algorithms/histogram.hpp>
#include <canigo/time.hpp>

#include "call.hpp"
#include "options.hpp"
#include "progress.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <vector>

namespace fetch {

/// Prints a line for each ended call and a summary to standard output, and all other messages to standard error.
///
/// If standard output can't be written, throws std::system_error, which ends the program. If standard error can't be
/// written, the text is lost.
class report {
 public:
  explicit report(const options& o);

  /// Counts a request that is sent now.
  void sent(const call& c);
  /// Counts `times` requests of the call that the HTTP client has sent again by itself.
  void sent_again(const call& c, int times);
  void finished(const call& c);
  /// Counts a call that is not made, because it succeeded in an earlier run.
  void done_before() noexcept { ++done_before_; }
  void bad_line(std::size_t number, std::string_view problem);
  void input_failed(std::string_view name, std::error_code why);
  void note(std::string_view text);
  bool shows_progress() const noexcept { return status_.is_on(); }
  /// Shows the progress `p`, after setting the numbers of ended and failed calls in it.
  void show(progress p);
  /// Prints the summary. `signal`: the number of the signal that ended the run early; 0: none.
  void summary(int signal);

  int exit_code(int signal) const noexcept;

 private:
  struct of_class {
    std::size_t count = 0;
    std::size_t failures = 0;
    std::size_t requests = 0;
    canigo::wait_histogram wait;
    canigo::time_point first_start = canigo::time_point::max();
    canigo::time_point last_start = canigo::time_point::min();

    void merge(const of_class& other);
    double rate() const noexcept;
  };

  void print_row(const call& c);
  void print_object(const call& c);
  void print_summary(const of_class& all, int signal);
  void print_summary_object(const of_class& all, int signal);
  void clear_for_row();

  const common_parts& common_;
  output format_;
  canigo::time_point begin_;
  const bool rows_share_terminal_;
  status_line status_;
  recent_rate rate_;
  bool has_head_ = false;
  bool input_failed_ = false;
  std::size_t bad_lines_ = 0;
  std::size_t not_made_ = 0;
  std::size_t done_before_ = 0;
  std::vector<of_class> classes_;
};

}  // namespace fetch
