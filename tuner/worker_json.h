// What travels in the heads of messages, field by field.
#pragma once

#include <nlohmann/json.hpp>

#include "generator/emit.h"
#include "generator/formatted.h"
#include "runtime/device.h"
#include "runtime/record.h"
#include "tuner/bench.h"
#include "tuner/compiler.h"

namespace attune {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Source, text, entry, hash, options)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Resources, registers, spill_bytes, stack_bytes,
                                   shared_static_bytes, serialised_note, accumulation_registers,
                                   scalar_registers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Target, id, name, vendor, arch, multiprocessors,
                                   shared_bytes_per_cta, shared_bytes_per_multiprocessor,
                                   shared_bytes_reserved_per_cta, registers_per_multiprocessor,
                                   max_registers_per_thread, max_threads_per_multiprocessor,
                                   max_ctas_per_multiprocessor, wave_size, l2_bytes,
                                   memory_gb_per_s, dense_f16_tflops, boost_clock_mhz)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceInfo, id, target, driver, uuid, emulated)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MeasurePolicy, launches_per_burst, min_bursts, max_bursts,
                                   target_spread, idle_gap_ms, drop_factor, reject_factor,
                                   cold_l2_factor, max_launch_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Timing, samples_us, clocks_mhz, median_us, spread, rejected)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measurement, config, verdict, reason, samples_us, clocks_mhz,
                                   median_us, spread, max_error, error_bar, registers, spill_bytes,
                                   shared_bytes, compile_ms, final_round)

/// The bytes travel beside the head.
inline void to_json(nlohmann::json& json, const Binary& binary) {
    json = {{"entry", binary.entry},
            {"resources", binary.resources},
            {"toolchain", binary.toolchain},
            {"log", binary.log},
            {"compile_ms", binary.compile_ms}};
}
inline void from_json(const nlohmann::json& json, Binary& binary) {
    json.at("entry").get_to(binary.entry);
    json.at("resources").get_to(binary.resources);
    json.at("toolchain").get_to(binary.toolchain);
    json.at("log").get_to(binary.log);
    json.at("compile_ms").get_to(binary.compile_ms);
}

/// A field of a message's head; corrupt where it is missing or of another type.
template <class T>
Result<T> field(const nlohmann::json& head, const char* key) {
    try {
        return head.at(key).get<T>();
    } catch (const nlohmann::json::exception& fault) {
        return Error{Code::corrupt, formatted("message field {}: {}", key, fault.what()), ""};
    }
}

}  // namespace attune
