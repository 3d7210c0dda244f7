#include "postgres_line.hpp"

#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <poll.h>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace canigo::jobs {
namespace {

using namespace std::chrono_literals;

/// The max number of operations in one transaction.
constexpr std::size_t most_at_once = 500;
/// The max number of attempts of an operation that conflicts with other transactions.
constexpr int most_conflicts = 20;
/// How long one operation of a transaction may wait for a lock. The other operations of the transaction have to wait
/// meanwhile. After this time they continue without that operation, which is tried again later.
constexpr duration lock_wait = 20ms;
constexpr duration lock_pause = 50ms;
/// The connection for long reads is closed if no long read has come for this many periods of length `poll`.
constexpr int idle_polls = 2;
/// The server ends a statement at its time limit, and then sends an error. The store waits this much longer than the
/// time limit for that error.
constexpr duration answer_margin = 5s;
/// The interval at which callers look for changes in the store if notifications of PostgreSQL do not arrive.
constexpr duration lent_poll = 1s;
/// The shortest time between two attempts to connect.
constexpr duration shortest_pause = 50ms;
constexpr duration longest_pause = 1s;

time_point now() noexcept { return std::chrono::steady_clock::now(); }

bool has_come(time_point t) noexcept { return now() >= t; }

}  // namespace

bool postgres_store::order::waits_with(const order& other) const noexcept {
  return detail::share_a_lock(jobs, other.jobs);
}

postgres_store::line::line(const net::any_io_executor& executor, const std::string& url,
                           const postgres_store_options& options, type t)
    : type_{t},
      executor_{executor},
      url_{url},
      place_{url},
      options_{options},
      commit_wait_{std::to_string(std::clamp<std::int64_t>(
          std::chrono::ceil<std::chrono::milliseconds>(options.lock_limit).count(), 1, INT32_MAX))},
      news_{std::make_shared<detail::changes>(executor)},
      knocker_{place_.name()},
      marks_{(std::uint64_t{std::random_device{}()} << 32) | std::random_device{}()} {
  thread_ = std::thread{[this] { run(); }};
}

postgres_store::line::~line() {
  stop();
  is_ending_ = true;
  knocker_.knock();
  thread_.join();
}

postgres_store::line& postgres_store::line::reads() {
  const std::lock_guard lock{mutex_};
  if (is_stopped_) throw std::system_error{make_error_code(errc::stopped)};
  if (reads_ == nullptr) reads_ = std::make_unique<line>(executor_, url_, options_, type::reads);
  return *reads_;
}

void postgres_store::line::push(std::shared_ptr<order> o) {
  if (o->reads_much && type_ == type::main) return reads().push(std::move(o));
  o->asked_at = now();
  o->lock_end = saturating_add(o->asked_at, options_.lock_limit);
  {
    const std::lock_guard lock{mutex_};
    if (is_stopped_) throw std::system_error{make_error_code(errc::stopped)};
    box_.push_back(std::move(o));
  }
  knocker_.knock();
}

void postgres_store::line::stop() noexcept {
  {
    const std::lock_guard lock{mutex_};
    is_stopped_ = true;
  }
  news_->stop();
}

std::int64_t postgres_store::line::mark() {
  const std::lock_guard lock{mutex_};
  marks_ += 0x9E3779B97F4A7C15;
  return static_cast<std::int64_t>(marks_ >> 1);
}

/// Waits until a caller adds an operation, the server sends something, or `most` has passed.
void postgres_store::line::wait(duration most) noexcept {
  pollfd fds[2] = {{.fd = knocker_.descriptor(), .events = POLLIN, .revents = 0},
                   {.fd = link_ ? link_->descriptor() : -1, .events = POLLIN, .revents = 0}};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(most).count();
  ::poll(fds, 2, static_cast<int>(std::clamp<std::int64_t>(ms, 0, 1'000'000)));
  knocker_.answer();
}

std::size_t postgres_store::line::waiting() const noexcept {
  const std::lock_guard lock{mutex_};
  return box_.size();
}

void postgres_store::line::run() noexcept {
  for (;;) {
    hear();
    const std::size_t there = gathering_.wait([this] { return waiting(); });
    orders list;
    bool is_over = false;
    {
      const std::lock_guard lock{mutex_};
      is_over = box_.empty() && held_.empty() && is_ending_;
      const auto count = static_cast<std::ptrdiff_t>(std::min(there, most_at_once));
      list.assign(std::make_move_iterator(box_.begin()), std::make_move_iterator(box_.begin() + count));
      box_.erase(box_.begin(), box_.begin() + count);
    }
    if (is_over) break;
    hold_back(list);
    const bool retries = !held_.empty() && (has_come(retry_at_) || is_ending_);
    if (retries) retry_held();
    if (!list.empty()) {
      carry_out(std::move(list));
    } else if (!retries) {
      try {
        look_around();
      } catch (...) {
        // No caller waits for look_around(), so its error is dropped. If the next operation fails, too, its caller gets
        // the error of that operation.
        lose_link();
      }
      wait((held_.empty() ? look_at_ : std::min(look_at_, retry_at_)) - now());
    }
  }
}

