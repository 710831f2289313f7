#include "runtime/attune_emu.h"
#include "runtime/backend.h"
#include "runtime/emu/emu.h"

// The two lists of codes are one list (generator/status.h).
static attune_status status_of(attune::Code code) {
    return static_cast<attune_status>(code);
}

attune_status attune_emu_backend(const char* gpu, attune_backend** backend) {
    if (!gpu || !backend) return ATTUNE_INVALID_ARGUMENT;
    *backend = nullptr;
    auto device = attune::open_emulator(gpu);
    if (!device) return status_of(device.error().code);
    *backend = new attune_backend{std::move(*device)};
    return ATTUNE_OK;
}

void attune_emu_discard(attune_backend* backend) {
    delete backend;
}
