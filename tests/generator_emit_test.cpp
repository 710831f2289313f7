#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "generator/emit.h"

namespace attune {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

Variant variant(const char* signature, const char* config, const char* gpu) {
    return {*Signature::parse(signature), *Config::parse(config), *find_target(gpu)};
}

Variant plain() {
    return variant("bf16.d128.causal", "mma/q128.kv64.w4", "h200");
}
/// An entry header that includes one file, beside one that nobody includes.
std::vector<TemplateFile> templates(const char* included, const char* stranger) {
    return {{"templates/mma/kernel.h", "#include \"templates/a.h\"\n"},
            {"templates/a.h", included},
            {"templates/z.h", stranger}};
}

std::string below_header(const std::string& text) {
    return text.substr(text.find('\n') + 1);
}

TEST(Sha256, KnownAnswers) {
    EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256_hex("abc"),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    EXPECT_NE(sha256_hex(std::string_view("\0", 1)), sha256_hex(""));
}

TEST(Emit, IsPure) {
    const Source a = emit(plain()), b = emit(plain());
    EXPECT_EQ(a.text, b.text);
    EXPECT_EQ(a.hash, b.hash);
    EXPECT_EQ(a.entry, b.entry);
    EXPECT_EQ(a.options, b.options);
}

TEST(Emit, FirstLineSaysVersionAndHash) {
    const Source source = emit(plain());
    const std::string first = source.text.substr(0, source.text.find('\n'));
    EXPECT_THAT(first, MatchesRegex("// attune [0-9]+\\.[0-9]+\\.[0-9]+ [0-9a-f]+"));
    EXPECT_EQ(first.substr(first.rfind(' ') + 1), source.hash);
    EXPECT_EQ(source.hash.size(), 64u);
    const std::string rest = below_header(source.text);
    const std::size_t body = rest.find('\n');
    EXPECT_EQ(rest.substr(0, body), "#define ATTUNE_SOURCE_HASH \"" + source.hash + "\"");
    EXPECT_EQ(rest.find(source.hash, body), std::string::npos);
}

TEST(Emit, HashCoversTheTextAndTheTemplatesItIncludes) {
    const std::string hash = emit(plain(), templates("int a;", "int z;")).hash;
    EXPECT_EQ(emit(plain(), templates("int a;", "int z;")).hash, hash);
    EXPECT_EQ(emit(plain(), templates("int a;", "int y;")).hash, hash);
    EXPECT_NE(emit(plain(), templates("int b;", "int z;")).hash, hash);
    EXPECT_NE(emit(plain(), {}).hash, hash);
    Variant other = plain();
    other.config = other.config.with("u", 2);
    EXPECT_NE(emit(other, templates("int a;", "int z;")).hash, hash);
    other = plain();
    other.signature.lse = true;
    EXPECT_NE(emit(other, templates("int a;", "int z;")).hash, hash);
}

TEST(Emit, IncludeCyclesEnd) {
    EXPECT_EQ(emit(plain(), templates("#include \"templates/mma/kernel.h\"", "")).hash.size(), 64u);
}

TEST(Emit, HashDoesNotDependOnTheBoard) {
    // H100 and H200 are one architecture: what is compiled for one is current for the other.
    EXPECT_EQ(emit(variant("bf16.d128.causal", "mma/q128.kv64.w4", "h100-sxm")).hash,
              emit(plain()).hash);
}

TEST(Emit, EveryAxisIsANamedField) {
    const Source source = emit(plain());
    for (const Axis& axis : find_family("mma")->axes)
        EXPECT_THAT(source.text, HasSubstr(std::string(" ") + axis.name + " = "));
    EXPECT_THAT(source.text, HasSubstr("head_dim = 128;"));
    EXPECT_THAT(source.text, HasSubstr("causal = true;"));
    EXPECT_THAT(source.text, HasSubstr("write_lse = false;"));
    EXPECT_THAT(source.text, HasSubstr("Element = BF16;"));
    EXPECT_THAT(emit(variant("f16.d64.full.lse", "mma/", "h200")).text,
                HasSubstr("Element = F16;"));
}

TEST(Emit, OnlyInstantiates) {
    const Source source = emit(plain());
    EXPECT_THAT(source.text, HasSubstr("ATTUNE_KERNEL(" + source.entry + ", 128,"));
    std::size_t includes = 0, entries = 0;
    std::istringstream lines(source.text);
    for (std::string line; std::getline(lines, line);) {
        includes += line.starts_with("#include");
        entries += line.starts_with("ATTUNE_KERNEL");
        EXPECT_FALSE(line.ends_with(" ")) << line;
    }
    EXPECT_EQ(includes, 1u);
    EXPECT_EQ(entries, 1u);
}

TEST(EmbeddedTemplates, HoldWhatTheFamilyIncludes) {
    const auto& files = embedded_templates();
    EXPECT_TRUE(std::is_sorted(files.begin(), files.end(),
                               [](const auto& a, const auto& b) { return a.name < b.name; }));
    for (const char* name :
         {find_family("mma")->entry_header, "templates/abi.h", "templates/target/cuda.h"}) {
        const auto it = std::find_if(files.begin(), files.end(),
                                     [&](const TemplateFile& file) { return file.name == name; });
        ASSERT_NE(it, files.end()) << name;
        EXPECT_THAT(it->text, HasSubstr("#pragma once"));
    }
}

}  // namespace
}  // namespace attune
