// The instructions of a code object, by comgr's disassembler, which knows every arch that comgr
// compiles for. It works where hiprtc does: in a worker process (tests/worker_child.cpp).
#pragma once

#include <map>
#include <span>
#include <string>

#include "tuner/worker.h"

namespace attune {

/// How often each instruction stands in a kernel: {"v_mfma_f32_32x32x8_f16": 64, ...}; loads to
/// shared memory as "buffer_load_dword lds". On CDNA also "hazard: ..." for memory instructions
/// that read a scalar register too soon.
using Instructions = std::map<std::string, int>;

class Disassembler {
public:
    /// `worker_child` is that program's path.
    static Result<Disassembler> start(const std::string& worker_child);
    /// Of the function `entry`.
    Result<Instructions> instructions(std::span<const std::byte> code_object,
                                      const std::string& entry);

private:
    explicit Disassembler(Worker worker) : worker_(std::move(worker)) {}
    Worker worker_;
};

/// The other side: answers {"entry": NAME} and the code object with {"instructions": {...}}.
Handler disassemble_handler();

/// Those whose names start so, together.
int count(const Instructions& instructions, const std::string& prefix);

}  // namespace attune
