// What is particular to an element type of Q, K and V. By its size, so that no type is named that a
// target may lack: one byte is E4M3.
#pragma once

#include "target.h"

namespace attune {

template <class Element, int bytes = sizeof(Element)>
struct ElementTraits {
    using Output = Element;                   // of O
    static constexpr int largest_p_log2 = 0;  // of P where a row's maximum is subtracted
    static constexpr int step_tiles = 2;      // tiles of 8 keys that an A fragment takes

    ATTUNE_DEVICE static float load(const unsigned short* from) {
        return to_float(load_global_16(from), Element{});
    }
    /// Of the elements in two words.
    ATTUNE_DEVICE static float product(unsigned a, unsigned b) {
        const float low = to_float(static_cast<unsigned short>(a & 0xffffu), Element{}) *
                          to_float(static_cast<unsigned short>(b & 0xffffu), Element{});
        return fma_rn(to_float(static_cast<unsigned short>(a >> 16), Element{}),
                      to_float(static_cast<unsigned short>(b >> 16), Element{}), low);
    }
    ATTUNE_DEVICE static float rounded(float value) {
        return to_float(static_cast<unsigned short>(pack2(value, 0, Element{}) & 0xffffu),
                        Element{});
    }
    /// Two numbers by turns.
    ATTUNE_DEVICE static unsigned word(float a, float b) { return pack2(a, b, Element{}); }
    /// Word i of an A fragment, from accumulators.
    ATTUNE_DEVICE static unsigned fragment_word(const float (&p)[step_tiles][4], int i) {
        const int e = i % 2 * 2;
        return pack2(p[i / 2][e], p[i / 2][e + 1], Element{});
    }
};

/// e4m3: O is bf16, which holds its sums, and P fills the range up to 448.
template <class Element>
struct ElementTraits<Element, 1> {
    using Output = BF16;
    static constexpr int largest_p_log2 = 8;
    static constexpr int step_tiles = 4;

    ATTUNE_DEVICE static float load(const unsigned char* from) {
        return to_float(load_global_8(from), Element{});
    }
    ATTUNE_DEVICE static float product(unsigned a, unsigned b) {
        float sum = 0;
        ATTUNE_UNROLL
        for (int shift = 0; shift < 32; shift += 8)
            sum = fma_rn(to_float(static_cast<unsigned char>(a >> shift & 0xffu), Element{}),
                         to_float(static_cast<unsigned char>(b >> shift & 0xffu), Element{}), sum);
        return sum;
    }
    ATTUNE_DEVICE static float rounded(float value) {
        return to_float(static_cast<unsigned char>(pack4(value, 0, 0, 0, Element{}) & 0xffu),
                        Element{});
    }
    ATTUNE_DEVICE static unsigned word(float a, float b) { return pack4(a, b, a, b, Element{}); }
    /// A word is four neighbouring keys of the fragment, but the accumulators of a lane are two
    /// pairs of 16 keys: 2 c, 2 c + 1, 8 + 2 c and 9 + 2 c for c = lane % 4. So these are the
    /// fragment's keys 4 c .. 4 c + 3, and B has its keys in that order too (wgmma/transposer.h).
    ATTUNE_DEVICE static unsigned fragment_word(const float (&p)[step_tiles][4], int i) {
        const int tile = i / 2 * 2, e = i % 2 * 2;
        return pack4(p[tile][e], p[tile][e + 1], p[tile + 1][e], p[tile + 1][e + 1], Element{});
    }
};

/// A head's scale; 1 where there are none.
ATTUNE_DEVICE float head_scale(const float* scales, int head) {
    return scales == nullptr ? 1.0f : load_global_f32(scales + head);
}

}  // namespace attune
