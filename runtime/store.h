// Store = one SQLite file with the records, binaries and measurements of any number of GPUs.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generator/status.h"
#include "runtime/record.h"

namespace attune {

/// $ATTUNE_STORE, else $XDG_DATA_HOME/attune/store.sqlite, else ~/.local/share/attune/store.sqlite;
/// empty where none of the three variables (the last is $HOME) is set.
std::string default_store_path();

/// WAL where the file system carries it, rollback journal elsewhere; read-only folders are opened
/// read-only. user_version migrations; a store from a newer Attune is version_mismatch and stays
/// untouched. Not thread-safe; processes may share a file, each waits up to 10 s for the others.
class Store {
public:
    enum class Access { read, write };

    /// `write` creates the file and its folders. `read` of a missing file is not_found.
    static Result<Store> open(const std::string& path, Access access);
    Store(Store&&) noexcept;
    Store& operator=(Store&&) noexcept;
    ~Store();

    /// All records of a device, ordered by signature, shape, restriction.
    Result<std::vector<Record>> records(const DeviceKey& device) const;
    Result<std::vector<DeviceKey>> devices() const;
    Result<std::optional<Record>> find(const DeviceKey& device, const Problem& problem,
                                       const std::string& restriction = "") const;

    /// Adds or replaces the record of (device, problem, restriction), its binary and the round's
    /// measurements in one transaction. A lower effort, and estimated after measured evidence,
    /// never overwrite: returns false then (the measurements are still added). `binary` may be
    /// empty where the store has the record's binary_sha256 already, or the record has none.
    /// Binaries that no record uses any more are deleted.
    Result<bool> put(const Record& record, std::span<const std::byte> binary,
                     std::span<const Measurement> measurements);
    Result<std::vector<Measurement>> measurements(const DeviceKey& device, const Problem& problem,
                                                  const std::string& restriction = "") const;

    /// Runs `work`, which may call put, in one transaction: all of it is kept, or none where it
    /// returns an error.
    Result<void> atomically(const std::function<Result<void>()>& work);

    /// Decompressed; corrupt if its SHA-256 is not what it is stored under.
    Result<std::vector<std::byte>> binary(const std::string& sha256) const;

private:
    struct Impl;
    explicit Store(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// One look-up's outcome, as runtime/attune.h documents it.
struct Match {
    const Record* record = nullptr;
    double distance = 0;
};
/// Records without a binary, and those of another restriction, are passed over. Null record if none
/// has the signature.
Match best_match(const std::vector<Record>& records, const Problem& problem,
                 const std::string& restriction = "");
/// As attune_find (runtime/attune.h) defines it.
double bucket_distance(const Shape& asked, const Shape& tuned);

}  // namespace attune
