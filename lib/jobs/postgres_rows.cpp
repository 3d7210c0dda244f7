#include "postgres_rows.hpp"

#include "history.hpp"
#include "number_text.hpp"
#include "table.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

namespace canigo::jobs::detail {
namespace {

/// The time between the epochs of std::chrono (1970) and PostgreSQL (2000).
constexpr std::chrono::microseconds epoch = std::chrono::seconds{946'684'800};

constexpr int last_state = static_cast<int>(job_state::cancelled);

std::int64_t number_of(std::string_view bytes) noexcept {
  // The first bit of the bytes is the sign. If there are fewer than 8 bytes, the missing bits are copies of the sign.
  std::uint64_t n = !bytes.empty() && (bytes[0] & 0x80) != 0 ? ~std::uint64_t{0} : 0;
  for (const char c : bytes) n = n << 8 | static_cast<unsigned char>(c);
  return static_cast<std::int64_t>(n);
}

/// Returns the elements of a one-dimensional bytea[] in PostgreSQL's binary format. It begins with 20 bytes: a header,
/// the size and the first index. Then each element follows: its length in 4 bytes, and its bytes.
std::vector<std::string_view> elements_of(std::string_view array) {
  std::vector<std::string_view> list;
  if (array.size() < 20) return list;
  array.remove_prefix(20);
  while (array.size() >= 4) {
    const std::int64_t size = number_of(array.substr(0, 4));
    array.remove_prefix(4);
    if (size < 0) continue;
    list.push_back(array.substr(0, static_cast<std::size_t>(size)));
    array.remove_prefix(list.back().size());
  }
  return list;
}

}  // namespace

std::int64_t postgres_rows::changed() const {
  std::string_view text = ::PQcmdTuples(result_.get());
  std::int64_t n = 0;
  take_number(text, n);
  return n;
}

std::string_view postgres_rows::view(int row, int column) const noexcept {
  return {::PQgetvalue(result_.get(), row, column),
          static_cast<std::size_t>(::PQgetlength(result_.get(), row, column))};
}

std::int64_t postgres_rows::number(int row, int column) const noexcept { return number_of(view(row, column)); }

std::int64_t postgres_rows::number(int row, int column, std::int64_t least, std::int64_t most) const {
  return checked(number(row, column), least, most, "job " + std::to_string(number(row, 0)),
                 ::PQfname(result_.get(), column));
}

instant postgres_rows::time(int row, int column) const noexcept {
  const std::chrono::microseconds since{number(row, column)};
  // A timestamp beyond the range of an instant, such as infinity, becomes instant::max().
  return since > instant::max().time_since_epoch() - epoch ? instant::max() : instant{since + epoch};
}

std::optional<instant> postgres_rows::time_if(int row, int column) const noexcept {
  return is_null(row, column) ? std::nullopt : std::optional{time(row, column)};
}

put_answer read_put(const postgres_rows& rows) { return {.id = rows.number(0, 0), .is_new = rows.number(0, 1) != 0}; }

std::vector<put_answer> read_put_many(const postgres_rows& rows) {
  std::vector<put_answer> list(static_cast<std::size_t>(rows.size()));
  for (int i = 0; i < rows.size(); ++i) {
    list.at(static_cast<std::size_t>(rows.number(i, 1) - 1)) = {.id = rows.number(i, 0), .is_new = true};
  }
  return list;
}

std::vector<claimed_job> read_claimed(const postgres_rows& rows) {
  std::vector<claimed_job> list;
  for (int i = 0; i < rows.size(); ++i) {
    const auto deadline = rows.time_if(i, 11);
    list.push_back({.lease = {rows.number(i, 0), static_cast<std::uint64_t>(rows.number(i, 1))},
                    .queue = rows.text(i, 2),
                    .kind = rows.text(i, 3),
                    .payload = rows.text(i, 4),
                    .priority = static_cast<int>(rows.number(i, 5)),
                    .attempt = rows.count(i, 6),
                    .max_attempts = rows.count(i, 7),
                    .crashes = rows.count(i, 8),
                    .snoozes = rows.count(i, 9),
                    .run_at = rows.time(i, 10),
                    .expires_in = deadline ? until(rows.time(i, 12), *deadline) : duration::max()});
  }
  // The rows are sorted here, because the clause RETURNING of SQL guarantees no order.
  std::ranges::sort(list, {}, [](const claimed_job& j) { return std::tuple{j.priority, j.run_at, j.lease.id}; });
  return list;
}

job_info read_job(const postgres_rows& rows, int row) {
  job_info info{.id = rows.number(row, 0),
                .token = static_cast<std::uint64_t>(rows.number(row, 1, 0, INT64_MAX)),
                .queue = rows.text(row, 2),
                .kind = rows.text(row, 3),
                .payload = {},
                .priority = static_cast<int>(rows.number(row, 4, 0, most_priorities - 1)),
                .state = static_cast<job_state>(rows.number(row, 5, 0, last_state)),
                .attempt = rows.count(row, 6),
                .max_attempts = rows.count(row, 7),
                .crashes = rows.count(row, 8),
                .snoozes = rows.count(row, 9),
                .created_at = rows.time(row, 10),
                .run_at = rows.time(row, 11),
                .lease_until = rows.time_if(row, 12),
                .deadline = rows.time_if(row, 13),
                .cancel_at = rows.time_if(row, 14),
                .finished_at = rows.time_if(row, 15),
                .unique_key = rows.text(row, 16),
                .batch = rows.text(row, 17),
                .after_batch = rows.text(row, 18)};
  if (::PQnfields(rows.get()) > 19) {
    info.payload = rows.text(row, 19);
    info.result = rows.text(row, 20);
    std::string history;
    for (const auto line : elements_of(rows.view(row, 21))) history.append(line) += '\n';
    info.history = decode_history(history);
  }
  return info;
}

std::vector<queue_count> read_counts(const postgres_rows& rows) {
  std::vector<queue_count> list;
  for (int i = 0; i < rows.size(); ++i) {
    queue_count& c = list.emplace_back();
    c.queue = rows.text(i, 0);
    c.is_paused = rows.number(i, 1) != 0;
    if (!rows.is_null(i, 2)) checked(rows.number(i, 2), 0, last_state, "a job of queue " + c.queue, "state");
    for (int state = 0; state <= last_state; ++state) {
      c.by_state[state] = static_cast<std::size_t>(rows.number(i, 3 + state));
      c.has_more[state] = rows.number(i, 8 + state) != 0;
    }
    if (const auto first = rows.time_if(i, 13)) c.oldest = std::max(until(*first, rows.time(i, 14)), duration::zero());
  }
  std::ranges::sort(list, {}, &queue_count::queue);
  return list;
}

}  // namespace canigo::jobs::detail
