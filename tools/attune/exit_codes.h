// Exit codes of the command line, one for each kind of failure. Printed by `attune --help`.
#pragma once

#include <string>

#include "generator/status.h"

namespace attune {

constexpr int exit_usage = 2;

struct ExitCode {
    Code code;
    int exit;
    const char* meaning;
};

constexpr ExitCode exit_codes[] = {
    {Code::ok, 0, "done"},
    {Code::internal, 1, "a bug in Attune"},
    {Code::invalid_argument, 3, "the request contradicts itself"},
    {Code::unsupported, 4, "no kernel family covers it"},
    {Code::not_found, 5, "no such device, record, preset or file"},
    {Code::library_missing, 6, "a GPU library or compiler was not found"},
    {Code::compile_failed, 7, "a kernel did not compile"},
    {Code::device_error, 8, "the driver, the emulator or a worker process failed"},
    {Code::out_of_memory, 9, "out of memory"},
    {Code::io_error, 10, "a file could not be read or written"},
    {Code::corrupt, 11, "damaged store or malformed input"},
    {Code::version_mismatch, 12, "written by a newer Attune"},
    {Code::wrong_result, 13, "no kernel gave a right answer"},
    {Code::timed_out, 14, "took too long"},
};

constexpr int exit_code(Code code) {
    for (const ExitCode& row : exit_codes)
        if (row.code == code) return row.exit;
    return 1;
}

/// The table as text, a line per code.
std::string exit_codes_text();

}  // namespace attune
