/* The emulator as a backend of the loader: link libattune_emu beside libattune. */
#ifndef ATTUNE_RUNTIME_ATTUNE_EMU_H
#define ATTUNE_RUNTIME_ATTUNE_EMU_H

#include "attune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `gpu` is a file stem of configs/gpus: "h200". Device memory comes from attune_alloc: kernels that
 * touch anything else are stopped with an error naming thread and address. *backend is handed to
 * attune_open or attune_emu_discard. */
ATTUNE_API attune_status attune_emu_backend(const char* gpu, attune_backend** backend);
ATTUNE_API void attune_emu_discard(attune_backend* backend);

#ifdef __cplusplus
}
#endif
#endif
