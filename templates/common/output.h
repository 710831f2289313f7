// Where results go.
#pragma once

#include "templates/abi.h"
#include "templates/common/packing.h"
#include "templates/common/schedule.h"

namespace attune {

/// Where a q-tile's results go.
template <bool packed = false>
struct OutputTile {
    Packing<packed> packing;
    unsigned short* o;  // of the tile's row 0
    long long row_stride;
    long long head_stride;
    float* lse;   // of the tile's row 0; null where not wanted
    int queries;  // seqlen_q
    int rows;     // of the tensor from the tile's row 0 on

    ATTUNE_DEVICE unsigned short* o_row(int row) const {
        return packing.at(o, row, row_stride, head_stride);
    }
    ATTUNE_DEVICE float* lse_of(int row) const { return packing.at(lse, row, 1, queries); }
};

/// The q-tile of `work`, whose first row is first_row, a multiple of a group's heads.
template <class V, bool packed = false>
ATTUNE_DEVICE OutputTile<packed> output_tile(const AttentionParams& p, const Work& work,
                                             int first_row,
                                             Packing<packed> packing = Packing<packed>()) {
    OutputTile<packed> out;
    out.packing = packing;
    out.row_stride = p.o_strides.row;
    out.head_stride = p.o_strides.head;
    out.queries = p.seqlen_q;
    const int head = packing.first_head(work.head), query = packing.query(first_row);
    out.o = static_cast<unsigned short*>(p.o) + work.batch * p.o_strides.batch +
            head * p.o_strides.head + query * out.row_stride;
    out.rows = packing.rows(p.seqlen_q) - first_row;
    out.lse = nullptr;
    if (V::write_lse)
        out.lse =
            p.lse + (static_cast<long long>(work.batch) * p.heads_q + head) * p.seqlen_q + query;
    return out;
}

}  // namespace attune
