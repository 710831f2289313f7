// Record = the best variant of one (device, signature, shape) with its evidence.
// Measurement = what happened to one candidate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generator/problem.h"
#include "generator/target.h"

namespace attune {

struct DeviceInfo;

/// Which GPU a record belongs to. Driver and toolchain are columns of the record, not part of the
/// key.
struct DeviceKey {
    std::string vendor;
    std::string name;  // "NVIDIA H200"; the emulator's is "emu NVIDIA H200", never mistaken for the
                       // real one
    std::string arch;
    int multiprocessors = 0;
    std::string partition;  // MIG profile; empty for a whole GPU

    bool operator==(const DeviceKey&) const = default;
};
/// A MIG device is named "NVIDIA H200 MIG 1g.18gb" by its driver: the profile becomes the
/// partition.
DeviceKey device_key(const DeviceInfo& info);

enum class Verdict { ok, pruned, compile_failed, launch_failed, wrong, timed_out, crashed, slow };
const char* name_of(Verdict verdict);
Result<Verdict> parse_verdict(std::string_view text);

struct Measurement {
    std::string config;
    Verdict verdict = Verdict::ok;
    std::string reason;              // why pruned, the error, the signal; empty for ok
    std::vector<double> samples_us;  // in the order taken
    std::vector<double> clocks_mhz;  // SM clock with each block of samples
    double median_us = 0;
    double spread = 0;     // (p75 - p25) / median
    double max_error = 0;  // against the reference
    double error_bar = 0;  // what max_error had to stay under
    int registers = -1;
    int spill_bytes = -1;
    int shared_bytes = 0;
    double compile_ms = 0;
    bool final_round = false;
};

enum class Evidence { estimated, measured };
enum class Effort { estimate, measure, patient, exhaustive };  // ascending
const char* name_of(Evidence evidence);
const char* name_of(Effort effort);
Result<Evidence> parse_evidence(std::string_view text);
Result<Effort> parse_effort(std::string_view text);

/// What a search or a look-up is limited to. Records made under a restriction answer only requests
/// with the same one.
struct Restriction {
    std::string family;        // "" = all
    int max_shared_bytes = 0;  // per CTA; 0 = the device's

    /// As records hold it: "", "family=mma", "family=mma,max_smem=101376".
    std::string text() const;
    /// The target as a restricted search sees it.
    Target applied_to(Target target) const;
};

struct Record {
    DeviceKey device;
    Problem problem;
    std::string restriction;  // Restriction::text()

    std::string config;
    std::string entry;
    std::string source_hash;
    std::string binary_sha256;  // empty: no binary yet (imported; `attune build` makes it)
    int registers = -1;
    int spill_bytes = -1;
    int shared_bytes = 0;

    Evidence evidence = Evidence::estimated;
    Effort effort = Effort::estimate;
    double time_us = 0;
    double spread = 0;
    double sm_clock_mhz = 0;
    double tflops = 0;
    double mma_peak_tflops = 0;   // by a probe of the same instruction in the same run; 0 = not
                                  // measured
    double datasheet_tflops = 0;  // dense, by the GPU's vendor; 0 = not known
    double max_error = 0;
    double error_bar = 0;
    std::string default_config;  // timed in the same final round
    double default_time_us = 0;
    std::string runner_up_config;  // empty if there was none
    double runner_up_time_us = 0;
    int candidates_compiled = 0;
    int candidates_checked = 0;
    int candidates_timed = 0;

    std::string toolchain;  // "nvrtc 13.0"
    std::string driver;
    std::string policy;  // id of the measuring policy, see tuner/measure.h
    std::string tool_version;
    std::string created_utc;  // ISO 8601, seconds

    /// Shares of the measured and of the datasheet's MMA peak; 0 = not known.
    double mma_utilisation() const { return mma_peak_tflops > 0 ? tflops / mma_peak_tflops : 0; }
    double datasheet_utilisation() const {
        return datasheet_tflops > 0 ? tflops / datasheet_tflops : 0;
    }
};

}  // namespace attune
