// doctor, devices.

#include <algorithm>

#include "generator/formatted.h"
#include "runtime/dynamic_library.h"
#include "tools/attune/commands.h"
#include "tools/attune/output.h"
#include "tuner/devices.h"

namespace attune {
namespace {

struct Check {
    const char* name;
    const char* needed_for;
    std::string found;  // what is here; empty if it is missing
    Error error;        // why it is missing
};

Check check_gpu(const char* library, const char* id, const char* needed_for) {
    const auto device = open_gpu(id);
    Check check{library, needed_for, "", {}};
    if (device)
        check.found =
            formatted("driver {}, {}", (*device)->info().driver, (*device)->info().target.name);
    else
        check.error = device.error();
    return check;
}

/// sm_90 is, for a GPU may have sm_90a.
bool is_arch_of_a_known_gpu(const std::string& arch) {
    return std::any_of(known_targets().begin(), known_targets().end(),
                       [&](const Target& target) { return target.arch.starts_with(arch); });
}

Check check_compiler(const char* label, const char* name, const char* needed_for) {
    const auto compiler = open_compiler(name);
    Check check{label, needed_for, "", {}};
    if (!compiler) {
        check.error = compiler.error();
        return check;
    }
    check.found = (*compiler)->toolchain();
    if (const std::string opened = (*compiler)->opened(); !opened.empty())
        check.found += ", " + opened;
    std::vector<std::string> archs;
    for (const std::string& arch : (*compiler)->archs())
        if (is_arch_of_a_known_gpu(arch)) archs.push_back(arch);
    if (!archs.empty()) check.found += formatted("; for {}", fmt::join(archs, " "));
    return check;
}

Check check_nvml() {
    const auto library =
        DynamicLibrary::open("libnvidia-ml", {"libnvidia-ml.so.1"}, "it comes with the driver");
    Check check{"libnvidia-ml", "the driver's version in records", "", {}};
    if (library)
        check.found = library->opened();
    else
        check.error = library.error();
    return check;
}

Check check_store(const std::string& option) {
    Check check{"store", "keeping what was tuned", "", {}};
    const auto path = store_path_of(option);
    if (!path) {
        check.error = path.error();
        return check;
    }
    const auto store = Store::open(*path, Store::Access::read);
    if (!store) {
        if (store.error().code == Code::not_found)
            check.found = *path + " (not there yet: the first tune or import makes it)";
        else
            check.error = store.error();
        return check;
    }
    const auto devices = store->devices();
    std::size_t records = 0;
    for (const DeviceKey& device : devices ? *devices : std::vector<DeviceKey>{})
        if (const auto some = store->records(device)) records += some->size();
    if (devices)
        check.found = formatted("{} ({} records of {} GPUs)", *path, records, devices->size());
    else
        check.error = devices.error();
    return check;
}

nlohmann::json to_json(const Check& check) {
    nlohmann::json json{
        {"name", check.name}, {"needed_for", check.needed_for}, {"ok", !check.found.empty()}};
    if (check.found.empty())
        json["error"] = attune::to_json(check.error);
    else
        json["found"] = check.found;
    return json;
}

/// Done if kernels can be compiled for some device, emulated ones included, and the store is sound.
Result<Code> doctor(const Cli& cli, const std::string& store) {
    const std::vector<Check> checks{
        check_gpu("libcuda", "cuda:0", "running on an NVIDIA GPU"),
        check_gpu("libamdhip64", "hip:0", "running on an AMD GPU"),
        check_compiler("libnvrtc", "nvrtc", "compiling for NVIDIA GPUs, with or without one here"),
        check_compiler("hiprtc", "hiprtc", "compiling for AMD GPUs, with or without one here"),
        check_nvml(),
        check_compiler("host compiler", "host", "the emulator"),
        check_store(store)};
    const Check &nvrtc = checks[2], &hiprtc = checks[3], &host = checks[5], &stored = checks[6];
    Code code = stored.found.empty() ? stored.error.code : Code::ok;
    if (nvrtc.found.empty() && hiprtc.found.empty() && host.found.empty())
        code = Code::library_missing;
    if (cli.json) {
        nlohmann::json list = nlohmann::json::array();
        for (const Check& check : checks) list.push_back(to_json(check));
        print_json({{"checks", list}, {"usable", code == Code::ok}});
        return code;
    }
    for (const Check& check : checks) {
        const bool ok = !check.found.empty();
        print_line(formatted("{:<8} {:<14} {}", ok ? "ok" : "missing", check.name,
                             ok ? check.found : check.error.message));
        if (ok) continue;
        print_line(formatted("{:<23} needed for {}", "", check.needed_for));
        if (!check.error.next_step.empty())
            print_line(formatted("{:<23} next: {}", "", check.error.next_step));
    }
    print_line(code == Code::ok ? "Attune can work here: attune devices lists on what."
                                : "Attune cannot work here yet.");
    return code;
}

std::vector<DeviceInfo> all_devices() {
    std::vector<DeviceInfo> all = gpu_devices();
    for (const Target& target : known_targets()) {
        const auto emulated = open_device("emu:" + target.id);
        if (emulated) all.push_back((*emulated)->info());
    }
    return all;
}

Result<Code> devices(const Cli& cli) {
    const std::vector<DeviceInfo> all = all_devices();
    if (cli.json) {
        nlohmann::json list = nlohmann::json::array();
        for (const DeviceInfo& info : all) list.push_back(attune::to_json(info));
        print_json({{"devices", list}});
        return Code::ok;
    }
    Table table({"device", "name", "arch", "SMs", "smem/CTA", "L2 MiB", "GB/s", "TFLOP/s"});
    for (const DeviceInfo& info : all) {
        const Target& t = info.target;
        table.add({info.id, t.name, t.arch, formatted("{}", t.multiprocessors),
                   formatted("{}", t.shared_bytes_per_cta),
                   formatted("{:.0f}", double(t.l2_bytes) / (1 << 20)),
                   formatted("{:.0f}", t.memory_gb_per_s),
                   formatted("{:.0f}", t.dense_f16_tflops)});
    }
    table.print();
    return Code::ok;
}

}  // namespace

void add_device_commands(CLI::App& app, Cli& cli) {
    auto store = std::make_shared<std::string>();
    CLI::App* command =
        add_command(app, cli, "doctor", "What is here, what is missing, what to do about it",
                    [&cli, store] { return doctor(cli, *store); });
    add_store_option(*command, *store);
    add_command(app, cli, "devices", "GPUs of this machine, and those that can be emulated",
                [&cli] { return devices(cli); });
}

}  // namespace attune
