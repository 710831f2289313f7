// A tiny kernel as text, written against templates/target/contract.md.
#pragma once

#include <string>

namespace attune {

/// `body` sees in and out (words), shared, thread, lane, warp, and `p`: in, out and `more_params`.
/// `helpers` are device functions it may call. `threads` of a CTA at most.
inline std::string kernel_text(const std::string& body, const std::string& more_params = "",
                               const std::string& helpers = "", int threads = 1024) {
    return "#include \"target.h\"\n"
           "namespace attune {\n"
           "struct Params { const void* in; void* out; " +
           more_params + " };\n" + helpers +
           "ATTUNE_DEVICE void body(const Params& p) {\n"
           "const int thread = thread_index(), lane = lane_index(), warp = warp_index();\n"
           "const SharedAddress shared = shared_base();\n"
           "auto* in = static_cast<const unsigned*>(p.in);\n"
           "auto* out = static_cast<unsigned*>(p.out);\n"
           "(void)thread, (void)lane, (void)warp, (void)shared, (void)in, (void)out;\n" +
           body +
           "\n}\n}\n"
           "ATTUNE_KERNEL(attune_kernel, " +
           std::to_string(threads) + ", 1, attune::Params, p) { attune::body(p); }\n";
}

}  // namespace attune
