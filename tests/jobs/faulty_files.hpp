#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <sqlite3.h>
#include <stdexcept>
#include <string>
#include <utility>

/// The files of SQLite in this process. The k-th write, sync or truncate fails. Syncs do not really reach the disk.
class faulty_files {
 public:
  enum class mode : std::uint8_t {
    once,          ///< only the k-th operation fails
    from_then_on,  ///< all operations from the k-th on fail, as if a disk were gone
    full,          ///< the disk is full at the k-th operation, and has space again afterwards
    torn,          ///< half of the k-th operation is written, and nothing after it, as in a loss of power
    cut,           ///< like `torn` at the k-th sync; afterwards lose_unsynced() undoes what no sync has reached
  };

  faulty_files() {
    if (the_one != nullptr) throw std::logic_error{"one at a time"};
    the_one = this;
    real_ = ::sqlite3_vfs_find(nullptr);
    vfs_ = *real_;
    vfs_.zName = "faulty";
    vfs_.szOsFile = static_cast<int>(sizeof(file)) + real_->szOsFile;
    vfs_.xOpen = &open;
    vfs_.xDelete = [](sqlite3_vfs*, const char* name, int syncs) {
      {
        const std::lock_guard lock{the_one->mutex_};
        the_one->synced_.erase(name);
      }
      return the_one->real_->xDelete(the_one->real_, name, syncs);
    };
    ::sqlite3_vfs_register(&vfs_, 1);
  }
  faulty_files(const faulty_files&) = delete;
  faulty_files& operator=(const faulty_files&) = delete;
  ~faulty_files() {
    ::sqlite3_vfs_unregister(&vfs_);
    ::sqlite3_vfs_register(real_, 1);
    the_one = nullptr;
  }

