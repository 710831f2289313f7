// Which query of which head a row of a q-tile is.
#pragma once

#include "target.h"

namespace attune {

/// Rows are the queries of one head; or, packed, those of a group of 2^shift neighbouring heads
/// that read the same kv head: row r is query r >> shift of the group's head r % 2^shift. The
/// schedule, the mask and the stores count groups and rows, as if a group were one head.
template <bool packed>
class Packing;

template <>
class Packing<false> {
public:
    ATTUNE_DEVICE explicit Packing(int = 0) {}
    ATTUNE_DEVICE int query(int row) const { return row; }
    template <class T>
    ATTUNE_DEVICE T* at(T* first, int row, long long query_stride, long long) const {
        return first + row * query_stride;
    }
    ATTUNE_DEVICE int first_head(int group) const { return group; }
    ATTUNE_DEVICE int groups(int heads) const { return heads; }
    ATTUNE_DEVICE int rows(int queries) const { return queries; }
};

template <>
class Packing<true> {
public:
    ATTUNE_DEVICE explicit Packing(int shift = 0) : shift_(shift) {}
    ATTUNE_DEVICE int query(int row) const { return row >> shift_; }
    /// Where a row lies, `first` being the group's row 0.
    template <class T>
    ATTUNE_DEVICE T* at(T* first, int row, long long query_stride, long long head_stride) const {
        return first + query(row) * query_stride + (row & ((1 << shift_) - 1)) * head_stride;
    }
    ATTUNE_DEVICE int first_head(int group) const { return group << shift_; }
    ATTUNE_DEVICE int groups(int heads) const { return heads >> shift_; }
    ATTUNE_DEVICE int rows(int queries) const { return queries << shift_; }

private:
    int shift_;
};

}  // namespace attune
