// Temporary folders, and records to put into stores.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "generator/emit.h"
#include "runtime/store.h"

namespace attune {

class TempFolder {
public:
    TempFolder() {
        std::string pattern = std::filesystem::temp_directory_path() / "attune-test-XXXXXX";
        path_ = mkdtemp(pattern.data());
    }
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
        std::filesystem::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    std::string file(const std::string& name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

inline std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    return {data, data + text.size()};
}

inline DeviceKey some_device(const std::string& name = "Test GPU") {
    return {"nvidia", name, "sm_80", 108, ""};
}

/// A measured record of effort `measure` whose binary is `binary`.
inline Record some_record(std::string_view problem, std::string_view binary = "a kernel") {
    Record record;
    record.device = some_device();
    record.problem = *Problem::parse(problem);
    record.config = Config::parse("mma/q64.kv32.w4")->text();
    record.entry = "attune_kernel";
    record.source_hash = sha256_hex("source");
    record.binary_sha256 = binary.empty() ? "" : sha256_hex(binary);
    record.registers = 128;
    record.spill_bytes = 0;
    record.shared_bytes = 49152;
    record.evidence = Evidence::measured;
    record.effort = Effort::measure;
    record.time_us = 12.25;
    record.spread = 0.004;
    record.sm_clock_mhz = 1410;
    record.tflops = 101.5;
    record.mma_peak_tflops = 203;
    record.datasheet_tflops = 312;
    record.max_error = 1e-3;
    record.error_bar = 2.5e-3;
    record.default_config = record.config;
    record.default_time_us = 14.5;
    record.runner_up_config = Config::parse("mma/q64.kv64.w4")->text();
    record.runner_up_time_us = 12.5;
    record.candidates_compiled = 30;
    record.candidates_checked = 20;
    record.candidates_timed = 10;
    record.toolchain = "nvrtc 13.0";
    record.driver = "580.1";
    record.policy = "burst8";
    record.tool_version = "0.1.0";
    record.created_utc = "2026-12-01T12:00:00Z";
    return record;
}

inline Measurement some_measurement(const std::string& config) {
    Measurement measurement;
    measurement.config = config;
    return measurement;
}

constexpr const char* causal_8k = "bf16.d128.causal/b2.h16.kv16.q8192.k8192";

inline Store open_store(const std::string& path, Store::Access access = Store::Access::write) {
    auto store = Store::open(path, access);
    EXPECT_TRUE(store) << store.error().text();
    return std::move(*store);
}

/// put() of a record with the binary it was made with.
inline bool put(Store& store, const Record& record, std::string_view binary = "a kernel") {
    const auto stored = store.put(record, bytes_of(binary), {});
    EXPECT_TRUE(stored) << stored.error().text();
    return *stored;
}

}  // namespace attune
