// A consumer warpgroup: 64 query rows through all kv tiles, last tile first.
#pragma once

#include "templates/common/epilogue.h"
#include "templates/wgmma/hand_over.h"
#include "templates/wgmma/worklist.h"

namespace attune {

/// P of a tile stays under its row's sum, and that under this: what the dtype holds, and fp32 sums.
ATTUNE_DEVICE float largest_sum(F16) {
    return 32768.0f;
}
ATTUNE_DEVICE float largest_sum(BF16) {
    return 1.0995116e12f;  // 2^40
}
/// E4M3 holds so little that each step's sums have to stay under it, not a tile's.
template <class Element>
ATTUNE_DEVICE float largest_sum(Element) {
    return 448.0f;
}

template <class V>
class Consumer {
    using L = Layout<V>;
    using Operand = typename L::Operand;
    using Softmax = typename L::Softmax;
    using Scores = typename L::Scores;
    using Output = typename L::Output;
    using Rows = typename Softmax::Rows;
    using P = unsigned[L::key_steps][4];  // A fragments

    /// Of P over this thread's columns: sums, and what no single P is past.
    struct Sums {
        Rows all, bound;
    };
    static constexpr bool bounds_steps = L::transposes && !Softmax::exact;

    struct Accumulators {
        Output o;
        float part[L::apart > 0 ? L::apart / 2 : 1];  // of P V of one tile
    };

public:
    ATTUNE_DEVICE Consumer(const TmaAttentionParams& p, SharedAddress shared)
        : p_(p.attention),
          mask_(L::mask(p)),
          barriers_(shared),
          hand_over_(shared),
          q_ring_(matrix_descriptor(shared + L::consumer() * L::qk_chunks * L::q_chunk_bytes, 16)),
          k_ring_(matrix_descriptor(shared + L::k_offset, 16)),
          v_ring_(matrix_descriptor(shared + L::pv_offset, L::pv_leading_bytes)),
          p_tile_(shared + L::p_offset + L::consumer() * L::p_bytes),
          softmax_(p_.scale_log2) {}

    ATTUNE_DEVICE void run() {
        if (V::ping_pong && L::consumer() == L::consumers - 1) named_arrive(turn_of(0), 256);
        Worklist<V> list(p_, mask_.packing);
        Work work;
        Scores s;  // of a q-tile's first step
        bool more = next(list, work);
        if (V::ahead && more && begin(work)) first_scores(s, [] {});
        while (more) {
            if (!V::ahead) begin(work);
            Accumulators acc;
            attend(work, s, acc);
            const Work done = work;
            more = next(list, work);
            // In two branches, for ptxas waits for every wgmma where an S in flight meets another.
            if (V::ahead && more && begin(work)) {
                first_scores(s, [&] { store(done, acc.o); });
            } else {
                clear(s);
                store(done, acc.o);
            }
        }
    }

private:
    /// Handed on, once Q is there or there is no more.
    ATTUNE_DEVICE bool next(Worklist<V>& list, Work& work) const {
        if constexpr (L::handed_on) {
            mbarrier_wait(barriers_.q_full(q_.slot), q_.parity);
            return hand_over_.take(q_.slot, work);
        } else {
            return list.next(work);
        }
    }

    /// Q of a q-tile is there, and the kv tiles that this warpgroup attends are next. False where
    /// there is none.
    ATTUNE_DEVICE bool begin(const Work& work) {
        const int first_row = work.q_tile * V::tile_q;
        first_row_ = first_row + L::consumer() * 64;
        tiles_ = kv_tiles<V>(mask_, first_row_, 64, p_.seqlen_q);
        const int loaded = kv_tiles<V>(mask_, first_row, V::tile_q, p_.seqlen_q);
        if (loaded > 0 || L::handed_on) {
            if constexpr (!L::handed_on) mbarrier_wait(barriers_.q_full(q_.slot), q_.parity);
            skip(loaded - tiles_, loaded);
            if (tiles_ == 0) release_q();
        }
        return tiles_ > 0;
    }