  void fail_at(std::int64_t k, mode m) {
    mode_ = m;
    left_ = k;
  }
  void heal() { left_ = INT64_MAX; }
  /// With true, syncs have no effect from now on: lose_unsynced() undoes later writes. This proves that the test can
  /// fail.
  void drop_syncs(bool drops) { drops_syncs_ = drops; }
  /// Restores the files as of their last sync, as after a loss of power. Precondition: no file is open.
  void lose_unsynced() {
    const std::lock_guard lock{mutex_};
    for (const auto& [name, bytes] : synced_) {
      std::ofstream out{name, std::ios::binary | std::ios::trunc};
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    synced_.clear();
  }
  /// Whether the fault has occurred since fail_at().
  bool was_met() const { return left_ <= 0; }
  /// The number of syncs so far.
  std::int64_t syncs() const { return syncs_; }
  /// Sets a function that is called when a lock of a file or its log is refused, on the thread that wanted the lock.
  void at_refusal(std::function<void()> call) { at_refusal_ = std::move(call); }

 private:
  struct file {
    sqlite3_file base;
    const char* name;
    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
    static file& of(sqlite3_file* f) { return *reinterpret_cast<file*>(f); }
    static sqlite3_file* real_of(sqlite3_file* f) { return of(f).real(); }
  };

  /// Counts an operation. Returns SQLITE_OK, or the error that it must return.
  static int step(int what) {
    if (the_one->mode_ == mode::cut && what != SQLITE_IOERR_FSYNC && the_one->left_ > 0) return SQLITE_OK;
    const auto left = --the_one->left_;
    const mode m = the_one->mode_;
    if (left > 0 || (left < 0 && m != mode::from_then_on && m != mode::torn && m != mode::cut)) return SQLITE_OK;
    return m == mode::full ? SQLITE_FULL : what;
  }

  static int write(sqlite3_file* f, const void* bytes, int size, sqlite3_int64 at) {
    const int answer = step(SQLITE_IOERR_WRITE);
    sqlite3_file* real = file::real_of(f);
    if (answer == SQLITE_OK) return real->pMethods->xWrite(real, bytes, size, at);
    if (the_one->mode_ == mode::torn && the_one->left_ == 0) real->pMethods->xWrite(real, bytes, size / 2, at);
    return answer;
  }
  static int truncate(sqlite3_file* f, sqlite3_int64 size) {
    const int answer = step(SQLITE_IOERR_TRUNCATE);
    return answer != SQLITE_OK ? answer : file::real_of(f)->pMethods->xTruncate(file::real_of(f), size);
  }
  static int sync(sqlite3_file* f, int) {
    ++the_one->syncs_;
    const int answer = step(SQLITE_IOERR_FSYNC);
    if (answer == SQLITE_OK && the_one->mode_ == mode::cut && !the_one->drops_syncs_) the_one->keep(file::of(f).name);
    return answer;
  }
  /// Stores the content of the file, which a loss of power will keep.
  void keep(const char* name) {
    std::ifstream in{name, std::ios::binary};
    const std::lock_guard lock{mutex_};
    synced_[name] = {std::istreambuf_iterator<char>{in}, {}};
  }

  static int lock(sqlite3_file* f, int how) {
    const int answer = file::real_of(f)->pMethods->xLock(file::real_of(f), how);
    if (answer == SQLITE_BUSY && the_one->at_refusal_) the_one->at_refusal_();
    return answer;
  }
  static int lock_log(sqlite3_file* f, int from, int count, int how) {
    const int answer = file::real_of(f)->pMethods->xShmLock(file::real_of(f), from, count, how);
    if (answer == SQLITE_BUSY && the_one->at_refusal_) the_one->at_refusal_();
    return answer;
  }

  template <auto Member>
  struct forward;
  template <class... Args, int (*sqlite3_io_methods::*Member)(sqlite3_file*, Args...)>
  struct forward<Member> {
    static int call(sqlite3_file* f, Args... args) {
      return (file::real_of(f)->pMethods->*Member)(file::real_of(f), args...);
    }
  };
  static void barrier(sqlite3_file* f) { file::real_of(f)->pMethods->xShmBarrier(file::real_of(f)); }

  static const sqlite3_io_methods& methods() {
    using m = sqlite3_io_methods;
    static const m all = [] {
      m made{};
      made.iVersion = 2;
      made.xClose = &forward<&m::xClose>::call;
      made.xRead = &forward<&m::xRead>::call;
      made.xWrite = &write;
      made.xTruncate = &truncate;
      made.xSync = &sync;
      made.xFileSize = &forward<&m::xFileSize>::call;
      made.xLock = &lock;
      made.xUnlock = &forward<&m::xUnlock>::call;
      made.xCheckReservedLock = &forward<&m::xCheckReservedLock>::call;
      made.xFileControl = &forward<&m::xFileControl>::call;
      made.xSectorSize = &forward<&m::xSectorSize>::call;
      made.xDeviceCharacteristics = &forward<&m::xDeviceCharacteristics>::call;
      made.xShmMap = &forward<&m::xShmMap>::call;
      made.xShmLock = &lock_log;
      made.xShmBarrier = &barrier;
      made.xShmUnmap = &forward<&m::xShmUnmap>::call;
      return made;
    }();
    return all;
  }

  static int open(sqlite3_vfs*, const char* name, sqlite3_file* f, int flags, int* out_flags) {
    file& opened = *new (f) file{};
    opened.name = name;
    const bool is_new = name != nullptr && !std::filesystem::exists(name);
    const int code = the_one->real_->xOpen(the_one->real_, name, opened.real(), flags, out_flags);
    opened.base.pMethods = code == SQLITE_OK ? &methods() : nullptr;
    // A new file's name survives a loss of power, because SQLite syncs the folder for its journals.
    if (code == SQLITE_OK && is_new && the_one->mode_ == mode::cut) the_one->keep(name);
    return code;
  }

  static inline faulty_files* the_one = nullptr;

  sqlite3_vfs* real_ = nullptr;
  sqlite3_vfs vfs_{};
  std::atomic<mode> mode_{mode::once};
  std::atomic<std::int64_t> left_{INT64_MAX};
  std::atomic<bool> drops_syncs_{false};
  std::atomic<std::int64_t> syncs_{0};
  std::function<void()> at_refusal_;
  std::mutex mutex_;
  std::map<std::string, std::string> synced_;
};
