#include "runtime/loader.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "generator/formatted.h"
#include "generator/space.h"
#include "runtime/launch_attention.h"

namespace attune {
namespace {

/// AMD's kernels look at a tile through a window of 2 GiB.
Result<void> check_windows(const Strides& strides, const Target& target) {
    constexpr long long most = 1 << 21;  // elements; a tile has at most 384 rows
    const long long widest = std::max({strides.q.row, strides.k.row, strides.v.row});
    if (target.vendor != Vendor::amd || widest <= most) return {};
    return Error{Code::unsupported,
                 formatted("a row stride is {} elements, {} has kernels up to {}", widest,
                           target.name, most),
                 "copy Q, K or V to where rows lie closer together"};
}

/// The pointers a launch reads and writes: there, and on 16 bytes.
Result<void> check_pointers(const Problem& problem, const AttentionParams& p,
                            bool needs_workspace) {
    const bool keys = problem.shape.seqlen_kv > 0;
    const bool lse = problem.signature.lse;
    const struct {
        const char* name;
        const void* pointer;
        bool needed;
        unsigned alignment;
    } pointers[] = {{"q", p.q, true, 16},
                    {"k", p.k, keys, 16},
                    {"v", p.v, keys, 16},
                    {"o", p.o, true, 16},
                    {"lse", p.lse, lse, 4},
                    {"workspace", p.workspace, needs_workspace, 16},
                    {"q_scale", p.q_scale, false, 4},
                    {"k_scale", p.k_scale, false, 4},
                    {"v_scale", p.v_scale, false, 4}};
    for (const auto& [name, pointer, needed, alignment] : pointers) {
        if (pointer == nullptr && needed)
            return Error{Code::invalid_argument, formatted("{} is NULL", name),
                         "pass the device pointer of each tensor"};
        if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0)
            return Error{Code::invalid_argument,
                         formatted("{} does not start on {} bytes", name, alignment),
                         "align the tensor's first element"};
    }
    if ((p.q_scale != nullptr || p.k_scale != nullptr || p.v_scale != nullptr) &&
        problem.signature.dtype != DType::e4m3)
        return Error{Code::invalid_argument, "head scales are given but the dtype is not e4m3",
                     "pass NULL, and fold them into scale or V"};
    if (p.lse != nullptr && !lse)
        return Error{Code::invalid_argument, "lse is given but the problem has want_lse = 0",
                     "pass NULL, or look up the problem with want_lse = 1"};
    return {};
}

}  // namespace

Result<std::unique_ptr<Loader>> Loader::open(std::unique_ptr<Device>& device, Options options,
                                             attune_context* context) {
    auto store = Store::open(options.store_path, Store::Access::read);
    if (!store) return store.error();
    std::unique_ptr<Loader> loader(new Loader(std::move(options), std::move(*store), context));
    loader->device_ = std::move(device);
    if (auto read = loader->read_records(); !read) {
        device = std::move(loader->device_);
        return read.error();
    }
    return loader;
}

Loader::~Loader() {
    // Failures have nowhere to go: the device ends with its context.
    if (device_ == nullptr) return;
    for (const auto& [key, kernel] : kernels_) (void)device_->unload(kernel->handle);
}

Result<void> Loader::read_records() {
    auto records = store_.records(device_key(device_->info()));
    if (!records) return records.error();
    if (options_.strict)
        std::erase_if(*records, [&](const Record& record) {
            return record.driver != device_->info().driver;
        });
    records_ = std::move(*records);
    return {};
}

Result<const Answer*> Loader::find(const Problem& problem) {
    if (auto valid = validate(problem); !valid) return valid.error();
    const std::string key = problem.text();
    const std::lock_guard lock(mutex_);
    if (const auto known = answers_.find(key); known != answers_.end()) return &known->second;
    auto answer = look_up(problem);
    if (!answer) return answer.error();
    if (options_.log) {
        static constexpr const char* matches[] = {"none", "estimate", "bucket", "exact"};
        std::fprintf(stderr, "attune: %s on %s: %s (distance %.2f) %s%s%s\n", key.c_str(),
                     device_->info().id.c_str(), matches[answer->match], answer->distance,
                     answer->config.c_str(), answer->advice.empty() ? "" : "; ",
                     answer->advice.c_str());
    }
    return &answers_.emplace(key, std::move(*answer)).first->second;
}

