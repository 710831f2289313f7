// Probe = a kernel of templates/probe, compiled and loaded.
#pragma once

#include <string>

#include "runtime/device.h"
#include "templates/probe/params.h"
#include "tuner/compiler.h"

namespace attune {

/// How a probe's entry is written: "#include header", prelude, then one entry that says `call`.
struct ProbeText {
    std::string header;  // "templates/probe/queue.h"
    std::string params;  // type of the entry's parameter, called `params` in `call`
    std::string call;    // "hold_queue(params)", in namespace attune
    int threads = 32;
    std::string prelude;  // declarations before the entry, in namespace attune
    std::uint32_t shared_bytes = 0;
};
Source probe_source(const ProbeText& text);

/// The reference kernel's text: one warp of `wave_size` lanes per row, reference_warps per CTA.
constexpr int reference_warps = 4;
ProbeText reference_text(const Signature& signature, int wave_size);
ProbeText scan_text(int wave_size);
ProbeText hold_text();
ProbeText clock_text();

/// Its device must outlive it.
class Probe {
public:
    static Result<Probe> load(Device& device, Compiler& compiler, const ProbeText& text);
    Probe(Probe&& other) noexcept;
    Probe& operator=(Probe&&) = delete;
    ~Probe();

    template <class Params>
    Result<void> launch(std::uint32_t ctas, const Params& params) const {
        return device_->launch(kernel_, Launch{ctas, threads_, shared_bytes_, 0}, &params,
                               sizeof params);
    }

private:
    Probe(Device& device, Kernel kernel, const ProbeText& text)
        : device_(&device),
          kernel_(kernel),
          threads_(static_cast<std::uint32_t>(text.threads)),
          shared_bytes_(text.shared_bytes) {}

    Device* device_;
    Kernel kernel_;
    std::uint32_t threads_;
    std::uint32_t shared_bytes_;
};

}  // namespace attune
