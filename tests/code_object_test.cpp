// The reader of code object metadata, on objects made here.
#include "tuner/code_object.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace attune {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const json metadata{{"amdhsa.target", "amdgcn-amd-amdhsa--gfx942"},
                    {"amdhsa.version", {1, 2}},
                    {"amdhsa.kernels",
                     {{{".name", "another"}, {".vgpr_count", 1}},
                      {{".name", "attune_kernel"},
                       {".vgpr_count", 180},
                       {".agpr_count", 64},
                       {".sgpr_count", 40},
                       {".vgpr_spill_count", 3},
                       {".sgpr_spill_count", 1},
                       {".group_segment_fixed_size", 1024},
                       {".private_segment_fixed_size", 16}}}}};

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
    const std::size_t at = to.size();
    to.resize(at + sizeof value);
    std::memcpy(to.data() + at, &value, sizeof value);
}

void append_text(std::vector<std::byte>& to, const char* text, std::size_t bytes) {
    for (std::size_t i = 0; i < (bytes + 3) / 4 * 4; ++i)
        to.push_back(i < bytes ? std::byte(text[i]) : std::byte(0));
}

void append_note(std::vector<std::byte>& to, const std::string& owner, std::uint32_t type,
                 const std::vector<std::uint8_t>& text) {
    append(to, Elf64_Nhdr{Elf64_Word(owner.size() + 1), Elf64_Word(text.size()), type});
    append_text(to, owner.c_str(), owner.size() + 1);
    append_text(to, reinterpret_cast<const char*>(text.data()), text.size());
}

/// An ELF file with one segment of notes: a stranger's, then the metadata.
std::vector<std::byte> code_object(const json& told, std::uint32_t note_type = 32) {
    std::vector<std::byte> notes;
    append_note(notes, "GNU", 3, {1, 2, 3, 4, 5});
    append_note(notes, "AMDGPU", note_type, json::to_msgpack(told));
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_phoff = sizeof header;
    header.e_phnum = 2;
    Elf64_Phdr load{}, note{};
    load.p_type = PT_LOAD;
    note.p_type = PT_NOTE;
    note.p_offset = sizeof header + 2 * sizeof note;
    note.p_filesz = notes.size();
    std::vector<std::byte> object;
    append(object, header);
    append(object, load);
    append(object, note);
    object.insert(object.end(), notes.begin(), notes.end());
    return object;
}

TEST(CodeObject, SaysWhatAKernelUses) {
    const auto used = code_object_resources(code_object(metadata), "attune_kernel");
    ASSERT_TRUE(used) << used.error().text();
    EXPECT_EQ(used->registers, 180);
    EXPECT_EQ(used->accumulation_registers, 64);
    EXPECT_EQ(used->scalar_registers, 40);
    EXPECT_EQ(used->spill_bytes, 12);
    EXPECT_EQ(used->stack_bytes, 16);
    EXPECT_EQ(used->shared_static_bytes, 1024);
}

TEST(CodeObject, WhatTheNoteDoesNotSayIsUnknown) {
    const auto used = code_object_resources(code_object(metadata), "another");
    ASSERT_TRUE(used) << used.error().text();
    EXPECT_EQ(used->registers, 1);
    EXPECT_EQ(used->accumulation_registers, -1);
    EXPECT_EQ(used->spill_bytes, -1);
}

TEST(CodeObject, MetadataIsTheWholeNote) {
    const auto found = code_object_metadata(code_object(metadata));
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(*found, metadata);
}

TEST(CodeObject, AKernelThatIsNotThereIsAnError) {
    const auto used = code_object_resources(code_object(metadata), "no_such_kernel");
    ASSERT_FALSE(used);
    EXPECT_EQ(used.error().code, Code::corrupt);
    EXPECT_THAT(used.error().message, HasSubstr("no_such_kernel"));
    EXPECT_FALSE(code_object_resources(code_object({{"amdhsa.kernels", 7}}), "attune_kernel"));
    EXPECT_FALSE(code_object_resources(code_object(json::object()), "attune_kernel"));
}

TEST(CodeObject, OtherFilesAreNoCodeObjects) {
    std::vector<std::byte> elf32 = code_object(metadata);
    elf32[EI_CLASS] = std::byte(ELFCLASS32);
    for (const auto& bytes : {std::vector<std::byte>{}, std::vector<std::byte>(4096), elf32,
                              code_object(metadata, 10), code_object({1, 2})}) {
        const auto found = code_object_metadata(bytes);
        ASSERT_FALSE(found);
        EXPECT_EQ(found.error().code, Code::corrupt);
    }
}

/// Cut off anywhere, and with any byte turned over: an answer or an error, never a crash.
TEST(CodeObject, DamageIsAnErrorNotACrash) {
    const std::vector<std::byte> whole = code_object(metadata);
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
        const std::vector<std::byte> cut(whole.begin(), whole.begin() + std::ptrdiff_t(bytes));
        EXPECT_FALSE(code_object_metadata(cut)) << bytes;
        std::vector<std::byte> damaged = whole;
        damaged[bytes] ^= std::byte(0xff);
        (void)code_object_resources(damaged, "attune_kernel");
    }
}

}  // namespace
}  // namespace attune
