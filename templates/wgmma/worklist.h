// Which q-tiles a CTA works on, one after the other.
#pragma once

#include "templates/common/mask.h"
#include "templates/common/schedule.h"
#include "templates/wgmma/layout.h"

namespace attune {

enum Schedule { cta_per_tile = 0, persistent = 1 };

/// persistent: CTA i of n takes item i, then 2n-1-i, 2n+i, 4n-1-i, ...: where items come in the
/// order of falling lengths, the turns even out.
template <class V>
class Worklist {
public:
    ATTUNE_DEVICE explicit Worklist(const AttentionParams& p)
        : q_tiles_((p.seqlen_q + V::tile_q - 1) / V::tile_q),
          heads_q_(p.heads_q),
          heads_(p.batch * p.heads_q) {}

    /// False when this CTA is done.
    ATTUNE_DEVICE bool next(Work& work) {
        const int n = cta_count(), i = cta_index();
        const int item = round_ * n + (round_ % 2 == 0 ? i : n - 1 - i);
        if (item >= q_tiles_ * heads_ || (V::schedule == cta_per_tile && round_ > 0)) return false;
        work = work_of<V::section_heads>(item, q_tiles_, heads_q_, heads_);
        ++round_;
        return true;
    }

private:
    int q_tiles_;
    int heads_q_;
    int heads_;
    int round_ = 0;
};

/// kv tiles that some row of rows first .. first + rows - 1 attends.
template <class V>
ATTUNE_DEVICE int kv_tiles(const KeyMask<V::causal>& mask, int first, int rows, int seqlen_q) {
    const int end = first + rows < seqlen_q ? first + rows : seqlen_q;
    return end > first ? mask.tiles(end - 1, V::tile_kv) : 0;
}

}  // namespace attune
