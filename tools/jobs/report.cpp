#include "report.hpp"

#include "tools/shared/text.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <string>
#include <vector>

namespace {

using namespace canigo;
using jobs::job_state;
using tools::printable;

std::string text_of(jobs::instant t) {
  if (t == jobs::instant::max()) return "never";
  const auto seconds = std::chrono::floor<std::chrono::seconds>(t.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::string due_text(const jobs::job_info& j) {
  const bool waits = j.run_at == jobs::instant::max() && !j.after_batch.empty();
  return waits ? "after its batch" : text_of(j.run_at);
}

/// A field of a printed job: its name, its value, and whether the value is a text.
struct field {
  const char* name;
  std::string value;
  bool is_text;
};

std::vector<field> fields_of(const jobs::job_info& j, bool is_whole) {
  std::vector<field> list = {{"id", std::to_string(j.id), false},
                             {"state", std::string{to_string(j.state)}, true},
                             {"queue", j.queue, true},
                             {"kind", j.kind, true},
                             {"priority", std::to_string(j.priority), false},
                             {"attempt", std::to_string(j.attempt), false},
                             {"max_attempts", std::to_string(j.max_attempts), false},
                             {"crashes", std::to_string(j.crashes), false},
                             {"snoozes", std::to_string(j.snoozes), false},
                             {"created_at", text_of(j.created_at), true},
                             {"run_at", due_text(j), true}};
  if (j.lease_until) list.push_back({"lease_until", text_of(*j.lease_until), true});
  if (j.deadline) list.push_back({"deadline", text_of(*j.deadline), true});
  if (j.cancel_at) list.push_back({"cancel_at", text_of(*j.cancel_at), true});
  if (j.finished_at) list.push_back({"finished_at", text_of(*j.finished_at), true});
  if (!j.batch.empty()) list.push_back({"batch", j.batch, true});
  if (!j.after_batch.empty()) list.push_back({"after_batch", j.after_batch, true});
  if (!j.unique_key.empty()) list.push_back({"unique_key", j.unique_key, true});
  if (!is_whole) return list;
  list.push_back({"payload", j.payload, true});
  list.push_back({"result", j.result, true});
  return list;
}

/// Formats a field as JSON. Bytes that are not UTF-8 are encoded in base64, in a field whose name ends in "_base64".
std::string json_field(std::string_view name, std::string_view bytes) {
  if (tools::is_utf8(bytes)) return fmt::format("\"{}\":{}", name, tools::json_text(bytes));
  return fmt::format("\"{}_base64\":\"{}\"", name, tools::base64(bytes));
}

void print_as_json(const jobs::job_info& j, bool is_whole) {
  std::string line;
  for (const field& f : fields_of(j, is_whole)) {
    line += line.empty() ? '{' : ',';
    line += f.is_text ? json_field(f.name, f.value) : fmt::format("\"{}\":{}", f.name, f.value);
  }
  if (is_whole) {
    line += ",\"history\":[";
    for (const jobs::event& e : j.history) {
      if (line.back() != '[') line += ',';
      line += fmt::format("{{\"at\":\"{}\",\"what\":\"{}\",\"attempt\":{},{}}}", text_of(e.at), to_string(e.what),
                          e.attempt, json_field("text", e.text));
    }
    line += ']';
  }
  fmt::print("{}}}\n", line);
}

}  // namespace

void print_head_of_list() {
  fmt::print("{:>10} {:9} {:>8} {:>7} {:20} {:16} kind\n", "id", "state", "priority", "attempt", "due", "queue");
}

void print(const jobs::job_info& j, bool as_json, bool is_whole) {
  if (as_json) return print_as_json(j, is_whole);
  if (!is_whole) {
    fmt::print("{:>10} {:9} {:>8} {:>7} {:20} {:16} {}\n", j.id, to_string(j.state), j.priority, j.attempt, due_text(j),
               printable(j.queue), printable(j.kind));
    return;
  }
  for (const field& f : fields_of(j, true)) fmt::print("{:12} {}\n", f.name, printable(f.value));
  for (const jobs::event& e : j.history) {
    fmt::print("{:12} {} in attempt {}: {}\n", to_string(e.what), text_of(e.at), e.attempt, printable(e.text));
  }
}

void print_as_json(const jobs::queue_count& q) {
  std::string more;
  for (std::size_t i = 0; i < std::size(q.has_more); ++i) {
    if (q.has_more[i]) more += fmt::format("{}\"{}\"", more.empty() ? "" : ",", to_string(static_cast<job_state>(i)));
  }
  const auto of = [&q](job_state s) { return q.of(s); };
  fmt::print(
      "{{{},\"is_paused\":{},\"waiting\":{},\"running\":{},\"done\":{},\"dead\":{},\"cancelled\":{},"
      "\"has_more\":[{}],\"oldest_seconds\":{:.6f}}}\n",
      json_field("queue", q.queue), q.is_paused, of(job_state::waiting), of(job_state::running), of(job_state::done),
      of(job_state::dead), of(job_state::cancelled), more, std::chrono::duration<double>(q.oldest).count());
}

bool told(jobs::job_id id, std::string_view what, bool is_wanted) {
  fmt::print(is_wanted ? stdout : stderr, "{}job {} {}\n", is_wanted ? "" : "canigo-jobs: ", id, what);
  return is_wanted;
}
