// Reading an export that may be hostile.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "generator/status.h"
#include "runtime/record.h"

namespace attune {

inline constexpr const char* exchange_schema = "attune-tuned/1";

struct ExchangeRow {
    std::string name;  // its problem, else "record 7"
    Result<Record> record;
};
struct ExchangeDocument {
    DeviceKey device;
    std::vector<ExchangeRow> rows;
};

/// A bad record is a row with an Error; anything else that is wrong fails the whole: no JSON,
/// deeper than an export is, another schema, no device, no list of records.
Result<ExchangeDocument> read_exchange(std::string_view text);

}  // namespace attune
