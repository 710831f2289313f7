// What a warp does once all its lanes have come.
#include "runtime/emu/cta.h"
#include "runtime/emu/matrix_cores.h"
#include "runtime/emu/warp_ops.h"

namespace attune::emu {

void CtaRunner::execute(Warp& warp) {
    switch (warp.at) {
        case Collective::warp_sync:
            if (grid_.options.detect_races) clocks_.join(first_lane(), grid_.wave_size);
            return;
        case Collective::shuffle:
            return execute_shuffle(warp);
        case Collective::vote_any:
            return execute_vote(warp, false);
        case Collective::vote_all:
            return execute_vote(warp, true);
        case Collective::ldmatrix_x4:
            return execute_ldmatrix(warp, false);
        case Collective::ldmatrix_x4_trans:
            return execute_ldmatrix(warp, true);
        case Collective::stmatrix_x4:
            return execute_stmatrix(warp);
        case Collective::mma_f16:
            return execute_mma(warp, DType::f16);
        case Collective::mma_bf16:
            return execute_mma(warp, DType::bf16);
        case Collective::matrix:
            return execute_matrix(warp);
    }
}

/// x: the lane's value, y: the lane it wants the value of.
void CtaRunner::execute_shuffle(Warp& warp) {
    for (int l = 0; l < grid_.wave_size; ++l) {
        const LaneArguments& lane = warp.arguments[l];
        *static_cast<unsigned*>(lane.out) = warp.arguments[lane.y % grid_.wave_size].x;
    }
}

/// x: the lane's vote.
void CtaRunner::execute_vote(Warp& warp, bool all) {
    const unsigned lanes = unsigned(grid_.wave_size);
    unsigned votes = 0;
    for (unsigned l = 0; l < lanes; ++l) votes += warp.arguments[l].x;
    for (unsigned l = 0; l < lanes; ++l)
        *static_cast<unsigned*>(warp.arguments[l].out) = all ? votes == lanes : votes > 0;
}

/// out: d, in: a, x and y: b.
void CtaRunner::execute_mma(Warp& warp, DType dtype) {
    std::array<MmaLane, 32> lanes;
    for (int l = 0; l < 32; ++l) {
        const LaneArguments& lane = warp.arguments[l];
        lanes[l] = {static_cast<float*>(lane.out), lane.in, lane.x, lane.y};
    }
    mma_m16n8k16(lanes, dtype);
    ++counts_.mma;
}

/// Every lane brings the same kind of call.
void CtaRunner::execute_matrix(Warp& warp) {
    std::array<MatrixCall, 64> lanes{};
    for (int l = 0; l < grid_.wave_size; ++l) {
        lanes[l] = *warp.arguments[l].call;
        if (lanes[l].shape != lanes[0].shape || lanes[l].bf16 != lanes[0].bf16)
            fail(first_lane() + l, [] { return std::string("divergent warp: another MMA"); });
    }
    const MatrixShape& shape = matrix_shape(lanes[0].shape);
    if (shape.wave_size != grid_.wave_size)
        fail(self_,
             [&] { return formatted("{} needs waves of {} lanes", shape.name, shape.wave_size); });
    multiply(shape, {lanes.data(), std::size_t(shape.wave_size)});
    counts_.mma += std::uint64_t(shape.rows) * shape.rows * shape.depth / (16 * 8 * 16);
}

/// x: the address of a row. The read counts as made by the lane that gives the address, and orders
/// nothing: only warp_sync does.
void CtaRunner::execute_ldmatrix(Warp& warp, bool trans) {
    std::array<unsigned*, 32> to;
    std::array<const std::byte*, 32> rows;
    WarpAccess access{all_lanes(), 16, false, {}};
    const int first = first_lane();
    for (int l = 0; l < 32; ++l) {
        const SharedAddress at = warp.arguments[l].x;
        check_shared(first + l, at, 16, "ldmatrix_x4");
        note_read(first + l, at, 16);
        access.at[l] = at;
        rows[l] = shared_.bytes(at);
        to[l] = static_cast<unsigned*>(warp.arguments[l].out);
    }
    ldmatrix_x4(to, rows, trans);
    ++counts_.ldmatrix;
    counts_.shared_bytes += 32 * 16;
    counts_.bank_conflicts += extra_wavefronts(access, grid_.banks);
}

/// x: the address of a row, in: four words. The write counts as made by the lane that gives the
/// address, and orders nothing.
void CtaRunner::execute_stmatrix(Warp& warp) {
    std::array<const unsigned*, 32> from;
    std::array<std::byte*, 32> rows;
    WarpAccess access{all_lanes(), 16, true, {}};
    const int first = first_lane();
    for (int l = 0; l < 32; ++l) {
        const SharedAddress at = warp.arguments[l].x;
        check_shared(first + l, at, 16, "stmatrix_x4");
        note_write(first + l, at, 16, clocks_now(first + l));
        access.at[l] = at;
        rows[l] = shared_.bytes(at);
        from[l] = warp.arguments[l].in;
        shared_.stored(first + l, at, 16);
    }
    stmatrix_x4(from, rows);
    counts_.shared_bytes += 32 * 16;
    counts_.bank_conflicts += extra_wavefronts(access, grid_.banks);
}

}  // namespace attune::emu