/// Reads unrequested messages of the server: a notification, or the end of the connection.
void postgres_store::line::hear() noexcept {
  if (link_ == nullptr) return;
  try {
    link_->look();
  } catch (...) {
    return lose_link();
  }
  if (link_->take_news()) news_->bump();
  note_hearing();
}

/// Stores in `is_lent_` whether a proxy keeps notifications from arriving. Does nothing while that is unknown.
void postgres_store::line::note_hearing() noexcept {
  const auto hearing = link_->hearing();
  if (hearing == detail::postgres_hearing::state::unknown) return;
  const std::lock_guard lock{mutex_};
  is_lent_ = hearing == detail::postgres_hearing::state::lent;
}

store_facts postgres_store::line::facts() const {
  const std::lock_guard lock{mutex_};
  store_facts f{.engine = engine_};
  if (engine_.empty() && reads_ != nullptr) f.engine = reads_->facts().engine;
  if (is_lent_) {
    f.trouble = make_error_code(error::not_notified);
    f.trouble_text = where() +
                     ": a proxy lends connections by transaction, so jobs are looked for every second; connect to the "
                     "server itself, or by session";
  }
  return f;
}

/// Returns the interval at which callers check the store even without a notification.
duration postgres_store::line::poll() const noexcept {
  const bool works = link_ == nullptr || link_->hearing() == detail::postgres_hearing::state::works;
  return works ? options_.poll : std::min(options_.poll, lent_poll);
}

/// Called when the thread has no operation to carry out. Connects again if the connection was lost, or closes an unused
/// connection for long reads. At intervals of poll(), makes callers check the store.
void postgres_store::line::look_around() {
  if (type_ == type::reads && has_come(look_at_)) {
    link_.reset();
    look_at_ = time_point::max();
  }
  if (link_ == nullptr) {
    if (!has_come(look_at_)) return;
    connect(std::max<duration>(options_.reconnect_limit, 1s));
  }
  if (!has_come(look_at_)) return;
  look_at_ = saturating_add(now(), poll());
  news_->bump();
}

void postgres_store::line::connect(duration most) {
  try {
    link_ = dial(most);
  } catch (const detail::postgres_error& e) {
    if (!has_names_ || !e.is_about_names()) throw;
    has_names_ = false;
    link_ = dial(most);
  }
  look_at_ = saturating_add(now(), poll());
  {
    const std::lock_guard lock{mutex_};
    engine_ = link_->engine();
  }
  news_->bump();  // makes callers check the store, because no notification came while there was no connection
}

std::unique_ptr<detail::postgres_link> postgres_store::line::dial(duration most) {
  const bool reads = type_ == type::reads;
  const duration statement = reads ? options_.answer_limit : duration::max();
  // The server must end the statement before the client gives up. Otherwise the server would continue with a statement
  // that no caller waits for.
  const duration answer = std::min(options_.answer_limit, duration::max() - answer_margin) + answer_margin;
  return std::make_unique<detail::postgres_link>(
      place_, detail::postgres_link::limits{.connect = most,
                                            .answer = reads ? answer : options_.answer_limit,
                                            .statement = statement,
                                            .lock = options_.lock_limit,
                                            .step_lock = std::min<duration>(options_.lock_limit, lock_wait),
                                            .listens = !reads,
                                            .has_names = has_names_,
                                            .gives_up = [this] { return is_ending_.load(); }});
}

void postgres_store::line::open(time_point give_up) {
  while (link_ == nullptr) {
    try {
      return connect(std::max<duration>(give_up - now(), 100ms));
    } catch (const detail::postgres_error& e) {
      if (e.is_for_good() || is_ending_ || has_come(give_up)) throw;
    } catch (const detail::postgres_lost& e) {
      if (is_ending_ || has_come(give_up)) throw;
    }
    std::this_thread::sleep_for(std::min(pause(), std::max(give_up - now(), duration::zero())));
  }
}

void postgres_store::line::carry_out(orders list) {
  const orders all = list;
  gathering_.note(all.size(), [&] {
    while (!try_once(list)) {
    }
  });
  if (type_ == type::reads)
    look_at_ = saturating_add(now(), std::min(options_.poll, duration::max() / idle_polls) * idle_polls);
  bool has_news = false;
  for (const auto& o : all) has_news = has_news || (o->tells && !o->error && !o->is_held);
  if (has_news) news_->bump();  // called before the callers resume, so that they find the new number of changes
  for (const auto& o : all) {
    if (!o->is_held) o->done.done();
  }
}

/// Holds back an operation that would wait for a lock: it is tried again later, and other operations continue. `e`: the
/// error about the lock. Returns false if the operation must end now.
bool postgres_store::line::has_held(const std::shared_ptr<order>& o, const std::exception_ptr& e) {
  if (has_come(o->lock_end) || is_ending_) return false;
  o->error = e;  // the caller gets this error if the operation's time limit passes
  o->is_held = true;
  held_.push_back(o);
  return true;
}

