// One attention kernel launch: the parameter its family takes, filled in.
#pragma once

#include "runtime/device.h"

namespace attune {

/// Fills in all but the pointers. scale > 0.
void describe_problem(AttentionParams& params, const Problem& problem, const Strides& strides,
                      float scale);

/// `params` is complete, strides included. Kernels that load by TMA (launch.tma_rows_q > 0) get
/// tensor maps beside it. Allocates nothing.
Result<void> launch_attention(Device& device, Kernel kernel, const Launch& launch,
                              const Signature& signature, const AttentionParams& params,
                              Stream stream = 0);

}  // namespace attune
