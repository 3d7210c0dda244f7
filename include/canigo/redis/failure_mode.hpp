#pragma once

namespace canigo::redis {

/// How a limit on rates behaves while Redis does not answer.
///
/// It is no outage if other processes use another shape of the limit or another version of the library. Every mode
/// refuses requests then.
class failure_mode {
 public:
  enum class kind { closed, open, local };

  /// Grants no request.
  static constexpr failure_mode closed() noexcept { return {kind::closed, 0}; }
  /// Grants every request.
  static constexpr failure_mode open() noexcept { return {kind::open, 1}; }
  /// This process goes on by itself with its share of each rate and of each burst; `share` is more than 0, up to 1.
  static constexpr failure_mode local(double share) noexcept { return {kind::local, share}; }

  constexpr kind what() const noexcept { return what_; }
  constexpr double share() const noexcept { return share_; }

 private:
  constexpr failure_mode(kind k, double share) noexcept : what_{k}, share_{share} {}
  kind what_;
  double share_;
};

}  // namespace canigo::redis
