#include "tests/disassembly.h"

#include <elf.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>
#include <vector>

#include "generator/formatted.h"
#include "tuner/code_object.h"
#include "tuner/hiprtc.h"
#include "tuner/tune.h"
#include "tuner/worker_json.h"
#include "tuner/worker_pool.h"

namespace attune {
namespace {

using Bytes = std::span<const std::byte>;

/// amd_comgr.h, "Disassembly"; every call returns 0 if it succeeds.
struct Comgr {
    struct Info {
        std::uint64_t handle;
    };
    using ReadMemory = std::uint64_t (*)(std::uint64_t from, char* to, std::uint64_t bytes, void*);
    int (*create)(const char* isa, ReadMemory, void (*print)(const char* instruction, void*),
                  void (*annotate)(std::uint64_t address, void*), Info* info) = nullptr;
    int (*disassemble)(Info, std::uint64_t address, void* user, std::uint64_t* bytes) = nullptr;
    int (*destroy)(Info) = nullptr;
};

/// Wait states between the vector unit's write of a scalar register and a memory instruction that
/// reads it, which the compiler keeps outside asm: LLVM, GCNHazardRecognizer; AMD, CDNA 3 ISA
/// guide, "Manually inserted wait states".
constexpr int vector_write_wait_states = 5;

/// Code and what was found in it; comgr's callbacks get it as their user data.
struct Listing {
    Bytes code;
    bool cdna;
    Instructions found{};
    int states = 0;                // wait states so far
    std::map<int, int> written{};  // scalar register: states when the vector unit had written it
};

/// The scalar registers of an operand: {first, count} of "s7", "s[8:11]"; {0, 0} of others.
std::pair<int, int> scalar_registers(const std::string& operand) {
    int first = 0, last = 0;
    if (std::sscanf(operand.c_str(), "s[%d:%d]", &first, &last) == 2)
        return {first, last - first + 1};
    if (std::sscanf(operand.c_str(), "s%d", &first) == 1) return {first, 1};
    return {0, 0};
}

/// Along the text alone: across a jump the time is longer.
bool reads_too_soon(Listing& listing, const std::string& name,
                    const std::vector<std::string>& operands) {
    bool soon = false;
    const bool memory = name.starts_with("buffer_") || name.starts_with("global_");
    for (const std::string& operand : operands) {
        const auto [first, count] = scalar_registers(operand);
        for (int i = first; memory && i < first + count; ++i)
            if (const auto at = listing.written.find(i); at != listing.written.end())
                soon |= listing.states - at->second < vector_write_wait_states;
    }
    listing.states += name == "s_nop" ? 1 + std::stoi(operands.at(0)) : 1;
    if (name.starts_with("v_") && !operands.empty()) {
        const auto [first, count] = scalar_registers(operands[0]);
        for (int i = first; i < first + count; ++i) listing.written[i] = listing.states;
    }
    return soon;
}

std::uint64_t read_code(std::uint64_t from, char* to, std::uint64_t bytes, void* user) {
    const Bytes code = static_cast<Listing*>(user)->code;
    if (from >= code.size()) return 0;
    bytes = std::min<std::uint64_t>(bytes, code.size() - from);
    std::memcpy(to, code.data() + from, bytes);
    return bytes;
}

void note_instruction(const char* instruction, void* user) {
    auto& listing = *static_cast<Listing*>(user);
    std::istringstream words(instruction);
    std::string name, operand;
    std::vector<std::string> operands;
    words >> name;
    while (words >> operand) operands.push_back(operand);
    if (listing.cdna && reads_too_soon(listing, name, operands)) ++listing.found["hazard: " + name];
    if (!operands.empty() && operands.back() == "lds") name += " lds";
    ++listing.found[name];
}

/// The machine code of a function. The object comes from the compiler, so it is well formed.
Result<Bytes> code_of(Bytes object, const std::string& entry) {
    const auto read = [&]<class T>(T& value, std::uint64_t offset) {
        std::memcpy(&value, object.data() + offset, sizeof value);
    };
    Elf64_Ehdr header;
    read(header, 0);
    std::vector<Elf64_Shdr> sections(header.e_shnum);
    for (std::size_t i = 0; i < sections.size(); ++i)
        read(sections[i], header.e_shoff + i * sizeof(Elf64_Shdr));
    for (const Elf64_Shdr& symbols : sections) {
        if (symbols.sh_type != SHT_DYNSYM) continue;
        const auto* names =
            reinterpret_cast<const char*>(object.data()) + sections[symbols.sh_link].sh_offset;
        for (std::uint64_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            read(symbol, symbols.sh_offset + at);
            if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || names + symbol.st_name != entry)
                continue;
            const Elf64_Shdr& text = sections[symbol.st_shndx];
            return object.subspan(text.sh_offset + symbol.st_value - text.sh_addr, symbol.st_size);
        }
    }
    return Error{Code::not_found, "the code object has no function " + entry, ""};
}

Result<Comgr> open_comgr(const hiprtc::Library& hiprtc) {
    Comgr comgr;
    const EntryPoint entries[] = {
        {"amd_comgr_create_disassembly_info", reinterpret_cast<void**>(&comgr.create)},
        {"amd_comgr_disassemble_instruction", reinterpret_cast<void**>(&comgr.disassemble)},
        {"amd_comgr_destroy_disassembly_info", reinterpret_cast<void**>(&comgr.destroy)}};
    if (auto bound = hiprtc.comgr.bind(entries, ""); !bound) return bound.error();
    return comgr;
}

Result<Instructions> disassemble(const Comgr& comgr, Bytes object, const std::string& entry) {
    const auto metadata = code_object_metadata(object);
    if (!metadata) return metadata.error();
    const auto code = code_of(object, entry);
    if (!code) return code.error();
    Comgr::Info info{};
    const std::string isa = metadata->at("amdhsa.target");
    Listing listing{*code, isa.find("gfx9") != std::string::npos};
    if (comgr.create(
            isa.c_str(), read_code, note_instruction, [](std::uint64_t, void*) {}, &info))
        return Error{Code::unsupported, "comgr cannot disassemble " + isa, ""};
    std::uint64_t at = 0, bytes = 0;
    while (at < code->size() && comgr.disassemble(info, at, &listing, &bytes) == 0) at += bytes;
    comgr.destroy(info);
    if (at == code->size()) return listing.found;
    return Error{Code::corrupt, formatted("no instruction at {} of {} bytes", at, code->size()),
                 ""};
}

}  // namespace

