#include "canigo/jobs/error.hpp"
#include "canigo/jobs/sqlite_store.hpp"

#include "../../lib/jobs/sqlite_db.hpp"
#include "../../lib/jobs/sqlite_schema.hpp"
#include "faulty_files.hpp"
#include "sqlite_world.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace canigo;
using namespace canigo::jobs;
using namespace std::chrono_literals;

namespace {

/// What is known of a step after it: it took place, it did not, or one can't know.
enum class known : std::uint8_t { done, not_done, unknown };

/// Steps of every kind, while the k-th step on the disk fails; and what the file has to show afterwards.
class story {
 public:
  /// With a power cut, a claim may be undone. A large job makes SQLite copy its log into the file.
  explicit story(sqlite_world& w, bool has_power_cut = false) : w_{w}, has_power_cut_{has_power_cut} {}

  void happens(sqlite_store& s) {
    if (has_power_cut_) put(s, 1, 5'000'000, "large");
    for (int i = 0; i < 3; ++i) put(s, 1, i == 1 ? 6000 : 10);
    put(s, 4, 10);
    std::optional<std::vector<claimed_job>> claimed;
    const claim_request r{.limit = 3};
    if (known_of(s.claim(r), claimed) != known::done) return;
    runs_ = claimed->size();
    if (runs_ > 0) completed_ = {(*claimed)[0].lease, report(s.complete((*claimed)[0].lease, "result"))};
    if (runs_ > 1) failed_ = {(*claimed)[1].lease, report(s.fail((*claimed)[1].lease, "broken", 1h))};
    if (runs_ > 2) report(s.extend((*claimed)[2].lease, 1h, "half"));
    if (completed_) {
      // The result counts once, whatever became of the first report.
      second_ = report(s.complete(completed_->first, "again"));
    }
    put(s, 2, 3000);
  }

  /// J1, J2, J7: what was acknowledged is there, what was refused is not, and a group is there whole or not at all.
  void is_told_rightly(store& s) {
    std::size_t found = 0;
    for (const auto& [ids, mark, count] : acknowledged_) {
      for (const job_id id : ids) {
        const auto info = w_.wait(s.look(id));
        REQUIRE(info);
        CHECK(info->payload.front() == mark);
      }
    }
    for (const auto& [mark, count, what] : others_) {
      const auto there = number_of(s, mark);
      if (what == known::not_done) CHECK(there == 0);
      if (what == known::unknown) CHECK((there == 0 || there == count));
      found += there;
    }
    for (const auto& a : acknowledged_) found += a.count;
    CHECK(w_.wait(s.list({.limit = 1000})).size() == found);
    if (completed_) {
      const auto info = w_.wait(s.look(completed_->first.id)).value();
      const auto first = completed_->second;
      if (first == known::done) CHECK((info.state == job_state::done && info.result == "result"));
      if (first == known::not_done && second_ == known::done) CHECK(info.result == "again");
      if (first == known::not_done && second_ == known::not_done) CHECK(has_not_ended(info));
    }
    if (failed_ && failed_->second == known::done) {
      const auto info = w_.wait(s.look(failed_->first.id)).value();
      CHECK(info.state == job_state::waiting);
      CHECK(info.history.size() == 1);
    }
    if (failed_ && failed_->second == known::not_done) {
      CHECK(has_not_ended(w_.wait(s.look(failed_->first.id)).value()));
    }
  }

  /// How many jobs are missing that were acknowledged.
  std::size_t missing(store& s) {
    std::size_t n = 0;
    for (const auto& a : acknowledged_) {
      for (const job_id id : a.ids) n += w_.wait(s.look(id)) ? 0 : 1;
    }
    return n;
  }

 private:
  bool has_not_ended(const job_info& j) const {
    return j.state == job_state::running || (has_power_cut_ && j.state == job_state::waiting);
  }
  struct acknowledgement {
    std::vector<job_id> ids;
    char mark;
    std::size_t count;
  };
  struct other {
    char mark;
    std::size_t count;
    known what;
  };

  template <class T>
  known known_of(net::awaitable<T> call, std::optional<T>& answer) {
    try {
      answer = w_.wait(std::move(call));
      return known::done;
    } catch (const std::system_error& e) {
      CHECK(std::string{e.what()}.find(w_.file()) != std::string::npos);
      return e.code() == error::unknown_outcome ? known::unknown : known::not_done;
    }
  }
  template <class T>
  known report(net::awaitable<T> call) {
    std::optional<T> answer;
    const known what = known_of(std::move(call), answer);
    if constexpr (std::is_same_v<T, verdict>) {
      if (what == known::done && *answer == verdict::superseded) return known::not_done;
    }
    return what;
  }
  void put(store& s, std::size_t count, std::size_t size, std::string queue = "default") {
    const char mark = static_cast<char>('a' + puts_++);
    const new_job j{.queue = std::move(queue), .kind = "kind", .payload = std::string(size, mark)};
    const std::vector<new_job> list(count, j);
    std::optional<std::vector<put_answer>> answers;
    const known what = known_of(s.put_all(list), answers);
    if (what != known::done) {
      others_.push_back({mark, count, what});
      return;
    }
    acknowledged_.push_back({{}, mark, count});
    for (const auto& a : *answers) acknowledged_.back().ids.push_back(a.id);
  }
  std::size_t number_of(store& s, char mark) {
    std::size_t n = 0;
    for (const auto& i : w_.wait(s.list({.limit = 1000}))) n += w_.wait(s.look(i.id))->payload.front() == mark;
    return n;
  }

