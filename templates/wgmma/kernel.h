// Attention forward for Hopper, warp-specialised: a producer loads by TMA, consumer warpgroups of
// 64 query rows multiply by wgmma. Where V has to be transposed, the producer's other warps do it.
#pragma once

#include "templates/wgmma/consumer.h"
#include "templates/wgmma/producer.h"
#include "templates/wgmma/transposer.h"

namespace attune {

template <class V>
ATTUNE_DEVICE void attention_forward(const TmaAttentionParams& p) {
    const SharedAddress shared = shared_base();
    Barriers<V>(shared).init();
    if (warp_index() < 4) {
        registers_shrink<V::producer_registers>();
        if (thread_index() == 0) Producer<V>(p, shared).run();
        if constexpr (Layout<V>::transposes)
            if (warp_index() > 0) Transposer<V>(p, shared).run();
    } else {
        registers_grow<V::consumer_registers>();
        Consumer<V>(p, shared).run();
    }
}

}  // namespace attune
