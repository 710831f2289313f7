#include "tests/fake_gpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "runtime/emu/kernel_object.h"
#include "tests/fake_code.h"

namespace attune {
namespace {

const char* environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

DevicePtr address(const void* memory) {
    return reinterpret_cast<DevicePtr>(memory);
}

}  // namespace

FakeGpu::FakeGpu(const char* gpu) : default_gpu_(gpu), calls_file_(environment("FAKE_CALLS")) {
    std::ifstream before(calls_file_);
    for (std::string line; std::getline(before, line);) ++control.calls;
    char colon;
    std::istringstream(environment("FAKE_FAIL")) >> control.fail_at >> colon >> control.fail_with;
    (void)initialize();
}

int FakeGpu::begin(const char* name, bool binds) {
    ++control.calls;
    const std::size_t used = std::strlen(control.log), length = std::strlen(name);
    if (used + length + 2 < sizeof control.log) {
        std::memcpy(control.log + used, name, length);
        std::memcpy(control.log + used + length, " ", 2);
    }
    if (!calls_file_.empty()) std::ofstream(calls_file_, std::ios::app) << name << "\n";
    if (control.calls != control.fail_at) return binds ? 0 : lost_;
    std::strncpy(control.failed, name, sizeof control.failed - 1);
    return control.fail_with;
}

int FakeGpu::initialize() {
    std::string id = control.gpu;
    if (id.empty()) id = environment("FAKE_GPU");
    if (id.empty()) id = default_gpu_;
    if (target_.id == id) return 0;
    auto opened = open_emulator(id);
    if (!opened) return fail(fake_result::invalid_value, opened.error().text());
    queue_.clear();
    modules_.clear();
    target_ = *find_target(id);
    emulator_ = std::move(*opened);
    start_ = *emulator_->create_event();
    stop_ = *emulator_->create_event();
    lost_ = 0;
    return 0;
}

int FakeGpu::fail(int result, const std::string& why) {
    std::snprintf(control.fault, sizeof control.fault, "%s", why.c_str());
    std::fprintf(stderr, "fake driver: %s\n", why.c_str());
    return result;
}

// ---- memory -----------------------------------------------------------------------------------

int FakeGpu::allocate(void** memory, std::size_t bytes) {
    if (bytes == 0) return fake_result::invalid_value;
    const auto allocated = emulator_->allocate(bytes);
    if (!allocated) return fake_result::out_of_memory;
    *memory = reinterpret_cast<void*>(*allocated);
    ++control.live;
    return 0;
}
int FakeGpu::release(void* memory) {
    synchronize();
    if (!emulator_->release(address(memory))) return fake_result::invalid_value;
    --control.live;
    return 0;
}
int FakeGpu::copy_to_device(void* to, const void* from, std::size_t bytes) {
    if (const int lost = synchronize()) return lost;
    return emulator_->copy_to_device(address(to), from, bytes) ? 0 : fake_result::invalid_value;
}
int FakeGpu::copy_to_host(void* to, const void* from, std::size_t bytes) {
    if (const int lost = synchronize()) return lost;
    return emulator_->copy_to_host(to, address(from), bytes) ? 0 : fake_result::invalid_value;
}
int FakeGpu::fill(void* to, std::uint32_t pattern, std::size_t words) {
    in_order([=, this] {
        if (!emulator_->fill(address(to), pattern, 4 * words))
            lost_ = fail(fake_result::launch_failure, "a fill of what is no device memory");
    });
    return 0;
}

// ---- modules ----------------------------------------------------------------------------------

int FakeGpu::load(void** module, const void* image) {
    Module loaded;
    if (*static_cast<const char*>(image) != 0) {
        loaded.image = elf_image(image);
        if (loaded.image.empty()) return fail(fake_result::invalid_image, "no ELF file");
        if (!is_for(loaded.image, target()))
            return fail(fake_result::no_binary_for_gpu, "not for " + target().arch);
        const auto source = source_of(loaded.image, target());
        if (!source) return fail(fake_result::invalid_image, source.error().text());
        const auto twin = twin_of(*source);
        if (!twin) return fail(fake_result::invalid_image, twin.error().text());
        const auto object = emu::LoadedObject::load(twin->bytes, twin->entry, target().wave_size);
        const auto kernel = emulator_->load(twin->bytes, twin->entry, 0);
        if (!object || !kernel) return fail(fake_result::invalid_image, "its twin does not load");
        loaded.params_bytes = object->kernel().params_bytes;
        loaded.kernel = *kernel;
    }
    *module = reinterpret_cast<void*>(++last_handle_);
    modules_.emplace(*module, std::move(loaded));
    ++control.live;
    return 0;
}
int FakeGpu::unload(void* module) {
    synchronize();
    const auto found = modules_.find(module);
    if (found == modules_.end()) return fake_result::invalid_handle;
    if (found->second.kernel != 0) (void)emulator_->unload(found->second.kernel);
    modules_.erase(found);
    --control.live;
    return 0;
}
int FakeGpu::function(void** function, void* module, const char* name) const {
    const auto found = modules_.find(module);
    if (found == modules_.end()) return fake_result::invalid_handle;
    const std::string& image = found->second.image;
    const bool there = image.empty() ? std::strcmp(name, "no_such_kernel") != 0
                                     : has_kernel(image, name, target().vendor);
    *function = module;
    return there ? 0 : fake_result::not_found;
}

// ---- work in the queue ------------------------------------------------------------------------

int FakeGpu::launch(void* function, const FakeLaunch& launch) {
    const auto found = modules_.find(function);
    if (found == modules_.end()) return fake_result::invalid_handle;
    const Module& module = found->second;
    if (launch.shared_bytes > unsigned(target().shared_bytes_per_cta))
        return fake_result::invalid_value;
    if (module.image.empty()) {
        if (control.on_launch != nullptr) control.on_launch(control.user, launch);
        return 0;
    }
    const auto* first = static_cast<const std::byte*>(launch.params);
    queue_.push_back([this, kernel = module.kernel, launch,
                      params = std::vector(first, first + module.params_bytes)] {
        (void)emulator_->record(start_);
        const auto done =
            emulator_->launch(kernel, {launch.ctas, launch.threads, launch.shared_bytes, 0},
                              params.data(), params.size());
        if (!done) lost_ = fail(fake_result::launch_failure, done.error().text());
        (void)emulator_->record(stop_);
        control.now_ms += *emulator_->elapsed_ms(start_, stop_);
    });
    return 0;
}

int FakeGpu::synchronize() {
    for (; !queue_.empty(); queue_.pop_front())
        if (lost_ == 0) queue_.front()();
    return lost_;
}

void FakeGpu::in_order(std::function<void()> work) {
    if (queue_.empty())
        work();
    else
        queue_.push_back(std::move(work));
}

// ---- events -----------------------------------------------------------------------------------

int FakeGpu::create_event(void** event) {
    auto time_ms = std::make_unique<double>(0);
    *event = time_ms.get();
    events_.emplace(*event, std::move(time_ms));
    ++control.live;
    return 0;
}
int FakeGpu::record(void* event) {
    if (events_.count(event) == 0) return fake_result::invalid_handle;
    in_order([=, this] { *static_cast<double*>(event) = control.now_ms; });
    return 0;
}
int FakeGpu::elapsed(float* milliseconds, const void* start, const void* stop) const {
    if (!queue_.empty()) return fake_result::not_ready;
    *milliseconds =
        static_cast<float>(*static_cast<const double*>(stop) - *static_cast<const double*>(start));
    return 0;
}
int FakeGpu::destroy_event(void* event) {
    synchronize();
    if (events_.erase(event) == 0) return fake_result::invalid_handle;
    --control.live;
    return 0;
}

}  // namespace attune
