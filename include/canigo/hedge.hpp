#pragma once

#include "canigo/detail/coro/child.hpp"
#include "canigo/detail/coro/hedge_race.hpp"
#include "canigo/detail/coro/named_first.hpp"
#include "canigo/detail/coro/repeatable.hpp"
#include "canigo/hedge_options.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/error.hpp>
#include <asio/this_coro.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace canigo {

namespace detail {

template <repeatable Make>
auto run_hedge(Make make, hedge_options options) -> net::awaitable<result_of_repeatable<Make>> {
  using race_type = hedge_race_of<Make>;
  check(options);
  const net::any_io_executor executor = co_await net::this_coro::executor;
  const auto c = std::make_shared<child>(executor);
  const auto race = std::make_shared<race_type>(c->executor(), std::move(make), options);
  co_await run_child(c, hedge_race::run(race), net::error::operation_aborted);
  co_return race->take();
}

}  // namespace detail

/// Calls `make` and awaits the operation that it returns. If that operation is slow, starts a second copy of it; the
/// first result wins.
///
///     canigo::retry_budget budget{canigo::hedge_budget};  // of the service, shared by all callers
///     auto page = co_await canigo::hedge([&] { return get(url); }, {.after = 50ms, .budget = &budget});
///
/// **Only for idempotent work:** the same operation may run several times, at the same time, to its end.
///
/// Each copy starts `after` the previous one, if the budget allows it; at most `copies` of them start. The budget keeps
/// the copies from overloading a service that is slow because it is overloaded. Each hedge() pays into the budget; see
/// hedge_budget.
///
/// Once one copy has a result, hedge() cancels the other copies (terminal), waits for them and returns. With a
/// task_group, hedge() hands the other copies over to the group instead, and returns immediately. The results and
/// failures of these copies are dropped.
/// A failure starts no further copy, because that is the job of retry(). If a copy fails while other copies run,
/// hedge() waits for the other copies. If all copies fail, hedge() throws the last failure.
///
/// All copies run on one strand, as in with_timeout: no two of them run at the same moment. `make` is called on that
/// strand, too. `make` may take the number of the copy as an argument, counted from 1. hedge() keeps its own copy of
/// `make` until the last operation has ended.
/// Errors: all errors of `make` and of its operation; errc::invalid_argument for options with a field out of range.
/// Cancellation: any type of cancellation cancels all copies (terminal), and waits for them. If there is a result
/// nevertheless, hedge() returns it.
/// Completes on the awaiting coroutine's executor. Allocates: the strand, and what co_spawn allocates for each copy.
/// Lifetime: everything that `make` and the options refer to must live until hedge() ends; with a group, until the
/// group has ended. Until its awaitable is started, hedge() calls nothing and pays nothing into the budget.
template <class Make>
  requires detail::repeatable<std::decay_t<Make>>
[[nodiscard("co_await it")]] auto hedge(Make&& make, hedge_options options)
    -> detail::named_first<Make, detail::result_of_repeatable<std::decay_t<Make>>> {
  using own = std::decay_t<Make>;
  return detail::named_first<Make, detail::result_of_repeatable<own>>{
      detail::run_hedge<own>(std::forward<Make>(make), options)};
}
/// Rejects, at compile time, a `make` that does not return an awaitable. The compiler's message says what to pass
/// instead.
template <class Make>
  requires(!detail::repeatable<std::decay_t<Make>>)
net::awaitable<void> hedge(Make&&, hedge_options) {
  detail::refuse_to_repeat<std::decay_t<Make>>();
  return {};
}

}  // namespace canigo
