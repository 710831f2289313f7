#include "tuner/bench_case.h"

#include <algorithm>
#include <cstring>

#include "generator/formatted.h"
#include "runtime/launch_attention.h"
#include "tuner/float16.h"

namespace attune {
namespace {

constexpr std::size_t pool_values = 1'000'003;  // a prime
constexpr std::size_t canary_bytes = 4096;
constexpr std::uint32_t canary = 0xa5c3f00d;
constexpr std::uint32_t poison_pattern = 0xffffffff;
constexpr std::size_t tensor_alignment = 256;

std::size_t aligned(std::size_t bytes) {
    return (bytes + tensor_alignment - 1) / tensor_alignment * tensor_alignment;
}

}  // namespace

std::vector<std::byte> stored_elements(std::span<const std::uint16_t> bits, DType dtype) {
    if (dtype != DType::e4m3) {
        const auto bytes = std::as_bytes(bits);
        return {bytes.begin(), bytes.end()};
    }
    std::vector<std::byte> stored(bits.size());
    std::transform(bits.begin(), bits.end(), stored.begin(),
                   [](std::uint16_t element) { return static_cast<std::byte>(element); });
    return stored;
}

std::vector<std::uint16_t> loaded_elements(std::span<const std::byte> stored, DType dtype) {
    std::vector<std::uint16_t> bits(stored.size() / element_bytes(dtype));
    if (dtype == DType::e4m3)
        std::transform(stored.begin(), stored.end(), bits.begin(),
                       [](std::byte byte) { return std::to_integer<std::uint16_t>(byte); });
    else if (!bits.empty())
        std::memcpy(bits.data(), stored.data(), stored.size());
    return bits;
}

NormalPool::NormalPool(DType dtype, unsigned seed) : element_bytes_(element_bytes(dtype)) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> bits(pool_values);
    for (std::uint16_t& value : bits) value = from_float(normal(engine), dtype);
    values_ = stored_elements(bits, dtype);
}

Result<void> NormalPool::fill(Device& device, DevicePtr to, std::size_t count) {
    while (count > 0) {
        const std::size_t part = std::min(count, pool_values - next_);
        auto copied =
            device.copy_to_device(to, &values_[element_bytes_ * next_], element_bytes_ * part);
        if (!copied) return copied;
        next_ = (next_ + part) % pool_values;
        to += element_bytes_ * part;
        count -= part;
    }
    return {};
}

Result<GuardedOutput> GuardedOutput::allocate(Device& device, std::size_t bytes) {
    auto buffer = DeviceBuffer::allocate(device, aligned(bytes) + 2 * canary_bytes);
    if (!buffer) return buffer.error();
    GuardedOutput output;
    output.bytes_ = bytes;
    output.buffer_ = *std::move(buffer);
    auto filled = device.fill(output.buffer_.ptr(), canary, output.buffer_.bytes());
    if (!filled) return filled.error();
    return output;
}

DevicePtr GuardedOutput::ptr() const {
    return buffer_.ptr() + canary_bytes;
}

Result<void> GuardedOutput::poison(Device& device) const {
    if (bytes_ == 0) return {};
    return device.fill(ptr(), poison_pattern, bytes_);
}

Result<bool> GuardedOutput::intact(Device& device) const {
    if (buffer_.bytes() == 0) return true;
    const std::size_t tail = buffer_.bytes() - canary_bytes - bytes_;
    for (const auto& [from, bytes] :
         {std::pair(buffer_.ptr(), canary_bytes), std::pair(ptr() + bytes_, tail)}) {
        auto words = read_back<std::uint32_t>(device, from, bytes / 4);
        if (!words) return words.error();
        if (std::any_of(words->begin(), words->end(), [](auto word) { return word != canary; }))
            return false;
    }
    return true;
}

Result<BenchCase> BenchCase::make(Device& device, const Problem& problem, unsigned seed,
                                  std::size_t input_bytes) {
    const Shape& shape = problem.shape;
    const std::size_t d = problem.signature.head_dim, value_dim = problem.signature.value_dim();
    const std::size_t keys = std::size_t(shape.batch) * shape.heads_kv * shape.seqlen_kv;
    BenchCase made;
    made.problem_ = problem;
    made.q_elements_ = made.rows() * d;
    made.k_elements_ = keys * d;
    made.v_elements_ = keys * value_dim;
    // One more alignment step between tensors keeps NaN behind each of them.
    for (const std::size_t elements : {made.q_elements_, made.k_elements_, made.v_elements_})
        made.set_bytes_ += aligned(element_bytes(problem.signature.dtype) * elements + 1);
    auto o = GuardedOutput::allocate(device, 2 * made.elements());
    if (!o) return o.error();
    made.o_ = *std::move(o);
    if (problem.signature.lse) {
        auto lse = GuardedOutput::allocate(device, 4 * made.rows());
        if (!lse) return lse.error();
        made.lse_ = *std::move(lse);
    }
    const std::size_t wanted = (input_bytes + made.set_bytes_ - 1) / made.set_bytes_;
    auto filled = made.fill_sets(device, seed, std::max<std::size_t>(wanted, 1));
    if (filled && problem.signature.dtype == DType::e4m3) filled = made.make_scales(device);
    if (!filled) return filled.error();
    return made;
}

