// The emulator as a Device. Launches run when they are made, so everything is in stream order.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <system_error>
#include <thread>

#include "generator/formatted.h"
#include "runtime/emu/cta.h"
#include "runtime/emu/emu.h"
#include "runtime/emu/kernel_object.h"
#include "runtime/emu/model.h"
#include "runtime/emu/tensor_map.h"

namespace attune {
namespace {

using emu::CtaRunner;

constexpr int max_threads_per_cta = 1024;
constexpr int max_host_threads = 32;  // each has a stack per thread of a CTA

struct Fault {
    int cta;
    std::string message;
};

void add(EmuCounts& to, const EmuCounts& from) {
    to.mma += from.mma;
    to.wgmma += from.wgmma;
    to.ldmatrix += from.ldmatrix;
    to.exp2 += from.exp2;
    to.shared_bytes += from.shared_bytes;
    to.bank_conflicts += from.bank_conflicts;
    to.global_bytes += from.global_bytes;
    to.barriers += from.barriers;
}

Error unknown(const char* what, std::uint64_t id) {
    return {Code::invalid_argument, formatted("there is no {} {} on this device", what, id),
            formatted("pass a {} of this device that is not gone", what)};
}

class Emulator final : public EmuDevice {
public:
    Emulator(const Target& target, const EmuOptions& options) : options_(options) {
        info_.id = "emu:" + target.id;
        info_.target = target;
        info_.target.name = "emu " + target.name;
        info_.driver = "emulator " ATTUNE_VERSION;
        info_.emulated = true;
    }

    const DeviceInfo& info() const override { return info_; }
    const EmuCounts& last_counts() const override { return counts_; }
    void set_options(const EmuOptions& options) override { options_ = options; }

    Result<DevicePtr> allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
    Result<void> release(DevicePtr ptr) override { return memory_.release(ptr); }

    Result<void> copy_to_device(DevicePtr to, const void* from, std::size_t bytes) override {
        if (const Result<void> inside = check_range(to, bytes); !inside) return inside.error();
        if (bytes > 0) std::memcpy(reinterpret_cast<void*>(to), from, bytes);
        return {};
    }

    Result<void> copy_to_host(void* to, DevicePtr from, std::size_t bytes) override {
        if (const Result<void> inside = check_range(from, bytes); !inside) return inside.error();
        if (bytes > 0) std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
        return {};
    }

    Result<void> fill(DevicePtr to, std::uint32_t pattern, std::size_t bytes, Stream) override {
        if (const Result<void> inside = check_range(to, bytes); !inside) return inside.error();
        if (to % 4 != 0 || bytes % 4 != 0)
            return Error{Code::invalid_argument, "fill works on whole 32-bit words",
                         "pass an address and a size that are multiples of 4"};
        std::fill_n(reinterpret_cast<std::uint32_t*>(to), bytes / 4, pattern);
        return {};
    }

    Result<Kernel> load(std::span<const std::byte> binary, const std::string& entry,
                        std::uint32_t shared_bytes) override {
        if (const Result<void> fits = check_shared(shared_bytes); !fits) return fits.error();
        Result<emu::LoadedObject> object =
            emu::LoadedObject::load(binary, entry, info_.target.wave_size);
        if (!object) return object.error();
        kernels_.emplace(++last_id_, std::move(*object));
        return last_id_;
    }

    Result<void> unload(Kernel kernel) override {
        if (kernels_.erase(kernel) == 0) return unknown("kernel", kernel);
        return {};
    }

    Result<void> launch(Kernel kernel, const Launch& launch, const void* params,
                        std::size_t params_bytes, Stream) override;
    Result<void> synchronize() override { return {}; }

    Result<void> encode_tensor_map(const TensorMapSpec& spec, TensorMap& map) override {
        return emu::encode_tensor_map(spec, map);
    }

    Result<Event> create_event() override {
        events_.emplace(++last_id_, 0.0);
        return last_id_;
    }

    Result<void> record(Event event, Stream) override {
        const auto found = events_.find(event);
        if (found == events_.end()) return unknown("event", event);
        found->second = now_us_;
        return {};
    }

    Result<double> elapsed_ms(Event start, Event stop) override {
        const auto from = events_.find(start), to = events_.find(stop);
        if (from == events_.end()) return unknown("event", start);
        if (to == events_.end()) return unknown("event", stop);
        return (to->second - from->second) / 1000;
    }

    Result<void> destroy_event(Event event) override {
        if (events_.erase(event) == 0) return unknown("event", event);
        return {};
    }

    volatile std::uint32_t* host_flag() override { return nullptr; }
    DevicePtr host_flag_device_ptr() override { return 0; }

private:
    Result<void> check_range(DevicePtr at, std::size_t bytes) const {
        if (memory_.contains(at, bytes)) return {};
        return Error{Code::invalid_argument,
                     formatted("{} bytes at {:#x} are not device memory: {}", bytes, at,
                               memory_.nearest(at)),
                     "pass memory from allocate"};
    }

