// The emulator's side of a kernel object (templates/target/emu_abi.h).
#pragma once

#include "templates/target/emu_abi.h"

namespace attune::emu {

/// Each finds the CTA it is for by the host thread that calls it.
const Operations& operations();

}  // namespace attune::emu
