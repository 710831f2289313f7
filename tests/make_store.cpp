// make_store FILE: a store with one kernel for the emulated H200, compiled by the host's compiler,
// for tests/c_api_test.c and the example. Its problem is printed.
#include <cstdio>

#include "generator/emit.h"
#include "runtime/emu/emu.h"
#include "runtime/store.h"
#include "tuner/compiler.h"

namespace attune {
namespace {

Result<bool> add_kernel(Store& store, Compiler& compiler, const DeviceInfo& device,
                        const Problem& problem) {
    const auto config = Config::parse(problem.signature.dtype == DType::e4m3 ? "wgmma/q64.kv64.s1"
                                                                             : "mma/q64.kv32.w4");
    if (!config) return config.error();
    const Source source = emit({problem.signature, *config, device.target});
    const auto binary = compiler.compile(source, device.target.arch);
    if (!binary) return binary.error();
    Record record;
    record.device = device_key(device);
    record.problem = problem;
    record.config = config->text();
    record.entry = binary->entry;
    record.source_hash = source.hash;
    record.binary_sha256 =
        sha256_hex({reinterpret_cast<const char*>(binary->bytes.data()), binary->bytes.size()});
    record.time_us = 1;
    return store.put(record, binary->bytes, {});
}

Result<void> make_store(int argc, char** argv) {
    const auto device = open_emulator("h200");
    if (!device) return device.error();
    const auto compiler = open_host_compiler();
    if (!compiler) return compiler.error();
    auto store = Store::open(argv[1], Store::Access::write);
    if (!store) return store.error();
    for (int i = 2; i < argc; ++i) {
        const auto problem = Problem::parse(argv[i]);
        if (!problem) return problem.error();
        const auto added = add_kernel(*store, **compiler, (*device)->info(), *problem);
        if (!added) return added.error();
    }
    return {};
}

}  // namespace
}  // namespace attune

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const auto made = attune::make_store(argc, argv);
    if (!made) std::fprintf(stderr, "%s\n", made.error().text().c_str());
    return made ? 0 : 1;
}