/// Holds back each operation in the list that needs the same lock as an operation held back earlier, and removes it
/// from the list. Such an operation would have to wait for that lock. An operation stays in the list if its time limit
/// for locks has passed, or if the store is being destroyed.
void postgres_store::line::hold_back(orders& list) {
  std::erase_if(list, [this](const auto& o) {
    const auto before = std::ranges::find_if(held_, [&](const auto& h) { return h->waits_with(*o); });
    if (before == held_.end()) return false;
    const auto error = (*before)->error;
    return has_held(o, error);
  });
}

/// Tries again the first operation that is held back because of a lock. Then ends each operation that is still held
/// back and whose time limit for locks has passed.
void postgres_store::line::retry_held() {
  const auto first = held_.front();
  held_.erase(held_.begin());
  first->is_held = false;
  first->error = nullptr;
  carry_out({first});
  std::erase_if(held_, [](const auto& o) {
    if (!has_come(o->lock_end)) return false;
    o->done.done();
    return true;
  });
}

/// Splits the operations of a transaction that failed because of one operation. Returns the parts, which are tried
/// separately. If the cause was a lock, operations that seldom wait for a lock are tried first, because leases must be
/// renewed in time.
std::vector<postgres_store::line::orders> postgres_store::line::parts_of(const orders& list, bool was_locked) {
  std::vector<orders> parts(3);
  for (const auto& o : list) {
    const bool has_key = std::ranges::any_of(o->jobs, [](const new_job& j) { return !j.unique_key.empty(); });
    parts[o->jobs.empty() ? 0 : has_key ? 2 : 1].push_back(o);
  }
  std::erase_if(parts, [](const auto& part) { return part.empty(); });
  if (was_locked && parts.size() > 1) return parts;
  parts.clear();
  for (const auto& o : list) parts.push_back({o});
  return parts;
}

void postgres_store::line::lose_link() noexcept {
  if (link_ != nullptr) lost_at_ = now();
  link_.reset();
  look_at_ = saturating_add(now(), pause());
}

/// Returns the pause before the next attempt to connect. It grows with the time since the connection was lost.
duration postgres_store::line::pause() const noexcept {
  return std::clamp<duration>(now() - lost_at_, shortest_pause, longest_pause);
}

/// Returns the time at which an operation fails if there is no connection to the server. The time limit counts from the
/// call, or from the loss of the connection if that is later.
time_point postgres_store::line::give_up_at(const order& o) const noexcept {
  return saturating_add(std::max(o.asked_at, lost_at_), options_.reconnect_limit);
}

/// Tries to carry out the operations in the list. Returns false if some operations must be tried again; then the list
/// has only these operations.
bool postgres_store::line::try_once(orders& list) {
  const auto all_fail = [&](const std::exception_ptr& e) {
    for (const auto& o : list) o->error = e;
    return true;
  };
  const auto overdue_fail = [&](const std::exception_ptr& e) {
    std::erase_if(list, [&](const auto& o) {
      if (!is_ending_ && !has_come(give_up_at(*o))) return false;
      o->error = e;
      return true;
    });
    return list.empty();
  };
  if (list.empty()) return true;
  for (int conflicts = 0;;) {
    try {
      open(give_up_at(**std::ranges::min_element(list, {}, [this](const auto& o) { return give_up_at(*o); })));
      perform(list);
      return true;
    } catch (const detail::postgres_lost& e) {
      lose_link();
      orders again;
      for (auto& o : list) {
        if (e.is_unknown && o->is_durable) {
          o->error = std::current_exception();
        } else {
          if (e.is_unknown) o->queries.insert(o->queries.begin(), o->undo.begin(), o->undo.end());
          if (e.is_unknown) o->undo.clear();
          again.push_back(std::move(o));
        }
      }
      list = std::move(again);
      return overdue_fail(std::current_exception());
    } catch (const detail::postgres_error& e) {
      const bool was_open = link_ != nullptr;
      if (was_open && has_names_ && e.is_about_names()) {
        has_names_ = false;
        lose_link();
        continue;
      }
      if (e.ends_connection()) lose_link();
      // One operation has made the whole transaction fail. The operations are tried again in smaller parts, so that the
      // other operations succeed.
      const bool is_locked = e.state() == "55P03";
      if (was_open && list.size() > 1) {
        for (orders& part : parts_of(list, is_locked)) {
          if (is_locked) hold_back(part);
          while (!try_once(part)) {
          }
        }
        return true;
      }
      if (was_open && is_locked && has_held(list.front(), std::current_exception())) {
        retry_at_ = saturating_add(now(), lock_pause);
        return true;
      }
      if (was_open && e.is_conflict() && ++conflicts < most_conflicts) {
        std::this_thread::sleep_for(std::chrono::milliseconds{conflicts});
        continue;
      }
      const bool may_come_back = (!was_open || e.ends_connection()) && !e.is_for_good();
      return may_come_back ? overdue_fail(std::current_exception()) : all_fail(std::current_exception());
    } catch (...) {
      return all_fail(std::current_exception());
    }
  }
}

}  // namespace canigo::jobs
