// S^T = K Q^T, P = exp2(S) and O^T += V^T P^T by matrix instructions; K and V^T from swizzled
// shared memory, P from registers.
#pragma once

#include "templates/transposed/parts.h"

namespace attune {

/// A lane's words of an operand: chunks of row `row`, from chunk `chunk` on.
template <class Tile, int chunks>
ATTUNE_DEVICE void read_operand(unsigned (&x)[4 * chunks], SharedAddress tile, int row, int chunk) {
    ATTUNE_UNROLL
    for (int i = 0; i < chunks; ++i) {
        const U128 v = load_shared_128(Tile::at(tile, row, chunk + i));
        x[4 * i] = v.x;
        x[4 * i + 1] = v.y;
        x[4 * i + 2] = v.z;
        x[4 * i + 3] = v.w;
    }
}

/// Q of a warp's columns as operand: its words, or where they are in shared memory.
template <class V>
struct QOperandOf {
    using L = Layout<V>;
    static constexpr bool held = V::q_operand == q_in_registers;
    SharedAddress tile;
    unsigned fragments[held ? L::q_blocks : 1][held ? L::d_steps : 1][L::words];

    ATTUNE_DEVICE void fetch(unsigned (&x)[L::q_blocks][L::words], int step) const {
        const int lane = lane_index();
        ATTUNE_UNROLL
        for (int b = 0; b < L::q_blocks; ++b) {
            if constexpr (held) {
                ATTUNE_UNROLL
                for (int i = 0; i < L::words; ++i) x[b][i] = fragments[b][step][i];
            } else {
                read_operand<typename L::KTile, L::A::chunks>(
                    x[b], tile, L::warp_row() + L::Fragments::row(b, lane),
                    step * L::depth_chunks + L::lane_chunk(lane));
            }
        }
    }

    /// The ring's first barrier comes between this and fetch.
    ATTUNE_DEVICE void load(const AttentionParams& p, long long offset, SharedAddress shared,
                            int first_row) {
        const auto* base = static_cast<const unsigned short*>(p.q) + offset;
        if constexpr (held) {
            read_global(base, p.q_strides.row, first_row, p.seqlen_q);
        } else {
            tile = shared + L::q_offset;
            RowPart<V, V::tile_q> part;
            part.template load<false>(base + first_row * p.q_strides.row, p.q_strides.row,
                                      p.seqlen_q - first_row);
            part.store(tile);
        }
    }

private:
    /// Queries at or past row_end and columns past head_dim are 0.
    ATTUNE_DEVICE void read_global(const unsigned short* base, long long stride, int first_row,
                                   int row_end) {
        const int lane = lane_index();
        ATTUNE_UNROLL
        for (int b = 0; b < L::q_blocks; ++b) {
            const int row = first_row + L::warp_row() + L::Fragments::row(b, lane);
            ATTUNE_UNROLL
            for (int i = 0; i < L::d_steps * L::A::chunks; ++i) {
                const int step = i / L::A::chunks, part = i % L::A::chunks;
                const int column = 8 * (step * L::depth_chunks + L::lane_chunk(lane) + part);
                const bool there = row < row_end && column < V::head_dim;
                const U128 v = there ? load_global_128(base + row * stride + column) : U128{};
                unsigned* to = &fragments[b][step][4 * part];
                to[0] = v.x;
                to[1] = v.y;
                to[2] = v.z;
                to[3] = v.w;
            }
        }
    }
};

template <class V>
ATTUNE_DEVICE void multiply_qk(typename Layout<V>::Scores& s, const QOperandOf<V>& q,
                               SharedAddress k_tile) {
    using L = Layout<V>;
    using A = typename L::A;
    const int lane = lane_index();
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
            read_operand<typename L::KTile, A::chunks>(
                k, k_tile, n * A::rows + lane % A::rows,
                step * L::depth_chunks + L::lane_chunk(lane));
            ATTUNE_UNROLL
            for (int b = 0; b < L::q_blocks; ++b)
                A::multiply(&s[b][0][0] + n * A::registers, k, columns[b], typename L::Element{});
        }
    }
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
    const int lane = lane_index();
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
            read_operand<typename L::VTile, A::chunks>(
                v, v_tile, d * A::rows + lane % A::rows,
                step * L::depth_chunks + L::lane_chunk(lane));
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
}

}  // namespace attune
