// Errors are values: a code from a short closed list, what happened, and what to do next.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace attune {

/// The closed list of failures. The same list is the C API's attune_status (runtime/attune.h) and,
/// through the table in tools/attune/exit_codes.h, the command line's exit codes.
enum class Code {
    ok = 0,
    invalid_argument,  // the request contradicts itself (heads_q not a multiple of heads_kv, ...)
    unsupported,       // well formed, but no family covers it
    not_found,         // no such device, record, preset, file
    library_missing,   // a GPU library was sought and not found
    compile_failed,
    device_error,  // the driver, or the emulator, reported an error
    out_of_memory,
    io_error,
    corrupt,           // damaged store, malformed JSON, checksum mismatch
    version_mismatch,  // written by a newer Attune
    wrong_result,      // a kernel ran and its answer was wrong
    timed_out,
    internal,  // a bug in Attune
};

/// "invalid_argument", "unsupported", ...
const char* code_name(Code code);

struct Error {
    Code code = Code::internal;
    std::string message;    // one sentence, without a trailing period
    std::string next_step;  // what the reader can do about it; may be empty

    /// "message; next_step"
    std::string text() const { return next_step.empty() ? message : message + "; " + next_step; }
};

/// A value or an Error. Test with operator bool before taking either.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    explicit operator bool() const { return state_.index() == 0; }
    T& operator*() & { return std::get<0>(state_); }
    const T& operator*() const& { return std::get<0>(state_); }
    T&& operator*() && { return std::get<0>(std::move(state_)); }
    T* operator->() { return &std::get<0>(state_); }
    const T* operator->() const { return &std::get<0>(state_); }
    const Error& error() const { return std::get<1>(state_); }

private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : error_(std::move(error)), failed_(true) {}

    explicit operator bool() const { return !failed_; }
    const Error& error() const { return error_; }

private:
    Error error_;
    bool failed_ = false;
};

}  // namespace attune
