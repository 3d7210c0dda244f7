#pragma once

namespace canigo::redis {

/// How a rate limit in Redis behaves while Redis does not answer.
///
/// In every mode the limit refuses all requests while other processes use it with another number of rates, other units,
/// or another version of the library.
class failure_mode {
 public:
  enum class kind { closed, open, local };

  /// Refuses all requests.
  static constexpr failure_mode closed() noexcept { return {kind::closed, 0}; }
  /// Grants all requests.
  static constexpr failure_mode open() noexcept { return {kind::open, 1}; }
  /// Limits this process separately, to a share of each rate and each burst; `share` is more than 0, up to 1.
  static constexpr failure_mode local(double share) noexcept { return {kind::local, share}; }

  constexpr kind what() const noexcept { return what_; }
  constexpr double share() const noexcept { return share_; }

 private:
  constexpr failure_mode(kind k, double share) noexcept : what_{k}, share_{share} {}
  kind what_;
  double share_;
};

}  // namespace canigo::redis
