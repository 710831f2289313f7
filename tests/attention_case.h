// One launch of one attention kernel on the device under test: host tensors, a layout, guarded
// outputs, and how far the results are from fp64. The same tests run on every device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/emu/emu.h"
#include "tuner/compiler.h"
#include "tuner/device_buffer.h"
#include "tuner/reference.h"

namespace attune {

/// $ATTUNE_TEST_DEVICE ("cuda:0"), else "emu:h200".
std::string test_device_id();

/// Values as the kernel sees them; contiguous BHSD.
struct HostTensors {
    std::vector<std::uint16_t> q, k, v;
    HeadScales scales = {};
};
HostTensors normal_tensors(const Problem& problem, unsigned seed);
/// Another number for each head, for e4m3; else none.
HeadScales head_scales(const Problem& problem);
Reference reference_of(const Problem& problem, const HostTensors& tensors);

/// How the tensors lie in memory. padded: BSHD with unused elements behind every row.
enum class TensorLayout { bhsd, bshd, fused_qkv, padded };

/// Where a tensor starts and how it goes on, in elements.
struct TensorPlace {
    long long offset;
    TensorStrides strides;
};
/// q, k and v lie in one buffer of `inputs` elements, o in one of `outputs`.
struct Placement {
    TensorPlace q, k, v, o;
    long long inputs, outputs;
};
Placement place(const Problem& problem, TensorLayout layout);

/// What a launch left behind; contiguous BHSD. lse is empty where it is not wanted.
struct Outcome {
    std::vector<std::uint16_t> o;
    std::vector<float> lse;
};

/// The device under test, its compiler, and the kernels made so far.
class TestBed {
public:
    static Result<TestBed> open(const std::string& device_id,
                                const std::vector<TemplateFile>& templates = embedded_templates());

    Device& device() { return *device_; }
    const Target& target() const { return device_->info().target; }
    bool emulated() const { return device_->info().emulated; }
    /// Null on a GPU.
    EmuDevice* emulator() { return dynamic_cast<EmuDevice*>(device_.get()); }
    Compiler& compiler() { return *compiler_; }

    /// Made once per signature and config; the config must be legal.
    Result<Kernel> kernel(const Signature& signature, const Config& config);
    void forget_kernels();

    /// Inputs, outputs and everything around them start as NaN. wrong_result where an element
    /// outside O or LSE changed, one inside was not written, or the workspace is not zero again.
    Result<Outcome> run(const Problem& problem, const Config& config, const HostTensors& tensors,
                        TensorLayout layout = TensorLayout::bhsd);

private:
    struct Buffers {
        DeviceBuffer in, out, lse;
    };
    TestBed() = default;
    Result<void> fill_and_launch(const Problem& problem, const Config& config,
                                 const std::vector<std::byte>& image, const Buffers& buffers,
                                 AttentionParams params);
    Result<void> reserve_workspace(std::size_t bytes);
    /// Launches find it zero and leave it so.
    Result<void> check_workspace();

    std::unique_ptr<Device> device_;
    std::unique_ptr<Compiler> compiler_;
    std::vector<TemplateFile> templates_;
    std::map<std::string, Kernel> kernels_;
    DeviceBuffer workspace_;  // zeroed once
};

/// The bed that the tests of a binary share.
TestBed& test_bed();

/// The bar for random inputs: twice the low-precision baseline's own error, plus 1e-5.
double bar_of(const Reference& reference);

/// What is wrong with an outcome; "" if nothing. `skip` rows (over batch and heads) are not looked
/// at.
std::string difference(const Problem& problem, const Reference& reference, const Outcome& outcome,
                       double bar, const std::vector<bool>& skip = {});

/// A config of every softmax policy and every way to walk and share the keys, on small tiles, of
/// each family that runs there: what properties and attacks are tried on, with head_dim 64.
std::vector<std::string> policy_configs(DType dtype, const Target& target);

/// bf16 keeps 8 bits, f16 11, e4m3 4: what rounding to nearest may change, relatively.
double unit_roundoff(DType dtype);

}  // namespace attune
