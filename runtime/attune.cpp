#include "runtime/attune.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "generator/formatted.h"
#include "runtime/backend.h"
#include "runtime/loader.h"

using attune::Code;
using attune::Error;
using attune::formatted;
using attune::Result;

struct attune_context {
    std::unique_ptr<attune::Loader> loader;
    mutable std::mutex errors_mutex;
    std::map<std::thread::id, std::string> errors;  // the latest of each thread
};

namespace {

static_assert(ATTUNE_INTERNAL == static_cast<int>(Code::internal), "one list of failures");
static_assert(ATTUNE_E4M3 == static_cast<int>(attune::DType::e4m3), "one list of dtypes");

// There is no context yet to hang the failure of attune_open on.
thread_local std::string open_error;

attune_status remember(attune_context* context, const Error& error) {
    if (context == nullptr) {
        open_error = error.text();
    } else {
        const std::lock_guard lock(context->errors_mutex);
        context->errors[std::this_thread::get_id()] = error.text();
    }
    return static_cast<attune_status>(error.code);
}

Error null_argument(const char* name) {
    return {Code::invalid_argument, formatted("{} is NULL", name), ""};
}

/// Runs `work`; an Error or an exception becomes a status and the context's last error.
template <class Work>
attune_status guarded(attune_context* context, Work&& work) noexcept {
    try {
        const Result<void> done = work();
        return done ? ATTUNE_OK : remember(context, done.error());
    } catch (...) {  // nothing but an allocation throws here
        return ATTUNE_OUT_OF_MEMORY;
    }
}

/// The same for functions that need an open context.
template <class Work>
attune_status with_loader(attune_context* context, Work&& work) noexcept {
    return guarded(context, [&]() -> Result<void> {
        if (context == nullptr) return null_argument("context");
        return work(*context->loader);
    });
}

attune::DevicePtr address_of(const void* memory) {
    return reinterpret_cast<attune::DevicePtr>(memory);
}

/// Accepts a struct of this library's size, or a larger one whose unknown rest is zero.
template <class Struct>
Result<void> check_struct(const Struct* given, const char* name) {
    constexpr std::size_t largest = 4096;  // beyond it, somebody forgot to set it
    if (given == nullptr) return null_argument(name);
    const std::size_t size = given->struct_bytes;
    if (size < sizeof(Struct) || size > largest)
        return Error{
            Code::invalid_argument,
            formatted("{}.struct_bytes is {}, this library needs {}", name, size, sizeof(Struct)),
            formatted("set it to sizeof({}) and build against this library's header", name)};
    const char* bytes = reinterpret_cast<const char*>(given);
    if (std::any_of(bytes + sizeof(Struct), bytes + size, [](char byte) { return byte != 0; }))
        return Error{Code::version_mismatch,
                     formatted("{} asks for something this library does not know", name),
                     "update the library, or zero the struct before filling it"};
    return {};
}

/// In C an enum holds any number; C++ takes for granted that it holds none but its own.
template <class Enum>
int number_of(const Enum& value) {
    int number;
    static_assert(sizeof number == sizeof value);
    std::memcpy(&number, &value, sizeof number);
    return number;
}

Result<attune::Problem> problem_of(const attune_problem* given) {
    if (auto good = check_struct(given, "attune_problem"); !good) return good.error();
    const int dtype = number_of(given->dtype), mask = number_of(given->mask);
    if (dtype < ATTUNE_F16 || dtype > ATTUNE_E4M3)
        return Error{Code::invalid_argument, formatted("dtype is {}", dtype),
                     "use ATTUNE_F16, ATTUNE_BF16 or ATTUNE_E4M3"};
    if (mask != ATTUNE_MASK_FULL && mask != ATTUNE_MASK_CAUSAL)
        return Error{Code::invalid_argument, formatted("mask is {}", mask),
                     "use ATTUNE_MASK_FULL or ATTUNE_MASK_CAUSAL"};
    attune::Problem problem;
    problem.signature = {static_cast<attune::DType>(dtype), given->head_dim,
                         mask == ATTUNE_MASK_FULL ? attune::Mask::full : attune::Mask::causal,
                         given->want_lse != 0,
                         given->head_dim_v == given->head_dim ? 0 : given->head_dim_v};
    problem.shape = {given->batch, given->heads_q, given->heads_kv, given->seqlen_q,
                     given->seqlen_kv};
    return problem;
}

attune::TensorStrides strides_of(const attune_tensor_strides& given) {
    return {given.batch, given.head, given.row};
}

Result<std::unique_ptr<attune::Device>> open_device(std::string_view name) {
    if (name.starts_with("emu:"))
        return Error{Code::unsupported, "the loader does not carry the emulator",
                     "link attune_emu, and pass attune_emu_backend's device as options.backend"};
    return attune::open_gpu(name);
}

Result<attune::Restriction> restriction_of(const attune_options& given) {
    attune::Restriction restriction{given.family == nullptr ? "" : given.family,
                                    given.max_shared_bytes};
    if (!restriction.family.empty() && attune::find_family(restriction.family) == nullptr)
        return Error{Code::invalid_argument,
                     formatted("there is no kernel family '{}'", restriction.family),
                     "`attune explain` lists them; NULL is all"};
    if (restriction.max_shared_bytes < 0)
        return Error{Code::invalid_argument,
                     formatted("max_shared_bytes is {}", restriction.max_shared_bytes),
                     "pass bytes, or 0 for what the device has"};
    return restriction;
}

Result<void> open(const attune_options& given, attune_context& context) {
    auto restriction = restriction_of(given);
    if (!restriction) return restriction.error();
    std::unique_ptr<attune::Device> opened;
    if (given.backend == nullptr) {
        auto device = open_device(given.device == nullptr ? "" : given.device);
        if (!device) return device.error();
        opened = std::move(*device);
    }
    const char* log = std::getenv("ATTUNE_LOG");
    attune::Loader::Options options;
    options.store_path =
        given.store_path == nullptr ? attune::default_store_path() : given.store_path;
    options.strict = given.strict != 0;
    options.log = log != nullptr && std::strcmp(log, "1") == 0;
    options.restriction = std::move(*restriction);
    auto& device = given.backend == nullptr ? opened : given.backend->device;
    auto loader = attune::Loader::open(device, std::move(options), &context);
    if (!loader) return loader.error();
    context.loader = std::move(*loader);
    return {};
}

}  // namespace

