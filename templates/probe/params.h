// What the probes are handed, each by value; host and device share it.
#pragma once

#include "templates/abi.h"

namespace attune {

/// Holds a queue until *flag is not 0, at most timeout_ns. *timed_out becomes 1 if it ran out.
struct HoldParams {
    const unsigned* flag;
    unsigned* timed_out;
    unsigned long long timeout_ns;
};

/// SM clock over about span_ns: result[0] cycles took result[1] ns.
struct ClockParams {
    unsigned* result;
    unsigned long long span_ns;
};

/// Walks over `chunks` pieces of 16 bytes of 16-bit floats. Adds to result: [0] how many are NaN
/// (magnitude bits above infinity_bits), [1] and [2] sums that change when any bit changes.
struct ScanParams {
    const void* data;
    unsigned* result;
    long long chunks;
    unsigned infinity_bits;
};

/// fp32 attention of chosen rows; row = (batch * heads_q + head) * seqlen_q + query.
/// o, baseline: [row_count, head_dim_v]; lse: [row_count]. The outputs of `attention` are not used.
struct ReferenceParams {
    AttentionParams attention;
    const unsigned* rows;
    float* o;
    float* baseline;
    float* lse;
    int row_count;
};

/// `steps` steps of every warp (mma) or the reading of `chunks` pieces of 16 bytes (read).
/// sink: one float per thread, so that nothing is optimised away.
struct PeakParams {
    const void* data;
    float* sink;
    long long chunks;
    int steps;
};

}  // namespace attune
