#pragma once

#include "canigo/jobs/postgres_store.hpp"

#include "io_world.hpp"

#include <libpq-fe.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <pwd.h>
#include <stdexcept>
#include <stdlib.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

/// The test's own PostgreSQL server on a Unix domain socket. The destructor stops it. The constructor throws if it
/// can't be started, so that a test that needs it fails.
class postgres_server {
 public:
  /// `settings`: lines for postgresql.conf.
  explicit postgres_server(std::vector<std::string> settings = {}) : settings_{std::move(settings)} {
    std::string pattern = (std::filesystem::temp_directory_path() / "canigo-pg-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::system_error{errno, std::system_category(), pattern};
    folder_ = pattern;
    // The server refuses to run as root, so it runs as another user.
    if (::geteuid() == 0) {
      const passwd* p = ::getpwnam("postgres");
      if (p == nullptr) throw std::runtime_error{"root can't start a server, and there is no user postgres"};
      user_ = p->pw_uid;
      group_ = p->pw_gid;
      if (::chown(folder_.c_str(), user_, group_) != 0) throw std::runtime_error{"chown " + folder_};
    }
    run({program("initdb"), "-D", data(), "-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"});
    // The user "secret" has a password.
    std::ofstream{data() + "/pg_hba.conf"} << "local all secret scram-sha-256\nlocal all all trust\n";
    start();
  }
  postgres_server(const postgres_server&) = delete;
  postgres_server& operator=(const postgres_server&) = delete;
  ~postgres_server() {
    kill();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string folder() const { return folder_; }
  std::string data() const { return folder_ + "/data"; }
  std::string url(const std::string& more = {}, const std::string& database = "postgres") const {
    return "host=" + folder_ + " user=tester dbname=" + database + " " + more;
  }
  pid_t pid() const noexcept { return pid_; }

  void start() {
    std::vector<std::string> command{program("postgres"), "-D", data(), "-k", folder_, "-h", "", "-F"};
    for (const auto& s : settings_) command.insert(command.end(), {"-c", s});
    pid_ = spawn(command);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    while (::PQping(url().c_str()) != PQPING_OK) {
      if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error{"PostgreSQL does not answer"};
      std::this_thread::yield();
    }
  }
  /// Ends all connections and the server immediately, like `pg_ctl stop -m fast`.
  void stop() { end(SIGINT); }
  /// Simulates a loss of power: the server must recover at its next start.
  void kill() { end(SIGQUIT); }
  void add_setting(std::string s) { settings_.push_back(std::move(s)); }

 private:
  static std::string program(const std::string& name) {
    for (int version = 30; version >= 12; --version) {
      const std::string path = "/usr/lib/postgresql/" + std::to_string(version) + "/bin/" + name;
      if (std::filesystem::exists(path)) return path;
    }
    return name;
  }

  void end(int signal) {
    if (pid_ == 0) return;
    ::kill(pid_, signal);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  pid_t spawn(const std::vector<std::string>& command) const {
    std::vector<std::string> copy = command;
    std::vector<char*> argv;
    for (auto& a : copy) argv.push_back(a.data());
    argv.push_back(nullptr);
    const std::string log = folder_ + "/log";
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (user_ != 0 && (::setgid(group_) != 0 || ::setuid(user_) != 0)) ::_exit(126);
      ::prctl(PR_SET_PDEATHSIG, SIGQUIT);  // the kernel ends the server if the test crashes
      const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      const int in = ::open("/dev/null", O_RDONLY);
      ::dup2(in, 0);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    if (pid < 0) throw std::runtime_error{command[0] + " can't be started"};
    return pid;
  }

  void run(const std::vector<std::string>& command) const {
    int status = 0;
    ::waitpid(spawn(command), &status, 0);
    if (status != 0) {
      throw std::runtime_error{command[0] + " ended with " + std::to_string(status) + "; is postgresql installed?"};
    }
  }

  std::vector<std::string> settings_;
  std::string folder_;
  uid_t user_ = 0;
  gid_t group_ = 0;
  pid_t pid_ = 0;
};

/// A connection to the server for SQL of a test itself, without a store.
class postgres_session {
 public:
  explicit postgres_session(const std::string& url) : connection_{::PQconnectdb(url.c_str())} {
    if (::PQstatus(get()) != CONNECTION_OK) throw std::runtime_error{::PQerrorMessage(get())};
    ::PQsetNoticeProcessor(get(), [](void*, const char*) {}, nullptr);
  }
  PGconn* get() const noexcept { return connection_.get(); }
  /// Returns the first field of the first row; empty if there is none.
  std::string run(const std::string& sql) {
    const std::unique_ptr<PGresult, decltype([](PGresult* r) { ::PQclear(r); })> r{::PQexec(get(), sql.c_str())};
    const auto status = ::PQresultStatus(r.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
      throw std::runtime_error{sql + ": " + ::PQerrorMessage(get())};
    }
    return ::PQntuples(r.get()) > 0 ? ::PQgetvalue(r.get(), 0, 0) : "";
  }

 private:
  std::unique_ptr<PGconn, decltype([](PGconn* c) { ::PQfinish(c); })> connection_;
};

/// Stores in their own schema, whose clock stands still: the search path finds a replacement of `now` first.
class postgres_world : public io_world {
 public:
  /// A server that all tests share unless they must restart theirs.
  static postgres_server& server() {
    static postgres_server shared{{"max_connections=60"}};
    return shared;
  }

  explicit postgres_world(std::string database = "postgres")
      : database_{std::move(database)}, session_{server().url({}, database_)} {
    static int worlds = 0;
    schema_ = "w" + std::to_string(++worlds);
    session_.run("CREATE SCHEMA " + schema_);
    session_.run("CREATE TABLE " + schema_ + ".clock AS SELECT timestamptz '2023-11-14 22:13:20+00' AS at");
    session_.run("CREATE FUNCTION " + schema_ + ".now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT at FROM " +
                 schema_ + ".clock'");
    session_.run("SET search_path = " + schema_ + ", pg_catalog");
  }
  ~postgres_world() override {
    try {
      session_.run("DROP SCHEMA " + schema_ + " CASCADE");
    } catch (const std::exception&) {
      return;  // the schema need not be removed, because the server removes all its data when it ends
    }
  }

  std::string url(const std::string& more = {}) const {
    return server().url("options='-c search_path=" + schema_ + ",pg_catalog " + more + "'", database_);
  }
  postgres_session& session() noexcept { return session_; }
  std::shared_ptr<canigo::jobs::store> open() override {
    return std::make_shared<canigo::jobs::postgres_store>(io(), url());
  }
  void advance(canigo::duration d) override {
    const auto us = std::chrono::floor<std::chrono::microseconds>(d).count();
    session_.run("UPDATE clock SET at = at + " + std::to_string(us) + " * interval '1 microsecond'");
  }

 private:
  const std::string database_;
  postgres_session session_;
  std::string schema_;
};