  sqlite_world& w_;
  bool has_power_cut_;
  int puts_ = 0;
  std::size_t runs_ = 0;
  std::vector<acknowledgement> acknowledged_;
  std::vector<other> others_;
  std::optional<std::pair<lease, known>> completed_;
  std::optional<std::pair<lease, known>> failed_;
  known second_ = known::not_done;
};

/// Whether the fault was met: else the story has fewer steps on the disk.
bool survives(faulty_files& files, std::int64_t k, faulty_files::mode mode) {
  CAPTURE(k, static_cast<int>(mode));
  sqlite_world w;
  auto o = w.options();
  o.waits_for_disk = true;
  story tale{w};
  bool was_met = false;
  {
    sqlite_store s{w.io(), w.file(), o};
    files.fail_at(k, mode);
    tale.happens(s);
    was_met = files.was_met();
    if (mode != faulty_files::mode::torn) {
      // J7: it goes on when the fault is gone.
      files.heal();
      tale.is_told_rightly(s);
      CHECK(w.wait(s.put(new_job{.queue = "later", .kind = "kind", .payload = "~"})).is_new);
      w.wait(s.remove(w.wait(s.list({.queue = "later"})).front().id));
    }
  }
  files.heal();
  {
    jobs::detail::sqlite_db db{w.file(), 1s};
    auto& check = db.sql("PRAGMA integrity_check");
    check.start();
    REQUIRE(check.next());
    CHECK(check.text(0) == "ok");
  }
  const auto again = w.open();
  tale.is_told_rightly(*again);
  // J8, J3: what is left can be run.
  w.advance(2h);
  w.wait(again->claim({.limit = 100}));
  return was_met;
}

struct after_cut {
  bool was_cut = false;
  std::size_t missing = 0;  // jobs that were acknowledged
};

/// A story that ends with a loss of power at the k-th sync: what no sync has reached is gone.
after_cut loses_power(faulty_files& files, std::int64_t k, bool drops_syncs) {
  CAPTURE(k);
  sqlite_world w;
  auto o = w.options();
  o.waits_for_disk = true;
  story tale{w, true};
  after_cut found;
  files.drop_syncs(drops_syncs);
  files.fail_at(k, faulty_files::mode::cut);
  {
    sqlite_store s{w.io(), w.file(), o};
    tale.happens(s);
    found.was_cut = files.was_met();
    files.fail_at(0, faulty_files::mode::from_then_on);  // its end writes nothing either
  }
  files.heal();
  files.drop_syncs(false);
  files.lose_unsynced();
  const auto again = w.open();
  found.missing = tale.missing(*again);
  if (!drops_syncs) {
    tale.is_told_rightly(*again);
    jobs::detail::sqlite_db db{w.file(), 1s};
    auto& check = db.sql("PRAGMA integrity_check");
    check.start();
    REQUIRE(check.next());
    CHECK(check.text(0) == "ok");
    check.reset();
    w.advance(2h);
    w.wait(again->claim({.limit = 100}));
  }
  return found;
}

}  // namespace

TEST_CASE("a loss of power at any sync loses nothing that was acknowledged", "[jobs]") {
  faulty_files files;
  std::int64_t k = 1;
  while (loses_power(files, k, false).was_cut) ++k;
  CHECK(k > 10);
  // The control: with syncs that do nothing, jobs are lost.
  CHECK(loses_power(files, k, true).missing > 0);
}

TEST_CASE("a step on the disk that fails loses nothing and halves nothing, whichever it is", "[jobs]") {
  faulty_files files;
  using mode = faulty_files::mode;
  for (const auto m : {mode::once, mode::from_then_on, mode::full, mode::torn}) {
    std::int64_t k = 1;
    while (survives(files, k, m)) ++k;
    CHECK(k > 40);
  }
}

TEST_CASE("a connection tries once for a lock without a busy limit, and with one until the lock is free", "[jobs]") {
  faulty_files files;
  scratch_folder folder;
  jobs::detail::sqlite_db owner{folder.file(), 0s};
  jobs::detail::set_up(owner);
  owner.exec("BEGIN IMMEDIATE");
  int refusals = 0;
  {
    jobs::detail::sqlite_db other{folder.file(), 0s};
    files.at_refusal([&] { ++refusals; });
    try {
      other.exec("BEGIN IMMEDIATE");
      FAIL("the lock is taken");
    } catch (const std::system_error& e) {
      CHECK(e.code() == jobs::error::locked);
    }
    CHECK(refusals == 1);
  }
  jobs::detail::sqlite_db other{folder.file(), 24h};
  files.at_refusal([&] {
    if (++refusals == 10) owner.exec("ROLLBACK");
  });
  other.exec("BEGIN IMMEDIATE");
  CHECK(refusals == 10);
  files.at_refusal(nullptr);
}
