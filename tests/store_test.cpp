#include "runtime/store.h"
#include "generator/formatted.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>

#include "tests/store_checks.h"

namespace attune {
namespace {

using ::testing::HasSubstr;

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
            const auto shape = formatted("bf16.d64.full/b{}.h1.kv1.q{}.k1", w + 1, i);
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

}  // namespace
}  // namespace attune
