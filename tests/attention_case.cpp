#include "tests/attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <span>

#include "generator/formatted.h"
#include "runtime/launch_attention.h"
#include "tuner/bench_case.h"
#include "tuner/compiler_process.h"
#include "tuner/devices.h"
#include "tuner/float16.h"
#include "tuner/tune.h"

namespace attune {
namespace {

constexpr long long gap = 256;               // elements before, between and behind tensors
constexpr std::uint16_t unwritten = 0xffff;  // NaN; kernels make 0x7fff

TensorStrides strides_of(long long row, long long head, long long rows) {
    return {row * rows, head, row};
}

/// Calls visit(index of the row's first element in contiguous BHSD, the same in the placed tensor).
template <class Visit>
void for_each_row(const Shape& s, int heads, int rows, int d, const TensorPlace& at, Visit visit) {
    long long from = 0;
    for (int b = 0; b < s.batch; ++b)
        for (int h = 0; h < heads; ++h)
            for (int r = 0; r < rows; ++r, from += d)
                visit(from,
                      at.offset + b * at.strides.batch + h * at.strides.head + r * at.strides.row);
}

/// The tensors as they are placed, then the head scales, 16 bytes further each.
std::vector<std::byte> input_image(const Problem& p, const Placement& at,
                                   const HostTensors& tensors) {
    std::vector<std::uint16_t> image(at.inputs, unwritten);
    const Shape& s = p.shape;
    const int d = p.signature.head_dim;
    const auto put = [&](const std::vector<std::uint16_t>& values, int heads, int rows, int columns,
                         const TensorPlace& place) {
        for_each_row(s, heads, rows, columns, place, [&](long long from, long long to) {
            std::copy_n(&values[from], columns, &image[to]);
        });
    };
    put(tensors.q, s.heads_q, s.seqlen_q, d, at.q);
    put(tensors.k, s.heads_kv, s.seqlen_kv, d, at.k);
    put(tensors.v, s.heads_kv, s.seqlen_kv, p.signature.value_dim(), at.v);
    std::vector<std::byte> bytes = stored_elements(image, p.signature.dtype);
    for (const auto* scales : {&tensors.scales.q, &tensors.scales.k, &tensors.scales.v}) {
        const auto values = std::as_bytes(std::span(*scales));
        bytes.insert(bytes.end(), values.begin(), values.end());
    }
    return bytes;
}

AttentionParams params_of(const Problem& p, const Placement& at, const HeadScales& scales,
                          DevicePtr in, DevicePtr out, DevicePtr lse) {
    const auto pointer = [](DevicePtr base, long long offset, int element_bytes) {
        return reinterpret_cast<void*>(base + element_bytes * offset);
    };
    const int bytes = element_bytes(p.signature.dtype);
    AttentionParams params{};
    params.q = pointer(in, at.q.offset, bytes);
    params.k = pointer(in, at.k.offset, bytes);
    params.v = pointer(in, at.v.offset, bytes);
    params.o = pointer(out, at.o.offset, 2);
    params.lse = p.signature.lse ? static_cast<float*>(pointer(lse, gap, 2)) : nullptr;
    const auto* behind = static_cast<const float*>(pointer(in, at.inputs, bytes));
    if (!scales.q.empty()) params.q_scale = behind;
    if (!scales.k.empty()) params.k_scale = behind + scales.q.size();
    if (!scales.v.empty()) params.v_scale = behind + scales.q.size() + scales.k.size();
    describe_problem(params, p, {at.q.strides, at.k.strides, at.v.strides, at.o.strides},
                     default_scale(p.signature));
    return params;
}

Error wrong(std::string what) {
    return {Code::wrong_result, std::move(what), ""};
}

/// Takes O's rows out of the image; what is left must be as it was.
Result<std::vector<std::uint16_t>> take_o(const Problem& p, const Placement& at,
                                          std::vector<std::uint16_t> image) {
    const Shape& s = p.shape;
    const int d = p.signature.value_dim();
    std::vector<std::uint16_t> o(std::size_t(s.batch) * s.heads_q * s.seqlen_q * d);
    for_each_row(s, s.heads_q, s.seqlen_q, d, at.o, [&](long long to, long long from) {
        std::copy_n(&image[from], d, &o[to]);
        std::fill_n(&image[from], d, unwritten);
    });
    if (const auto hole = std::find(o.begin(), o.end(), unwritten); hole != o.end())
        return wrong(formatted("element {} of O was not written", hole - o.begin()));
    const auto changed =
        std::find_if(image.begin(), image.end(), [](std::uint16_t x) { return x != unwritten; });
    if (changed != image.end())
        return wrong(formatted("wrote outside O, at element {}", changed - image.begin()));
    return o;
}

Result<std::vector<float>> take_lse(const std::vector<std::uint16_t>& image, std::size_t rows) {
    std::vector<float> lse(rows);
    if (rows > 0) std::memcpy(lse.data(), &image[gap], 4 * rows);
    for (std::size_t i = 0; i < image.size(); ++i) {
        const bool inside = i >= gap && i < gap + 2 * rows;
        if (!inside && image[i] != unwritten)
            return wrong(formatted("wrote outside LSE, at 16-bit word {}", i));
    }
    for (std::size_t i = 0; i < rows; ++i)
        if (image[gap + 2 * i] == unwritten && image[gap + 2 * i + 1] == unwritten)
            return wrong(formatted("element {} of LSE was not written", i));
    return lse;
}

}  // namespace

std::string test_device_id() {
    const char* chosen = std::getenv("ATTUNE_TEST_DEVICE");
    return chosen ? chosen : "emu:h200";
}

HostTensors normal_tensors(const Problem& problem, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    const Shape& s = problem.shape;
    const auto make = [&](int heads, int rows, int columns) {
        std::vector<std::uint16_t> values(std::size_t(s.batch) * heads * rows * columns);
        for (std::uint16_t& x : values) x = from_float(normal(engine), problem.signature.dtype);
        return values;
    };
    HostTensors tensors;
    tensors.q = make(s.heads_q, s.seqlen_q, problem.signature.head_dim);
    tensors.k = make(s.heads_kv, s.seqlen_kv, problem.signature.head_dim);
    tensors.v = make(s.heads_kv, s.seqlen_kv, problem.signature.value_dim());
    return tensors;
}

HeadScales head_scales(const Problem& problem) {
    if (problem.signature.dtype != DType::e4m3) return {};
    const Shape& s = problem.shape;
    const auto make = [&](int heads, float first) {
        std::vector<float> scales(std::size_t(s.batch) * heads);
        for (std::size_t i = 0; i < scales.size(); ++i)
            scales[i] = first + 0.375f * static_cast<float>(i);
        return scales;
    };
    return {make(s.heads_q, 0.75f), make(s.heads_kv, 0.5f), make(s.heads_kv, 1.25f)};
}

Reference reference_of(const Problem& problem, const HostTensors& t) {
    return compute_reference(problem, default_scale(problem.signature), t.q, t.k, t.v, t.scales);
}

Placement place(const Problem& problem, TensorLayout layout) {
    const Shape& s = problem.shape;
    const long long qk = problem.signature.head_dim, vo = problem.signature.value_dim();
    const long long rows = std::max(s.seqlen_q, s.seqlen_kv);
    const auto strides = [&](int heads, int length, long long d) {
        if (layout == TensorLayout::bhsd) return TensorStrides{d * heads * length, d * length, d};
        const long long pad = layout == TensorLayout::padded ? 16 : 0;
        return strides_of((d + pad) * heads + pad, d + pad, length);
    };
    Placement at{};
    at.o = {gap, strides(s.heads_q, s.seqlen_q, vo)};
    at.outputs = s.batch * at.o.strides.batch + 2 * gap;
    if (layout == TensorLayout::fused_qkv) {
        const long long q_row = s.heads_q * qk, k_row = s.heads_kv * qk;
        const long long row = q_row + k_row + s.heads_kv * vo;
        at.q = {gap, strides_of(row, qk, rows)};
        at.k = {gap + q_row, strides_of(row, qk, rows)};
        at.v = {gap + q_row + k_row, strides_of(row, vo, rows)};
        at.inputs = 2 * gap + s.batch * row * rows;
        return at;
    }
    const auto end = [&](const TensorPlace& t) { return t.offset + s.batch * t.strides.batch; };
    at.q = {gap, strides(s.heads_q, s.seqlen_q, qk)};
    at.k = {end(at.q) + gap, strides(s.heads_kv, s.seqlen_kv, qk)};
    at.v = {end(at.k) + gap, strides(s.heads_kv, s.seqlen_kv, vo)};
    at.inputs = end(at.v) + gap;
    return at;
}

namespace {

Result<std::unique_ptr<Compiler>> compiler_for_bed(const TestBed& bed,
                                                   const std::vector<TemplateFile>& templates) {
    if (bed.emulated()) return open_host_compiler(templates);
    if (bed.target().vendor == Vendor::nvidia) return open_nvrtc(templates);
    WorkerOptions options;  // hiprtc works in a process of its own, with the embedded templates
    options.command = {ATTUNE_WORKER_CHILD, "worker"};
    auto opened = CompilerProcess::open(options, "hiprtc");
    if (!opened) return opened.error();
    return std::unique_ptr<Compiler>(*std::move(opened));
}

}  // namespace

Result<TestBed> TestBed::open(const std::string& device_id,
                              const std::vector<TemplateFile>& templates) {
    TestBed bed;
    auto device = open_device(device_id);
    if (!device) return device.error();
    bed.device_ = std::move(*device);
    auto compiler = compiler_for_bed(bed, templates);
    if (!compiler) return compiler.error();
    bed.compiler_ = std::move(*compiler);
    bed.templates_ = templates;
    return bed;
}

Result<Kernel> TestBed::kernel(const Signature& signature, const Config& config) {
    const std::string key = signature.text() + " " + config.text();
    if (const auto made = kernels_.find(key); made != kernels_.end()) return made->second;
    if (const Constraint* broken = broken_constraint(signature, config, target()))
        return Error{Code::invalid_argument, formatted("{}: {}", key, broken->meaning), ""};
    const auto binary =
        compiler_->compile(emit({signature, config, target()}, templates_), target().arch);
    if (!binary) return binary.error();
    const Launch launch = find_family(config.family)->launch(signature, config, Shape{}, target());
    const auto loaded = device_->load(binary->bytes, binary->entry, launch.shared_bytes);
    if (loaded) kernels_[key] = *loaded;
    return loaded;
}

void TestBed::forget_kernels() {
    for (const auto& [key, kernel] : kernels_) (void)device_->unload(kernel);
    kernels_.clear();
}

Result<void> TestBed::fill_and_launch(const Problem& problem, const Config& config,
                                      const std::vector<std::byte>& image, const Buffers& buffers,
                                      AttentionParams params) {
    const auto loaded = kernel(problem.signature, config);
    if (!loaded) return loaded.error();
    Target few = target();
    if (emulated()) few.multiprocessors = 3;  // persistent CTAs have several tiles each
    const Launch launch =
        find_family(config.family)->launch(problem.signature, config, problem.shape, few);
    const auto& [in, out, lse] = buffers;
    auto done = device_->copy_to_device(in.ptr(), image.data(), image.size());
    if (done) done = device_->fill(out.ptr(), 0xffffffff, out.bytes());
    if (done) done = device_->fill(lse.ptr(), 0xffffffff, lse.bytes());
    if (done) done = reserve_workspace(launch.workspace_bytes);
    params.workspace = workspace_.as<void>();
    if (done && launch.ctas > 0)
        done = launch_attention(*device_, *loaded, launch, problem.signature, params);
    if (done) done = device_->synchronize();
    if (done) done = check_workspace();
    if (!done) workspace_ = {};  // the next launch gets another
    return done;
}

Result<void> TestBed::reserve_workspace(std::size_t bytes) {
    if (bytes <= workspace_.bytes()) return {};
    auto workspace = DeviceBuffer::allocate(*device_, bytes);
    if (!workspace) return workspace.error();
    workspace_ = *std::move(workspace);
    return device_->fill(workspace_.ptr(), 0, bytes);
}

Result<void> TestBed::check_workspace() {
    if (workspace_.bytes() == 0) return {};
    const auto words = read_back<std::uint32_t>(*device_, workspace_.ptr(), workspace_.bytes() / 4);
    if (!words) return words.error();
    if (std::count(words->begin(), words->end(), 0u) == std::ptrdiff_t(words->size())) return {};
    return wrong("left its workspace other than zero");
}

Result<Outcome> TestBed::run(const Problem& problem, const Config& config,
                             const HostTensors& tensors, TensorLayout layout) {
    const Placement at = place(problem, layout);
    const std::vector<std::byte> image = input_image(problem, at, tensors);
    const Shape& s = problem.shape;
    const std::size_t rows =
        problem.signature.lse ? std::size_t(s.batch) * s.heads_q * s.seqlen_q : 0;
    const std::size_t lse_words = 2 * (rows + gap);  // 16-bit
    auto in = DeviceBuffer::allocate(*device_, image.size());
    auto out = DeviceBuffer::allocate(*device_, 2 * at.outputs);
    auto lse = DeviceBuffer::allocate(*device_, 2 * lse_words);
    for (const auto* buffer : {&in, &out, &lse})
        if (!*buffer) return buffer->error();
    const AttentionParams params =
        params_of(problem, at, tensors.scales, in->ptr(), out->ptr(), lse->ptr());
    const Buffers buffers{*std::move(in), *std::move(out), *std::move(lse)};
    const auto ran = fill_and_launch(problem, config, image, buffers, params);
    if (!ran) return ran.error();
    auto out_image = read_back<std::uint16_t>(*device_, buffers.out.ptr(), at.outputs);
    if (!out_image) return out_image.error();
    auto lse_image = read_back<std::uint16_t>(*device_, buffers.lse.ptr(), lse_words);
    if (!lse_image) return lse_image.error();
    auto o_values = take_o(problem, at, *std::move(out_image));
    if (!o_values) return o_values.error();
    auto lse_values = take_lse(*lse_image, rows);
    if (!lse_values) return lse_values.error();
    return Outcome{*std::move(o_values), *std::move(lse_values)};
}

TestBed& test_bed() {
    static TestBed bed = [] {
        auto opened = TestBed::open(test_device_id());
        if (!opened) {
            std::cerr << formatted("{}: {}\n", test_device_id(), opened.error().text());
            std::exit(1);
        }
        std::cout << formatted("device under test: {} ({}), kernels by {}\n",
                               opened->device().info().id, opened->target().name,
                               opened->compiler().toolchain());
        return *std::move(opened);
    }();
    return bed;
}

double bar_of(const Reference& reference) {
    double error = 0;
    for (std::size_t i = 0; i < reference.o.size(); ++i)
        error = std::max(error, std::fabs(reference.o[i] - reference.baseline[i]));
    return error_bar(error);
}

std::string difference(const Problem& problem, const Reference& reference, const Outcome& outcome,
                       double bar, const std::vector<bool>& skip) {
    const int d = problem.signature.value_dim();
    for (std::size_t row = 0; row < reference.lse.size(); ++row) {
        if (!skip.empty() && skip[row]) continue;
        for (int c = 0; c < d; ++c) {
            const double got = to_float(outcome.o[row * d + c], output_of(problem.signature.dtype));
            const double want = reference.o[row * d + c];
            if (!(std::fabs(got - want) <= bar))
                return formatted("row {} column {}: {} where {} is right, bar {}", row, c, got,
                                 want, bar);
        }
        if (outcome.lse.empty()) continue;
        const double got = outcome.lse[row], want = reference.lse[row];
        // A float's own spacing matters where the LSE is large.
        const double limit =
            lse_bar(problem.signature.dtype, want) + std::ldexp(std::fabs(want), -22);
        if (got != want && !(std::fabs(got - want) <= limit))
            return formatted("LSE of row {}: {} where {} is right, bar {}", row, got, want, limit);
    }
    return "";
}

}  // namespace attune
