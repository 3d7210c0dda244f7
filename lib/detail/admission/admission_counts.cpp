#include "canigo/detail/admission/admission_counts.hpp"

namespace canigo::detail {

admission_counts::admission_counts(int priorities) : at_once_(static_cast<std::size_t>(priorities)) {
  counts_.classes.resize(at_once_.size());
}

void admission_counts::add_grant(int priority, duration waited) noexcept {
  auto& c = counts_.classes[static_cast<std::size_t>(priority)];
  ++c.granted;
  c.wait.record(waited);
}

void admission_counts::add_failure(errc why) noexcept {
  switch (why) {
    case errc::timed_out:
      ++counts_.timed_out;
      break;
    case errc::evicted:
      ++counts_.evicted;
      break;
    case errc::stopped:
      ++counts_.stopped;
      break;
    case errc::shed:
      ++counts_.shed;
      break;
    default:
      count_rejection(counts_, why);
      break;
  }
}

void admission_counts::write(queue_stats& s) const noexcept {
  s.cancelled = counts_.cancelled;
  s.timed_out = counts_.timed_out;
  s.evicted = counts_.evicted;
  s.rejected = counts_.rejected;
  s.rejections = counts_.rejections;
  s.stopped = counts_.stopped;
  s.shed = counts_.shed;
  s.granted = 0;
  for (std::size_t i = 0; i < s.classes.size(); ++i) {
    s.classes[i].granted = counts_.classes[i].granted + at_once_[i];
    s.classes[i].wait = counts_.classes[i].wait;
    s.classes[i].wait.record_at_once(at_once_[i]);
    s.granted += s.classes[i].granted;
  }
  s.requested = s.waiting + s.granted + s.cancelled + s.timed_out + s.evicted + s.rejected + s.stopped + s.shed;
}

}  // namespace canigo::detail
