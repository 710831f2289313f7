// Which q-tiles a CTA works on, one after the other.
#pragma once

#include "templates/common/schedule.h"
#include "templates/wgmma/layout.h"

namespace attune {

enum Schedule { cta_per_tile = 0, persistent = 1 };

/// persistent: each of n CTAs takes one item of every n. Under a causal mask, where each q-tile is
/// longer than the one before, CTA i takes i, 2n-1-i, 2n+i, 4n-1-i, ... Else only the last q-tile
/// of a head differs, and a CTA takes one of each q-tile in turn.
template <class V>
class Worklist {
public:
    template <bool packed>
    ATTUNE_DEVICE Worklist(const AttentionParams& p, const Packing<packed>& packing)
        : q_tiles_((packing.rows(p.seqlen_q) + V::tile_q - 1) / V::tile_q),
          heads_q_(packing.groups(p.heads_q)),
          heads_(p.batch * packing.groups(p.heads_q)),
          place_(cta_index()) {
        // By this shift the item's remainder by q_tiles goes up by one, but where place_ wraps.
        const int n = cta_count(), short_by = (n - 1) % q_tiles_;
        shift_ = short_by == 0 ? 0 : (q_tiles_ - short_by) % n;
    }

    /// False when this CTA is done.
    ATTUNE_DEVICE bool next(Work& work) {
        const int item = first_ + place_;
        if (item >= q_tiles_ * heads_ || (V::schedule == cta_per_tile && first_ > 0)) return false;
        work = work_of<V::section_heads>(item, q_tiles_, heads_q_, heads_);
        advance();
        return true;
    }

private:
    ATTUNE_DEVICE void advance() {
        const int n = cta_count();
        first_ += n;
        place_ = V::causal ? n - 1 - place_ : place_ + shift_;
        if (place_ >= n) place_ -= n;
    }

    Divisor q_tiles_;
    Divisor heads_q_;
    int heads_;
    int place_;  // among the n items from first_ on
    int shift_;
    int first_ = 0;  // a multiple of n
};

/// kv tiles that some row of rows first .. first + rows - 1 attends.
template <class V>
ATTUNE_DEVICE int kv_tiles(const typename Layout<V>::Mask& mask, int first, int rows,
                           int seqlen_q) {
    const int all = mask.packing.rows(seqlen_q);
    const int end = first + rows < all ? first + rows : all;
    return end > first ? mask.tiles(end - 1, V::tile_kv) : 0;
}

}  // namespace attune
