// What a warpgroup (four warps) has under way: wgmmas, and its registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "templates/target/emu_abi.h"

namespace attune::emu {

constexpr int warpgroup_threads = 128;

/// An operand in shared memory by the bits of its descriptor (PTX ISA, "Matrix descriptor format").
/// It consists of pieces of 16 bytes.
struct MatrixOperand {
    SharedAddress start;
    int leading_bytes;
    int stride_bytes;
    bool supported;  // 128-byte swizzle from a base on 1024 bytes: all that contract.md makes

    static MatrixOperand decode(std::uint64_t descriptor);
    /// Row `row`, bytes 16 half .. 16 half + 15 of the depth. The hardware does not look at
    /// leading_bytes here.
    SharedAddress along_depth(int row, int half) const;
    /// Depth `k`, columns 8 chunk .. 8 chunk + 7.
    SharedAddress across_depth(int k, int chunk) const;
};

/// 32 bytes of elements.
constexpr int depth_of(Element element) {
    return element == Element::e4m3 ? 32 : 16;
}

/// Issued, not finished: 64 x depth times depth x n.
struct PendingWgmma {
    WgmmaCall call;                                    // thread 0's
    std::array<const unsigned*, warpgroup_threads> a;  // registers, read when it finishes
    std::vector<SharedAddress> a_pieces;               // [64][2]; empty where a is in registers
    std::vector<SharedAddress> b_pieces;               // [n][2], or [16][n / 8]
    std::size_t batch;                                 // commits before it
};

/// Results on their way to registers, which hold NaN meanwhile.
struct Accumulators {
    std::array<float*, warpgroup_threads> d;
    int n;
    int pending = 0;            // wgmmas that add to it
    std::vector<float> values;  // [64][n]

    /// From registers, which become NaN; and back.
    void take();
    void give() const;
};

enum class WarpgroupStep { wgmma, fence, commit, wait, grow, shrink };

struct Warpgroup {
    // The step that its threads gather for.
    int arrived = 0;
    int first = 0;  // the thread that came first
    WarpgroupStep step{};
    int number = 0;  // batches that may be pending, or registers
    std::array<const WgmmaCall*, warpgroup_threads> calls{};

    bool fenced = false;  // since the start or the last wait
    std::size_t commits = 0;
    std::deque<PendingWgmma> pending;
    std::vector<Accumulators> accumulators;
    int registers = 0;  // per thread

    /// Null if none are under way in the call's registers.
    Accumulators* find_accumulators(const WgmmaCall& call);
};

/// "wgmma_wait(1)": the step that its threads gather for.
std::string step_name(const Warpgroup& group);

/// Elements' bits: a [64][depth], b [depth][n].
struct Operands {
    std::vector<std::uint16_t> a, b;
};
/// a from registers: 4 words of each thread, as fragments of mma_m16n8k16 (contract.md).
void unpack_registers(Operands& operands, const PendingWgmma& wgmma);
/// Piece i of an operand in shared memory.
void unpack_a(Operands& operands, Element element, int i, const std::byte* piece);
void unpack_b(Operands& operands, const WgmmaCall& call, int i, const std::byte* piece);

/// values [64][n] (+)= a b, with one rounding per element, as in mma_m16n8k16.
void multiply(std::vector<float>& values, const Operands& operands, const WgmmaCall& call);

}  // namespace attune::emu
