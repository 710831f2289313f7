#include "tuner/build.h"

#include <map>
#include <memory>

#include "generator/emit.h"
#include "generator/formatted.h"
#include "tuner/devices.h"
#include "tuner/tune.h"
#include "tuner/worker_pool.h"

namespace attune {
namespace {

using Pools = std::map<std::string, std::unique_ptr<CompilePool>>;

/// Emulated devices are told from real ones by name (runtime/record.h).
bool is_emulated(const DeviceKey& device) {
    return device.name.starts_with("emu ");
}

Result<CompilePool*> pool_for(Pools& pools, const BuildRequest& request, const Record& record) {
    const std::string compiler =
        compiler_for(target_of(record.device).vendor, is_emulated(record.device));
    std::unique_ptr<CompilePool>& pool = pools[compiler];
    if (!pool) {
        auto opened = CompilePool::open(request.workers, compiler);
        if (!opened) return opened.error();
        pool = std::move(*opened);
    }
    return pool.get();
}

struct Pending {
    BuildOutcome outcome;
    CompilePool::Future compiled;  // empty where the record has an error already
};

Result<std::vector<Record>> records_to_build(const BuildRequest& request, const Store& store) {
    std::vector<Record> wanted;
    auto devices = store.devices();
    if (!devices) return devices.error();
    for (const DeviceKey& device : *devices) {
        if (request.device && device != *request.device) continue;
        auto records = store.records(device);
        if (!records) return records.error();
        for (Record& record : *records)
            if (request.again || record.binary_sha256.empty()) wanted.push_back(std::move(record));
    }
    return wanted;
}

Result<Pending> submit(Pools& pools, const BuildRequest& request, Record record) {
    Pending pending;
    const auto config = Config::parse(record.config);
    if (!config) {
        pending.outcome.error = config.error();
    } else {
        auto pool = pool_for(pools, request, record);
        if (!pool) return pool.error();
        const Target target = target_of(record.device);
        const Source source = emit({record.problem.signature, *config, target});
        pending.outcome.outdated = source.hash != record.source_hash;
        pending.compiled = (*pool)->compile(source, target.arch);
        record.toolchain = (*pool)->toolchain();
    }
    pending.outcome.record = std::move(record);
    return pending;
}

Result<void> finish(BuildOutcome& outcome, const Compiled& compiled, Store& store) {
    const Binary& binary = compiled.binary;
    if (compiled.verdict != Verdict::ok)
        return Error{Code::compile_failed,
                     formatted("{}: {}", name_of(compiled.verdict), compiled.reason),
                     "tune the problem again: this kernel does not compile any more"};
    outcome.compile_ms = binary.compile_ms;
    Record& record = outcome.record;
    record.entry = binary.entry;
    record.registers = binary.resources.registers;
    record.spill_bytes = binary.resources.spill_bytes;
    record.binary_sha256 =
        sha256_hex({reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()});
    auto stored = store.put(record, binary.bytes, {});
    if (!stored) return stored.error();
    return {};
}

}  // namespace

Result<std::vector<BuildOutcome>> build(
    const BuildRequest& request,
    const std::function<void(const BuildOutcome&, std::size_t, std::size_t)>& progress) {
    auto store = Store::open(request.store_path, Store::Access::write);
    if (!store) return store.error();
    auto records = records_to_build(request, *store);
    if (!records) return records.error();
    Pools pools;
    std::vector<Pending> pending;
    for (Record& record : *records) {
        auto submitted = submit(pools, request, std::move(record));
        if (!submitted) return submitted.error();
        pending.push_back(std::move(*submitted));
    }
    std::vector<BuildOutcome> outcomes;
    for (Pending& one : pending) {
        if (one.compiled.valid()) {
            const auto done = finish(one.outcome, *one.compiled.get(), *store);
            if (!done) one.outcome.error = done.error();
        }
        outcomes.push_back(std::move(one.outcome));
        if (progress) progress(outcomes.back(), outcomes.size(), pending.size());
    }
    return outcomes;
}

}  // namespace attune