    Result<void> check_shared(std::uint32_t bytes) const {
        if (bytes <= static_cast<std::uint32_t>(info_.target.shared_bytes_per_cta)) return {};
        return Error{Code::device_error,
                     formatted("a CTA asks for {} bytes of shared memory, {} has {}", bytes,
                               info_.target.name, info_.target.shared_bytes_per_cta),
                     "use a smaller tile or fewer stages"};
    }

    Result<void> check_launch(const emu::LoadedObject& object, const Launch& launch,
                              std::size_t params_bytes) const;
    Result<void> prepare_runners(const emu::Grid& grid);
    std::vector<Fault> run(const emu::Grid& grid);

    DeviceInfo info_;
    EmuOptions options_;
    emu::GlobalMemory memory_;
    std::map<Kernel, emu::LoadedObject> kernels_;
    std::map<Event, double> events_;  // when, in now_us_
    std::vector<std::unique_ptr<CtaRunner>> runners_;
    EmuCounts counts_;
    std::uint64_t last_id_ = 0;
    double now_us_ = 0;  // estimated work of all launches so far
};

Result<void> Emulator::check_launch(const emu::LoadedObject& object, const Launch& launch,
                                    std::size_t params_bytes) const {
    const emu::KernelObject& kernel = object.kernel();
    if (params_bytes != kernel.params_bytes)
        return Error{Code::invalid_argument,
                     formatted("{} takes a parameter of {} bytes, not {}", object.entry(),
                               kernel.params_bytes, params_bytes),
                     "pass the struct the kernel was compiled with"};
    const int limit = std::min(kernel.max_threads, max_threads_per_cta);
    const int threads = static_cast<int>(launch.threads_per_cta);
    if (threads <= 0 || threads > limit || threads % info_.target.wave_size != 0)
        return Error{Code::device_error,
                     formatted("{} cannot run with {} threads per CTA", object.entry(), threads),
                     formatted("use whole warps, up to {} threads", limit)};
    return check_shared(launch.shared_bytes);
}

Result<void> Emulator::prepare_runners(const emu::Grid& grid) {
    const int wanted =
        options_.threads > 0 ? options_.threads : int(std::thread::hardware_concurrency());
    runners_.resize(std::clamp(std::min(wanted, grid.ctas), 1, max_host_threads));
    for (std::unique_ptr<CtaRunner>& runner : runners_) {
        if (!runner) runner = std::make_unique<CtaRunner>();
        if (const Result<void> ready = runner->prepare(grid); !ready) return ready.error();
    }
    return {};
}

/// CTAs are handed out in order, and one that was begun is finished: the first fault by CTA is the
/// same in every run.
std::vector<Fault> Emulator::run(const emu::Grid& grid) {
    std::atomic<int> next = 0;
    std::atomic<bool> stop = false;
    std::vector<Fault> faults(runners_.size(), {grid.ctas, ""});
    const auto work = [&](std::size_t i) {
        while (!stop) {
            const int cta = next++;
            if (cta >= grid.ctas) return;
            std::optional<std::string> message = runners_[i]->run(cta);
            if (!message) continue;
            faults[i] = {cta, std::move(*message)};
            stop = true;
        }
    };
    std::vector<std::jthread> helpers;
    try {
        for (std::size_t i = 1; i < runners_.size(); ++i) helpers.emplace_back(work, i);
    } catch (const std::system_error&) {
        // No more threads to be had: those there are do all the work.
    }
    work(0);
    helpers.clear();
    return faults;
}

Result<void> Emulator::launch(Kernel kernel, const Launch& launch, const void* params,
                              std::size_t params_bytes, Stream) {
    const auto found = kernels_.find(kernel);
    if (found == kernels_.end()) return unknown("kernel", kernel);
    const emu::LoadedObject& object = found->second;
    if (const Result<void> fits = check_launch(object, launch, params_bytes); !fits)
        return fits.error();
    counts_ = {};
    if (launch.ctas == 0) return {};
    const emu::Grid grid{&object.kernel(),
                         params,
                         &memory_,
                         static_cast<int>(launch.ctas),
                         static_cast<int>(launch.threads_per_cta),
                         info_.target.wave_size,
                         emu::banks_of(info_.target),
                         static_cast<int>(launch.shared_bytes),
                         options_};
    if (const Result<void> ready = prepare_runners(grid); !ready) return ready.error();
    const std::vector<Fault> faults = run(grid);
    for (const auto& runner : runners_) add(counts_, runner->counts());
    const Fault& first = *std::min_element(
        faults.begin(), faults.end(), [](const Fault& a, const Fault& b) { return a.cta < b.cta; });
    if (first.cta < grid.ctas)
        return Error{Code::device_error,
                     formatted("{} on {}: {}", object.entry(), info_.id, first.message),
                     formatted("correct the kernel; seed {} repeats this run", options_.seed)};
    now_us_ += emu::estimate_us(counts_, grid.ctas, info_.target);
    return {};
}

}  // namespace

Result<std::unique_ptr<EmuDevice>> open_emulator(const std::string& gpu,
                                                 const EmuOptions& options) {
    const Result<Target> target = find_target(gpu);
    if (!target) return target.error();
    return std::unique_ptr<EmuDevice>(std::make_unique<Emulator>(*target, options));
}

}  // namespace attune
