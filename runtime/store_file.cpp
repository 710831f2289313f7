#include "runtime/store_file.h"

#include <sqlite3.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "generator/formatted.h"

namespace attune {
namespace {

constexpr int busy_timeout_ms = 10'000;
constexpr int application_id = 0x4174756e;  // "Atun", in the file's header

// migrations[n] takes a store from version n to n + 1. Steps are never edited once released: a
// change of the schema is a new step.
constexpr std::array migrations{
    R"sql(
CREATE TABLE devices (
    id INTEGER PRIMARY KEY,
    vendor TEXT NOT NULL,
    name TEXT NOT NULL,
    arch TEXT NOT NULL,
    multiprocessors INTEGER NOT NULL,
    partition TEXT NOT NULL,
    UNIQUE (vendor, name, arch, multiprocessors, partition)
) STRICT;
CREATE TABLE binaries (
    sha256 TEXT NOT NULL PRIMARY KEY,
    raw_bytes INTEGER NOT NULL,
    zstd BLOB NOT NULL
) STRICT;
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices (id),
    signature TEXT NOT NULL,
    shape TEXT NOT NULL,
    restriction TEXT NOT NULL,
    config TEXT NOT NULL,
    entry TEXT NOT NULL,
    source_hash TEXT NOT NULL,
    binary_sha256 TEXT NOT NULL,
    registers INTEGER NOT NULL,
    spill_bytes INTEGER NOT NULL,
    shared_bytes INTEGER NOT NULL,
    evidence TEXT NOT NULL,
    effort TEXT NOT NULL,
    time_us REAL NOT NULL,
    spread REAL NOT NULL,
    sm_clock_mhz REAL NOT NULL,
    tflops REAL NOT NULL,
    max_error REAL NOT NULL,
    error_bar REAL NOT NULL,
    default_config TEXT NOT NULL,
    default_time_us REAL NOT NULL,
    runner_up_config TEXT NOT NULL,
    runner_up_time_us REAL NOT NULL,
    candidates_compiled INTEGER NOT NULL,
    candidates_checked INTEGER NOT NULL,
    candidates_timed INTEGER NOT NULL,
    toolchain TEXT NOT NULL,
    driver TEXT NOT NULL,
    policy TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    created_utc TEXT NOT NULL,
    UNIQUE (device, signature, shape, restriction)
) STRICT;
CREATE INDEX records_by_binary ON records (binary_sha256);
-- One row per candidate and round. NULL in a REAL column is a NaN: a wrong kernel's error may be one.
CREATE TABLE measurements (
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices (id),
    signature TEXT NOT NULL,
    shape TEXT NOT NULL,
    restriction TEXT NOT NULL,
    config TEXT NOT NULL,
    verdict TEXT NOT NULL,
    reason TEXT NOT NULL,
    samples_us TEXT NOT NULL,
    clocks_mhz TEXT NOT NULL,
    median_us REAL,
    spread REAL,
    max_error REAL,
    error_bar REAL,
    registers INTEGER NOT NULL,
    spill_bytes INTEGER NOT NULL,
    shared_bytes INTEGER NOT NULL,
    compile_ms REAL,
    final_round INTEGER NOT NULL
) STRICT;
CREATE INDEX measurements_by_problem ON measurements (device, signature, shape, restriction);
)sql",
    R"sql(
ALTER TABLE records ADD COLUMN mma_peak_tflops REAL NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN datasheet_tflops REAL NOT NULL DEFAULT 0;
)sql"};
constexpr int latest_version = static_cast<int>(migrations.size());

// older_views[n - 1] shows a store of version n, which a reader must not change, as one of the
// latest.
constexpr std::array older_views{
    "CREATE TEMP VIEW records AS SELECT *, 0.0 AS mma_peak_tflops, 0.0 AS datasheet_tflops "
    "FROM main.records"};
static_assert(older_views.size() + 1 == migrations.size(), "every older version has its view");

using DatabasePtr = std::unique_ptr<SQLite::Database>;

int pragma(SQLite::Database& db, const char* name) {
    return db.execAndGet(formatted("PRAGMA {}", name)).getInt();
}

/// The store's version; 0 for a file without any table. Changes nothing.
Result<int> checked_version(SQLite::Database& db, const std::string& path) {
    const int version = pragma(db, "user_version");
    const bool empty = db.execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0;
    if (empty && version == 0) return 0;
    if (pragma(db, "application_id") != application_id)
        return Error{Code::corrupt, formatted("{} is a database of another program", path),
                     "name another store with --store or $ATTUNE_STORE"};
    if (version > latest_version)
        return Error{Code::version_mismatch,
                     formatted("{} has format {}, this Attune reads up to {}", path, version,
                               latest_version),
                     "update Attune, or name another store"};
    return version;
}

/// WAL shares memory between processes through a mapped file, which these file systems do not carry
/// between hosts though they may accept the request.
bool is_network_file_system(const std::string& path) {
    constexpr std::array<unsigned, 9> magics{
        0x6969,      // NFS
        0x517b,      // SMB
        0xff534d42,  // CIFS
        0xfe534d42,  // SMB2
        0x01021997,  // 9P
        0x0bd00bd0,  // Lustre
        0x00c36400,  // Ceph
        0x47504653,  // GPFS
        0x65735546,  // FUSE: sshfs and others
    };
    struct statfs info {};
    if (statfs(path.c_str(), &info) != 0) return false;
    return std::find(magics.begin(), magics.end(), static_cast<unsigned>(info.f_type)) !=
           magics.end();
}

