#include "pace.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace fetch {

namespace {

using namespace std::chrono_literals;

// The lowest rate per second. It is above 0, because only a request can show that the server has recovered.
constexpr double least = 0.5;
constexpr double a_bit_less = 0.93;    // the factor by which a refusal lowers a rate that was accepted before
constexpr double acceleration = 0.02;  // after t seconds without a refusal, the rate rises by 2·t percent per second
// If the server named no pause, the rate rises after this time without a refusal.
constexpr auto settles_in = 1500ms;
// If the server named a pause, the rate rises only after this many times the pause without a refusal.
constexpr int pauses_cost_a_tenth = 10;
constexpr double usual_burst = 5;
constexpr double sample_seconds = 1.5;  // longer than one window of a server that counts requests per second
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
    // If the rate last rose more than this many seconds ago, only this many seconds count. A time without requests
    // shows nothing about the server.
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
  // If the server has accepted no request since the rate last changed, and now asks for a pause, the rate is not the
  // reason for the refusal. So the rate does not change.
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

/// Estimates the rate that the server accepts permanently. It uses two runs that ended in a pause.
///
/// If a server accepts n requests in t seconds and then refuses, it has accepted b requests at once and c requests per
/// second: n = b + c·t. Two runs of different lengths determine c. If there is only one run, a usual value of b is
/// assumed. The longer run counts as one request less, so that the estimate is not too high.
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
