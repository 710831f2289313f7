// Exchange = a GPU's records as JSON (schema "attune-tuned/1"): sorted and byte-stable, without
// host names, paths and binaries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "generator/status.h"
#include "runtime/store.h"

namespace attune {

/// What became of one record of an imported file.
struct ImportRow {
    enum class Outcome { added, replaced, kept, refused };
    Outcome outcome = Outcome::refused;
    std::string problem;  // and restriction, if any; "record 7" where it has no readable problem
    std::string reason;   // why the store's own was kept, or the file's refused; else empty
};
const char* name_of(ImportRow::Outcome outcome);

struct ImportReport {
    DeviceKey device;
    std::vector<ImportRow> rows;  // in the file's order

    int count(ImportRow::Outcome outcome) const;
};

/// not_found where the store has no record of the device.
Result<std::string> export_json(const Store& store, const DeviceKey& device);
/// export_json to a file that appears whole or not at all.
Result<void> export_file(const Store& store, const DeviceKey& device, const std::string& path);

/// Merges in one transaction. A record comes in where the store has none for its problem and
/// restriction, or one of lower effort or of the same effort and only estimated. It brings no
/// binary, but keeps that of a record with the same source hash; `attune build` makes the rest. A
/// bad record is a refused row; what makes the whole file unreadable is corrupt, a newer schema
/// version_mismatch.
Result<ImportReport> import_json(Store& store, std::string_view text);
Result<ImportReport> import_file(Store& store, const std::string& path);

}  // namespace attune
