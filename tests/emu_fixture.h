// Tiny kernels on the emulator, written as source text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/emu/emu.h"
#include "tests/kernel_text.h"
#include "tuner/compiler.h"

namespace attune {

/// What the kernels here are handed, as `p`.
struct EmuParams {
    const void* in;
    void* out;
    TensorMap map;
};

/// `text` with `by` in the place of its first `what`.
inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), by);
}

/// 16-bit values as words.
inline std::vector<std::uint32_t> packed(const std::vector<std::uint16_t>& values) {
    std::vector<std::uint32_t> words(values.size() / 2);
    for (std::size_t i = 0; i < words.size(); ++i)
        words[i] = values[2 * i] | std::uint32_t(values[2 * i + 1]) << 16;
    return words;
}

class EmuTest : public testing::Test {
protected:
    void SetUp() override {
        auto opened = open_emulator("h200");
        ASSERT_TRUE(opened) << opened.error().text();
        device = std::move(*opened);
    }

    Result<Binary> compile(const std::string& body) const {
        auto compiler = open_host_compiler();
        if (!compiler) return compiler.error();
        Source source;
        source.entry = "attune_kernel";
        source.text = kernel_text(body, "TensorMap map;", helpers);
        return (*compiler)->compile(source, "sm_80");
    }

    /// Runs `body` with `in` as its input words and brings back `out_words` of output.
    Result<void> run(const std::string& body, int threads, const std::vector<std::uint32_t>& in,
                     std::size_t out_words, int ctas = 1, int shared_bytes = 4096) {
        const Result<Binary> binary = compile(body);
        if (!binary) return binary.error();
        const auto kernel = device->load(binary->bytes, binary->entry, shared_bytes);
        if (!kernel) return kernel.error();
        const DevicePtr input = *device->allocate(4 * in.size());
        const DevicePtr output = *device->allocate(4 * out_words);
        EXPECT_TRUE(device->copy_to_device(input, in.data(), 4 * in.size()));
        EmuParams params{reinterpret_cast<void*>(input), reinterpret_cast<void*>(output), {}};
        tensor.base = input;
        if (tensor.box_rows > 0) {
            EXPECT_TRUE(device->encode_tensor_map(tensor, params.map));
        }
        const Launch launch{static_cast<std::uint32_t>(ctas), static_cast<std::uint32_t>(threads),
                            static_cast<std::uint32_t>(shared_bytes), 0};
        const Result<void> ran = device->launch(*kernel, launch, &params, sizeof params);
        out.assign(out_words, 0);
        EXPECT_TRUE(device->copy_to_host(out.data(), output, 4 * out_words));
        EXPECT_TRUE(device->release(input));
        EXPECT_TRUE(device->release(output));
        EXPECT_TRUE(device->unload(*kernel));
        return ran;
    }

    /// The text of the error that `body` must end with.
    std::string fault(const std::string& body, int threads = 64, int shared_bytes = 4096) {
        const Result<void> ran =
            run(body, threads, std::vector<std::uint32_t>(64), 64, 1, shared_bytes);
        if (ran) return "no error";
        EXPECT_EQ(ran.error().code, Code::device_error) << ran.error().text();
        return ran.error().text();
    }

    std::string helpers;  // device functions that bodies call
    std::unique_ptr<EmuDevice> device;
    TensorMapSpec tensor;            // of the input, for `p.map`; none unless it has box_rows
    std::vector<std::uint32_t> out;  // of the latest run
};

}  // namespace attune
