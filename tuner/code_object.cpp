#include "tuner/code_object.h"

#include <elf.h>

#include <cstring>
#include <optional>
#include <string_view>

#include "generator/formatted.h"

namespace attune {
namespace {

using nlohmann::json;
using Bytes = std::span<const std::byte>;

constexpr std::string_view note_owner{"AMDGPU\0", 7};
constexpr Elf64_Word metadata_note = 32;  // NT_AMDGPU_METADATA, MessagePack

Error no_code_object(const char* why) {
    return {Code::corrupt, formatted("no code object: {}", why), "compile the kernel again"};
}

/// A struct at an offset; nothing where it would end outside.
template <class T>
std::optional<T> at(Bytes bytes, std::uint64_t offset) {
    if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

Bytes part(Bytes bytes, std::uint64_t offset, std::uint64_t size) {
    if (offset > bytes.size() || bytes.size() - offset < size) return {};
    return bytes.subspan(offset, size);
}

std::uint64_t padded(std::uint64_t bytes) {
    return (bytes + 3) / 4 * 4;
}

/// The metadata's bytes in a segment of notes; empty where it holds none.
Bytes metadata_in(Bytes notes) {
    for (std::uint64_t offset = 0; const auto note = at<Elf64_Nhdr>(notes, offset);) {
        const std::uint64_t name_at = offset + sizeof *note;
        const std::uint64_t text_at = name_at + padded(note->n_namesz);
        const Bytes name = part(notes, name_at, note->n_namesz);
        const std::string_view owner(reinterpret_cast<const char*>(name.data()), name.size());
        if (owner == note_owner && note->n_type == metadata_note)
            return part(notes, text_at, note->n_descsz);
        offset = text_at + padded(note->n_descsz);
    }
    return {};
}

}  // namespace

Result<json> code_object_metadata(Bytes bytes) {
    const auto header = at<Elf64_Ehdr>(bytes, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64)
        return no_code_object("this is no 64-bit ELF file");
    for (int i = 0; i < header->e_phnum; ++i) {
        const auto segment =
            at<Elf64_Phdr>(bytes, header->e_phoff + std::uint64_t(i) * sizeof(Elf64_Phdr));
        if (!segment || segment->p_type != PT_NOTE) continue;
        const Bytes found = metadata_in(part(bytes, segment->p_offset, segment->p_filesz));
        if (found.empty()) continue;
        const auto* text = reinterpret_cast<const char*>(found.data());
        json metadata = json::from_msgpack(text, text + found.size(), true, false);
        if (metadata.is_object()) return metadata;
    }
    return no_code_object("it has no metadata note of AMDGPU");
}

Result<Resources> code_object_resources(Bytes bytes, const std::string& entry) {
    const auto metadata = code_object_metadata(bytes);
    if (!metadata) return metadata.error();
    const auto kernels = metadata->find("amdhsa.kernels");
    for (const json& kernel : kernels == metadata->end() ? json::array() : *kernels) {
        if (!kernel.contains(".name") || kernel.at(".name") != entry) continue;
        const auto number = [&](const char* key) {
            const auto found = kernel.find(key);
            return found != kernel.end() && found->is_number_integer() ? found->get<int>() : -1;
        };
        Resources used;
        used.registers = number(".vgpr_count");
        used.accumulation_registers = number(".agpr_count");
        used.scalar_registers = number(".sgpr_count");
        const int spilled = number(".vgpr_spill_count");
        if (spilled >= 0) used.spill_bytes = 4 * spilled;
        used.stack_bytes = number(".private_segment_fixed_size");
        used.shared_static_bytes = number(".group_segment_fixed_size");
        return used;
    }
    return no_code_object(formatted("it has no kernel {}", entry).c_str());
}

}  // namespace attune
