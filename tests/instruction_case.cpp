#include "tests/instruction_case.h"

#include <algorithm>

#include "tests/kernel_text.h"
#include "tuner/device_buffer.h"

namespace attune {
namespace {

/// What the kernels here are handed, as `p`.
struct Params {
    const void* in;
    void* out;
    TensorMap map;
};

Result<Words> run_on(TestBed& bed, const std::string& body, int threads, const Words& in,
                     std::size_t out_words, TensorMapSpec tensor) {
    constexpr std::uint32_t shared_bytes = 48 << 10;
    Source source;
    source.entry = "attune_kernel";
    source.text = kernel_text(
        body, "TensorMap map;",
        "ATTUNE_DEVICE unsigned bits_of(float x) { return __builtin_bit_cast(unsigned, x); }\n"
        "ATTUNE_DEVICE float float_of(unsigned x) { return __builtin_bit_cast(float, x); }\n",
        threads);
    const auto binary = bed.compiler().compile(source, bed.target().arch);
    if (!binary) return binary.error();
    Device& device = bed.device();
    const auto kernel = device.load(binary->bytes, binary->entry, shared_bytes);
    if (!kernel) return kernel.error();
    auto input = DeviceBuffer::allocate(device, 4 * std::max<std::size_t>(in.size(), 4));
    if (!input) return input.error();
    auto output = DeviceBuffer::allocate(device, 4 * out_words);
    if (!output) return output.error();
    auto done = device.copy_to_device(input->ptr(), in.data(), 4 * in.size());
    if (done) done = device.fill(output->ptr(), 0xffffffff, output->bytes());
    Params params{input->as<void>(), output->as<void>(), {}};
    tensor.base = input->ptr();
    if (done && tensor.box_rows > 0) done = device.encode_tensor_map(tensor, params.map);
    const Launch launch{1, static_cast<std::uint32_t>(threads), shared_bytes, 0};
    if (done) done = device.launch(*kernel, launch, &params, sizeof params);
    if (done) done = device.synchronize();
    if (!done) return done.error();
    auto out = read_back<std::uint32_t>(device, output->ptr(), out_words);
    (void)device.unload(*kernel);
    return out;
}

}  // namespace

void Instruction::run(const std::string& body, int threads, const Words& in, std::size_t out_words,
                      const TensorMapSpec& tensor) {
    auto result = run_on(test_bed(), body, threads, in, out_words, tensor);
    ASSERT_TRUE(result) << result.error().text();
    out = emulated = *result;
    if (test_bed().emulated()) return;
    static TestBed emulator = *TestBed::open("emu:h200");
    result = run_on(emulator, body, threads, in, out_words, tensor);
    ASSERT_TRUE(result) << result.error().text();
    emulated = *result;
}

void Instruction::expect_equal_bits() const {
    EXPECT_EQ(out, emulated);
}

void Instruction::expect_equal_floats() const {
    for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_TRUE(out[i] == emulated[i] || (is_nan(out[i]) && is_nan(emulated[i])))
            << i << ": " << as_float(out[i]) << " and " << as_float(emulated[i]);
}

void Instruction::expect_close(const Words& in, double (*exact)(double), double absolute) const {
    for (std::size_t i = 0; i < in.size(); ++i)
        for (const float got : {as_float(out[i]), as_float(emulated[i])}) {
            const double want = exact(as_float(in[i]));
            const double bar = std::max(std::ldexp(std::fabs(want), -22), absolute);
            EXPECT_TRUE(got == want || (std::isfinite(want) && std::fabs(got - want) <= bar) ||
                        (std::isnan(got) && std::isnan(want)))
                << got << " where " << want << " is right, of " << as_float(in[i]);
        }
}

}  // namespace attune
