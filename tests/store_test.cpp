#include "runtime/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <functional>

#include "runtime/record_fields.h"
#include "tests/store_fixtures.h"

namespace attune {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// Runs `work` in a child process; true if it returned true.
bool in_child(const std::function<bool()>& work) {
    const pid_t child = fork();
    if (child == 0) _exit(work() ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Every field in one line, for comparing whole records.
struct Printer {
    std::string text;
    void operator()(const char* name, const std::string& v) { add(name, v); }
    void operator()(const char* name, int v) { add(name, std::to_string(v)); }
    void operator()(const char* name, double v) { add(name, fmt::format("{}", v)); }
    template <class Enum>
    void operator()(const char* name, Enum v) {
        add(name, name_of(v));
    }
    void add(const char* name, const std::string& v) { text += fmt::format("{}={} ", name, v); }
};

std::string print(const Record& record) {
    Printer printer;
    for_each_device_field(record.device, printer);
    printer.add("problem", record.problem.text());
    for_each_record_field(record, printer);
    return printer.text;
}

void sql(const std::string& path, const std::string& statements) {
    SQLite::Database(path, SQLite::OPEN_READWRITE).exec(statements);
}

Error open_error(const std::string& path, Store::Access access = Store::Access::read) {
    const auto store = Store::open(path, access);
    EXPECT_FALSE(store) << "opened";
    return store ? Error{} : store.error();
}

TEST(Store, GivesBackEveryFieldItWasGiven) {
    const TempFolder folder;
    const Record record = some_record(causal_8k);
    {
        Store store = open_store(folder.file("deep/er/store.sqlite"));
        EXPECT_TRUE(put(store, record));
    }
    const Store store = open_store(folder.file("deep/er/store.sqlite"), Store::Access::read);
    const auto found = store.find(record.device, record.problem);
    ASSERT_TRUE(found && *found);
    EXPECT_EQ(print(**found), print(record));
    EXPECT_EQ(*store.binary(record.binary_sha256), bytes_of("a kernel"));
    EXPECT_FALSE(*store.find(record.device, *Problem::parse("bf16.d128.full/b2.h16.kv16.q8.k8")));
    EXPECT_FALSE(*store.find(some_device("other"), record.problem));
}

TEST(Store, OrdersRecordsAndDevices) {
    const TempFolder folder;
    Store store = open_store(folder.file("s"));
    Record record = some_record(causal_8k);
    put(store, record);
    record.restriction = "family=mma";
    put(store, record);
    put(store, some_record("bf16.d128.causal/b1.h16.kv16.q8192.k8192"));
    record = some_record(causal_8k);
    record.device = some_device("A GPU");
    put(store, record);
    const auto records = store.records(some_device());
    ASSERT_EQ(records->size(), 3u);
    EXPECT_EQ((*records)[0].problem.shape.batch, 1);
    EXPECT_EQ((*records)[1].restriction, "");
    EXPECT_EQ((*records)[2].restriction, "family=mma");
    EXPECT_EQ(*store.devices(), (std::vector{some_device("A GPU"), some_device()}));
}

TEST(Store, LowerEffortAndEstimatesNeverOverwrite) {
    const TempFolder folder;
    Store store = open_store(folder.file("s"));
    Record record = some_record(causal_8k);
    record.effort = Effort::patient;
    EXPECT_TRUE(put(store, record));

    Record lower = some_record(causal_8k, "another");
    const Measurement measurement = some_measurement("mma/q16.kv16.w1");
    const auto stored = store.put(lower, bytes_of("another"), {&measurement, 1});
    ASSERT_TRUE(stored);
    EXPECT_FALSE(*stored);
    EXPECT_EQ(store.measurements(lower.device, lower.problem)->size(), 1u)
        << "its evidence is kept";
    EXPECT_FALSE(store.binary(lower.binary_sha256)) << "its binary is not";

    Record estimated = some_record(causal_8k, "third");
    estimated.effort = Effort::exhaustive;
    estimated.evidence = Evidence::estimated;
    EXPECT_FALSE(put(store, estimated, "third"));
    EXPECT_EQ(print(**store.find(record.device, record.problem)), print(record));

    record.time_us = 11;
    EXPECT_TRUE(put(store, record)) << "the same effort replaces";
    EXPECT_EQ((*store.find(record.device, record.problem))->time_us, 11);
}

TEST(Store, KeepsMeasurementsInOrderWithNaN) {
    const TempFolder folder;
    Store store = open_store(folder.file("s"));
    const Record record = some_record(causal_8k);
    std::vector given{some_measurement("mma/q64.kv32.w4"), some_measurement("mma/q32.kv32.w2")};
    given[0].samples_us = {12.25, 12.5, 0.1};
    given[0].clocks_mhz = {1410};
    given[0].final_round = true;
    given[1].verdict = Verdict::wrong;
    given[1].reason = "NaN in O";
    given[1].max_error = std::nan("");
    ASSERT_TRUE(*store.put(record, bytes_of("a kernel"), given));
    const auto kept = store.measurements(record.device, record.problem);
    ASSERT_TRUE(kept) << kept.error().text();
    ASSERT_EQ(kept->size(), 2u);
    EXPECT_EQ((*kept)[0].samples_us, given[0].samples_us);
    EXPECT_EQ((*kept)[0].clocks_mhz, given[0].clocks_mhz);
    EXPECT_TRUE((*kept)[0].final_round);
    EXPECT_EQ((*kept)[1].verdict, Verdict::wrong);
    EXPECT_EQ((*kept)[1].reason, "NaN in O");
    EXPECT_TRUE(std::isnan((*kept)[1].max_error));
    EXPECT_TRUE((*kept)[1].samples_us.empty());
    EXPECT_TRUE(store.measurements(record.device, record.problem, "family=mma")->empty());
}

TEST(Store, DropsBinariesThatNoRecordUses) {
    const TempFolder folder;
    Store store = open_store(folder.file("s"));
    const Record first = some_record(causal_8k);
    const Record shares = some_record("bf16.d128.causal/b1.h16.kv16.q16.k16");
    put(store, first);
    ASSERT_TRUE(*store.put(shares, {}, {})) << "the bytes are there already";
    put(store, some_record(causal_8k, "better"), "better");
    EXPECT_TRUE(store.binary(first.binary_sha256)) << "one record still uses it";
    put(store, some_record(shares.problem.text(), "better"), "better");
    EXPECT_EQ(store.binary(first.binary_sha256).error().code, Code::not_found);
}

TEST(Store, RefusesRecordsThatContradictThemselves) {
    const TempFolder folder;
    Store store = open_store(folder.file("s"));
    const auto code = [&](const Record& record, std::string_view binary) {
        const auto stored = store.put(record, bytes_of(binary), {});
        return stored ? Code::ok : stored.error().code;
    };
    Record record = some_record(causal_8k);
    EXPECT_EQ(code(record, "other bytes"), Code::invalid_argument);
    EXPECT_EQ(code(record, ""), Code::invalid_argument) << "a binary that is nowhere";
    record.time_us = std::nan("");
    EXPECT_EQ(code(record, "a kernel"), Code::invalid_argument);
    record = some_record(causal_8k);
    record.problem.shape.heads_kv = 3;
    EXPECT_EQ(code(record, "a kernel"), Code::invalid_argument);
    EXPECT_TRUE(store.records(some_device())->empty());
}

TEST(Store, AtomicallyKeepsAllOrNothing) {
    const TempFolder folder;
    Store store = open_store(folder.file("s"));
    const auto both = [&](bool fail) {
        return store.atomically([&]() -> Result<void> {
            put(store, some_record(causal_8k));
            if (fail) return Error{Code::corrupt, "stop", ""};
            put(store, some_record("bf16.d128.causal/b1.h16.kv16.q16.k16"));
            return {};
        });
    };
    EXPECT_EQ(both(true).error().message, "stop");
    EXPECT_TRUE(store.records(some_device())->empty());
    EXPECT_TRUE(both(false));
    EXPECT_EQ(store.records(some_device())->size(), 2u);
}

TEST(Store, ProcessesWriteAtOnce) {
    const TempFolder folder;
    const std::string path = folder.file("s");
    constexpr int writers = 4, rows = 25;
    std::vector<pid_t> children;
    for (int w = 0; w < writers; ++w) {
        children.push_back(fork());
        if (children.back() != 0) continue;
        auto store = Store::open(path, Store::Access::write);  // all make the file at once
        bool good = bool(store);
        for (int i = 0; good && i < rows; ++i) {
            const auto shape = fmt::format("bf16.d64.full/b{}.h1.kv1.q{}.k1", w + 1, i);
            const auto done = store->put(some_record(shape), bytes_of("a kernel"), {});
            good = done && *done;
        }
        _exit(good ? 0 : 1);
    }
    for (const pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    const Store store = open_store(path, Store::Access::read);
    EXPECT_EQ(store.records(some_device())->size(), std::size_t(writers * rows));
}

TEST(Store, SurvivesAWriterKilledInsideATransaction) {
    const TempFolder folder;
    const std::string path = folder.file("s");
    Store store = open_store(path);
    put(store, some_record(causal_8k));
    EXPECT_FALSE(in_child([&] {
        auto other = Store::open(path, Store::Access::write);
        return bool(other->atomically([&]() -> Result<void> {
            put(*other, some_record("bf16.d128.causal/b1.h16.kv16.q16.k16"));
            kill(getpid(), SIGKILL);
            return {};
        }));
    }));
    EXPECT_EQ(store.records(some_device())->size(), 1u);
    EXPECT_TRUE(put(store, some_record(causal_8k)));
}

TEST(Store, MissingEmptyAndForeignFiles) {
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

TEST(Store, ANewerVersionStaysUntouched) {
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

TEST(Store, ATruncatedFileIsCorrupt) {
    const TempFolder folder;
    const std::string path = folder.file("s");
    {
        Store store = open_store(path);
        for (int i = 0; i < 60; ++i)
            put(store, some_record(fmt::format("bf16.d64.full/b1.h1.kv1.q{}.k1", i)));
    }
    fs::resize_file(path, fs::file_size(path) / 2);
    auto store = Store::open(path, Store::Access::read);
    const Error error = store ? store->records(some_device()).error() : store.error();
    EXPECT_EQ(error.code, Code::corrupt) << error.text();
    EXPECT_FALSE(error.next_step.empty());
}

TEST(Store, GarbageInARowIsCorrupt) {
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

TEST(Store, GarbageInAMeasurementIsCorrupt) {
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

TEST(Store, FindsDamageInABinary) {
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

TEST(Store, ReadsFromAReadOnlyFolderAndRefusesToWrite) {
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

TEST(Store, ALockedStoreTimesOut) {
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

TEST(Store, DefaultPathFollowsTheEnvironment) {
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
