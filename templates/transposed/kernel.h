// Attention forward for AMD's matrix cores in the way of FlashAttention-2, transposed: see
// layout.h.
#pragma once

#include "templates/transposed/epilogue.h"
#include "templates/transposed/products.h"
#include "templates/transposed/ring.h"

#include "templates/common/q_tile.h"

namespace attune {

template <class V>
ATTUNE_DEVICE void attention_forward(const AttentionParams& p) {
    const int q_tiles = (p.seqlen_q + V::tile_q - 1) / V::tile_q;
    const int cta = on_die<V::dies>(cta_index(), cta_count());
    const Work work = work_of<V::section_heads>(cta, q_tiles, p.heads_q, p.batch * p.heads_q);
    QTile<V>(p, work, shared_base()).run();
}

}  // namespace attune
