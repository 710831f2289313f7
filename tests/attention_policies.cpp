// Which configs properties and attacks are tried on.
#include "generator/space.h"
#include "tests/attention_case.h"

namespace attune {
namespace {

std::vector<std::string> mfma_configs(DType dtype) {
    std::vector<std::string> configs{
        "mfma/q64.kv32.w2.mma32",
        "mfma/q64.kv64.w1.mma16.s2.rescale=moved.dir=fwd",
        "mfma/q128.kv32.w4.mma32.s2.rescale=stale.mix=yes",
        "mfma/q32.kv64.w2.mma16.rescale=stale.mix=yes",
        "mfma/q64.kv32.w2.mma16.s2.k=lds",
    };
    if (dtype == DType::bf16) configs.push_back("mfma/q64.kv32.w2.mma32.s2.rescale=defer.mix=yes");
    return configs;
}

std::vector<std::string> wmma_configs(DType dtype) {
    std::vector<std::string> configs{
        "wmma/q32.kv32.w2",
        "wmma/q64.kv16.w2.s2.rescale=moved.dir=fwd",
        "wmma/q64.kv32.w4.s2.rescale=stale.mix=yes",
    };
    if (dtype == DType::bf16) configs.push_back("wmma/q64.kv64.w4.rescale=defer.mix=yes.loops2");
    return configs;
}

}  // namespace

std::vector<std::string> policy_configs(DType dtype, const Target& target) {
    if (dtype == DType::e4m3) {
        if (target.arch != "sm_90a") return {};
        return {"wgmma/q64.kv64.rescale=each.overlap=no",
                "wgmma/q128.kv96.rescale=moved.pp=yes.acc64",
                "wgmma/q128.kv64.s1.rescale=stale.overlap=no.pp=yes.acc32",
                "wgmma/q192.kv64.s3.qs2.rescale=stale.odd=overlap.sched=persist.ahead=yes.acc32",
                "wgmma/q64.kv160.s1.rescale=stale"};
    }
    if (target.arch.starts_with("gfx9")) return mfma_configs(dtype);
    if (target.arch.starts_with("gfx")) return wmma_configs(dtype);
    std::vector<std::string> configs{
        "mma/q64.kv32.w4",
        "mma/q32.kv32.w2.s2.rescale=moved.dir=fwd",
        "mma/q64.kv32.w2.s2.rescale=norm.mix=yes.grid=head",
        "mma/q64.kv32.w4.s3.ring=mbar.rescale=stale.mix=yes",
        "mma/q32.kv64.w2.s2.rescale=stale.mix=yes.part=kv.qop=reg",
        "mma/q32.kv64.w4.rescale=moved.part=kv",
    };
    if (dtype == DType::bf16) {
        configs.push_back("mma/q64.kv32.w4.s4.ring=mbar.rescale=defer.mix=yes.qop=reg");
        configs.push_back("mma/q32.kv64.w2.rescale=defer.mix=yes.part=kv");
    }
    if (target.arch != "sm_90a") return configs;
    configs.push_back("wgmma/q128.kv64.rescale=stale.pp=yes");
    if (dtype == DType::bf16) {
        configs.push_back("wgmma/q128.kv48.s1.rescale=moved.overlap=no.pp=yes");
        configs.push_back("wgmma/q192.kv64.rescale=each.p=smem");
        configs.push_back("wgmma/q64.kv64.s3.qs2.rescale=stale.odd=overlap.sched=persist");
        configs.push_back("wgmma/q64.kv48.s3.rescale=moved.sched=persist.ahead=yes.pack=yes");
        configs.push_back(
            "wgmma/q64.kv64.s3.qs2.rescale=stale.odd=overlap.sched=dynamic.ahead=yes");
    } else {
        configs.push_back("wgmma/q64.kv48.rescale=each.overlap=no");
        configs.push_back("wgmma/q64.kv80.s3.rescale=moved.odd=overlap.p=smem");
        configs.push_back(
            "wgmma/q128.kv64.s3.qs2.rescale=stale.overlap=no.sched=persist.ahead=yes.p=smem");
        configs.push_back("wgmma/q128.kv64.rescale=stale.pack=yes");
        configs.push_back("wgmma/q128.kv48.rescale=moved.pp=yes.sched=dynamic.pack=yes");
    }
    return configs;
}

double unit_roundoff(DType dtype) {
    constexpr double units[] = {0x1p-11, 0x1p-9, 0x1p-4};  // in DType's order
    return units[static_cast<int>(dtype)];
}

}  // namespace attune
