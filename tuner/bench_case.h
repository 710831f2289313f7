// BenchCase = one problem's tensors on a device: inputs, guarded outputs, and what a kernel is
// handed to work on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "generator/problem.h"
#include "tuner/device_buffer.h"
#include "tuner/reference.h"

namespace attune {

/// Bits of elements as they lie in memory, and back.
std::vector<std::byte> stored_elements(std::span<const std::uint16_t> bits, DType dtype);
std::vector<std::uint16_t> loaded_elements(std::span<const std::byte> stored, DType dtype);

/// Seeded normal values, rounded to the element type, made once and dealt out to tensors one after
/// the other. Its length is a prime, so that no two rows of a tensor are the same values.
class NormalPool {
public:
    NormalPool(DType dtype, unsigned seed);
    Result<void> fill(Device& device, DevicePtr to, std::size_t count);

private:
    std::vector<std::byte> values_;
    std::size_t element_bytes_;
    std::size_t next_ = 0;
};

/// An output with canary zones on both sides. Before a launch it is poisoned: every 16-bit and
/// every 32-bit float in it is NaN.
class GuardedOutput {
public:
    static Result<GuardedOutput> allocate(Device& device, std::size_t bytes);
    Result<void> poison(Device& device) const;
    /// False if a byte of a canary zone changed.
    Result<bool> intact(Device& device) const;
    DevicePtr ptr() const;
    std::size_t bytes() const { return bytes_; }

private:
    DeviceBuffer buffer_;
    std::size_t bytes_ = 0;
};

class BenchCase {
public:
    /// As many input sets as `input_bytes` and the device's memory hold, at least one. Tensors are
    /// contiguous BHSD, 256 bytes aligned, with NaN between them.
    static Result<BenchCase> make(Device& device, const Problem& problem, unsigned seed,
                                  std::size_t input_bytes);

    const Problem& problem() const { return problem_; }
    std::size_t input_sets() const { return sets_.size(); }
    std::size_t input_set_bytes() const { return set_bytes_; }
    std::size_t rows() const;      // of O, over batch and heads
    std::size_t elements() const;  // of O
    const GuardedOutput& o() const { return o_; }
    const GuardedOutput& lse() const { return lse_; }

    /// Grows the workspace to at least `bytes` and zeroes it.
    Result<void> reserve_workspace(Device& device, std::size_t bytes);
    /// Poisons O and LSE.
    Result<void> poison(Device& device) const;
    /// What a launch did that it may not: "wrote outside O" (LSE, the workspace), or left the
    /// workspace other than zero; "" if nothing.
    Result<std::string> damage(Device& device) const;
    AttentionParams params(std::size_t input_set) const;

    struct Inputs {
        std::vector<std::uint16_t> q, k, v;
        HeadScales scales;
    };
    Result<Inputs> read_inputs(Device& device) const;  // of set 0

private:
    struct InputSet {
        DevicePtr q, k, v;
    };
    Result<void> fill_sets(Device& device, unsigned seed, std::size_t count);
    Result<void> make_scales(Device& device);

    Problem problem_;
    std::size_t q_elements_ = 0, k_elements_ = 0, v_elements_ = 0, set_bytes_ = 0;
    DeviceBuffer inputs_;
    std::vector<InputSet> sets_;
    HeadScales scales_;  // e4m3 alone
    DeviceBuffer q_scale_, k_scale_, v_scale_;
    GuardedOutput o_, lse_, workspace_;
};

}  // namespace attune
