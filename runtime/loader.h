// Loader = a device and a store, opened: what stands behind the C API (runtime/attune.cpp).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "generator/family.h"
#include "runtime/attune.h"
#include "runtime/device.h"
#include "runtime/store.h"

/// Everything a launch needs, prepared at look-up so that launching allocates nothing.
struct attune_kernel {
    attune_context* context = nullptr;
    attune::Kernel handle = 0;
    attune::Signature signature;
    attune::Config config;
    const attune::Family* family = nullptr;
};

namespace attune {

/// The memory of attune_answer.
struct Answer {
    attune_match match = ATTUNE_MATCH_NONE;
    double distance = 0;
    attune_kernel* kernel = nullptr;
    std::size_t workspace_bytes = 0;
    double expected_us = 0;
    bool measured = false;
    std::string config, record_shape, advice;
};

struct Tensors {
    AttentionParams pointers;  // and workspace and head scales; the rest is filled in by launch
    Strides strides;
    float scale = 0;  // 0 = default_scale
};

class Loader {
public:
    struct Options {
        std::string store_path;
        bool strict = false;
        bool log = false;
        Restriction restriction = {};
    };

    /// Takes the device where it succeeds.
    static Result<std::unique_ptr<Loader>> open(std::unique_ptr<Device>& device, Options options,
                                                attune_context* context);
    ~Loader();

    /// Thread-safe. The answer lives as long as the loader.
    Result<const Answer*> find(const Problem& problem);

    /// Allocates nothing, and locks only on the emulator, which runs one launch at a time.
    Result<void> launch(const attune_kernel& kernel, const Problem& problem, const Tensors& tensors,
                        Stream stream);

    /// `work` has the device for itself.
    template <class Work>
    auto with_device(Work&& work) {
        const std::lock_guard lock(mutex_);
        return work(*device_);
    }

private:
    Loader(Options options, Store store, attune_context* context)
        : options_(std::move(options)), store_(std::move(store)), context_(context) {}

    Result<void> read_records();
    Result<Answer> look_up(const Problem& problem);
    Answer without_record(const Problem& problem) const;
    Result<attune_kernel*> kernel_of(const Record& record);
    std::string command(const std::string& verb) const;
    std::string tune_command(const Problem& problem) const;

    std::mutex mutex_;
    Options options_;
    Store store_;
    attune_context* context_;
    std::unique_ptr<Device> device_;
    std::vector<Record> records_;                                    // of this device
    std::map<std::string, Answer> answers_;                          // by the problem's text
    std::map<std::string, std::unique_ptr<attune_kernel>> kernels_;  // by binary and config
};

}  // namespace attune
