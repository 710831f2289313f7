// wgmma for every n that attention needs: accumulators of 64 x n, 16 deep (32 in e4m3). Included by
// target/cuda/hopper.h. Operand and fragment layouts: PTX ISA, "Asynchronous warpgroup level matrix
// instructions".
#pragma once

namespace attune {

/// ss: d = a b (+ d), both operands by descriptor, rows along the depth.
/// rs: d += a b, a in registers, b by descriptor, its rows across the depth; along it in e4m3.
template <int n, class Element>
struct Wgmma;

// clang-format off
// ATTUNE_REGISTERS_<r> names %0 .. %<r-1>, ATTUNE_BIND_<r>(d) binds them to d[0] .. d[r-1].
#define ATTUNE_REGISTERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ATTUNE_REGISTERS_16 ATTUNE_REGISTERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define ATTUNE_REGISTERS_24 ATTUNE_REGISTERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define ATTUNE_REGISTERS_32 ATTUNE_REGISTERS_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define ATTUNE_REGISTERS_40 ATTUNE_REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define ATTUNE_REGISTERS_48 ATTUNE_REGISTERS_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define ATTUNE_REGISTERS_56 ATTUNE_REGISTERS_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define ATTUNE_REGISTERS_64 ATTUNE_REGISTERS_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define ATTUNE_REGISTERS_72 ATTUNE_REGISTERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define ATTUNE_REGISTERS_80 ATTUNE_REGISTERS_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define ATTUNE_REGISTERS_88 ATTUNE_REGISTERS_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define ATTUNE_REGISTERS_96 ATTUNE_REGISTERS_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define ATTUNE_REGISTERS_104 ATTUNE_REGISTERS_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define ATTUNE_REGISTERS_112 ATTUNE_REGISTERS_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define ATTUNE_REGISTERS_120 ATTUNE_REGISTERS_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define ATTUNE_REGISTERS_128 ATTUNE_REGISTERS_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define ATTUNE_BIND_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ATTUNE_BIND_8_AT(d, i) ATTUNE_BIND_4(d, i), ATTUNE_BIND_4(d, i + 4)
#define ATTUNE_BIND_8(d) ATTUNE_BIND_8_AT(d, 0)
#define ATTUNE_BIND_16(d) ATTUNE_BIND_8(d), ATTUNE_BIND_8_AT(d, 8)
#define ATTUNE_BIND_24(d) ATTUNE_BIND_16(d), ATTUNE_BIND_8_AT(d, 16)
#define ATTUNE_BIND_32(d) ATTUNE_BIND_24(d), ATTUNE_BIND_8_AT(d, 24)
#define ATTUNE_BIND_40(d) ATTUNE_BIND_32(d), ATTUNE_BIND_8_AT(d, 32)
#define ATTUNE_BIND_48(d) ATTUNE_BIND_40(d), ATTUNE_BIND_8_AT(d, 40)
#define ATTUNE_BIND_56(d) ATTUNE_BIND_48(d), ATTUNE_BIND_8_AT(d, 48)
#define ATTUNE_BIND_64(d) ATTUNE_BIND_56(d), ATTUNE_BIND_8_AT(d, 56)
#define ATTUNE_BIND_72(d) ATTUNE_BIND_64(d), ATTUNE_BIND_8_AT(d, 64)
#define ATTUNE_BIND_80(d) ATTUNE_BIND_72(d), ATTUNE_BIND_8_AT(d, 72)
#define ATTUNE_BIND_88(d) ATTUNE_BIND_80(d), ATTUNE_BIND_8_AT(d, 80)
#define ATTUNE_BIND_96(d) ATTUNE_BIND_88(d), ATTUNE_BIND_8_AT(d, 88)
#define ATTUNE_BIND_104(d) ATTUNE_BIND_96(d), ATTUNE_BIND_8_AT(d, 96)
#define ATTUNE_BIND_112(d) ATTUNE_BIND_104(d), ATTUNE_BIND_8_AT(d, 104)
#define ATTUNE_BIND_120(d) ATTUNE_BIND_112(d), ATTUNE_BIND_8_AT(d, 112)
#define ATTUNE_BIND_128(d) ATTUNE_BIND_120(d), ATTUNE_BIND_8_AT(d, 120)

// major_ss, _across, _rs: which operands lie across the depth; e4m3 has no such choice. x0 .. x5:
// the operands after the accumulators.
#define ATTUNE_WGMMA(n, r, Element, k, type, major_ss, major_across, major_rs, x0, x1, x2,    \
                     x3, x4, x5)                                                                  \
    template <>                                                                                   \
    struct Wgmma<n, Element> {                                                                    \
        ATTUNE_DEVICE static void ss(float* d, MatrixDescriptor a, MatrixDescriptor b,            \
                                     bool accumulate) {                                           \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, " x2 ", 0;"                              \
                         " wgmma.mma_async.sync.aligned.m64n" #n "k" k ".f32." type "." type      \
                         " {" ATTUNE_REGISTERS_##r "}, " x0 ", " x1 ", p, 1, 1" major_ss "; }"    \
                         : ATTUNE_BIND_##r(d)                                                     \
                         : "l"(a), "l"(b), "r"(int(accumulate)));                                 \
        }                                                                                         \
        ATTUNE_DEVICE static void ss_across(float* d, MatrixDescriptor a, MatrixDescriptor b,     \
                                            bool accumulate) {                                    \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, " x2 ", 0;"                              \
                         " wgmma.mma_async.sync.aligned.m64n" #n "k" k ".f32." type "." type      \
                         " {" ATTUNE_REGISTERS_##r "}, " x0 ", " x1 ", p, 1, 1" major_across "; }" \
                         : ATTUNE_BIND_##r(d)                                                     \
                         : "l"(a), "l"(b), "r"(int(accumulate)));                                 \
        }                                                                                         \
        ATTUNE_DEVICE static void rs(float* d, const unsigned (&a)[4], MatrixDescriptor b,        \
                                     bool accumulate) {                                           \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, " x5 ", 0;"                              \
                         " wgmma.mma_async.sync.aligned.m64n" #n "k" k ".f32." type "." type      \
                         " {" ATTUNE_REGISTERS_##r "}, {" x0 ", " x1 ", " x2 ", " x3 "}, " x4     \
                         ", p, 1, 1" major_rs "; }"                                               \
                         : ATTUNE_BIND_##r(d)                                                     \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                    \
                           "r"(int(accumulate)));                                                 \
        }                                                                                         \
    };
