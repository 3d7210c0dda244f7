#include "../../lib/jobs/time_zone.hpp"

#include "canigo/error.hpp"

#include "scratch_folder.hpp"
#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

using canigo::jobs::detail::time_zone;
using canigo::jobs::detail::zone_time;
using namespace std::chrono_literals;

namespace {

const std::string zone_folder = "/usr/share/zoneinfo";

std::string text_of_file(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

std::string file_of(const std::string& zone) { return text_of_file(zone_folder + "/" + zone); }

/// The zones that differ since 1970.
std::vector<std::string> all_zones() {
  std::ifstream in{zone_folder + "/zone1970.tab"};
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields{line};
    std::string country, place, name;
    if (!line.starts_with('#') && fields >> country >> place >> name) names.push_back(name);
  }
  return names;
}

struct step {
  std::chrono::sys_seconds at;
  std::chrono::seconds offset;
};

/// What the C library's zdump says of the changes of a zone: the second before each, and the first one after it.
///
/// With -v, glibc 2.43 also prints the first and the last second that it knows, in years of ten digits.
std::vector<step> steps_of(const std::vector<std::string>& zones, const std::string& years,
                           std::vector<std::string>& names) {
  std::string command = "zdump -V -c " + years;
  for (const auto& z : zones) command += " " + z;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe{::popen(command.c_str(), "r"), ::pclose};
  std::vector<step> list;
  char line[512];
  while (std::fgets(line, sizeof line, pipe.get()) != nullptr) {
    // Europe/Berlin  Sun Mar 29 00:59:59 2026 UT = Sun Mar 29 01:59:59 2026 CET isdst=0 gmtoff=3600
    std::istringstream words{line};
    std::string name, weekday, month, time, ut, word;
    int day = 0, y = 0;
    words >> name >> weekday >> month >> day >> time >> y >> ut;
    const std::string rest{std::istreambuf_iterator<char>{words}, {}};
    const auto offset = rest.find("gmtoff=");
    const auto number = std::string{"JanFebMarAprMayJunJulAugSepOctNovDec"}.find(month);
    int h = 0, m = 0, s = 0;
    if (ut != "UT" || offset == rest.npos || std::sscanf(time.c_str(), "%d:%d:%d", &h, &m, &s) != 3) continue;
    const auto date = std::chrono::year{y} / static_cast<int>(number / 3 + 1) / day;
    list.push_back(
        {std::chrono::sys_days{date} + std::chrono::hours{h} + std::chrono::minutes{m} + std::chrono::seconds{s},
         std::chrono::seconds{std::stol(rest.substr(offset + 7))}});
    names.push_back(name);
  }
  return list;
}

/// All time zones as files of both kinds, made by the C library's zic.
class zone_folders {
 public:
  zone_folders() {
    for (const char* kind : {"slim", "fat"}) {
      // Debian has the program where only root looks for one.
      const std::string command = "PATH=$PATH:/usr/sbin zic -b " + std::string{kind} + " -d " + folder_.file(kind) +
                                  " " + zone_folder + "/tzdata.zi";
      REQUIRE(std::system(command.c_str()) == 0);
    }
  }
  std::string slim(const std::string& zone) const { return text_of_file(folder_.file("slim/" + zone)); }
  std::string fat(const std::string& zone) const { return text_of_file(folder_.file("fat/" + zone)); }

 private:
  scratch_folder folder_;
};

}  // namespace

TEST_CASE("every time zone is as the C library has it", "[jobs]") {
  const auto zones = all_zones();
  REQUIRE(zones.size() > 100);
  std::vector<std::string> names;
  auto steps = steps_of(zones, "2020,2042", names);
  REQUIRE(steps.size() > 5'000);
  for (const auto& s : steps_of({"Europe/Dublin", "Africa/Casablanca", "Asia/Tokyo"}, "1900,2150", names)) {
    steps.push_back(s);
  }
  std::string name;
  time_zone zone = time_zone::of("Etc/UTC");
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (names[i] != name) zone = time_zone::of(name = names[i]);
    const auto p = zone.at(steps[i].at);
    if (p.offset == steps[i].offset && p.begin <= steps[i].at && p.end > steps[i].at) continue;
    if (++wrong > 5) continue;
    CAPTURE(name, steps[i].at.time_since_epoch().count(), p.offset.count());
    CHECK(p.offset == steps[i].offset);
  }
  CHECK(wrong == 0);
}

