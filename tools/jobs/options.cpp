#include "options.hpp"

#include "postgres.hpp"
#include "tools/shared/pages.hpp"
#include "tools/shared/versions.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sqlite3.h>

namespace {

using canigo::jobs::job_state;

/// Accepts only a whole decimal number in the range. CLI11's own check would also accept octal and hexadecimal numbers,
/// and would replace a number that is too large by the nearest one that it can represent.
CLI::Validator whole(std::int64_t least, std::int64_t most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  const auto check = [=](const std::string& text) -> std::string {
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    const bool is_number = error == std::errc{} && end == text.data() + text.size() && !text.starts_with("0");
    if ((is_number || text == "0") && n >= least && n <= most) return {};
    return "\"" + text + "\" is not a whole number of " + range;
  };
  return {check, {}, "number"};
}

CLI::Validator name_of(const std::string& what) {
  const auto check = [what](const std::string& text) -> std::string {
    if (!text.empty() && text.size() <= canigo::jobs::most_name) return {};
    return "the name of a " + what + " has 1 to 255 bytes";
  };
  return {check, {}, "name"};
}

/// Accepts only a number in the range. Unlike CLI::Range, this check refuses a text that is not a number.
CLI::Validator number_of(const std::string& unit, double least, double most) {
  const std::string range = fmt::format("{} from {} to {}", unit, least, most);
  const auto check = [=](const std::string& text) -> std::string {
    double n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error == std::errc{} && end == text.data() + text.size() && n >= least && n <= most) return {};
    return "\"" + text + "\" is not a number of " + range;
  };
  return {check, {}, unit};
}

constexpr std::int64_t most = INT64_MAX;

void add_commands(CLI::App& app, options& o) {
  const auto add = [&](const char* name, const char* text) {
    CLI::App* sub = app.add_subcommand(name, text);
    sub->callback([&o, sub] { o.command = sub->get_name(); });
    return sub;
  };
  const auto of_jobs = [&](CLI::App* sub) {
    sub->add_option("id", o.ids, "numbers of jobs")->required()->type_name("NUMBER")->check(whole(1, most));
  };
  const auto of_queue = [&](CLI::App* sub) {
    sub->add_option("queue", o.queue, "its name")->required()->type_name("NAME")->check(name_of("queue"));
    return sub;
  };
  const auto of_any_queue = [&](CLI::App* sub) {
    of_queue(sub)->add_flag("--create", o.makes_queue, "also if no job was ever put into the queue");
  };
  add("stats", "how many jobs each queue has");
  CLI::App* top = add("top", "the same again and again, with what changes");
  top->add_option("--every", o.every, "how often; 2 by default")
      ->type_name("SECONDS")
      ->check(number_of("seconds", 0.01, 86400));
  top->add_option("--rounds", o.rounds, "end after so many looks")->type_name("NUMBER")->check(whole(1, most));
  CLI::App* list = add("list", "jobs by number");
  list->add_option("--queue", o.queue, "of this queue only")->type_name("NAME")->check(name_of("queue"));
  const std::map<std::string, job_state> states = {{"waiting", job_state::waiting},
                                                   {"running", job_state::running},
                                                   {"done", job_state::done},
                                                   {"dead", job_state::dead},
                                                   {"cancelled", job_state::cancelled}};
  const auto find_state = [&o, states](const std::string& name) { o.state = states.at(name); };
  list->add_option_function<std::string>("--state", find_state, "of this state only")
      ->type_name("waiting|running|done|dead|cancelled")
      ->check(CLI::IsMember(states));
  list->add_option("--batch", o.batch, "of this batch only")->type_name("NAME")->check(name_of("batch"));
  list->add_option("--after", o.after, "with a greater number")->type_name("NUMBER")->check(whole(0, most));
  list->add_option("--limit", o.limit, "at most so many; 100 by default")->type_name("NUMBER")->check(whole(1, most));
  of_jobs(add("show", "all about some jobs"));
  of_jobs(add("retry", "let jobs that have ended run again"));
  of_jobs(add("cancel", "end jobs that wait, and cancel those that run"));
  of_jobs(add("remove", "forget jobs that do not run"));
  CLI::App* move = add("move", "put jobs that wait into another queue, another store, or both");
  of_jobs(move);
  move->add_option("--queue", o.to_queue, "its name; as it is by default")->type_name("NAME")->check(name_of("queue"));
  move->add_option("--to", o.to_place, "a file or URL, as PLACE; where it is by default")->type_name("PLACE");
  of_any_queue(add("pause", "let no job of a queue begin"));
  of_any_queue(add("resume", "let them begin again"));
  CLI::App* trim = of_queue(add("trim", "forget jobs of a queue that have ended, the oldest first"));
  trim->add_option("--older-than", o.days, "those that ended so long ago")
      ->type_name("DAYS")
      ->check(number_of("days", 0, 36500));
  trim->add_option("--keep", o.keep, "all but the last so many")->type_name("NUMBER")->check(whole(0, 100'000));
}

std::string versions() {
  const std::string postgres = version_of_postgres();
  return tools::versions(
      "canigo-jobs", fmt::format("SQLite/{}{}{}", ::sqlite3_libversion(), postgres.empty() ? "" : " libpq/", postgres));
}

/// Checks what CLI11 does not check: that the required options are given, and that the given options may be combined.
void check(const options& o) {
  if (o.command.empty()) throw CLI::RequiredError{"a command"};
  if (o.place.empty()) throw CLI::RequiredError{"place, a file or URL,"};
  if (o.command == "move" && o.to_queue.empty() && o.to_place.empty()) throw CLI::RequiredError{"--queue or --to"};
  if (o.command == "trim" && !o.days && !o.keep) throw CLI::RequiredError{"--older-than or --keep"};
  if (o.as_json && o.command != "list" && o.command != "show" && o.command != "stats") {
    throw CLI::ExcludesError{"--json is for list, show and stats", CLI::ExitCodes::ExcludesError};
  }
}

}  // namespace

options parse(int argc, char** argv) {
  options o;
  CLI::App app{"Looks at the jobs of a store, and changes what becomes of them.", "canigo-jobs"};
  app.set_version_flag("--version", versions, "print the version, and those of the libraries");
  tools::add_page_option(app);
  // The option is not declared as required(), because CLI11 would then take the name of a command for the place.
  app.add_option("place", o.place,
                 "a file of SQLite, or a URL of PostgreSQL, such as\n"
                 "postgresql://user@host/database; the environment has\n"
                 "what it leaves out: PGPASSWORD, for example")
      ->type_name("");
  app.add_flag("--json", o.as_json, "one object of JSON a line, for list, show and stats");
  app.footer("Exit status: 0; 1 if a job was unknown or left as it was, or the store failed; 2 if called wrongly.");
  app.fallthrough();
  add_commands(app, o);
  try {
    app.parse(argc, argv);
    check(o);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e) == 0 ? 0 : 2);
  }
  return o;
}
