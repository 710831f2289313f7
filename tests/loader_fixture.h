// The C API over a device that only writes down what it is asked for.
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>

#include "runtime/attune.h"
#include "runtime/backend.h"
#include "tests/fake_device.h"
#include "tests/store_fixtures.h"

namespace attune {

constexpr const char* q64 = "bf16.d64.full/b1.h2.kv2.q64.k64";
constexpr const char* q256 = "bf16.d64.full/b1.h2.kv2.q256.k64";

inline attune_problem c_problem(const char* text) {
    const Problem p = *Problem::parse(text);
    return {sizeof(attune_problem),
            static_cast<attune_dtype>(p.signature.dtype),
            p.signature.mask == Mask::full ? ATTUNE_MASK_FULL : ATTUNE_MASK_CAUSAL,
            p.signature.head_dim,
            p.shape.batch,
            p.shape.heads_q,
            p.shape.heads_kv,
            p.shape.seqlen_q,
            p.shape.seqlen_kv,
            p.signature.lse ? 1 : 0,
            p.signature.head_dim_v};
}

class LoaderTest : public ::testing::Test {
protected:
    LoaderTest() : target(*find_target("a100-sxm4-80gb")), store(open_store(path())) {}
    ~LoaderTest() override { attune_close(context); }

    std::string path() const { return folder.file("store.sqlite"); }

    void add(
        const char* problem, std::string_view binary = "a kernel",
        const std::function<void(Record&)>& change = [](Record&) {}) {
        Record record = some_record(problem, binary);
        record.device = {"nvidia", target.name, target.arch, target.multiprocessors, ""};
        change(record);
        const auto stored = store.put(record, bytes_of(binary), {});
        ASSERT_TRUE(stored && *stored);
    }

    attune_status try_open(int strict = 0) {
        auto* backend = new attune_backend{std::make_unique<FakeDevice>(target, log)};
        const std::string file = path();
        const char* family = restriction.family.empty() ? nullptr : restriction.family.c_str();
        const attune_options options{sizeof options,
                                     nullptr,
                                     file.c_str(),
                                     backend,
                                     strict,
                                     family,
                                     restriction.max_shared_bytes};
        const attune_status status = attune_open(&options, &context);
        if (status != ATTUNE_OK) delete backend;
        return status;
    }
    void open(int strict = 0) {
        ASSERT_EQ(try_open(strict), ATTUNE_OK) << attune_last_error(nullptr);
    }

    attune_answer find(const char* text) {
        attune_answer answer{};
        answer.struct_bytes = sizeof answer;
        const attune_problem problem = c_problem(text);
        EXPECT_EQ(attune_find(context, &problem, &answer), ATTUNE_OK) << attune_last_error(context);
        return answer;
    }
    attune_status find_status(const attune_problem& problem) {
        attune_answer answer{};
        answer.struct_bytes = sizeof answer;
        return attune_find(context, &problem, &answer);
    }

    /// Contiguous tensors somewhere, for a device that touches none.
    static attune_tensors tensors(const char* text, bool lse = false) {
        const Problem p = *Problem::parse(text);
        const Strides s = contiguous_bhsd(p.signature, p.shape);
        const auto c = [](const TensorStrides& t) {
            return attune_tensor_strides{t.batch, t.head, t.row};
        };
        const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
        return {sizeof(attune_tensors),
                at(0x1000),
                at(0x2000),
                at(0x3000),
                at(0x4000),
                lse ? static_cast<float*>(at(0x5000)) : nullptr,
                c(s.q),
                c(s.k),
                c(s.v),
                c(s.o),
                0,
                nullptr,
                nullptr,
                nullptr};
    }
    attune_status launch(attune_kernel* kernel, const char* text, const attune_tensors& t) {
        const attune_problem problem = c_problem(text);
        return attune_launch(kernel, &problem, &t, nullptr, nullptr);
    }

    TempFolder folder;
    Target target;
    Restriction restriction;
    Store store;
    std::shared_ptr<FakeLog> log = std::make_shared<FakeLog>();
    attune_context* context = nullptr;
};

}  // namespace attune