    /// The q-tile begun: O, not yet divided by its sums.
    ATTUNE_DEVICE void attend(const Work& work, Scores& s, Accumulators& acc) {
        softmax_.reset();
        take_scales(work);
        clear(acc.o);
        if (tiles_ > 0) {
            if (!V::ahead) first_scores(s, [] {});
            walk(tiles_, s, acc);
        }
    }

    /// `meanwhile` runs under Q K^T.
    template <class Meanwhile>
    ATTUNE_DEVICE void first_scores(Scores& s, Meanwhile meanwhile) {
        multiply_qk(s);
        meanwhile();
        wgmma_wait<0>();
        pin<4 * L::n_tiles>(&s[0][0][0]);
        release_k();
    }

    /// Softmax of a tile runs under P V of the one before (V::overlap): edge tiles one after the
    /// other, then two steps a trip, so that P alternates between two register sets without moves.
    /// An odd step is one of the edge tiles' kind, or (V::odd_overlap) comes last with its own end.
    ATTUNE_DEVICE void walk(int tiles, Scores& first, Accumulators& acc) {
        const int whole = V::overlap ? mask_.whole_tiles(first_row_, V::tile_kv) : 0;
        const int overlapped = whole < tiles ? whole : tiles - 1;
        const int serial = tiles - (V::odd_overlap ? overlapped : overlapped & ~1);
        P p, other;
        mask_edge(first, tiles - 1);
        softmax_.raise(softmax_.maxima(first, 0, L::n_tiles));  // O is still 0
        softmax_.take(exponentiate(first, p).all);
        hand_over(p);
        int step = 1;
        ATTUNE_UNROLL_N(1)
        for (; step < serial; ++step) advance_by_one<true>(tiles - 1 - step, p, p, acc);
        ATTUNE_UNROLL_N(1)
        for (; step + 1 < tiles; step += 2) {
            advance_by_one<false>(tiles - 1 - step, p, other, acc);
            advance_by_one<false>(tiles - 2 - step, other, p, acc);
        }
        if (V::odd_overlap && step < tiles) {
            advance_by_one<false>(0, p, other, acc);
            finish(other, acc);
        } else {
            finish(p, acc);
        }
    }

    /// P V of the last tile.
    ATTUNE_DEVICE void finish(const P& p, Accumulators& acc) {
        release_q();
        multiply_pv(p, acc);
        settle_o(p, acc);
        release_v();
    }

    /// Q K^T of `tile`, P V of the tile before, then the softmax of `tile`.
    template <bool edge>
    ATTUNE_DEVICE void advance_by_one(int tile, P& p, P& p_next, Accumulators& acc) {
        Scores s;
        // order of issue only: the other's MMAs come first, so that they run under this softmax.
        if (V::ping_pong) named_sync(turn_of(L::consumer()), 256);
        multiply_qk(s);
        multiply_pv(p, acc);
        if (V::ping_pong) pass_turn();
        if (edge) {
            settle_o(p, acc);
            release_v();
        } else {
            wgmma_wait<1>();
        }
        pin<4 * L::n_tiles>(&s[0][0][0]);
        release_k();
        soften<edge>(s, tile, p, p_next, acc);
        if (!edge) release_v();
    }

    ATTUNE_DEVICE void multiply_qk(Scores& s) {
        mbarrier_wait(barriers_.k_full(k_.slot), k_.parity);
        wgmma_fence();
        const MatrixDescriptor q = advance(q_ring_, q_.slot * L::q_bytes);
        const MatrixDescriptor k = advance(k_ring_, k_.slot * L::k_bytes);
        ATTUNE_UNROLL
        for (int step = 0; step < L::d_steps; ++step) {
            const int chunk = step / 4, within = step % 4 * 32;
            Wgmma<V::tile_kv, Operand>::ss(
                &s[0][0][0], advance(q, chunk * L::q_chunk_bytes + within),
                advance(k, chunk * L::kv_chunk_bytes + within), step > 0);
        }
        wgmma_commit();
    }

    /// P V of a tile, added to O once it is settled.
    ATTUNE_DEVICE void multiply_pv(const P& p, Accumulators& acc) {
        mbarrier_wait(barriers_.pv_full(v_.slot), v_.parity);
        if constexpr (L::apart > 0)
            multiply_columns<0>(p, acc.part);
        else
            multiply_columns<0>(p, &acc.o[0][0][0]);
    }

