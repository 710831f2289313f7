// How fast AMD's matrix cores multiply.
#pragma once

#include "templates/probe/peak.h"
#include "templates/transposed/atom.h"

namespace attune {

template <int atom, class E>
struct AtomProduct {
    using Element = E;
    using A = MatrixAtom<atom>;
    static constexpr int registers = A::registers, a_words = 4 * A::chunks, b_words = a_words;
    ATTUNE_DEVICE static void multiply(float (&d)[registers], const unsigned (&a)[a_words],
                                       const unsigned (&b)[b_words]) {
        A::multiply(d, a, b, Element{});
    }
};

}  // namespace attune
