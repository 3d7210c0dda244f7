#include "pages.hpp"

#include <canigo/version.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace tools {

namespace {

std::string with_all(std::string text, std::string_view before, std::string_view after) {
  for (auto at = text.find(before); at != std::string::npos; at = text.find(before, at + after.size())) {
    text.replace(at, before.size(), after);
  }
  return text;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

/// An option or a positional argument, as the pages describe it.
struct entry {
  explicit entry(const CLI::Option& o)
      : text{o.get_description()},
        value{o.get_items_expected_max() > 0 ? o.get_type_name() : ""},
        usual{o.get_default_str()},
        is_repeated{o.get_items_expected_max() > 1 || o.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll} {
    for (const auto& name : o.get_snames()) names.push_back("-" + name);
    for (const auto& name : o.get_lnames()) names.push_back("--" + name);
    if (names.empty()) argument = o.get_name();
    if (o.get_items_expected_max() > 0 && value.empty()) value = "TEXT";
  }

  bool takes_words() const { return value.find('|') != std::string::npos; }

  std::vector<std::string> names;
  std::string argument;
  std::string text;
  std::string value;  // the type of the option's value; empty: the option takes no value
  std::string usual;
  bool is_repeated;
};

std::vector<entry> entries_of(const CLI::App& app) {
  std::vector<entry> all;
  for (const CLI::Option* o : app.get_options()) all.emplace_back(*o);
  return all;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](auto*) { return true; });
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* c : commands) names.push_back(c->get_name());
  return names;
}

/// Makes a valid name of a shell function from the name of a program or a command.
std::string identifier(std::string name) { return with_all(std::move(name), "-", "_"); }

// The following functions make the manual page.

/// Encodes a text for roff, the format of manual pages. It escapes special characters, and each full stop at the
/// beginning of a line.
std::string roff(std::string text) {
  text = with_all(with_all(std::move(text), "\\", "\\e"), "-", "\\-");
  text = with_all(with_all(std::move(text), "'", "\\(aq"), "\n.", "\n\\&.");
  return text.starts_with('.') ? "\\&" + text : text;
}

/// Formats paragraphs for roff. In an indented paragraph, the lines are kept as they are.
std::string roff_paragraphs(const std::string& text) {
  std::string out;
  std::vector<std::string> lines = CLI::detail::split(text, '\n');
  bool is_as_written = false;
  for (const std::string& line : lines) {
    const bool has_margin = line.starts_with("  ");
    if (has_margin != is_as_written) out += has_margin ? ".nf\n" : ".fi\n";
    is_as_written = has_margin;
    out += line.empty() ? ".PP\n" : roff(line) + "\n";
  }
  return is_as_written ? out + ".fi\n" : out;
}

std::string roff_entries(const CLI::App& app) {
  std::string out;
  for (const entry& e : entries_of(app)) {
    std::vector<std::string> names;
    for (const auto& name : e.names) names.push_back("\\fB" + roff(name) + "\\fR");
    if (!e.argument.empty()) names.push_back("\\fI" + roff(e.argument) + "\\fR");
    out += ".TP\n" + joined(names, ", ");
    if (!e.value.empty() && e.argument.empty()) out += " \\fI" + roff(e.value) + "\\fR";
    out += "\n" + roff(e.text);
    if (!e.usual.empty()) out += "\n(default: " + roff(e.usual) + ")";
    out += "\n";
  }
  return out;
}

std::string man_page(const CLI::App& app) {
  std::string title = app.get_name();
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::string& about = app.get_description();
  const auto first = about.find_first_of(".\n");
  std::string out =
      fmt::format(".TH {} 1 \"\" \"canigo {}\" \"\"\n.SH NAME\n{} \\- {}\n", roff(title),
                  roff(std::string{canigo::version()}), roff(app.get_name()), roff(about.substr(0, first)));
  out += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR [\\fIoptions\\fR]", roff(app.get_name()));
  for (const entry& e : entries_of(app)) {
    if (!e.argument.empty()) out += " \\fI" + roff(e.argument) + "\\fR";
  }
  const auto commands = commands_of(app);
  if (!commands.empty()) out += " \\fIcommand\\fR";
  out += "\n.SH DESCRIPTION\n" + roff_paragraphs(about) + ".SH OPTIONS\n" + roff_entries(app);
  if (!commands.empty()) out += ".SH COMMANDS\n";
  for (const CLI::App* c : commands) {
    out += fmt::format(".SS {}\n{}\n{}", roff(c->get_name()), roff(c->get_description()), roff_entries(*c));
  }
  if (!app.get_footer().empty()) out += ".SH NOTES\n" + roff_paragraphs(app.get_footer());
  return out;
}

// The following functions make the completions for bash.

std::string bash_values(const CLI::App& app) {
  std::string out;
  for (const entry& e : entries_of(app)) {
    if (e.value.empty() || e.names.empty()) continue;
    out += "    " + joined(e.names, " | ") + ") ";
    if (e.takes_words()) {
      out += fmt::format("mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$now\")", with_all(e.value, "|", " "));
    } else if (e.value == "FILE" || e.value == "DIR") {
      out += fmt::format("compopt -o filenames; mapfile -t COMPREPLY < <(compgen -{} -- \"$now\")",
                         e.value == "DIR" ? 'd' : 'f');
    } else {
      out += "COMPREPLY=()";
    }
    out += "; return ;;\n";
  }
  return out;
}

std::string bash_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const entry& e : entries_of(app)) names.insert(names.end(), e.names.begin(), e.names.end());
  return joined(names, " ");
}

