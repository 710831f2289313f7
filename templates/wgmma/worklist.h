// Which q-tiles a CTA works on, one after the other.
#pragma once

#include "templates/common/schedule.h"
#include "templates/wgmma/layout.h"

namespace attune {

/// The q-tiles of all heads, numbered.
template <class V>
class Items {
public:
    template <bool packed>
    ATTUNE_DEVICE Items(const AttentionParams& p, const Packing<packed>& packing)
        : q_tiles_((packing.rows(p.seqlen_q) + V::tile_q - 1) / V::tile_q),
          heads_q_(packing.groups(p.heads_q)),
          heads_(p.batch * packing.groups(p.heads_q)) {}

    ATTUNE_DEVICE int q_tiles() const { return q_tiles_; }
    ATTUNE_DEVICE int count() const { return q_tiles_ * heads_; }
    ATTUNE_DEVICE Work at(int item) const {
        return work_of<V::section_heads>(item, q_tiles_, heads_q_, heads_);
    }

private:
    Divisor q_tiles_;
    Divisor heads_q_;
    int heads_;
};

/// persistent: each of n CTAs takes one item of every n. Under a causal mask, where each q-tile is
/// longer than the one before, CTA i takes i, 2n-1-i, 2n+i, 4n-1-i, ... Else only the last q-tile
/// of a head differs, and a CTA takes one of each q-tile in turn.
template <class V, bool by_counter = V::schedule == dynamic>
class Worklist {
public:
    template <bool packed>
    ATTUNE_DEVICE Worklist(const AttentionParams& p, const Packing<packed>& packing)
        : items_(p, packing), place_(cta_index()) {
        // By this shift the item's remainder by q_tiles goes up by one, but where place_ wraps.
        const int q_tiles = items_.q_tiles(), n = cta_count(), short_by = (n - 1) % q_tiles;
        shift_ = short_by == 0 ? 0 : (q_tiles - short_by) % n;
    }

    /// False when this CTA is done.
    ATTUNE_DEVICE bool next(Work& work) {
        const int item = first_ + place_;
        if (item >= items_.count() || (V::schedule == cta_per_tile && first_ > 0)) return false;
        work = items_.at(item);
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

    Items<V> items_;
    int place_;  // among the n items from first_ on
    int shift_;
    int first_ = 0;  // a multiple of n
};

/// dynamic, by one thread of a CTA: the items in order, each to whoever asks first. The first n go
/// to the n CTAs, the others by a counter in the workspace, which starts at 0. Every item makes its
/// taker ask once more: whoever gets the last answer sets the counter back.
template <class V>
class Worklist<V, true> {
public:
    template <bool packed>
    ATTUNE_DEVICE Worklist(const AttentionParams& p, const Packing<packed>& packing)
        : items_(p, packing),
          counter_(static_cast<unsigned*>(p.workspace)),
          answer_(cta_index() - cta_count()) {}

    /// Asks for the next item when it gives one, so that the answer is there when it is needed.
    ATTUNE_DEVICE bool next(Work& work) {
        const int item = cta_count() + answer_;
        if (item >= items_.count()) {
            if (answer_ == items_.count() - 1) store_global_32(counter_, 0);
            return false;
        }
        work = items_.at(item);
        answer_ = static_cast<int>(atomic_add_global(counter_, 1));
        return true;
    }

private:
    Items<V> items_;
    unsigned* counter_;
    int answer_;  // for the next call
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
