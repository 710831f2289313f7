// Store files that are missing, foreign, old, newer, damaged, locked or read-only.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>

#include "generator/formatted.h"
#include "runtime/store.h"
#include "tests/store_checks.h"

namespace attune {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(StoreFile, MissingEmptyAndForeignFiles) {
    const TempFolder folder;
    const Error missing = open_error(folder.file("no"));
    EXPECT_EQ(missing.code, Code::not_found);
    EXPECT_THAT(missing.text(), HasSubstr("attune tune"));
    EXPECT_FALSE(fs::exists(folder.file("no"))) << "reading must not make it";
    EXPECT_EQ(open_error("").code, Code::invalid_argument);

    write_file(folder.file("empty"), "");
    EXPECT_EQ(open_error(folder.file("empty")).code, Code::not_found);
    EXPECT_TRUE(Store::open(folder.file("empty"), Store::Access::write)) << "becomes a store";

    SQLite::Database(folder.file("foreign"), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
        .exec("CREATE TABLE mine (x)");
    const std::string before = read_file(folder.file("foreign"));
    EXPECT_EQ(open_error(folder.file("foreign")).code, Code::corrupt);
    EXPECT_EQ(open_error(folder.file("foreign"), Store::Access::write).code, Code::corrupt);
    EXPECT_EQ(read_file(folder.file("foreign")), before);

    write_file(folder.file("text"), std::string(5000, 'x'));
    for (const auto access : {Store::Access::read, Store::Access::write}) {
        const Error garbage = open_error(folder.file("text"), access);
        EXPECT_EQ(garbage.code, Code::corrupt);
        EXPECT_THAT(garbage.text(), HasSubstr("attune import")) << "the next step";
    }
    EXPECT_EQ(read_file(folder.file("text")), std::string(5000, 'x'));

    write_file(folder.file("file"), "x");
    EXPECT_EQ(open_error(folder.file("file/store"), Store::Access::write).code, Code::io_error);
}

TEST(StoreFile, AVersion1StoreIsReadAsItIsAndMigratesWhenWritten) {
    const TempFolder folder;
    const std::string path = folder.file("s");
    {
        Store store = open_store(path);
        put(store, some_record(causal_8k));
    }
    sql(path,
        "ALTER TABLE records DROP COLUMN mma_peak_tflops;"
        "ALTER TABLE records DROP COLUMN datasheet_tflops;"
        "PRAGMA user_version = 1; PRAGMA wal_checkpoint(TRUNCATE)");
    Record expected = some_record(causal_8k);
    expected.mma_peak_tflops = expected.datasheet_tflops = 0;
    const auto version = [&] {
        return SQLite::Database(path).execAndGet("PRAGMA user_version").getInt();
    };
    {
        const Store store = open_store(path, Store::Access::read);
        EXPECT_EQ(print(**store.find(some_device(), expected.problem)), print(expected));
        EXPECT_EQ(store.binary(expected.binary_sha256)->size(), std::string("a kernel").size());
    }
    EXPECT_EQ(version(), 1) << "reading changes nothing";
    Store store = open_store(path);
    EXPECT_EQ(version(), 2);
    EXPECT_EQ(print(**store.find(some_device(), expected.problem)), print(expected));
    const Record fresh = some_record(causal_8k, "another kernel");
    EXPECT_TRUE(put(store, fresh, "another kernel"));
    EXPECT_EQ(print(**store.find(some_device(), fresh.problem)), print(fresh));
}

TEST(StoreFile, ANewerVersionStaysUntouched) {
    const TempFolder folder;
    const std::string path = folder.file("s");
    {
        Store store = open_store(path);
        put(store, some_record(causal_8k));
    }
    sql(path, "PRAGMA user_version = 99");
    const std::string before = read_file(path);
    for (const auto access : {Store::Access::read, Store::Access::write}) {
        const Error newer = open_error(path, access);
        EXPECT_EQ(newer.code, Code::version_mismatch);
        EXPECT_THAT(newer.text(), HasSubstr("99"));
        EXPECT_THAT(newer.next_step, HasSubstr("update"));
    }
    EXPECT_EQ(read_file(path), before);
}

TEST(StoreFile, ATruncatedFileIsCorrupt) {
    const TempFolder folder;
    const std::string path = folder.file("s");
    {
        Store store = open_store(path);
        for (int i = 0; i < 60; ++i)
            put(store, some_record(formatted("bf16.d64.full/b1.h1.kv1.q{}.k1", i)));
    }
    fs::resize_file(path, fs::file_size(path) / 2);
    auto store = Store::open(path, Store::Access::read);
    const Error error = store ? store->records(some_device()).error() : store.error();
    EXPECT_EQ(error.code, Code::corrupt) << error.text();
    EXPECT_FALSE(error.next_step.empty());
}

TEST(StoreFile, GarbageInARowIsCorrupt) {
    const struct {
        const char* damage;
        const char* named;
    } cases[] = {
        {"UPDATE records SET effort = 'heroic'", "heroic"},
        {"UPDATE records SET evidence = ''", "''"},
        {"UPDATE records SET shape = 'b1'", "b1"},
        {"UPDATE records SET shape = 'b1.h3.kv2.q1.k1'", "h3"},
        {"UPDATE records SET signature = 'bf16.d20.full'", "d20"},
        {"UPDATE records SET registers = 99999999999", "registers"},
        {"ALTER TABLE records DROP COLUMN driver", "driver"},
    };
    for (const auto& [damage, named] : cases) {
        const TempFolder folder;
        const std::string path = folder.file("s");
        {
            Store store = open_store(path);
            put(store, some_record(causal_8k));
        }
        sql(path, damage);
        const auto records = open_store(path).records(some_device());
        ASSERT_FALSE(records) << damage;
        EXPECT_EQ(records.error().code, Code::corrupt) << damage;
        EXPECT_THAT(records.error().message, HasSubstr(named));
    }
}

TEST(StoreFile, GarbageInAMeasurementIsCorrupt) {
    for (const char* damage : {"samples_us = '[1,'", "samples_us = '{}'", "samples_us = '[\"a\"]'",
                               "verdict = 'fine'"}) {
        const TempFolder folder;
        const std::string path = folder.file("s");
        const Record record = some_record(causal_8k);
        Store store = open_store(path);
        const Measurement measurement = some_measurement("mma/q16.kv16.w1");
        ASSERT_TRUE(store.put(record, bytes_of("a kernel"), {&measurement, 1}));
        sql(path, std::string("UPDATE measurements SET ") + damage);
        const auto kept = store.measurements(record.device, record.problem);
        ASSERT_FALSE(kept) << damage;
        EXPECT_EQ(kept.error().code, Code::corrupt);
    }
}

TEST(StoreFile, FindsDamageInABinary) {
    const Record record = some_record(causal_8k);
    const std::string other = sha256_hex("another kernel");
    const std::vector<std::string> damages{"SET zstd = zeroblob(length(zstd))",
                                           "SET zstd = x''",
                                           "SET raw_bytes = 7",
                                           "SET raw_bytes = -1",
                                           "SET raw_bytes = 9000000000000",
                                           "SET sha256 = '" + other + "'"};
    for (const std::string& damage : damages) {
        const TempFolder folder;
        const std::string path = folder.file("s");
        Store store = open_store(path);
        put(store, record);
        sql(path, "UPDATE binaries " + damage);
        const bool renamed = damage.find(other) != std::string::npos;
        const auto binary = store.binary(renamed ? other : record.binary_sha256);
        ASSERT_FALSE(binary) << damage;
        EXPECT_EQ(binary.error().code, Code::corrupt) << damage;
        EXPECT_THAT(binary.error().next_step, HasSubstr("tune"));
        EXPECT_TRUE(put(store, record)) << "tuning again mends it";
        EXPECT_TRUE(store.binary(record.binary_sha256));
    }
}

/// Drops root's rights, which no permission bit stops. True where the folder is read-only then.
bool become_nobody(const std::string& folder) {
    if (geteuid() == 0 && seteuid(65534) != 0) return false;
    return access(folder.c_str(), W_OK) != 0 || geteuid() != getuid();
}

TEST(StoreFile, ReadsFromAReadOnlyFolderAndRefusesToWrite) {
    const TempFolder folder;
    const std::string path = folder.file("s#1?.sqlite");  // what a URI must escape
    {
        Store store = open_store(path);
        put(store, some_record(causal_8k));
    }
    chmod(path.c_str(), 0444);
    chmod(folder.file("").c_str(), 0555);
    EXPECT_TRUE(in_child([&] {
        if (!become_nobody(folder.file(""))) return false;
        auto store = Store::open(path, Store::Access::read);
        return store && store->records(some_device())->size() == 1;
    }));
    EXPECT_TRUE(in_child([&] {
        if (!become_nobody(folder.file(""))) return false;
        auto store = Store::open(path, Store::Access::write);
        return !store && store.error().code == Code::io_error;
    }));
    EXPECT_TRUE(in_child([&] {
        if (!become_nobody(folder.file(""))) return false;
        auto store = Store::open(folder.file("new/store"), Store::Access::write);
        return !store && store.error().code == Code::io_error;
    }));
    chmod(folder.file("").c_str(), 0755);
}

TEST(StoreFile, ALockedStoreTimesOut) {
    const TempFolder folder;
    const std::string path = folder.file("s");
    Store store = open_store(path);
    SQLite::Database holder(path, SQLite::OPEN_READWRITE);
    holder.exec("BEGIN IMMEDIATE");
    EXPECT_EQ(store.put(some_record(causal_8k), bytes_of("a kernel"), {}).error().code,
              Code::timed_out);
    EXPECT_TRUE(store.records(some_device())->empty()) << "readers go on";
    holder.exec("ROLLBACK");
    EXPECT_TRUE(put(store, some_record(causal_8k)));
}

TEST(StoreFile, DefaultPathFollowsTheEnvironment) {
    EXPECT_TRUE(in_child([] {
        setenv("ATTUNE_STORE", "/a/b.sqlite", 1);
        setenv("XDG_DATA_HOME", "/x", 1);
        setenv("HOME", "/h", 1);
        if (default_store_path() != "/a/b.sqlite") return false;
        unsetenv("ATTUNE_STORE");
        if (default_store_path() != "/x/attune/store.sqlite") return false;
        setenv("XDG_DATA_HOME", "", 1);
        if (default_store_path() != "/h/.local/share/attune/store.sqlite") return false;
        unsetenv("HOME");
        return default_store_path().empty();
    }));
}

}  // namespace
}  // namespace attune