    /// Of V's columns those from `first` on that `to` has room for.
    template <int first>
    ATTUNE_DEVICE void multiply_columns(const P& p, float* to) {
        wgmma_fence();
        const MatrixDescriptor v = advance(v_ring_, v_.slot * L::pv_bytes + first * 128);
        using Mma = Wgmma<columns_from(first), Operand>;
        ATTUNE_UNROLL
        for (int step = 0; step < L::key_steps; ++step) {
            const MatrixDescriptor v_step = advance(v, L::pv_step(step));
            const bool adds = L::apart == 0 || step > 0;
            if constexpr (V::p_shared)
                Mma::ss_across(to,
                               advance(matrix_descriptor(p_tile_, 16),
                                       step / 4 * L::q_chunk_bytes + step % 4 * 32),
                               v_step, adds);
            else
                Mma::rs(to, p[step], v_step, adds);
        }
        wgmma_commit();
    }
    ATTUNE_DEVICE static constexpr int columns_from(int first) {
        const int left = L::columns - first;
        return L::apart > 0 && L::apart < left ? L::apart : left;
    }

    /// P V of `p` is in O, and `p` free.
    ATTUNE_DEVICE void settle_o(const P& p, Accumulators& acc) {
        wgmma_wait<0>();
        if constexpr (L::apart > 0)
            add_columns<0>(p, acc);
        else
            pin<4 * L::d_tiles>(&acc.o[0][0][0]);
    }

    /// The parts of columns `first` and on are added in fp32, each while none is in flight.
    template <int first>
    ATTUNE_DEVICE void add_columns(const P& p, Accumulators& acc) {
        constexpr int columns = columns_from(first);
        pin<columns / 2>(acc.part);
        ATTUNE_UNROLL
        for (int i = 0; i < columns / 2; ++i) acc.o[0][first / 8 + i / 4][i % 4] += acc.part[i];
        if constexpr (first + columns < L::columns) {
            multiply_columns<first + columns>(p, acc.part);
            wgmma_wait<0>();
            add_columns<first + columns>(p, acc);
        }
    }

    /// Scores to P. `edge`: O is settled and single scores may be masked; else P V of the tile
    /// before, `pending`, is still running, and O is settled when this returns.
    template <bool edge>
    ATTUNE_DEVICE void soften(Scores& s, int tile, const P& pending, P& p, Accumulators& acc) {
        if (edge) mask_edge(s, tile);
        if constexpr (Softmax::exact) {
            const Rows top = softmax_.maxima(s, 0, L::n_tiles);
            const bool moves = softmax_.must_follow(top);
            const Rows by = moves ? softmax_.raise(top) : Rows{};
            softmax_.take(exponentiate(s, p).all);
            if (!edge) settle_o(pending, acc);
            hand_over(p);
            if (moves) Softmax::shrink(acc.o, by);
        } else {
            Sums sums = exponentiate(s, p);
            const bool grown = Softmax::grown(sums.bound, largest_sum(Operand{}));
            if (!edge)
                settle_o(pending, acc);  // not under a condition of one warp: the warpgroup waits
            if (grown) {
                Softmax::shrink(acc.o, softmax_.raise(softmax_.maxima(s, 0, L::n_tiles)));
                sums = exponentiate(s, p);
            }
            softmax_.take(sums.all);
            hand_over(p);
        }
    }

    /// P to where P V takes it from, once P V of the tile before is settled.
    ATTUNE_DEVICE void hand_over(const P& p) const {
        if constexpr (V::p_shared) {
            const int lane = lane_index(), row = warp_index() % 4 * 16 + lane % 16;
            const SharedAddress at = p_tile_ + row * 128 + ((lane / 16 ^ lane % 8) << 4);
            const int barrier = turn_of(L::consumers + L::consumer());
            named_sync(barrier, 128);  // the other warps' P V is settled too
            ATTUNE_UNROLL
            for (int step = 0; step < L::key_steps; ++step)
                stmatrix_x4((at ^ (step % 4 << 5)) + step / 4 * L::q_chunk_bytes, p[step]);
            fence_async();
            named_sync(barrier, 128);
        }
    }