Result<Answer> Loader::look_up(const Problem& problem) {
    Match match = best_match(records_, problem, options_.restriction.text());
    if (match.record == nullptr) return without_record(problem);
    auto kernel = kernel_of(*match.record);
    if (!kernel && kernel.error().code == Code::not_found) {
        // A tuner has replaced the record, and its binary with it, since the records were read.
        if (auto read = read_records(); !read) return read.error();
        match = best_match(records_, problem, options_.restriction.text());
        if (match.record == nullptr) return without_record(problem);
        kernel = kernel_of(*match.record);
    }
    if (!kernel) return kernel.error();
    const Record& record = *match.record;
    const bool exact = record.problem == problem;
    Answer answer;
    answer.match = exact ? ATTUNE_MATCH_EXACT : ATTUNE_MATCH_BUCKET;
    answer.distance = match.distance;
    answer.kernel = *kernel;
    answer.workspace_bytes =
        (*kernel)
            ->family
            ->launch(problem.signature, (*kernel)->config, problem.shape, device_->info().target)
            .workspace_bytes;
    answer.expected_us = record.time_us;
    answer.measured = record.evidence == Evidence::measured;
    answer.config = record.config;
    answer.record_shape = record.problem.shape.text();
    if (!exact) answer.advice = tune_command(problem);
    return answer;
}

/// The default config of the family that the model prefers, or why there is none.
Answer Loader::without_record(const Problem& problem) const {
    Answer answer;
    const Target target = options_.restriction.applied_to(device_->info().target);
    const auto families =
        applicable_families(problem.signature, target, options_.restriction.family);
    if (!families) {
        answer.advice = families.error().text();
        return answer;
    }
    answer.match = ATTUNE_MATCH_ESTIMATE;
    for (const Family* family : *families) {
        const Config config = family->default_config(problem.signature, target);
        const double time_us = family->estimate_us(problem, config, target);
        if (!answer.config.empty() && time_us >= answer.expected_us) continue;
        answer.expected_us = time_us;
        answer.config = config.text();
    }
    // An imported record has no binary before it is built; tuning would make one too, but longer.
    bool imported = false;
    for (const Record& record : records_)
        imported = imported || (record.problem.signature == problem.signature &&
                                record.restriction == options_.restriction.text());
    answer.advice = imported ? command("build") : tune_command(problem);
    return answer;
}

Result<attune_kernel*> Loader::kernel_of(const Record& record) {
    const std::string key =
        formatted("{} {} {}", record.binary_sha256, record.problem.signature.text(), record.config);
    if (const auto known = kernels_.find(key); known != kernels_.end()) return known->second.get();
    const auto config = Config::parse(record.config);
    if (!config)
        return Error{Code::version_mismatch,
                     formatted("a record's config is unknown here: {}", config.error().message),
                     "update Attune, or tune again: " + tune_command(record.problem)};
    const auto binary = store_.binary(record.binary_sha256);
    if (!binary) return binary.error();
    auto kernel = std::make_unique<attune_kernel>();
    kernel->context = context_;
    kernel->signature = record.problem.signature;
    kernel->config = *config;
    kernel->family = find_family(config->family);
    const Launch launch = kernel->family->launch(kernel->signature, *config, record.problem.shape,
                                                 device_->info().target);
    const auto handle = device_->load(*binary, record.entry, launch.shared_bytes);
    if (!handle) return handle.error();
    kernel->handle = *handle;
    return kernels_.emplace(key, std::move(kernel)).first->second.get();
}

std::string Loader::command(const std::string& verb) const {
    const bool elsewhere = options_.store_path != default_store_path();
    return formatted("attune {} --device {}{}", verb, device_->info().id,
                     elsewhere ? " --store " + options_.store_path : "");
}

std::string Loader::tune_command(const Problem& problem) const {
    const auto& [family, max_shared_bytes] = options_.restriction;
    return formatted(
        "{}{}{} --shapes {}", command("tune"), family.empty() ? "" : " --family " + family,
        max_shared_bytes == 0 ? "" : formatted(" --max-smem {}", max_shared_bytes), problem.text());
}

Result<void> Loader::launch(const attune_kernel& kernel, const Problem& problem,
                            const Tensors& tensors, Stream stream) {
    if (auto valid = validate(problem); !valid) return valid;
    if (problem.signature != kernel.signature)
        return Error{Code::invalid_argument,
                     formatted("the kernel is for {}, the problem is {}", kernel.signature.text(),
                               problem.signature.text()),
                     "launch the kernel that attune_find gave for this problem"};
    const Launch launch = kernel.family->launch(kernel.signature, kernel.config, problem.shape,
                                                device_->info().target);
    if (launch.ctas == 0) return {};
    if (auto valid = validate(problem, tensors.strides); !valid) return valid;
    if (auto valid = check_windows(tensors.strides, device_->info().target); !valid) return valid;
    AttentionParams params = tensors.pointers;
    if (auto valid = check_pointers(problem, params, launch.workspace_bytes > 0); !valid)
        return valid;
    if (!std::isfinite(tensors.scale) || tensors.scale < 0)
        return Error{Code::invalid_argument, formatted("scale is {}", tensors.scale),
                     "pass a positive number, or 0 for 1/sqrt(head_dim)"};
    describe_problem(params, problem, tensors.strides,
                     tensors.scale == 0 ? default_scale(problem.signature) : tensors.scale);
    std::unique_lock lock(mutex_, std::defer_lock);
    if (device_->info().emulated) lock.lock();
    return launch_attention(*device_, kernel.handle, launch, problem.signature, params, stream);
}

}  // namespace attune
