// Where results go.
#pragma once

#include "templates/abi.h"
#include "templates/common/schedule.h"

namespace attune {

/// Where a q-tile's results go.
struct OutputTile {
    unsigned short* o;  // of the tile's row 0
    long long row_stride;
    float* lse;  // of the tile's row 0; null where not wanted
    int rows;    // of the tensor from the tile's row 0 on
};

/// The q-tile of `work`, whose first row is first_row.
template <class V>
ATTUNE_DEVICE OutputTile output_tile(const AttentionParams& p, const Work& work, int first_row) {
    OutputTile out;
    out.row_stride = p.o_strides.row;
    out.o = static_cast<unsigned short*>(p.o) + work.batch * p.o_strides.batch +
            work.head * p.o_strides.head + first_row * out.row_stride;
    out.rows = p.seqlen_q - first_row;
    out.lse = nullptr;
    if (V::write_lse)
        out.lse = p.lse +
                  (static_cast<long long>(work.batch) * p.heads_q + work.head) * p.seqlen_q +
                  first_row;
    return out;
}

}  // namespace attune