std::string bash_page(const CLI::App& app) {
  const auto commands = commands_of(app);
  std::string out =
      fmt::format(R"(# bash completion for {0}
_{1}() {{
  local now=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} names='{2}' words='{3}' word
  if [ "$now" = = ]; then now=; elif [ "$before" = = ]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
)",
                  app.get_name(), identifier(app.get_name()), bash_names(app), joined(names_of(commands), " "));
  if (!commands.empty()) {
    out += "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case $word in\n";
    for (const CLI::App* c : commands) {
      out += fmt::format("      {}) names='{}' words= ;;\n", c->get_name(), bash_names(*c));
    }
    out += "    esac\n  done\n";
  }
  out += "  case $before in\n" + bash_values(app);
  for (const CLI::App* c : commands) out += bash_values(*c);
  return out + fmt::format(R"(  esac
  if [[ $now == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$names" -- "$now")
  else
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -W "$words" -- "$now")
  fi
}}
complete -F _{} {}
)",
                           identifier(app.get_name()), app.get_name());
}

// The following functions make the completions for zsh.

std::string zsh_action(const entry& e) {
  if (e.takes_words()) return "(" + with_all(e.value, "|", " ") + ")";
  if (e.value == "FILE" || !e.argument.empty()) return "_files";
  return e.value == "DIR" ? "_directories" : " ";
}

/// Puts a text into single quotes, for an argument of zsh's function _arguments.
std::string zsh(std::string text) {
  for (const std::string_view c : {"\\", "[", "]", ":"}) text = with_all(std::move(text), c, "\\" + std::string{c});
  return with_all(std::move(text), "'", "'\\''");
}

std::string zsh_entries(const CLI::App& app) {
  std::string out;
  for (const entry& e : entries_of(app)) {
    if (e.names.empty()) continue;
    const std::string rest =
        fmt::format("[{}]{}", zsh(e.text), e.value.empty() ? "" : ":" + zsh(e.value) + ":" + zsh_action(e));
    const std::string once = e.is_repeated ? "*" : "(" + joined(e.names, " ") + ")";
    if (e.names.size() == 1) {
      out += fmt::format(" \\\n    '{}{}{}'", once, e.names[0], rest);
    } else {
      out += fmt::format(" \\\n    '{}'{{{}}}'{}'", once, joined(e.names, ","), rest);
    }
  }
  return out;
}

std::string zsh_page(const CLI::App& app) {
  const auto commands = commands_of(app);
  const std::string name = identifier(app.get_name());
  std::string out = fmt::format("#compdef {0}\n_{1}() {{\n  local -a commands\n", app.get_name(), name);
  if (!commands.empty()) {
    out += "  commands=(";
    for (const CLI::App* c : commands) {
      out += fmt::format("\n    '{}:{}'", c->get_name(), zsh(c->get_description()));
    }
    out += ")\n";
  }
  out += "  _arguments -s" + zsh_entries(app);
  for (const entry& e : entries_of(app)) {
    if (!e.argument.empty()) out += fmt::format(" \\\n    ':{}:_files'", zsh(e.argument));
  }
  if (commands.empty()) return out + fmt::format("\n}}\n_{} \"$@\"\n", name);
  out += " \\\n    ':command:{_describe command commands}' '*::rest:->rest'\n  case $words[1] in\n";
  for (const CLI::App* c : commands) {
    out += fmt::format("  {}) _arguments -s{} ;;\n", c->get_name(), zsh_entries(*c));
  }
  return out + fmt::format("  esac\n}}\n_{} \"$@\"\n", name);
}

// The following functions make the completions for fish.

std::string fish(std::string text) { return "'" + with_all(with_all(std::move(text), "\\", "\\\\"), "'", "\\'") + "'"; }

std::string fish_entries(const CLI::App& app, const std::string& begin) {
  std::string out;
  for (const entry& e : entries_of(app)) {
    if (e.names.empty()) continue;
    out += begin;
    for (const auto& name : e.names) {
      out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (e.takes_words()) {
      out += " -x -a " + fish(with_all(e.value, "|", " "));
    } else if (e.value == "DIR") {
      out += " -x -a '(__fish_complete_directories)'";
    } else if (!e.value.empty()) {
      out += e.value == "FILE" ? " -r -F" : " -x";
    }
    out += " -d " + fish(e.text) + "\n";
  }
  return out;
}

std::string fish_page(const CLI::App& app) {
  const std::string begin = "complete -c " + app.get_name();
  const auto commands = commands_of(app);
  if (commands.empty()) return fish_entries(app, begin);
  const std::string seen = "__fish_seen_subcommand_from ";
  const std::string none = fmt::format("{} -n 'not {}{}'", begin, seen, joined(names_of(commands), " "));
  std::string out = fish_entries(app, none);
  for (const CLI::App* c : commands) {
    out += fmt::format("{} -a {} -d {}\n", none, c->get_name(), fish(c->get_description()));
    out += fish_entries(*c, fmt::format("{} -n '{}{}'", begin, seen, c->get_name()));
  }
  return out;
}

}  // namespace

std::string page_of(const CLI::App& app, const std::string& kind) {
  if (kind == "bash") return bash_page(app);
  if (kind == "zsh") return zsh_page(app);
  return kind == "fish" ? fish_page(app) : man_page(app);
}

void add_page_option(CLI::App& app) {
  app.add_option_function<std::string>(
         "--page",
         [&app](const std::string& kind) {
           std::string text = page_of(app, kind);
           text.pop_back();  // removes the line end, because the caller prints one after the text
           throw CLI::CallForVersion{text, 0};
         },
         "Print the manual page, or what completes these options in a shell")
      ->check(CLI::IsMember({"man", "bash", "zsh", "fish"}).description(""))
      ->trigger_on_parse()  // runs before CLI11 reports that a required option is missing
      ->type_name("man|bash|zsh|fish");
}

}  // namespace tools
