#include "tuner/exchange.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/store_fixtures.h"

namespace attune {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Outcome = ImportRow::Outcome;

constexpr const char* small = "f16.d64.full.lse/b1.h2.kv1.q16.k32";

class ExchangeTest : public ::testing::Test {
protected:
    TempFolder folder;
    Store source = open_store(folder.file("source"));
    Store target = open_store(folder.file("target"));

    void SetUp() override {
        put(source, some_record(causal_8k));
        Record record = some_record(small);
        record.time_us = 0.1 + 0.2;  // needs all 17 digits
        record.restriction = "max_smem=1";
        record.evidence = Evidence::estimated;
        put(source, record);
        record = some_record(small);
        record.device = some_device("another GPU");
        put(source, record);
    }
    std::string exported() { return *export_json(source, some_device()); }

    /// The reason why a file with this change to its first record refuses that record.
    std::string refusal(const std::function<void(json&)>& change) {
        json document = json::parse(exported());
        change(document["records"][0]);
        Store store = open_store(folder.file("refusal" + std::to_string(++files_)));
        const auto report = import_json(store, document.dump());
        if (!report) return "the whole file: " + report.error().text();
        EXPECT_EQ(report->count(Outcome::added), 1) << "the other record comes in";
        return report->count(Outcome::refused) == 1 ? report->rows[0].reason : "taken";
    }
    Error error(const std::string& text) {
        const auto report = import_json(target, text);
        EXPECT_FALSE(report) << text.substr(0, 100);
        EXPECT_TRUE(target.devices()->empty()) << "nothing half-written";
        return report ? Error{} : report.error();
    }

private:
    int files_ = 0;
};

TEST_F(ExchangeTest, RoundTripIsByteIdentical) {
    const std::string first = exported();
    const auto report = import_json(target, first);
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_EQ(report->device, some_device());
    EXPECT_EQ(report->count(Outcome::added), 2);
    EXPECT_EQ(report->rows[1].problem, std::string(small) + " (max_smem=1)");
    EXPECT_EQ(*export_json(target, some_device()), first);
    const Record record = **target.find(some_device(), *Problem::parse(causal_8k));
    EXPECT_EQ(record.binary_sha256, "");
    EXPECT_EQ(record.mma_utilisation(), 0.5);
    EXPECT_EQ(record.datasheet_tflops, 312);
}

TEST_F(ExchangeTest, E4m3RecordsMakeTheRoundTrip) {
    const char* bytes = "e4m3.d128.causal.lse/b2.h16.kv4.q8192.k8192";
    Record record = some_record(bytes);
    record.config = Config::parse("wgmma/q128.kv128.rescale=stale")->text();
    put(source, record);
    const std::string first = exported();
    ASSERT_TRUE(import_json(target, first));
    EXPECT_EQ(*export_json(target, some_device()), first);
    const auto back = target.find(some_device(), *Problem::parse(bytes));
    ASSERT_TRUE(back && *back);
    EXPECT_EQ((*back)->problem.text(), bytes);
    EXPECT_EQ((*back)->config, record.config);
}

TEST_F(ExchangeTest, AFileFromBeforeUtilisationComesIn) {
    json document = json::parse(exported());
    for (json& row : document["records"]) {
        row.erase("mma_peak_tflops");
        row.erase("datasheet_tflops");
    }
    const auto report = import_json(target, document.dump());
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_EQ(report->count(Outcome::added), 2) << report->rows[0].reason;
    const Record record = **target.find(some_device(), *Problem::parse(causal_8k));
    EXPECT_EQ(record.mma_peak_tflops, 0) << "not measured";
    EXPECT_EQ(record.mma_utilisation(), 0);
    EXPECT_THAT(refusal([](json& row) { row["mma_peak_tflops"] = -1; }),
                HasSubstr("mma_peak_tflops is -1"));
}

TEST_F(ExchangeTest, IsSortedAndSpeaksOfOneGpuOnly) {
    const std::string text = exported();
    const json document = json::parse(text);
    EXPECT_EQ(document["schema"], "attune-tuned/1");
    EXPECT_EQ(document["records"].size(), 2u);
    EXPECT_EQ(document["records"][0]["problem"], causal_8k);
    EXPECT_EQ(document["device"]["name"], "Test GPU");
    EXPECT_EQ(document.dump(1) + "\n", text) << "keys in order";
    for (const char* absent : {"binary", "host", "another GPU", "/tmp", "/home"})
        EXPECT_EQ(text.find(absent), std::string::npos) << absent;
    EXPECT_EQ(export_json(source, some_device("no GPU")).error().code, Code::not_found);
}

TEST_F(ExchangeTest, SaysWhatWasReplacedAndWhatWasKept) {
    Record better = some_record(causal_8k, "own kernel");
    better.effort = Effort::patient;
    put(target, better, "own kernel");
    Record lower = some_record(small, "low kernel");
    lower.restriction = "max_smem=1";
    lower.effort = Effort::estimate;
    lower.evidence = Evidence::estimated;
    put(target, lower, "low kernel");
    const auto report = import_json(target, exported());
    ASSERT_TRUE(report);
    EXPECT_EQ(report->rows[0].outcome, Outcome::kept);
    EXPECT_THAT(report->rows[0].reason, HasSubstr("patient, measured"));
    EXPECT_EQ(report->rows[1].outcome, Outcome::replaced);
    EXPECT_EQ((*target.find(some_device(), better.problem))->effort, Effort::patient);
    const auto again = import_json(target, exported());
    EXPECT_EQ(again->count(Outcome::kept), 2) << "importing twice changes nothing";
}

TEST_F(ExchangeTest, AnEstimateNeverReplacesAMeasurement) {
    Record own = some_record(small, "own kernel");
    own.restriction = "max_smem=1";
    own.effort = Effort::estimate;
    put(target, own, "own kernel");
    const auto report = import_json(target, exported());
    EXPECT_EQ(report->rows[1].outcome, Outcome::kept);
    EXPECT_THAT(report->rows[1].reason, HasSubstr("measured"));
}

TEST_F(ExchangeTest, KeepsTheBinaryOfTheSameSource) {
    Record same = some_record(causal_8k);
    same.effort = Effort::estimate;
    put(target, same);
    ASSERT_EQ(import_json(target, exported())->rows[0].outcome, Outcome::replaced);
    EXPECT_EQ((*target.find(some_device(), same.problem))->binary_sha256, same.binary_sha256);
    EXPECT_TRUE(target.binary(same.binary_sha256));

    Store other = open_store(folder.file("other"));
    same.source_hash = sha256_hex("older source");
    put(other, same);
    ASSERT_EQ(import_json(other, exported())->rows[0].outcome, Outcome::replaced);
    EXPECT_EQ((*other.find(some_device(), same.problem))->binary_sha256, "");
}

TEST_F(ExchangeTest, OneBadRecordIsOneRefusedRow) {
    const struct {
        const char* key;
        json value;
        const char* named;
    } cases[] = {
        {"time_us", "12", "time_us is not a number"},
        {"time_us", nullptr, "time_us is not a number"},
        {"time_us", -1, "time_us is -1"},
        {"time_us", 0, "time_us is 0"},
        {"time_us", 1e300, "time_us is 1e+300"},
        {"registers", 1.5, "registers is not a whole number"},
        {"registers", 4294967296, "registers is 4294967296"},
        {"registers", 18446744073709551615u, "registers is 18446744073709551615"},
        {"registers", -2, "registers is -2"},
        {"registers", true, "registers is not a whole number"},
        {"config", 7, "config is not a text"},
        {"config", "mma/q9999", "q9999"},
        {"config", "next/q64", "next/q64"},
        {"config", std::string(5000, 'x'), "config is no text"},
        {"entry", std::string("a\0b", 3), "entry is no text"},
        {"effort", "heroic", "heroic"},
        {"evidence", json::array(), "evidence is not a text"},
        {"source_hash", "abc", "SHA-256"},
        {"problem", "bf16.d128.causal", "bf16.d128.causal"},
        {"problem", "bf16.d20.causal/b1.h1.kv1.q1.k1", "head_dim 20"},
        {"problem", "bf16.d64.causal/b1.h3.kv2.q1.k1", "heads_q 3"},
        {"binary_sha256", "x", "the key 'binary_sha256' is unknown"},
        {"cost", 1, "the key 'cost' is unknown"},
    };
    for (const auto& [key, value, named] : cases)
        EXPECT_THAT(refusal([&](json& row) { row[key] = value; }), HasSubstr(named)) << key;
    EXPECT_THAT(refusal([](json& row) { row.erase("driver"); }), HasSubstr("driver is missing"));
    EXPECT_THAT(refusal([](json& row) { row.erase("problem"); }), HasSubstr("problem is missing"));
    EXPECT_THAT(refusal([](json& row) { row = 7; }), HasSubstr("not an object"));
    EXPECT_THAT(refusal([](json& row) { row = json::array(); }), HasSubstr("not an object"));
}

TEST_F(ExchangeTest, AKeyThatStandsTwiceRefusesItsRecordOnly) {
    std::string text = exported();
    const std::string key = "\"config\": ";
    text.insert(text.find(key), "\"config\": \"mma/q16\", ");
    const auto report = import_json(target, text);
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_EQ(report->count(Outcome::refused), 1);
    EXPECT_EQ(report->count(Outcome::added), 1);
    EXPECT_THAT(report->rows[0].reason, HasSubstr("\"config\" stands there twice"));
    EXPECT_EQ(report->rows[0].problem, causal_8k);
}

TEST_F(ExchangeTest, HostileFilesAreRefusedWhole) {
    EXPECT_THAT(error("").message, HasSubstr("not JSON"));
    EXPECT_THAT(error("{").message, HasSubstr("not JSON"));
    EXPECT_THAT(error("{} {}").message, HasSubstr("not JSON"));
    EXPECT_THAT(error("[1]").message, HasSubstr("not a JSON object"));
    EXPECT_THAT(error("{\"schema\": \"\xff\"}").message, HasSubstr("not JSON"));
    EXPECT_THAT(error("{\"a\": 1e999}").message, HasSubstr("not JSON"));
    EXPECT_THAT(error("{\"a\": NaN}").message, HasSubstr("not JSON"));
    EXPECT_LT(error("{\"a\": \"" + std::string(1 << 20, 'x')).message.size(), 300u);
    EXPECT_THAT(error(std::string(1 << 20, '[')).message, HasSubstr("too deeply"));
    EXPECT_THAT(error("{\"schema\": \"attune-tuned/1\", \"x\": [[[[[[[[]]]]]]]]}").message,
                HasSubstr("too deeply"));
    EXPECT_THAT(error("{}").message, HasSubstr("no schema"));
    EXPECT_THAT(error("{\"schema\": 1}").message, HasSubstr("no schema"));
    EXPECT_THAT(error("{\"schema\": \"other/1\"}").message, HasSubstr("other/1"));
    const Error newer = error("{\"schema\": \"attune-tuned/2\"}");
    EXPECT_EQ(newer.code, Code::version_mismatch);
    EXPECT_EQ(newer.next_step, "update Attune");
    EXPECT_THAT(error("{\"schema\": \"attune-tuned/1\", \"schema\": \"attune-tuned/1\"}").message,
                HasSubstr("twice"));
    EXPECT_THAT(error("{\"schema\": \"attune-tuned/1\"}").message, HasSubstr("no device"));
    json document = json::parse(exported());
    document["records"] = json::object();
    EXPECT_THAT(error(document.dump()).message, HasSubstr("no records"));
    document = json::parse(exported());
    document["device"]["multiprocessors"] = "many";
    EXPECT_THAT(error(document.dump()).message, HasSubstr("device: multiprocessors"));
    document = json::parse(exported());
    document["device"]["extra"] = 1;
    EXPECT_THAT(error(document.dump()).message, HasSubstr("'extra'"));
}

TEST_F(ExchangeTest, FilesAppearWholeOrNotAtAll) {
    const std::string path = folder.file("export.json");
    ASSERT_TRUE(export_file(source, some_device(), path));
    EXPECT_EQ(read_file(path), exported());
    write_file(path, "older");
    ASSERT_TRUE(export_file(source, some_device(), path)) << "replaces";
    EXPECT_EQ(read_file(path), exported());
    const auto report = import_file(target, path);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->rows.size(), 2u);