    ATTUNE_DEVICE void mask_edge(Scores& s, int tile) const {
        const int first_row = first_row_ + warp_index() % 4 * 16, first_key = tile * V::tile_kv;
        if (first_key + V::tile_kv >
            mask_.key_end(first_row))  // some of the warp's keys are masked
            mask_scores<typename L::Fragments>(s, mask_, first_row, first_key);
    }

    ATTUNE_DEVICE Sums exponentiate(const Scores& s, P& p) const {
        Sums sums{};
        ATTUNE_UNROLL
        for (int step = 0; step < L::key_steps; ++step) {
            typename Softmax::Block block;
            block.sum = bounds_steps ? Rows{} : sums.all;
            softmax_.exponentiate(block, s, step);
            ATTUNE_UNROLL
            for (int i = 0; i < 4; ++i) p[step][i] = L::Traits::fragment_word(block.p[0], i);
            ATTUNE_UNROLL
            for (int i = 0; i < L::Fragments::rows; ++i) {
                const float of_step = block.sum.of[i];
                sums.all.of[i] = bounds_steps ? sums.all.of[i] + of_step : of_step;
                sums.bound.of[i] = bounds_steps ? max_f32(sums.bound.of[i], of_step) : of_step;
            }
        }
        return sums;
    }

    ATTUNE_DEVICE void take_scales(const Work& work) {
        if (!L::transposes) return;
        const int kv_head = work.batch * p_.heads_kv + work.head / (p_.heads_q / p_.heads_kv);
        softmax_.scale_log2 = p_.scale_log2 * head_scale(p_.k_scale, kv_head) *
                              head_scale(p_.q_scale, work.batch * p_.heads_q + work.head);
        value_scale_ = head_scale(p_.v_scale, kv_head);
    }

    /// Tiles that only other warpgroups' rows attend. Released before the turn is waited for: who
    /// has it may need the slot.
    ATTUNE_DEVICE void skip(int count, int loaded) {
        for (int i = 0; i < count; ++i) {
            mbarrier_wait(barriers_.k_full(k_.slot), k_.parity);
            release_k();
            mbarrier_wait(barriers_.pv_full(v_.slot), v_.parity);
            release_v();
            if (V::ping_pong && i + 1 < loaded) {
                named_sync(turn_of(L::consumer()), 256);
                pass_turn();
            }
        }
    }

    template <int tiles>
    ATTUNE_DEVICE static void clear(float (&x)[1][tiles][4]) {
        ATTUNE_UNROLL
        for (int i = 0; i < 4 * tiles; ++i) x[0][i / 4][i % 4] = 0;
    }

    ATTUNE_DEVICE void release_q() {
        if (lane_index() == 0) mbarrier_arrive(barriers_.q_empty(q_.slot));
        q_.next();
    }
    ATTUNE_DEVICE void release_k() {
        if (lane_index() == 0) mbarrier_arrive(barriers_.k_empty(k_.slot));
        k_.next();
    }
    ATTUNE_DEVICE void release_v() {
        if (lane_index() == 0) mbarrier_arrive(barriers_.pv_empty(v_.slot));
        v_.next();
    }

    // Ping-pong: warpgroups take turns at issuing their MMAs.
    ATTUNE_DEVICE static int turn_of(int consumer) { return 1 + consumer; }
    ATTUNE_DEVICE static void pass_turn() {
        named_arrive(turn_of((L::consumer() + 1) % L::consumers), 256);
    }

    ATTUNE_DEVICE void store(const Work& work, Output& o) {
        softmax_.finish(o);
        store_rows<L>(o, softmax_, output_tile<V>(p_, work, work.q_tile * V::tile_q, mask_.packing),
                      value_scale_);
    }

    const AttentionParams& p_;
    typename L::Mask mask_;
    Barriers<V> barriers_;
    HandOver<V> hand_over_;
    MatrixDescriptor q_ring_, k_ring_, v_ring_;
    SharedAddress p_tile_;  // this warpgroup's
    Softmax softmax_;
    Cursor<V::q_stages> q_;
    Cursor<V::stages> k_, v_;
    int first_row_ = 0;  // of this warpgroup
    int tiles_ = 0;      // of kv that its rows attend
    float value_scale_ = 1;
};

}  // namespace attune