/// Between 0.75 and 1.25, another one for each of a few heads: products of them move scores little.
Result<void> BenchCase::make_scales(Device& device) {
    const Shape& shape = problem_.shape;
    const struct {
        std::vector<float>& values;
        DeviceBuffer& on_device;
        int heads, first;
    } tensors[] = {{scales_.q, q_scale_, shape.heads_q, 0},
                   {scales_.k, k_scale_, shape.heads_kv, 3},
                   {scales_.v, v_scale_, shape.heads_kv, 5}};
    for (auto& [values, on_device, heads, first] : tensors) {
        values.resize(std::size_t(shape.batch) * heads);
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = 0.75f + 0.0625f * static_cast<float>((3 * i + first) % 9);
        auto buffer = DeviceBuffer::allocate(device, sizeof(float) * values.size());
        if (!buffer) return buffer.error();
        on_device = *std::move(buffer);
        auto copied = device.copy_to_device(on_device.ptr(), values.data(), on_device.bytes());
        if (!copied) return copied;
    }
    return {};
}

Result<void> BenchCase::fill_sets(Device& device, unsigned seed, std::size_t count) {
    auto buffer = DeviceBuffer::allocate(device, count * set_bytes_);
    if (!buffer && count > 1) {
        count = 1;
        buffer = DeviceBuffer::allocate(device, set_bytes_);
    }
    if (!buffer) return buffer.error();
    inputs_ = *std::move(buffer);
    auto filled = device.fill(inputs_.ptr(), poison_pattern, inputs_.bytes());
    if (!filled) return filled;
    NormalPool pool(problem_.signature.dtype, seed);
    const std::size_t bytes = element_bytes(problem_.signature.dtype);
    for (std::size_t i = 0; i < count; ++i) {
        InputSet set;
        set.q = inputs_.ptr() + i * set_bytes_;
        set.k = set.q + aligned(bytes * q_elements_ + 1);
        set.v = set.k + aligned(bytes * k_elements_ + 1);
        for (const auto& [to, elements] :
             {std::pair(set.q, q_elements_), std::pair(set.k, k_elements_),
              std::pair(set.v, v_elements_)}) {
            auto dealt = pool.fill(device, to, elements);
            if (!dealt) return dealt;
        }
        sets_.push_back(set);
    }
    return {};
}

std::size_t BenchCase::rows() const {
    return std::size_t(problem_.shape.batch) * problem_.shape.heads_q * problem_.shape.seqlen_q;
}
std::size_t BenchCase::elements() const {
    return rows() * problem_.signature.value_dim();
}

Result<void> BenchCase::reserve_workspace(Device& device, std::size_t bytes) {
    if (bytes > workspace_.bytes()) {
        auto workspace = GuardedOutput::allocate(device, bytes);
        if (!workspace) return workspace.error();
        workspace_ = *std::move(workspace);
    }
    if (workspace_.bytes() == 0) return {};
    return device.fill(workspace_.ptr(), 0, workspace_.bytes());
}

Result<void> BenchCase::poison(Device& device) const {
    for (const GuardedOutput* output : {&o_, &lse_}) {
        auto poisoned = output->poison(device);
        if (!poisoned) return poisoned;
    }
    return {};
}

Result<std::string> BenchCase::damage(Device& device) const {
    for (const auto& [output, name] :
         {std::pair(&o_, "O"), std::pair(&lse_, "LSE"), std::pair(&workspace_, "the workspace")}) {
        auto intact = output->intact(device);
        if (!intact) return intact.error();
        if (!*intact) return formatted("wrote outside {}", name);
    }
    if (workspace_.bytes() == 0) return std::string();
    auto words = read_back<std::uint32_t>(device, workspace_.ptr(), workspace_.bytes() / 4);
    if (!words) return words.error();
    const bool zero =
        std::all_of(words->begin(), words->end(), [](auto word) { return word == 0; });
    return std::string(zero ? "" : "left its workspace other than zero");
}

AttentionParams BenchCase::params(std::size_t input_set) const {
    const InputSet& set = sets_[input_set];
    const auto pointer = [](DevicePtr ptr) { return reinterpret_cast<void*>(ptr); };
    AttentionParams params{};
    describe_problem(params, problem_, contiguous_bhsd(problem_.signature, problem_.shape),
                     default_scale(problem_.signature));
    params.q = pointer(set.q);
    params.k = pointer(set.k);
    params.v = pointer(set.v);
    params.o = pointer(o_.ptr());
    params.lse = problem_.signature.lse ? static_cast<float*>(pointer(lse_.ptr())) : nullptr;
    params.q_scale = q_scale_.as<float>();
    params.k_scale = k_scale_.as<float>();
    params.v_scale = v_scale_.as<float>();
    params.workspace = workspace_.bytes() > 0 ? pointer(workspace_.ptr()) : nullptr;
    return params;
}

Result<BenchCase::Inputs> BenchCase::read_inputs(Device& device) const {
    const DType dtype = problem_.signature.dtype;
    Inputs inputs{{}, {}, {}, scales_};
    const struct {
        DevicePtr from;
        std::size_t elements;
        std::vector<std::uint16_t>& to;
    } tensors[] = {{sets_[0].q, q_elements_, inputs.q},
                   {sets_[0].k, k_elements_, inputs.k},
                   {sets_[0].v, v_elements_, inputs.v}};
    for (auto& [from, elements, to] : tensors) {
        auto stored = read_back<std::byte>(device, from, elements * element_bytes(dtype));
        if (!stored) return stored.error();
        to = loaded_elements(*stored, dtype);
    }
    return inputs;
}

}  // namespace attune