    write_file(path, "older");
    EXPECT_EQ(export_file(source, some_device("no GPU"), path).error().code, Code::not_found);
    EXPECT_EQ(read_file(path), "older");
    EXPECT_EQ(export_file(source, some_device(), folder.file("no/such/file")).error().code,
              Code::io_error);
    mkdir(folder.file("folder").c_str(), 0755);
    EXPECT_EQ(export_file(source, some_device(), folder.file("folder")).error().code,
              Code::io_error);
    for (const auto& entry : std::filesystem::directory_iterator(folder.file("")))
        EXPECT_FALSE(entry.path().filename().string().starts_with("export.json."))
            << "a temporary file is left";
}

TEST_F(ExchangeTest, UnreadableFiles) {
    EXPECT_EQ(import_file(target, folder.file("none")).error().code, Code::not_found);
    EXPECT_EQ(import_file(target, folder.file("")).error().code, Code::io_error);
    write_file(folder.file("bad"), "{");
    EXPECT_THAT(import_file(target, folder.file("bad")).error().message,
                HasSubstr(folder.file("bad")));
    write_file(folder.file("big"), "{");
    std::filesystem::resize_file(folder.file("big"), std::uintmax_t(65) << 20);
    EXPECT_THAT(import_file(target, folder.file("big")).error().message, HasSubstr("bytes"));
}

}  // namespace
}  // namespace attune
