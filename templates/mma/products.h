// S = Q K^T, P = exp2(S) and O += P V by mma.m16n8k16, operands from swizzled shared memory by
// ldmatrix. Fragment layouts: PTX ISA, "Matrix fragments for mma.m16n8k16". A thread's accumulators
// of two neighbouring n-tiles are, packed in pairs, exactly its A fragment of the next product: P
// needs no shuffle.
#pragma once

#include "templates/abi.h"
#include "templates/mma/layout.h"

namespace attune {

/// Q of a warp's rows: a shared-memory address, or its fragments.
template <class V>
struct QOperandOf {
    using L = Layout<V>;
    static constexpr bool held = V::q_operand == q_in_registers;
    SharedAddress lane_address;
    unsigned fragments[held ? L::m_blocks : 1][held ? L::d_steps : 1][4];

    ATTUNE_DEVICE void fetch(unsigned (&a)[L::m_blocks][4], int d_step) const {
        ATTUNE_UNROLL
        for (int b = 0; b < L::m_blocks; ++b) {
            if constexpr (held) {
                ATTUNE_UNROLL
                for (int i = 0; i < 4; ++i) a[b][i] = fragments[b][d_step][i];
            } else {
                const SharedAddress rows = lane_address + b * 16 * L::Tile::row_bytes;
                ldmatrix_x4(a[b], L::Tile::advance(rows, 2 * d_step));
            }
        }
    }

    ATTUNE_DEVICE void load(const AttentionParams& p, long long offset, SharedAddress shared,
                            int first_row) {
        if constexpr (held) {
            read_global(p.q, offset, p.q_strides.row, first_row, p.seqlen_q);
        } else {
            typename L::Copier copier(p.q, offset, p.q_strides.row);
            copier.move(first_row);
            copier.template copy<V::tile_q, false>(shared, p.seqlen_q - first_row);
            use_shared(shared);
        }
    }

private:
    /// Q is in shared memory: remembers where this lane's rows start.
    ATTUNE_DEVICE void use_shared(SharedAddress q_tile) {
        const int lane = lane_index();
        lane_address = L::Tile::at(q_tile, L::warp_row() + lane % 16, lane / 16);
    }

    /// Reads the fragments straight from global memory: rows at or past row_end and columns past
    /// head_dim are 0.
    ATTUNE_DEVICE void read_global(const void* q, long long offset, long long stride, int first_row,
                                   int row_end) {
        const int lane = lane_index();
        const auto* base = static_cast<const unsigned short*>(q) + offset;
        ATTUNE_UNROLL
        for (int b = 0; b < L::m_blocks; ++b) {
            ATTUNE_UNROLL
            for (int i = 0; i < 4 * L::d_steps; ++i) {
                const int row = first_row + L::warp_row() + 16 * b + lane / 4 + 8 * (i % 2);
                const int column = 8 * (i / 2) + 2 * (lane % 4);
                const bool valid = row < row_end && column < V::head_dim;
                fragments[b][i / 4][i % 4] =
                    valid ? load_global_32(base + row * stride + column) : 0u;
            }
        }
    }
};

template <class V>
ATTUNE_DEVICE void multiply_qk(typename Layout<V>::Scores& s, const QOperandOf<V>& q,
                               SharedAddress k_tile) {
    using L = Layout<V>;
    const int lane = lane_index();
    const SharedAddress keys =
        L::Tile::at(k_tile, L::warp_key() + lane % 8 + lane / 16 * 8, lane / 8 % 2);
    ATTUNE_UNROLL
    for (int i = 0; i < L::m_blocks * L::n_tiles * 4; ++i)
        s[i / (L::n_tiles * 4)][i / 4 % L::n_tiles][i % 4] = 0;
    ATTUNE_UNROLL
    for (int step = 0; step < L::d_steps; ++step) {
        unsigned a[L::m_blocks][4];
        q.fetch(a, step);
        ATTUNE_UNROLL
        for (int n = 0; n < L::n_tiles; n += 2) {
            unsigned b[4];
            ldmatrix_x4(b, L::Tile::advance(keys + n * 8 * L::Tile::row_bytes, 2 * step));
            ATTUNE_UNROLL
            for (int m = 0; m < L::m_blocks; ++m) {
                mma_m16n8k16(s[m][n], a[m], b[0], b[1], typename L::Element{});
                mma_m16n8k16(s[m][n + 1], a[m], b[2], b[3], typename L::Element{});
            }
        }
    }
}

/// P as A fragments of one 16-key step.
template <class V>
ATTUNE_DEVICE void pack(unsigned (&a)[Layout<V>::m_blocks][4],
                        const typename Layout<V>::Softmax::Block& block) {
    ATTUNE_UNROLL
    for (int i = 0; i < Layout<V>::m_blocks * 4; ++i) {
        const float(&pair)[4] = block.p[i / 4][i % 4 / 2];
        a[i / 4][i % 4] =
            pack2(pair[2 * (i % 2)], pair[2 * (i % 2) + 1], typename Layout<V>::Element{});
    }
}

/// P = exp2(S) and O += P V, 16 keys at a time. V::mix places the exp2 of a block among the MMAs of
/// the one before; without it the softmax of the whole tile comes first.
template <class V, bool edge>
ATTUNE_DEVICE void softmax_pv(typename Layout<V>::Output& o, const typename Layout<V>::Scores& s,
                              typename Layout<V>::Softmax& softmax, SharedAddress v_tile) {
    using L = Layout<V>;
    const int lane = lane_index();
    const SharedAddress values = L::Tile::at(v_tile, L::warp_key() + lane % 16, lane / 16);
    unsigned a[L::key_steps][L::m_blocks][4];
    ATTUNE_UNROLL
    for (int step = 0; step < (V::mix ? 1 : L::key_steps); ++step) {
        auto block = softmax.template open<edge>();
        softmax.exponentiate(block, s, step);
        softmax.template close<edge>(block, s, step, o);
        pack<V>(a[step], block);
    }
    ATTUNE_UNROLL
    for (int step = 0; step < L::key_steps; ++step) {
        const bool mixed = V::mix && step + 1 < L::key_steps;
        auto next = softmax.template open<edge>();
        ATTUNE_UNROLL
        for (int d = 0; d < L::d_tiles; d += 2) {
            unsigned b[4];
            ldmatrix_x4_trans(b, L::Tile::advance(values + step * 16 * L::Tile::row_bytes, d));
            ATTUNE_UNROLL
            for (int m = 0; m < L::m_blocks; ++m) {
                mma_m16n8k16(o[m][d], a[step][m], b[0], b[1], typename L::Element{});
                mma_m16n8k16(o[m][d + 1], a[step][m], b[2], b[3], typename L::Element{});
            }
            if (mixed) softmax.exponentiate(next, s, step + 1, d / 2, L::d_tiles / 2);
        }
        if (mixed) {
            softmax.template close<edge>(next, s, step + 1, o);
            pack<V>(a[step + 1], next);
        }
    }
}

}  // namespace attune
