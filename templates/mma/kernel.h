// Attention forward in the way of FlashAttention-2: a CTA owns a q-tile, walks over the kv tiles,
// keeps O in registers and normalises once. The FlashAttention-1 ways (warps over kv, a CTA per
// head, O divided every step) are fields of the variant.
#pragma once

#include "templates/mma/merge.h"
#include "templates/mma/products.h"
#include "templates/mma/ring.h"

#include "templates/common/q_tile.h"

namespace attune {

template <class V>
ATTUNE_DEVICE void attention_forward(const AttentionParams& p) {
    const SharedAddress shared = shared_base();
    const int q_tiles = (p.seqlen_q + V::tile_q - 1) / V::tile_q;
    const int heads = p.batch * p.heads_q;
    if (V::grid == grid_per_q_tile) {
        const Work work = work_of<V::section_heads>(cta_index(), q_tiles, p.heads_q, heads);
        QTile<V>(p, work, shared).run();
    } else {
        Work work = work_of<0>(cta_index(), 1, p.heads_q, heads);
        for (int q_tile = 0; q_tile < q_tiles; ++q_tile) {
            if (q_tile > 0) cta_sync();  // all are done with the shared memory of the tile before
            work.q_tile = q_tile;
            QTile<V>(p, work, shared).run();
        }
    }
}

}  // namespace attune