Handler disassemble_handler() {
    return [](const Message& request, const Stage&) -> Result<Message> {
        static const auto hiprtc = hiprtc::Library::open();
        if (!hiprtc) return hiprtc.error();
        const auto comgr = open_comgr(*hiprtc);
        if (!comgr) return comgr.error();
        const auto entry = field<std::string>(request.head, "entry");
        if (!entry) return entry.error();
        const auto found = disassemble(*comgr, request.blob, *entry);
        if (!found) return found.error();
        return Message{{{"instructions", *found}}, {}};
    };
}

Result<Disassembler> Disassembler::start(const std::string& worker_child) {
    WorkerOptions options;
    options.command = {worker_child, "worker"};
    auto worker = Worker::start(worker_command(options, "disassemble", "hiprtc"));
    if (!worker) return worker.error();
    return Disassembler(std::move(*worker));
}

Result<Instructions> Disassembler::instructions(Bytes code_object, const std::string& entry) {
    const auto answer = worker_.call({{{"entry", entry}}, {code_object.begin(), code_object.end()}},
                                     /* timeout_s */ 60);
    if (!answer) return answer.error();
    if (const auto done = error_of(*answer); !done) return done.error();
    return field<Instructions>(answer->head, "instructions");
}

int count(const Instructions& instructions, const std::string& prefix) {
    int sum = 0;
    for (const auto& [name, times] : instructions)
        if (name.starts_with(prefix)) sum += times;
    return sum;
}

}  // namespace attune
