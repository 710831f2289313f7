// S^T = K Q^T, P = exp2(S) and O^T += V^T P^T by matrix instructions; K and V^T from swizzled
// shared memory, P from registers.
#pragma once

#include "templates/transposed/parts.h"

namespace attune {

/// Where a lane finds its words of operands: row lane % rows of a tile, its chunk of a step. Taken
/// anew each time: else the compiler keeps a register for each address that follows from it.
template <class L, class Tile>
ATTUNE_DEVICE SharedAddress operand_address(SharedAddress tile) {
    const int lane = lane_index();
    return anew(Tile::at(tile, lane % L::A::rows, L::lane_chunk(lane)));
}

ATTUNE_DEVICE void put_words(unsigned* to, const U128& v) {
    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
}

/// A lane's words of the operand in row block `block` and step `step` of a tile.
template <class L, class Tile>
ATTUNE_DEVICE void read_operand(unsigned (&x)[L::words], SharedAddress lane_address, int block,
                                int step) {
    static_assert(L::A::rows % Tile::swizzle_rows == 0, "all blocks have the same swizzle");
    ATTUNE_UNROLL
    for (int i = 0; i < L::A::chunks; ++i) {
        const U128 v = load_shared_128(Tile::advance(lane_address, step * L::depth_chunks + i) +
                                       block * L::A::rows * Tile::row_bytes);
        put_words(&x[4 * i], v);
    }
}

/// Q of a warp's columns as operand: its words, or where they are in shared memory.
template <class V>
struct QOperandOf {
    using L = Layout<V>;
    static constexpr bool held = V::q_operand == q_in_registers;
    SharedAddress lane_address;
    unsigned fragments[held ? L::q_blocks : 1][held ? L::d_steps : 1][L::words];

    ATTUNE_DEVICE void fetch(unsigned (&x)[L::q_blocks][L::words], int step) const {
        ATTUNE_UNROLL
        for (int b = 0; b < L::q_blocks; ++b) {
            if constexpr (held) {
                ATTUNE_UNROLL
                for (int i = 0; i < L::words; ++i) x[b][i] = fragments[b][step][i];
            } else {
                read_operand<L, typename L::KTile>(x[b], lane_address, b, step);
            }
        }
    }

