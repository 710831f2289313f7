#include "tests/fake_code.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "generator/formatted.h"
#include "tuner/probe.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view mark = "attune source ";
constexpr unsigned machine_cuda = 190, machine_amdgpu = 224;

/// AMD's number of an arch in e_flags: LLVM's "User Guide for AMDGPU Backend", ELF Header.
struct AmdArch {
    const char* name;
    unsigned number;
};
constexpr AmdArch amd_archs[] = {{"gfx90a", 0x3f},  {"gfx942", 0x4c},  {"gfx950", 0x4f},
                                 {"gfx1100", 0x41}, {"gfx1151", 0x4a}, {"gfx1200", 0x48},
                                 {"gfx1201", 0x4e}};
constexpr unsigned amd_arch_mask = 0xff;

unsigned machine_of(Vendor vendor) {
    return vendor == Vendor::nvidia ? machine_cuda : machine_amdgpu;
}
/// 0 for NVIDIA's, which are not told apart here.
unsigned arch_number(const Target& target) {
    for (const AmdArch& arch : amd_archs)
        if (target.arch == arch.name) return arch.number;
    return 0;
}

/// The string that says that there is such a kernel: its descriptor's symbol, or its section.
std::string kernel_string(const std::string& name, Vendor vendor) {
    return vendor == Vendor::amd ? name + ".kd" : ".text." + name;
}

/// What stands between quotes after `macro`.
std::string macro_in(const std::string& text, const std::string& macro) {
    const std::size_t at = text.find("#define " + macro + " \"");
    if (at == std::string::npos) return "";
    const std::size_t first = text.find('"', at) + 1;
    return text.substr(first, text.find('"', first) - first);
}

Result<Source> unknown(const std::string& text) {
    return Error{Code::not_found, formatted("no source of this Attune has the hash in '{}'", text),
                 "compile the kernel with the templates of this checkout"};
}

Result<Source> probe_with(const std::string& hash, int wave_size) {
    std::vector<ProbeText> probes{hold_text(), clock_text(), scan_text(wave_size)};
    for (const DType dtype : {DType::f16, DType::bf16})
        for (const Mask mask : {Mask::full, Mask::causal})
            for (int head_dim = 8; head_dim <= 256; head_dim += 8)
                probes.push_back(reference_text({dtype, head_dim, mask, false}, wave_size));
    for (const ProbeText& probe : probes)
        if (Source source = probe_source(probe); source.hash == hash) return source;
    return unknown("probe " + hash);
}

std::string read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<std::byte> fake_code_object(const Source& source, const Target& target) {
    const std::string strings =
        formatted("{0}{1}{0}{2}{3} {4}{0}", '\0', kernel_string(source.entry, target.vendor), mark,
                  source.hash, macro_in(source.text, "ATTUNE_VARIANT"));
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_machine = static_cast<Elf64_Half>(machine_of(target.vendor));
    header.e_flags = arch_number(target);
    header.e_shoff = sizeof header + strings.size();
    std::vector<std::byte> bytes(header.e_shoff);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, strings.data(), strings.size());
    return bytes;
}

Result<Binary> FakeCompiler::compile(const Source& source, const std::string& arch) {
    for (const Target& target : known_targets()) {
        if (target.arch != arch) continue;
        Binary made;
        made.bytes = fake_code_object(source, target);
        made.entry = source.entry;
        made.resources = {64, 0, 0, 0};
        made.toolchain = toolchain();
        return made;
    }
    return Error{Code::unsupported, "no GPU has arch " + arch, "use one that is known"};
}

std::string_view elf_image(const void* start) {
    const char* bytes = static_cast<const char*>(start);
    if (std::memcmp(bytes, ELFMAG, SELFMAG) != 0) return {};
    Elf64_Ehdr header;
    std::memcpy(&header, bytes, sizeof header);
    std::size_t end = std::max<std::size_t>(header.e_phoff + header.e_phnum * header.e_phentsize,
                                            header.e_shoff + header.e_shnum * header.e_shentsize);
    for (int i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr section;
        std::memcpy(&section, bytes + header.e_shoff + i * header.e_shentsize, sizeof section);
        if (section.sh_type != SHT_NOBITS)
            end = std::max<std::size_t>(end, section.sh_offset + section.sh_size);
    }
    return {bytes, end};
}

bool is_for(std::string_view image, const Target& target) {
    Elf64_Ehdr header;
    std::memcpy(&header, image.data(), sizeof header);
    return header.e_machine == machine_of(target.vendor) &&
           (target.vendor == Vendor::nvidia ||
            (header.e_flags & amd_arch_mask) == arch_number(target));
}

bool has_kernel(std::string_view image, const std::string& name, Vendor vendor) {
    return image.find('\0' + kernel_string(name, vendor) + '\0') != image.npos;
}

Result<Source> source_of(std::string_view image, const Target& target) {
    const std::size_t at = image.find(mark);
    if (at == image.npos)
        return Error{Code::corrupt, "the code object does not say what it was made from",
                     "compile it from a source that Attune emitted"};
    const std::string text(image.data() + at + mark.size());
    std::istringstream words(text);
    std::string hash, what, config_text, skipped, arch;
    words >> hash >> what >> config_text >> skipped >> arch;
    if (what == "probe") return probe_with(hash, target.wave_size);
    const auto signature = Signature::parse(what);
    const auto config = Config::parse(config_text);
    if (!signature || !config || arch != target.arch) return unknown(text);
    Source source = emit({*signature, *config, target});
    return source.hash == hash ? Result<Source>(std::move(source)) : unknown(text);
}

Result<Binary> twin_of(const Source& source) {
    const char* folder = std::getenv("FAKE_TWINS");
    const fs::path kept = fs::path(folder == nullptr ? "" : folder) / source.hash;
    Binary binary;
    binary.entry = source.entry;
    if (const std::string bytes = folder == nullptr ? "" : read_file(kept); !bytes.empty()) {
        const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
        binary.bytes.assign(first, first + bytes.size());
        return binary;
    }
    auto compiler = open_host_compiler();
    if (!compiler) return compiler.error();
    auto compiled = (*compiler)->compile(source, "");
    if (!compiled || folder == nullptr) return compiled;
    const fs::path part = formatted("{}.{}", kept.string(), getpid());
    std::ofstream(part, std::ios::binary)
        .write(reinterpret_cast<const char*>(compiled->bytes.data()),
               std::streamsize(compiled->bytes.size()));
    fs::rename(part, kept);
    return compiled;
}

}  // namespace attune