void choose_journal(SQLite::Database& db, const std::string& path) {
    const auto mode = db.execAndGet("PRAGMA journal_mode").getString();
    if (mode == "wal" || is_network_file_system(path)) return;
    try {
        // Answers with the mode there is now: the rollback journal where WAL cannot be had.
        db.execAndGet("PRAGMA journal_mode = WAL");
    } catch (const SQLite::Exception& exception) {
        // Another process has just opened the new file too. Whichever is first sets the mode.
        if (exception.getErrorCode() != SQLITE_BUSY) throw;
    }
}

void migrate(SQLite::Database& db) {
    SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
    const int version = pragma(db, "user_version");  // another process may have been first
    for (int step = version; step < latest_version; ++step)
        db.exec(migrations[static_cast<std::size_t>(step)]);
    db.exec(formatted("PRAGMA application_id = {}; PRAGMA user_version = {}", application_id,
                      latest_version));
    transaction.commit();
}

std::string immutable_uri(const std::string& path) {
    std::string uri = "file:";
    for (const unsigned char c : path) {
        const bool plain = std::isalnum(c) != 0 ||
                           std::string_view("/._-~").find(char(c)) != std::string_view::npos;
        uri += plain ? std::string(1, char(c)) : formatted("%{:02X}", c);
    }
    return uri + "?immutable=1";
}

Result<DatabasePtr> open_read(const std::string& path) {
    const Error missing{Code::not_found, formatted("there is no store at {}", path),
                        "make one with attune tune, or name another with --store or $ATTUNE_STORE"};
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return missing;
    auto db = std::make_unique<SQLite::Database>(path, SQLite::OPEN_READONLY, busy_timeout_ms);
    try {
        pragma(*db, "schema_version");
    } catch (const SQLite::Exception& exception) {
        // A WAL store in a folder where SQLite may not put its shared memory: nobody can be
        // writing.
        const int code = exception.getErrorCode();
        if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY) throw;
        db = std::make_unique<SQLite::Database>(
            immutable_uri(path), SQLite::OPEN_READONLY | SQLite::OPEN_URI, busy_timeout_ms);
    }
    const auto version = checked_version(*db, path);
    if (!version) return version.error();
    if (*version == 0) return missing;
    if (*version < latest_version) {
        db->exec("PRAGMA temp_store = MEMORY");
        db->exec(older_views[static_cast<std::size_t>(*version - 1)]);
    }
    return db;
}

Result<DatabasePtr> open_write(const std::string& path) {
    std::error_code failed;
    const auto folder = std::filesystem::absolute(path).parent_path();
    std::filesystem::create_directories(folder, failed);
    if (failed)
        return Error{Code::io_error,
                     formatted("cannot make the folder {}: {}", folder.string(), failed.message()),
                     "name a store elsewhere with --store or $ATTUNE_STORE"};
    auto db = std::make_unique<SQLite::Database>(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE,
                                                 busy_timeout_ms);
    const auto version = checked_version(*db, path);
    if (!version) return version.error();
    if (sqlite3_db_readonly(db->getHandle(), "main") != 0)
        return Error{Code::io_error, formatted("{} cannot be written", path),
                     "change its permissions, or name another store"};
    choose_journal(*db, path);
    if (*version < latest_version) migrate(*db);
    return db;
}

}  // namespace

Error damaged_store(const std::string& path, const std::string& what) {
    return {Code::corrupt, formatted("{} is damaged: {}", path, what),
            "move it aside and restore a copy, import an export (attune import), or tune again"};
}

Error store_error(const std::string& path, const SQLite::Exception& exception) {
    switch (exception.getErrorCode()) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            return {Code::timed_out,
                    formatted("{} was locked by another process for {} s", path,
                              busy_timeout_ms / 1000),
                    "wait for it to end, then try again"};
        case SQLITE_FULL:
        case SQLITE_IOERR:
        case SQLITE_CANTOPEN:
        case SQLITE_READONLY:
        case SQLITE_PERM:
            return {Code::io_error, formatted("{}: {}", path, exception.what()),
                    "check the path, its permissions and the space on its disk"};
        case SQLITE_NOMEM:
            return {Code::out_of_memory, formatted("{}: out of memory", path), "close programs"};
        default:
            return damaged_store(path, exception.what());
    }
}

Result<DatabasePtr> open_store_file(const std::string& path, Store::Access access) {
    if (path.empty())
        return Error{Code::invalid_argument, "no path for the store",
                     "set $HOME, or name a store with --store or $ATTUNE_STORE"};
    try {
        auto db = access == Store::Access::read ? open_read(path) : open_write(path);
        // A store may come from elsewhere: nothing in its schema is to run code.
        if (db) (*db)->exec("PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF");
        return db;
    } catch (const SQLite::Exception& exception) {
        return store_error(path, exception);
    }
}

}  // namespace attune
