#include "tuner/probe.h"

#include "generator/formatted.h"

namespace attune {
namespace {

constexpr int scan_threads = 256;
constexpr int queue_threads = 64;  // whole warps on every GPU

}  // namespace

Source probe_source(const ProbeText& text) {
    Source source;
    source.entry = "attune_probe";
    const std::string body = formatted(
        "#include \"{0}\"\n\nnamespace attune {{\n{1}"
        "ATTUNE_DEVICE void probe(const {2}& params) {{\n    {3};\n}}\n}}  // namespace attune\n\n"
        "ATTUNE_KERNEL({4}, {5}, 1, attune::{2}, params) {{\n    attune::probe(params);\n}}\n",
        text.header, text.prelude, text.params, text.call, source.entry, text.threads);
    source.hash = sha256_hex(body);
    source.text = formatted("#define ATTUNE_SOURCE_HASH \"{}\"\n#define ATTUNE_VARIANT \"probe\"\n",
                            source.hash) +
                  body;
    return source;
}

ProbeText reference_text(const Signature& signature, int wave_size) {
    return {"templates/probe/reference.h", "ReferenceParams", "reference_rows<Variant>(params)",
            wave_size * reference_warps,
            formatted("struct Variant {{\n    using Element = {};\n"
                      "    static constexpr int head_dim = {};\n"
                      "    static constexpr int head_dim_v = {};\n"
                      "    static constexpr bool causal = {};\n"
                      "    static constexpr int warps = {};\n"
                      "    static constexpr int lanes = {};\n}};\n",
                      element_name(signature.dtype), signature.head_dim, signature.value_dim(),
                      signature.mask == Mask::causal, reference_warps, wave_size)};
}
ProbeText scan_text(int wave_size) {
    return {"templates/probe/scan.h", "ScanParams",
            formatted("scan_output<{}, {}>(params)", scan_threads, wave_size), scan_threads, ""};
}
ProbeText hold_text() {
    return {"templates/probe/queue.h", "HoldParams", "hold_queue(params)", queue_threads, ""};
}
ProbeText clock_text() {
    return {"templates/probe/queue.h", "ClockParams", "read_clock(params)", queue_threads, ""};
}

Result<Probe> Probe::load(Device& device, Compiler& compiler, const ProbeText& text) {
    auto binary = compiler.compile(probe_source(text), device.info().target.arch);
    if (!binary) return binary.error();
    auto kernel = device.load(binary->bytes, binary->entry, text.shared_bytes);
    if (!kernel) return kernel.error();
    return Probe(device, *kernel, text);
}

Probe::Probe(Probe&& other) noexcept
    : device_(other.device_),
      kernel_(std::exchange(other.kernel_, 0)),
      threads_(other.threads_),
      shared_bytes_(other.shared_bytes_) {}

Probe::~Probe() {
    if (kernel_ != 0) (void)device_->unload(kernel_);
}

}  // namespace attune
