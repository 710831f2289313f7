// The fields of devices, records and measurements by name: one list serves the store's columns and
// the exchange's keys. A record's device and problem have forms of their own there.
#pragma once

#include "runtime/record.h"

namespace attune {

template <class Key, class Visit>
void for_each_device_field(Key& device, Visit&& visit) {
    visit("vendor", device.vendor);
    visit("name", device.name);
    visit("arch", device.arch);
    visit("multiprocessors", device.multiprocessors);
    visit("partition", device.partition);
}

/// `R` is Record or const Record.
template <class R, class Visit>
void for_each_record_field(R& record, Visit&& visit) {
    visit("restriction", record.restriction);
    visit("config", record.config);
    visit("entry", record.entry);
    visit("source_hash", record.source_hash);
    visit("binary_sha256", record.binary_sha256);
    visit("registers", record.registers);
    visit("spill_bytes", record.spill_bytes);
    visit("shared_bytes", record.shared_bytes);
    visit("evidence", record.evidence);
    visit("effort", record.effort);
    visit("time_us", record.time_us);
    visit("spread", record.spread);
    visit("sm_clock_mhz", record.sm_clock_mhz);
    visit("tflops", record.tflops);
    visit("mma_peak_tflops", record.mma_peak_tflops);
    visit("datasheet_tflops", record.datasheet_tflops);
    visit("max_error", record.max_error);
    visit("error_bar", record.error_bar);
    visit("default_config", record.default_config);
    visit("default_time_us", record.default_time_us);
    visit("runner_up_config", record.runner_up_config);
    visit("runner_up_time_us", record.runner_up_time_us);
    visit("candidates_compiled", record.candidates_compiled);
    visit("candidates_checked", record.candidates_checked);
    visit("candidates_timed", record.candidates_timed);
    visit("toolchain", record.toolchain);
    visit("driver", record.driver);
    visit("policy", record.policy);
    visit("tool_version", record.tool_version);
    visit("created_utc", record.created_utc);
}

/// `M` is Measurement or const Measurement.
template <class M, class Visit>
void for_each_measurement_field(M& measurement, Visit&& visit) {
    visit("config", measurement.config);
    visit("verdict", measurement.verdict);
    visit("reason", measurement.reason);
    visit("samples_us", measurement.samples_us);
    visit("clocks_mhz", measurement.clocks_mhz);
    visit("median_us", measurement.median_us);
    visit("spread", measurement.spread);
    visit("max_error", measurement.max_error);
    visit("error_bar", measurement.error_bar);
    visit("registers", measurement.registers);
    visit("spill_bytes", measurement.spill_bytes);
    visit("shared_bytes", measurement.shared_bytes);
    visit("compile_ms", measurement.compile_ms);
    visit("final_round", measurement.final_round);
}

}  // namespace attune
