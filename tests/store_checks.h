// Stores seen from outside: in another process, through SQL, as text.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "generator/formatted.h"
#include "runtime/record_fields.h"
#include "tests/store_fixtures.h"

namespace attune {

/// Runs `work` in a child process; true if it returned true.
inline bool in_child(const std::function<bool()>& work) {
    const pid_t child = fork();
    if (child == 0) _exit(work() ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Every field in one line, for comparing whole records.
struct FieldPrinter {
    std::string text;
    void operator()(const char* name, const std::string& v) { add(name, v); }
    void operator()(const char* name, int v) { add(name, std::to_string(v)); }
    void operator()(const char* name, double v) { add(name, formatted("{}", v)); }
    template <class Enum>
    void operator()(const char* name, Enum v) {
        add(name, name_of(v));
    }
    void add(const char* name, const std::string& v) { text += formatted("{}={} ", name, v); }
};

inline std::string print(const Record& record) {
    FieldPrinter printer;
    for_each_device_field(record.device, printer);
    printer.add("problem", record.problem.text());
    for_each_record_field(record, printer);
    return printer.text;
}

inline void sql(const std::string& path, const std::string& statements) {
    SQLite::Database(path, SQLite::OPEN_READWRITE).exec(statements);
}

inline Error open_error(const std::string& path, Store::Access access = Store::Access::read) {
    const auto store = Store::open(path, access);
    EXPECT_FALSE(store) << "opened";
    return store ? Error{} : store.error();
}

}  // namespace attune
