// AMD's matrix instructions in the emulator. A deep MFMA is the two that gfx90a and gfx942 issue;
// gfx950's one adds up the same products, since A and B name their depths in the same order.
#pragma once

namespace attune {

namespace emu {
template <class Element>
ATTUNE_DEVICE void matrix(Matrix shape, float* d, const unsigned* a, const unsigned* b) {
    const MatrixCall call{shape, element_of(Element{}) == emu::Element::bf16, d, a, b};
    operations->matrix(&call);
}
}  // namespace emu

template <class Element>
ATTUNE_DEVICE void mfma_32x32x16(float* d, const unsigned* a, const unsigned* b, Element) {
    emu::matrix<Element>(emu::Matrix::mfma_32x32x8, d, a, b);
    emu::matrix<Element>(emu::Matrix::mfma_32x32x8, d, a + 2, b + 2);
}
template <class Element>
ATTUNE_DEVICE void mfma_16x16x32(float* d, const unsigned* a, const unsigned* b, Element) {
    emu::matrix<Element>(emu::Matrix::mfma_16x16x16, d, a, b);
    emu::matrix<Element>(emu::Matrix::mfma_16x16x16, d, a + 2, b + 2);
}
template <class Element>
ATTUNE_DEVICE void wmma_gfx11(float* d, const unsigned* a, const unsigned* b, Element) {
    emu::matrix<Element>(emu::Matrix::wmma_gfx11, d, a, b);
}
template <class Element>
ATTUNE_DEVICE void wmma_gfx12(float* d, const unsigned* a, const unsigned* b, Element) {
    emu::matrix<Element>(emu::Matrix::wmma_gfx12, d, a, b);
}

}  // namespace attune
