#include "pace.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace fetch {

namespace {

using namespace std::chrono_literals;

constexpr double least = 0.5;            // per second; only a request can find out that the server has recovered
constexpr double a_bit_less = 0.93;      // where the rate had been right until it rose
constexpr double acceleration = 0.02;    // after t seconds it rises by 2·t percent a second
constexpr auto settles_in = 1500ms;      // without a pause, the time after which it rises
constexpr int pauses_cost_a_tenth = 10;  // so many times the pause goes by before the next one is risked
constexpr double usual_burst = 5;
constexpr double sample_seconds = 1.5;  // longer than one window of those that count by the second
constexpr double sample_requests = 10;
constexpr double longest_sample = 10;

double seconds(canigo::duration d) { return std::chrono::duration<double>(d).count(); }

canigo::duration from_seconds(double s) {
  return std::chrono::ceil<canigo::duration>(std::chrono::duration<double>{s});
}

}  // namespace

canigo::duration pace::gap() const noexcept { return is_slowed() ? from_seconds(1 / rate_) : canigo::duration::zero(); }

void pace::taken(canigo::time_point sent, canigo::time_point now) noexcept {
  if (sent < since_) return;
  first_sent_ = std::min(first_sent_, sent);
  ++taken_;
  if (samples_) return judge_sample(now);
  if (is_slowed()) rise(now);
}

void pace::rise(canigo::time_point now) noexcept {
  if (now >= rises_from_) {
    // A time without requests tells nothing about the server.
    const double longest_step = std::max(1.0, 2 / rate_);
    const double step = std::min(seconds(now - std::max(rose_, rises_from_)), longest_step);
    rising_ += step;
    rate_ = std::min(most_, rate_ * (1 + acceleration * rising_ * step));
  }
  rose_ = now;
}

void pace::refused(canigo::time_point sent, canigo::time_point now, canigo::duration pause) noexcept {
  if (sent < since_) {
    if (pause > 0ns) since_ = std::max(since_, canigo::saturating_add(now, pause));
    return;
  }
  first_sent_ = std::min(first_sent_, sent);
  // A server that takes nothing is closed, at whatever rate it is asked.
  if (pause > 0ns && taken_ == 0) {
    since_ = canigo::saturating_add(now, pause);
    first_sent_ = canigo::time_point::max();
    return;
  }
  const double ran_for = seconds(sent - first_sent_);
  if (!samples_ && (rising_ > 0 || (is_slowed() && ran_for >= 1))) {
    set(rate_ * a_bit_less, now, pause);
  } else if (pause > 0ns) {
    const double lowest = is_slowed() ? rate_ / 2 : rate_ / 4;
    set(std::clamp(guess(ran_for), lowest, rate_ * 0.95), now, pause);
  } else if (samples_) {
    judge_sample(now);
  } else {
    samples_ = true;
    sample_began_ = now;
    taken_ = 0;
  }
}

/// The rate that the server accepts for long, guessed from two runs that ended in a pause.
///
/// One that takes n requests in t seconds and then refuses took b at once and c a second: n = b + c·t. Two runs of
/// different length tell c; with the shorter one left out, a usual b does. The longer run counts as one request less,
/// to be on the safe side.
double pace::guess(double ran_for) noexcept {
  const double taken = static_cast<double>(taken_);
  const double before = is_slowed() ? before_taken_ + 1 : usual_burst;
  const double longer = is_slowed() ? ran_for - before_seconds_ : ran_for;
  before_taken_ = taken;
  before_seconds_ = ran_for;
  return longer > 0 ? (taken - before) / longer : 0;
}

void pace::judge_sample(canigo::time_point now) noexcept {
  const double took = seconds(now - sample_began_);
  if (took < std::clamp(sample_requests / rate_, sample_seconds, longest_sample)) return;
  set(std::clamp(static_cast<double>(taken_) / took, rate_ / 4, rate_ * 0.95), now, 0ns);
}

void pace::set(double rate, canigo::time_point now, canigo::duration pause) noexcept {
  rate_ = std::max(rate, std::min(least, most_));
  since_ = canigo::saturating_add(now, pause);
  first_sent_ = canigo::time_point::max();
  rises_from_ = canigo::saturating_add(since_, std::max<canigo::duration>(settles_in, pause * pauses_cost_a_tenth));
  rose_ = rises_from_;
  rising_ = 0;
  taken_ = 0;
  samples_ = false;
}

}  // namespace fetch