    /// The ring's first barrier comes between this and fetch.
    ATTUNE_DEVICE void load(const AttentionParams& p, long long offset, SharedAddress shared,
                            int first_row) {
        const RowSource source{p.q, offset, p.q_strides.row};
        const GlobalWindow from = source.window(first_row);
        const int valid_rows = p.seqlen_q - first_row;
        if constexpr (held) {
            read_global(from, source.row_bytes(), valid_rows);
        } else {
            const SharedAddress tile = shared + L::q_offset;
            RowPart<V, V::tile_q> part;
            part.template load<false>(tile, from, source.row_bytes(), valid_rows);
            part.store(tile);
            lane_address =
                operand_address<L, typename L::KTile>(tile) + L::warp_row() * L::KTile::row_bytes;
        }
    }

private:
    /// Queries at or past valid_rows and columns past head_dim are 0.
    ATTUNE_DEVICE void read_global(const GlobalWindow& from, unsigned row_bytes, int valid_rows) {
        const int lane = lane_index();
        ATTUNE_UNROLL
        for (int b = 0; b < L::q_blocks; ++b) {
            const int row = L::warp_row() + L::Fragments::row(b, lane);
            ATTUNE_UNROLL
            for (int i = 0; i < L::d_steps * L::A::chunks; ++i) {
                const int step = i / L::A::chunks, part = i % L::A::chunks;
                const int chunk = L::lane_chunk(lane), more = step * L::depth_chunks + part;
                const bool there = row < valid_rows &&
                                   (L::columns == V::head_dim || 8 * (chunk + more) < V::head_dim);
                const U128 v = load_window_128(
                    from, there ? row * row_bytes + 16 * chunk : outside_window, 16 * more);
                put_words(&fragments[b][step][4 * part], v);
            }
        }
    }
};

/// Products so far are done here, not where their sums are used next: else the compiler moves them
/// there, and all of their operands wait in registers.
template <class V, int blocks, int tiles, int elements>
ATTUNE_DEVICE void settle(float (&x)[blocks][tiles][elements]) {
    constexpr int n = Layout<V>::A::registers;
    ATTUNE_UNROLL
    for (int i = 0; i < blocks * tiles * elements; i += n) pin<n>(&x[0][0][0] + i);
}

template <class V>
ATTUNE_DEVICE void multiply_qk(typename Layout<V>::Scores& s, const QOperandOf<V>& q,
                               SharedAddress k_tile) {
    using L = Layout<V>;
    using A = typename L::A;
    const SharedAddress keys = operand_address<L, typename L::KTile>(k_tile);
    ATTUNE_UNROLL
    for (int i = 0; i < L::q_blocks * L::key_steps * 8; ++i)
        s[i / (L::key_steps * 8)][i / 8 % L::key_steps][i % 8] = 0;
    ATTUNE_UNROLL
    for (int step = 0; step < L::d_steps; ++step) {
        unsigned columns[L::q_blocks][L::words];
        q.fetch(columns, step);
        ATTUNE_UNROLL
        for (int n = 0; n < L::n_blocks; ++n) {
            unsigned k[L::words];
            read_operand<L, typename L::KTile>(k, keys, n, step);
            ATTUNE_UNROLL
            for (int b = 0; b < L::q_blocks; ++b)
                A::multiply(&s[b][0][0] + n * A::registers, k, columns[b], typename L::Element{});
        }
    }
    settle<V>(s);
}

/// P of a step as operand.
template <class V>
ATTUNE_DEVICE void pack(unsigned (&p)[Layout<V>::q_blocks][Layout<V>::words],
                        const typename Layout<V>::Softmax::Block& block) {
    using L = Layout<V>;
    ATTUNE_UNROLL
    for (int b = 0; b < L::q_blocks; ++b) {
        ATTUNE_UNROLL
        for (int i = 0; i < 4; ++i) {
            const unsigned own =
                pack2(block.p[b][0][2 * i], block.p[b][0][2 * i + 1], typename L::Element{});
            if constexpr (L::A::chunks == 1) {
                p[b][i] = own;
            } else {  // both halves of the wave bring all of P: first the lower half's
                const unsigned other = shuffle_xor(own, 16);
                const bool upper = lane_index() >= 16;
                p[b][i] = upper ? other : own;
                p[b][4 + i] = upper ? own : other;
            }
        }
    }
}

/// P = exp2(S) and O^T += V^T P^T, a step of keys at a time. V::mix places the exp2 of a step among
/// the MMAs of the one before; without it the softmax of the whole tile comes first.
template <class V, bool edge>
ATTUNE_DEVICE void softmax_pv(typename Layout<V>::Output& o, const typename Layout<V>::Scores& s,
                              typename Layout<V>::Softmax& softmax, SharedAddress v_tile) {
    using L = Layout<V>;
    using A = typename L::A;
    constexpr int d_blocks = 2 * L::d_pairs;
    const SharedAddress values = operand_address<L, typename L::VTile>(v_tile);
    unsigned p[L::key_steps][L::q_blocks][L::words];
    ATTUNE_UNROLL
    for (int step = 0; step < (V::mix ? 1 : L::key_steps); ++step) {
        auto block = softmax.template open<edge>();
        softmax.exponentiate(block, s, step);
        softmax.template close<edge>(block, s, step, o);
        pack<V>(p[step], block);
    }
    ATTUNE_UNROLL
    for (int step = 0; step < L::key_steps; ++step) {
        const bool mixed = V::mix && step + 1 < L::key_steps;
        auto next = softmax.template open<edge>();
        ATTUNE_UNROLL
        for (int d = 0; d < d_blocks; ++d) {
            unsigned v[L::words];
            read_operand<L, typename L::VTile>(v, values, d, step);
            ATTUNE_UNROLL
            for (int b = 0; b < L::q_blocks; ++b)
                A::multiply(o[b][d], v, p[step][b], typename L::Element{});
            if (mixed) softmax.exponentiate(next, s, step + 1, d, d_blocks);
        }
        if (mixed) {
            softmax.template close<edge>(next, s, step + 1, o);
            pack<V>(p[step + 1], next);
        }
    }
    settle<V>(o);
}

}  // namespace attune
