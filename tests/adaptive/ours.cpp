#include "ours.hpp"

#include "canigo/algorithms/aimd.hpp"
#include "canigo/algorithms/knee.hpp"

#include <chrono>
#include <utility>

namespace adaptive {

namespace {

template <class Control>
class own final : public algorithm {
 public:
  explicit own(Control c) : control_{std::move(c)} {}
  std::uint64_t limit() const override { return control_.limit(); }
  void record(const call_end& e, canigo::time_point now, std::uint64_t) override { control_.record(e, now); }

 private:
  Control control_;
};

std::unique_ptr<algorithm> make_knee(std::uint64_t seed) {
  // The wall clock is at another moment of its minute with each seed.
  const canigo::duration wall = std::chrono::milliseconds{7919} * static_cast<int>(seed);
  return std::make_unique<own<canigo::knee_control>>(canigo::knee_control{{}, wall, seed});
}

std::unique_ptr<algorithm> make_aimd(std::uint64_t) {
  return std::make_unique<own<canigo::aimd_control>>(
      canigo::aimd_control{{.target = std::chrono::milliseconds{100}}, {}});
}

}  // namespace

const std::vector<contender>& ours() {
  static const std::vector<contender> all{{"knee", &make_knee}, {"aimd, 100 ms", &make_aimd}};
  return all;
}

}  // namespace adaptive
