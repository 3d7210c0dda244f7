#include "gateway/upstream/shared_sums.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/command.hpp"

#include "gateway/policy/budget_statement.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include <chrono>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// In this file, no co_await expression contains a temporary with a destructor, because g++ 12 may destroy such a
// temporary twice.
namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;

// Even if nothing has changed, the ledger is asked for a statement (a message to Redis) this often, because its copies
// of the shared sums become old.
constexpr duration longest_idle = 1s;
constexpr duration before_next_try = 100ms;
constexpr duration longest_wait = 2s;

redis::command command_of(const budget_statement& s) {
  const std::vector<std::string> keys = keys_of(s);
  redis::command c{"EVAL", budget_script(), keys.size()};
  for (const std::string& key : keys) c.add(key);
  for (const std::string& argument : arguments_of(s)) c.add(argument);
  c.set_is_restated(true);
  return std::move(c).with_timeout(longest_wait);
}

std::optional<budget_answer> read(const budget_statement& s, const redis::reply& r) {
  std::vector<std::string> texts;
  for (const redis::reply& e : r.elements()) texts.push_back(e.text());
  return read_answer(s, texts);
}

}  // namespace

shared_sums::shared_sums(const net::any_io_executor& executor, redis::client& store,
                         std::shared_ptr<budget_ledger> ledger)
    : executor_{executor}, store_{store}, ledger_{std::move(ledger)}, idle_{executor}, retry_{executor} {}

void shared_sums::start() {
  ledger_->on_news([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->knock();
  });
  net::co_spawn(executor_, [self = shared_from_this()] { return self->run(); }, net::detached);
}

void shared_sums::stop() {
  is_stopped_ = true;
  ledger_->stop();
}

/// Wakes the coroutine run() if it waits on idle_. Called on any thread.
void shared_sums::knock() {
  if (has_news_.exchange(true)) return;
  net::post(executor_, [self = shared_from_this()] { self->idle_.cancel(); });
}

net::awaitable<void> shared_sums::run() {
  while (!is_stopped_) {
    has_news_ = false;
    std::optional<budget_statement> next;
    bool is_answered = true;
    try {
      next = ledger_->next_statement();
      if (next) {
        auto sending = send(*next);
        is_answered = co_await std::move(sending);
      }
    } catch (const std::bad_alloc&) {
      is_answered = false;
    }
    if (next && is_answered) continue;
    // When the ledger has something to send, knock() ends a wait on idle_. After a failure, the coroutine waits on
    // retry_ instead, and knock() does not end that wait.
    net::steady_timer& timer = is_answered ? idle_ : retry_;
    timer.expires_after(is_answered ? longest_idle : before_next_try);
    error_code ignored;
    co_await timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }
}

/// Sends a statement of the ledger (the sums of this instance's calls) to Redis, and passes the answer to the ledger.
/// Returns false if Redis has not answered.
net::awaitable<bool> shared_sums::send(const budget_statement& s) {
  std::optional<budget_answer> answer;
  try {
    redis::command c = command_of(s);
    auto running = store_.run(std::move(c));
    const redis::reply r = co_await std::move(running);
    answer = read(s, r);
  } catch (const system_error& e) {
    if (e.code() == errc::stopped) is_stopped_ = true;
  } catch (const std::bad_alloc&) {  // treated as if Redis had not answered
  }
  if (answer) {
    ledger_->take(s, *answer);
  } else {
    ledger_->fail();
  }
  co_return answer.has_value();
}

}  // namespace canigo::gateway