// A slim file leaves its yearly rule to say what a fat one spells out. The rule is for what follows the last change of
// the file, also where that is one of the name only, as in Lisbon in 1996.
TEST_CASE("every time zone is the same in a slim file as in a fat one", "[jobs]") {
  const zone_folders made;
  const auto zones = all_zones();
  std::size_t wrong = 0;
  for (const auto& name : zones) {
    const auto slim = time_zone::read(made.slim(name));
    const auto fat = time_zone::read(made.fat(name));
    REQUIRE(slim);
    REQUIRE(fat);
    const zone_time end{std::chrono::sys_days{std::chrono::year{2045} / 1 / 1}};
    for (auto t = zone_time::min(); t < end;) {
      const auto p = fat->at(t);
      const auto q = slim->at(t);
      const bool is_same =
          q.begin == p.begin && q.end == p.end && q.offset == p.offset && q.offset_before == p.offset_before;
      if (!is_same && ++wrong <= 5) {
        CAPTURE(name, p.begin.time_since_epoch().count(), p.offset.count(), q.offset.count());
        CHECK(is_same);
      }
      t = p.end;
    }
  }
  CHECK(wrong == 0);
  const auto lisbon = time_zone::read(made.slim("Europe/Lisbon"));
  REQUIRE(lisbon);
  CHECK(lisbon->at(zone_time{std::chrono::sys_days{std::chrono::year{1996} / 1 / 1}}).offset == 1h);
}

TEST_CASE("a span of a time zone has the offset before it", "[jobs]") {
  const auto berlin = time_zone::of("Europe/Berlin");
  const auto at = [](int y, unsigned m, unsigned d) {
    return zone_time{std::chrono::sys_days{std::chrono::year{y} / std::chrono::month{m} / std::chrono::day{d}}};
  };
  for (const int y : {1996, 2026, 2037, 2038, 2039, 5000}) {
    CAPTURE(y);
    const auto summer = berlin.at(at(y, 7, 1));
    CHECK(summer.offset == 2h);
    CHECK(summer.offset_before == 1h);
    CHECK(berlin.at(summer.begin).begin == summer.begin);
    const auto winter = berlin.at(summer.end);
    CHECK(winter.begin == summer.end);
    CHECK(winter.offset == 1h);
    CHECK(winter.offset_before == 2h);
    CHECK(berlin.at(summer.begin - 1s).end == summer.begin);
  }
  const auto tokyo = time_zone::of("Asia/Tokyo").at(at(2026, 1, 1));
  CHECK(tokyo.offset == 9h);
  CHECK(tokyo.end == zone_time::max());
  const auto utc = time_zone::of("Etc/UTC").at(at(2026, 1, 1));
  CHECK((utc.offset == 0h && utc.begin == zone_time::min() && utc.end == zone_time::max()));
}

TEST_CASE("where it is summer all year, it is never winter in between", "[jobs]") {
  const auto number = [](std::uint32_t n) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(n >> shift);
    return bytes;
  };
  std::string block = "TZif2" + std::string(15, '\0');
  for (const std::uint32_t n : {0U, 0U, 0U, 0U, 1U, 4U}) block += number(n);
  block += number(static_cast<std::uint32_t>(-4 * 3600)) + '\1' + '\0' + "EDT" + '\0';
  const auto zone = time_zone::read(block + block + "\nEST5EDT,0/0,J365/25\n");
  REQUIRE(zone);
  for (const int y : {1999, 2026, 2028, 9000}) {
    const zone_time begin{std::chrono::sys_days{std::chrono::year{y} / 1 / 1}};
    for (auto t = begin - 12h; t < begin + 12h; t += 30min) CHECK(zone->at(t).offset == -4h);
    CHECK(zone->at(begin + 24h * 180).offset == -4h);
  }
}

TEST_CASE("a zone that is not there is named", "[jobs]") {
  CHECK(refusal_of([] { time_zone::of("Mars/Base"); }) ==
        "schedule.cron: zone is Mars/Base; allowed: a name such as Europe/Berlin that /usr/share/zoneinfo has; the "
        "package tzdata fills it: invalid argument");
  for (const std::string name :
       {"", "/etc/passwd", "../zoneinfo/Europe/Berlin", "Europe", "Europe/", "tzdata.zi", "Europe/ Berlin"}) {
    CAPTURE(name);
    CHECK_FALSE(refusal_of([&] { time_zone::of(name); }).empty());
  }
  CHECK(refusal_of([] { time_zone::of(std::string(10'000, 'x')); }).size() < 300);
}

TEST_CASE("a file that is cut off or damaged is no time zone, or one", "[jobs]") {
  for (const char* name : {"Europe/Berlin", "Africa/Casablanca", "Asia/Tokyo"}) {
    const std::string good = file_of(name);
    REQUIRE(time_zone::read(good));
    for (std::size_t size = 0; size < good.size(); ++size) CHECK_FALSE(time_zone::read(good.substr(0, size)));
    std::mt19937 random{1};
    for (int i = 0; i < 3000; ++i) {
      std::string bad = good;
      for (int k = 0; k < 1 + i % 3; ++k) bad[random() % bad.size()] = static_cast<char>(random());
      if (const auto zone = time_zone::read(bad)) (void)zone->at(zone_time{std::chrono::seconds{random()}});
    }
  }
  CHECK_FALSE(time_zone::read(std::string(300'000, 'x')));
}