#define ATTUNE_WGMMA_N(n, r, ...)                                     \
    ATTUNE_WGMMA(n, r, F16, "16", "f16", ", 0, 0", ", 0, 1", ", 1", __VA_ARGS__)   \
    ATTUNE_WGMMA(n, r, BF16, "16", "bf16", ", 0, 0", ", 0, 1", ", 1", __VA_ARGS__) \
    ATTUNE_WGMMA(n, r, E4M3, "32", "e4m3", "", "", "", __VA_ARGS__)

ATTUNE_WGMMA_N(16, 8, "%8", "%9", "%10", "%11", "%12", "%13")
ATTUNE_WGMMA_N(32, 16, "%16", "%17", "%18", "%19", "%20", "%21")
ATTUNE_WGMMA_N(48, 24, "%24", "%25", "%26", "%27", "%28", "%29")
ATTUNE_WGMMA_N(64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
ATTUNE_WGMMA_N(80, 40, "%40", "%41", "%42", "%43", "%44", "%45")
ATTUNE_WGMMA_N(96, 48, "%48", "%49", "%50", "%51", "%52", "%53")
ATTUNE_WGMMA_N(112, 56, "%56", "%57", "%58", "%59", "%60", "%61")
ATTUNE_WGMMA_N(128, 64, "%64", "%65", "%66", "%67", "%68", "%69")
ATTUNE_WGMMA_N(144, 72, "%72", "%73", "%74", "%75", "%76", "%77")
ATTUNE_WGMMA_N(160, 80, "%80", "%81", "%82", "%83", "%84", "%85")
ATTUNE_WGMMA_N(176, 88, "%88", "%89", "%90", "%91", "%92", "%93")
ATTUNE_WGMMA_N(192, 96, "%96", "%97", "%98", "%99", "%100", "%101")
ATTUNE_WGMMA_N(208, 104, "%104", "%105", "%106", "%107", "%108", "%109")
ATTUNE_WGMMA_N(224, 112, "%112", "%113", "%114", "%115", "%116", "%117")
ATTUNE_WGMMA_N(240, 120, "%120", "%121", "%122", "%123", "%124", "%125")
ATTUNE_WGMMA_N(256, 128, "%128", "%129", "%130", "%131", "%132", "%133")
// clang-format on

}  // namespace attune
