// One instruction at a time, by tiny kernels written once against templates/target/contract.md:
// held against host arithmetic on the device under test and, where that is a GPU, against the
// emulator too: equal bits, except that one NaN is as good as another. exp2 and log2 are
// approximate.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "generator/formatted.h"
#include "tests/attention_case.h"
#include "tuner/float16.h"

namespace attune {

using Words = std::vector<std::uint32_t>;

inline float as_float(std::uint32_t word) {
    return std::bit_cast<float>(word);
}
inline bool is_nan(std::uint32_t word) {
    return std::isnan(as_float(word));
}
inline std::uint32_t as_word(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

class Instruction : public testing::Test {
protected:
    /// On the device under test; `emulated` is what the emulator gives, the same where that is it.
    /// `body` sees in, out (words), shared, thread, lane, warp, and p.map of `tensor`, whose base
    /// is the input, if it has box_rows.
    void run(const std::string& body, int threads, const Words& in, std::size_t out_words,
             const TensorMapSpec& tensor = {});
    void expect_equal_bits() const;
    void expect_equal_floats() const;
    /// Both within 2 units of the last place of `exact`, or within `absolute`.
    void expect_close(const Words& in, double (*exact)(double), double absolute) const;

    Words out, emulated;
};

}  // namespace attune
