// Which (batch, head, q-tile) a CTA works on.
#pragma once

#include "target.h"

namespace attune {

struct Work {
    int batch;
    int head;  // query head
    int q_tile;
};

/// CTAs are dealt to the dies of a GPU in turn, and each die has an L2 of its own: work such that
/// neighbours in it run on the same die.
template <int dies>
ATTUNE_DEVICE int on_die(int cta, int ctas) {
    if (dies == 1) return cta;
    const int die = cta % dies, share = ctas / dies, longer = ctas % dies;
    return die * share + (die < longer ? die : longer) + cta / dies;
}

/// q_tiles of one (batch, head) are neighbours in the grid. With section_heads > 0, sections of so
/// many heads go one after the other and inside a section the longest (last) q-tile of every head
/// comes first: under a causal mask the long ones start early (LPT order) while the heads at work
/// still share the L2.
template <int section_heads>
ATTUNE_DEVICE Work work_of(int cta, int q_tiles, int heads_q, int heads_total) {
    Work work;
    int head;
    if (section_heads == 0) {
        head = cta / q_tiles;
        work.q_tile = cta - head * q_tiles;
    } else {
        const int section = cta / (section_heads * q_tiles);
        const int first = section * section_heads;
        const int heads = heads_total - first < section_heads ? heads_total - first : section_heads;
        const int within = cta - first * q_tiles;
        const int rank = within / heads;
        head = first + within - rank * heads;
        work.q_tile = q_tiles - 1 - rank;
    }
    work.batch = head / heads_q;
    work.head = head - work.batch * heads_q;
    return work;
}

}  // namespace attune
