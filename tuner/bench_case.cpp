#include "tuner/bench_case.h"

#include <algorithm>

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

NormalPool::NormalPool(DType dtype, unsigned seed) : values_(pool_values) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<float> normal;
    for (std::uint16_t& value : values_) value = from_float(normal(engine), dtype);
}

Result<void> NormalPool::fill(Device& device, DevicePtr to, std::size_t count) {
    while (count > 0) {
        const std::size_t part = std::min(count, values_.size() - next_);
        auto copied = device.copy_to_device(to, &values_[next_], 2 * part);
        if (!copied) return copied;
        next_ = (next_ + part) % values_.size();
        to += 2 * part;
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
        made.set_bytes_ += aligned(2 * elements + 1);
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
    if (!filled) return filled.error();
    return made;
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
    for (std::size_t i = 0; i < count; ++i) {
        InputSet set;
        set.q = inputs_.ptr() + i * set_bytes_;
        set.k = set.q + aligned(2 * q_elements_ + 1);
        set.v = set.k + aligned(2 * k_elements_ + 1);
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
    params.workspace = workspace_.bytes() > 0 ? pointer(workspace_.ptr()) : nullptr;
    return params;
}

Result<BenchCase::Inputs> BenchCase::read_inputs(Device& device) const {
    auto q = read_back<std::uint16_t>(device, sets_[0].q, q_elements_);
    if (!q) return q.error();
    auto k = read_back<std::uint16_t>(device, sets_[0].k, k_elements_);
    if (!k) return k.error();
    auto v = read_back<std::uint16_t>(device, sets_[0].v, v_elements_);
    if (!v) return v.error();
    return Inputs{*std::move(q), *std::move(k), *std::move(v)};
}

}  // namespace attune
