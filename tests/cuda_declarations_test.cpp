// Our declarations of the CUDA driver and NVRTC against the real headers, at compile time.
#include <gtest/gtest.h>

#include <type_traits>

#include "runtime/cuda/driver.h"
#include "tuner/nvrtc.h"

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>)
#define __CUDA_API_VERSION_INTERNAL  // all versions of each entry point, none renamed
#include <cuda.h>
#include <nvrtc.h>
#define ATTUNE_HAVE_CUDA_HEADERS 1
#endif

namespace {

#ifdef ATTUNE_HAVE_CUDA_HEADERS

/// The same bits in the same registers: integers and enums by size, pointers by what they point at,
/// which we may leave open (void).
template <class Ours, class Real>
constexpr bool same_value() {
    if constexpr (std::is_same_v<Ours, Real> || std::is_void_v<Ours>)
        return true;
    else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Real>)
        return same_value<std::remove_cv_t<std::remove_pointer_t<Ours>>,
                          std::remove_cv_t<std::remove_pointer_t<Real>>>();
    else if constexpr (std::is_class_v<Ours> && std::is_class_v<Real>)
        return sizeof(Ours) == sizeof(Real) && alignof(Ours) == alignof(Real);
    else
        return (std::is_integral_v<Ours> || std::is_enum_v<Ours>)&&(
                   std::is_integral_v<Real> || std::is_enum_v<Real>)&&sizeof(Ours) == sizeof(Real);
}

template <class Ours, class Real>
struct SameCall : std::false_type {};
template <class R1, class... A1, class R2, class... A2>
requires(sizeof...(A1) == sizeof...(A2)) struct SameCall<R1 (*)(A1...), R2 (*)(A2...)>
    : std::bool_constant<same_value<R1, R2>() && (same_value<A1, A2>() && ...)> {
};

#define ATTUNE_SAME_CUDA(name, parameters) \
    static_assert(SameCall<decltype(attune::cuda::Driver::name), decltype(&::name)>::value, #name);
ATTUNE_CUDA_ENTRY_POINTS(ATTUNE_SAME_CUDA)
ATTUNE_CUDA_OPTIONAL_ENTRY_POINTS(ATTUNE_SAME_CUDA)
#define ATTUNE_SAME_NVRTC(member, name, parameters)                                             \
    static_assert(SameCall<decltype(attune::nvrtc::Library::member), decltype(&::name)>::value, \
                  #name);
ATTUNE_PROGRAM_CALLS(ATTUNE_SAME_NVRTC, nvrtc, CUBIN)
ATTUNE_NVRTC_CALLS(ATTUNE_SAME_NVRTC)

// The comparison can fail.
static_assert(!SameCall<int (*)(int), int (*)(long)>::value);
static_assert(!SameCall<int (*)(int*), int (*)(int)>::value);
static_assert(!SameCall<int (*)(int), int (*)(int, int)>::value);

/// Of enums that are not each other's.
constexpr bool same_number(long long ours, long long real) {
    return ours == real;
}
static_assert(same_number(attune::cuda::warp_size, CU_DEVICE_ATTRIBUTE_WARP_SIZE));
static_assert(same_number(attune::cuda::clock_rate_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
static_assert(same_number(attune::cuda::multiprocessor_count,
                          CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(same_number(attune::cuda::memory_clock_rate_khz,
                          CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE));
static_assert(same_number(attune::cuda::memory_bus_width_bits,
                          CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH));
static_assert(same_number(attune::cuda::l2_cache_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
static_assert(same_number(attune::cuda::max_threads_per_multiprocessor,
                          CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR));
static_assert(same_number(attune::cuda::compute_capability_major,
                          CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(same_number(attune::cuda::compute_capability_minor,
                          CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(same_number(attune::cuda::max_shared_bytes_per_multiprocessor,
                          CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
static_assert(same_number(attune::cuda::max_registers_per_multiprocessor,
                          CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR));
static_assert(same_number(attune::cuda::max_shared_bytes_per_block_opt_in,
                          CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
static_assert(same_number(attune::cuda::max_blocks_per_multiprocessor,
                          CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR));
static_assert(same_number(attune::cuda::reserved_shared_bytes_per_block,
                          CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK));
static_assert(same_number(attune::cuda::function_max_dynamic_shared_bytes,
                          CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
static_assert(same_number(attune::cuda::tensor_map_elements[0], CU_TENSOR_MAP_DATA_TYPE_FLOAT16));
static_assert(same_number(attune::cuda::tensor_map_elements[1], CU_TENSOR_MAP_DATA_TYPE_BFLOAT16));
static_assert(same_number(attune::cuda::tensor_map_elements[2], CU_TENSOR_MAP_DATA_TYPE_UINT8));
static_assert(same_number(attune::cuda::tensor_map_swizzle_128, CU_TENSOR_MAP_SWIZZLE_128B));
static_assert(same_number(attune::cuda::tensor_map_l2_promotion_256,
                          CU_TENSOR_MAP_L2_PROMOTION_L2_256B));
static_assert(same_number(attune::cuda::host_alloc_portable, CU_MEMHOSTALLOC_PORTABLE));
static_assert(same_number(attune::cuda::host_alloc_device_map, CU_MEMHOSTALLOC_DEVICEMAP));
static_assert(NVRTC_SUCCESS == 0 && NVRTC_ERROR_INVALID_OPTION == 5);

TEST(CudaDeclarations, agree_with_the_headers) {
    SUCCEED() << "held at compile time against CUDA " << CUDA_VERSION;
}

#else

TEST(CudaDeclarations, agree_with_the_headers) {
    GTEST_SKIP() << "cuda.h and nvrtc.h were not found when this test was built";
}

#endif

}  // namespace