#define ATTUNE_TEXT(x) #x
#define ATTUNE_DOTTED(a, b, c) ATTUNE_TEXT(a) "." ATTUNE_TEXT(b) "." ATTUNE_TEXT(c)

const char* attune_version(void) {
    return ATTUNE_DOTTED(ATTUNE_VERSION_MAJOR, ATTUNE_VERSION_MINOR, ATTUNE_VERSION_PATCH);
}

const char* attune_status_name(attune_status status) {
    return attune::code_name(static_cast<Code>(number_of(status)));
}

attune_status attune_open(const attune_options* options, attune_context** context) {
    return guarded(nullptr, [&]() -> Result<void> {
        if (context == nullptr) return null_argument("context");
        *context = nullptr;
        attune_options defaults{};
        defaults.struct_bytes = sizeof defaults;
        const attune_options& given = options == nullptr ? defaults : *options;
        if (auto good = check_struct(&given, "attune_options"); !good) return good;
        auto opened = std::make_unique<attune_context>();
        if (auto done = open(given, *opened); !done) return done;
        delete given.backend;  // its device is the context's now
        *context = opened.release();
        return {};
    });
}

void attune_close(attune_context* context) {
    delete context;
}

attune_status attune_find(attune_context* context, const attune_problem* problem,
                          attune_answer* answer) {
    return with_loader(context, [&](attune::Loader& loader) -> Result<void> {
        if (auto good = check_struct(answer, "attune_answer"); !good) return good;
        const auto asked = problem_of(problem);
        if (!asked) return asked.error();
        const auto found = loader.find(*asked);
        if (!found) return found.error();
        const attune::Answer& a = **found;
        *answer = {answer->struct_bytes,   a.match,         a.distance,         a.kernel,
                   a.workspace_bytes,      a.expected_us,   a.measured ? 1 : 0, a.config.c_str(),
                   a.record_shape.c_str(), a.advice.c_str()};
        return {};
    });
}

attune_status attune_launch(attune_kernel* kernel, const attune_problem* problem,
                            const attune_tensors* tensors, void* workspace, void* stream) {
    attune_context* context = kernel == nullptr ? nullptr : kernel->context;
    return guarded(context, [&]() -> Result<void> {
        if (kernel == nullptr) return null_argument("kernel");
        const auto asked = problem_of(problem);
        if (!asked) return asked.error();
        if (auto good = check_struct(tensors, "attune_tensors"); !good) return good;
        attune::Tensors given{};
        given.pointers.q = tensors->q;
        given.pointers.k = tensors->k;
        given.pointers.v = tensors->v;
        given.pointers.o = tensors->o;
        given.pointers.lse = tensors->lse;
        given.pointers.workspace = workspace;
        given.pointers.q_scale = tensors->q_scale;
        given.pointers.k_scale = tensors->k_scale;
        given.pointers.v_scale = tensors->v_scale;
        given.strides = {strides_of(tensors->q_strides), strides_of(tensors->k_strides),
                         strides_of(tensors->v_strides), strides_of(tensors->o_strides)};
        given.scale = tensors->scale;
        return context->loader->launch(*kernel, *asked, given,
                                       reinterpret_cast<attune::Stream>(stream));
    });
}

attune_status attune_alloc(attune_context* context, size_t bytes, void** memory) {
    return with_loader(context, [&](attune::Loader& loader) -> Result<void> {
        if (memory == nullptr) return null_argument("memory");
        *memory = nullptr;
        const auto ptr = loader.with_device([&](attune::Device& d) { return d.allocate(bytes); });
        if (!ptr) return ptr.error();
        *memory = reinterpret_cast<void*>(*ptr);
        return {};
    });
}

attune_status attune_free(attune_context* context, void* memory) {
    return with_loader(context, [&](attune::Loader& loader) -> Result<void> {
        if (memory == nullptr) return {};
        return loader.with_device([&](attune::Device& d) { return d.release(address_of(memory)); });
    });
}

attune_status attune_copy_to_device(attune_context* context, void* to, const void* from,
                                    size_t bytes) {
    return with_loader(context, [&](attune::Loader& loader) -> Result<void> {
        return loader.with_device(
            [&](attune::Device& d) { return d.copy_to_device(address_of(to), from, bytes); });
    });
}

attune_status attune_copy_to_host(attune_context* context, void* to, const void* from,
                                  size_t bytes) {
    return with_loader(context, [&](attune::Loader& loader) -> Result<void> {
        return loader.with_device(
            [&](attune::Device& d) { return d.copy_to_host(to, address_of(from), bytes); });
    });
}

attune_status attune_synchronize(attune_context* context) {
    return with_loader(context, [&](attune::Loader& loader) -> Result<void> {
        return loader.with_device([](attune::Device& d) { return d.synchronize(); });
    });
}

const char* attune_last_error(const attune_context* context) {
    if (context == nullptr) return open_error.c_str();
    const std::lock_guard lock(context->errors_mutex);
    const auto mine = context->errors.find(std::this_thread::get_id());
    return mine == context->errors.end() ? "" : mine->second.c_str();
}
