// Target = the GPU a kernel runs on, as plain numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "generator/status.h"

namespace attune {

enum class Vendor { nvidia, amd };
const char* name_of(Vendor vendor);  // "nvidia", "amd"

/// A real device is asked for these numbers; configs/gpus/*.json gives them for a GPU that is not
/// here, each with its source. Units are in the names.
struct Target {
    std::string id;    // "h200": the file's stem, and the N of emu:N
    std::string name;  // "NVIDIA H200"
    Vendor vendor = Vendor::nvidia;
    std::string arch;              // what the compiler is asked for: "sm_80", "sm_90a", "gfx942"
    int multiprocessors = 0;       // SMs or CUs
    int shared_bytes_per_cta = 0;  // opt-in maximum
    int shared_bytes_per_multiprocessor = 0;
    int shared_bytes_reserved_per_cta =
        0;                                 // what the system takes of it per CTA (1024 since sm_80)
    int registers_per_multiprocessor = 0;  // 32-bit
    int max_registers_per_thread = 255;
    int max_threads_per_multiprocessor = 0;
    int max_ctas_per_multiprocessor = 0;
    int wave_size = 32;
    std::int64_t l2_bytes = 0;
    double memory_gb_per_s = 0;   // datasheet
    double dense_f16_tflops = 0;  // datasheet, fp32 accumulate, dense
    double boost_clock_mhz = 0;

    /// Malformed or incomplete text is Code::corrupt and names the key.
    static Result<Target> from_json(std::string_view text);
    std::string to_json() const;

    /// sm_80 -> 80, sm_90a -> 90; 0 for AMD.
    int compute_capability() const;
    /// With operands of 2 bytes, or of one: twice that on Hopper, where alone they are used.
    double dense_tflops(int operand_bytes) const { return dense_f16_tflops * 2 / operand_bytes; }
};

/// Every GPU of configs/gpus, in file order; embedded in the library.
const std::vector<Target>& known_targets();
/// By id ("h200", "a100-sxm4-80gb"); not_found lists the ids there are.
Result<Target> find_target(std::string_view id);

}  // namespace attune
