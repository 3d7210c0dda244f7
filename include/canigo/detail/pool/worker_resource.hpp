#pragma once

#include <cstdint>
#include <exception>
#include <utility>

namespace canigo::detail {

/// The state of a worker's resource, and which of the user's functions must be called next. It has no lock and no
/// executor.
///
/// "Proven" means: made or checked, and not used since then.
///
/// | function | if it returns                | if it throws                                  |
/// |----------|------------------------------|-----------------------------------------------|
/// | make     | the resource is proven       | there is no resource; counts as a failure     |
/// | check    | the resource is proven       | destroy is called next; counts as a failure   |
/// | reset    | check is called before a use | destroy is called next; counts as a failure   |
/// | destroy  | there is no resource         | there is no resource                          |
class worker_resource {
 public:
  enum class function : std::uint8_t { none, make, check, reset, destroy };

  void* get() const noexcept { return resource_; }
  void set(void* r) noexcept { resource_ = r; }
  void* take() noexcept { return std::exchange(resource_, nullptr); }

  /// The user's function to call before an operation uses the resource.
  function before_use(bool has_check) const noexcept {
    if (resource_ == nullptr) return function::make;
    return has_check && !is_proven_ ? function::check : function::none;
  }
  /// The user's function to call after an operation has used the resource. `error` is the exception of the operation,
  /// or null.
  function after_use(const std::exception_ptr& error, bool is_fatal, bool has_reset) noexcept {
    is_proven_ = false;
    if (!error || (!is_fatal && !has_reset)) return function::none;
    if (!is_fatal) return function::reset;
    failure_ = error;
    return function::destroy;
  }
  /// The user's function to call after the user's function `f` has ended. `error` is the exception of `f`, or null.
  function after(function f, std::exception_ptr error) noexcept {
    is_proven_ = !error && (f == function::make || f == function::check);
    if (!error || f == function::destroy) return function::none;
    failure_ = std::move(error);
    return resource_ != nullptr ? function::destroy : function::none;
  }
  /// Returns the exception that made the worker lose its resource, and forgets it. Null if there was no exception.
  std::exception_ptr take_failure() noexcept { return std::exchange(failure_, nullptr); }

  static constexpr const char* name_of(function f) noexcept {
    return f == function::make    ? "resource_pool_options.make"
           : f == function::check ? "resource_pool_options.check"
           : f == function::reset ? "resource_pool_options.reset"
                                  : "resource_pool_options.destroy";
  }

 private:
  void* resource_ = nullptr;
  std::exception_ptr failure_;
  bool is_proven_ = false;  // whether the resource was made or checked, and was not used since then
};

}  // namespace canigo::detail
