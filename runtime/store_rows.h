// Visitors for runtime/record_fields.h: how a field is bound to a statement, read from a row, named
// in SQL.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "generator/formatted.h"
#include "runtime/record_fields.h"

namespace attune {

/// A row that SQLite read but that makes no sense; does not leave the store.
struct BadRow : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Binds the fields it visits to a statement's parameters, one after the other.
struct Binder {
    SQLite::Statement& statement;
    int next = 1;

    void operator()(const char*, const std::string& value) { statement.bind(next++, value); }
    void operator()(const char*, int value) { statement.bind(next++, value); }
    void operator()(const char*, bool value) { statement.bind(next++, value ? 1 : 0); }
    void operator()(const char*, double value) { statement.bind(next++, value); }
    void operator()(const char*, const std::vector<double>& value) {
        statement.bind(next++, nlohmann::json(value).dump());
    }
    template <class Enum>
    void operator()(const char*, Enum value) {
        statement.bind(next++, name_of(value));
    }
};

/// Reads the fields it visits from a row's columns, one after the other.
struct Reader {
    const SQLite::Statement& row;
    int next = 0;

    void operator()(const char*, std::string& value) { value = row.getColumn(next++).getString(); }
    void operator()(const char* name, int& value) {
        const std::int64_t stored = row.getColumn(next++).getInt64();
        value = static_cast<int>(stored);
        if (value != stored) throw BadRow(formatted("{} is {}", name, stored));
    }
    void operator()(const char*, bool& value) { value = row.getColumn(next++).getInt() != 0; }
    void operator()(const char*, double& value) {
        const SQLite::Column column = row.getColumn(next++);
        value = column.isNull() ? std::numeric_limits<double>::quiet_NaN() : column.getDouble();
    }
    void operator()(const char* name, std::vector<double>& value) {
        const auto array = nlohmann::json::parse(row.getColumn(next++).getString(), nullptr, false);
        if (!array.is_array()) throw BadRow(formatted("{} is not a list", name));
        for (const auto& item : array) {
            if (!item.is_number() && !item.is_null())
                throw BadRow(formatted("{} holds something that is not a number", name));
            value.push_back(item.is_number() ? item.get<double>() : std::nan(""));
        }
    }
    void operator()(const char*, Verdict& value) { value = parsed(parse_verdict); }
    void operator()(const char*, Evidence& value) { value = parsed(parse_evidence); }
    void operator()(const char*, Effort& value) { value = parsed(parse_effort); }

    template <class T>
    T parsed(Result<T> (*parse)(std::string_view)) {
        const auto value = parse(row.getColumn(next++).getString());
        if (!value) throw BadRow(value.error().message);
        return *value;
    }
};

/// The column names of the fields it visits, after those it starts with.
struct Names {
    std::vector<std::string> names;
    template <class T>
    void operator()(const char* name, const T&) {
        names.emplace_back(name);
    }
    std::string list() const { return formatted("{}", fmt::join(names, ", ")); }
    std::string parameters() const {
        return formatted("{}", fmt::join(std::vector<const char*>(names.size(), "?"), ", "));
    }
};

}  // namespace attune
