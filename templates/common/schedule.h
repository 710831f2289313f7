// Which (batch, head, q-tile) a CTA works on.
#pragma once

#include "target.h"

namespace attune {

struct Work {
    int batch;
    int head;  // query head, or a group of them (packing.h)
    int q_tile;
};

/// A divisor of many numbers from 0 on: a multiplication instead of a division each time.
class Divisor {
public:
    ATTUNE_DEVICE explicit Divisor(int divisor)
        : divisor_(divisor), inverse_(divisor > 1 ? 0xffffffffu / divisor + 1 : 0) {}

    ATTUNE_DEVICE operator int() const { return divisor_; }
    ATTUNE_DEVICE friend int operator/(int number, const Divisor& by) {
        if (by.divisor_ == 1) return number;
        // inverse_ is 2^32 / divisor, rounded up: the product's upper half is right or one too
        // much.
        const int quotient =
            static_cast<int>(static_cast<unsigned long long>(number) * by.inverse_ >> 32);
        return quotient - (quotient * by.divisor_ > number ? 1 : 0);
    }

private:
    int divisor_;
    unsigned inverse_;
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
/// Count: int or Divisor.
template <int section_heads, class Count>
ATTUNE_DEVICE Work work_of(int cta, Count q_tiles, Count heads_q, int heads_total) {
    Work work;
    int head;
    if (section_heads == 0) {
        head = cta / q_tiles;
        work.q_tile = cta - head * q_tiles;
    } else {
        const int section = cta / q_tiles / section_heads;
        const int first = section * section_heads;
        const int heads = heads_total - first < section_heads ? heads_total - first : section_heads;
        const int within = cta - first * q_tiles;
        const int rank = heads == section_heads ? within / section_heads : within / heads;
        head = first + within - rank * heads;
        work.q_tile = q_tiles - 1 - rank;
    }
    work.batch = head / heads_q;
    work.head = head - work.batch * heads_q;
    return work;
}

}  // namespace attune
