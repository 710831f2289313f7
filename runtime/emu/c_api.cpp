#include "runtime/attune_emu.h"
#include "runtime/backend.h"
#include "runtime/emu/emu.h"

attune_status attune_emu_backend(const char* gpu, attune_backend** backend) {
    if (!gpu || !backend) return ATTUNE_INVALID_ARGUMENT;
    *backend = nullptr;
    try {
        auto device = attune::open_emulator(gpu);
        // The two lists of codes are one list (generator/status.h).
        if (!device) return static_cast<attune_status>(device.error().code);
        *backend = new attune_backend{std::move(*device)};
        return ATTUNE_OK;
    } catch (...) {  // nothing but an allocation throws here
        return ATTUNE_OUT_OF_MEMORY;
    }
}

void attune_emu_discard(attune_backend* backend) {
    delete backend;
}
