#include "runtime/store.h"

#include <SQLiteCpp/Savepoint.h>
#include <sqlite3.h>
#include <zstd.h>

#include <cmath>
#include <cstdlib>

#include "generator/emit.h"
#include "generator/formatted.h"
#include "runtime/store_file.h"
#include "runtime/store_rows.h"

namespace attune {
namespace {

constexpr std::size_t max_binary_bytes = std::size_t(256) << 20;  // a kernel has some 100 KiB

Names record_columns() {
    Names names{{"device", "signature", "shape"}};
    const Record any;
    for_each_record_field(any, names);
    return names;
}

Names measurement_columns() {
    Names names{{"device", "signature", "shape", "restriction"}};
    const Measurement any;
    for_each_measurement_field(any, names);
    return names;
}

/// A transaction of its own, or a savepoint where one is under way (Store::atomically).
class WriteScope {
public:
    explicit WriteScope(SQLite::Database& db) {
        if (sqlite3_get_autocommit(db.getHandle()) != 0) {
            transaction_.emplace(db, SQLite::TransactionBehavior::IMMEDIATE);
        } else {
            savepoint_.emplace(db, "put");
        }
    }
    void commit() {
        if (transaction_) transaction_->commit();
        if (savepoint_) savepoint_->release();
    }

private:
    std::optional<SQLite::Transaction> transaction_;
    std::optional<SQLite::Savepoint> savepoint_;
};

/// True where `old` stays: its effort is higher, or it was measured and `fresh` was not.
bool outranks(const Record& old, const Record& fresh) {
    return old.effort > fresh.effort ||
           (old.evidence == Evidence::measured && fresh.evidence == Evidence::estimated);
}

struct FiniteCheck {
    const char* bad = nullptr;
    void operator()(const char* name, double value) {
        if (!std::isfinite(value)) bad = name;
    }
    template <class T>
    void operator()(const char*, const T&) {}
};

Result<void> check(const Record& record, std::span<const std::byte> binary) {
    if (auto valid = validate(record.problem); !valid) return valid;
    FiniteCheck finite;
    for_each_record_field(record, finite);
    if (finite.bad != nullptr)
        return Error{Code::invalid_argument,
                     formatted("the record's {} is not a finite number", finite.bad), ""};
    const std::string_view bytes(reinterpret_cast<const char*>(binary.data()), binary.size());
    if (!binary.empty() && sha256_hex(bytes) != record.binary_sha256)
        return Error{Code::invalid_argument,
                     "the record's binary_sha256 is not that of the binary given with it", ""};
    return {};
}

}  // namespace

struct Store::Impl {
    std::unique_ptr<SQLite::Database> db;
    std::string path;

    /// Runs `work` and turns what it throws into an Error.
    template <class Work>
    auto guarded(Work&& work) const -> decltype(work()) {
        try {
            return work();
        } catch (const SQLite::Exception& exception) {
            return store_error(path, exception);
        } catch (const BadRow& bad) {
            return damaged_store(path, bad.what());
        } catch (const std::bad_alloc&) {
            return Error{Code::out_of_memory, formatted("{}: out of memory", path), ""};
        }
    }

    std::optional<std::int64_t> device_id(const DeviceKey& device) const;
    std::int64_t make_device_id(const DeviceKey& device);
    std::vector<Record> select(const DeviceKey& device, const Problem* problem,
                               const std::string& restriction) const;
    void insert_record(std::int64_t device, const Record& record);
    void insert_measurement(std::int64_t device, const Record& record,
                            const Measurement& measurement);
    void insert_binary(const std::string& sha256, std::span<const std::byte> binary);
    bool has_binary(const std::string& sha256) const;
};

std::optional<std::int64_t> Store::Impl::device_id(const DeviceKey& device) const {
    SQLite::Statement query(*db,
                            "SELECT id FROM devices WHERE vendor = ? AND name = ? AND arch = ? AND "
                            "multiprocessors = ? AND partition = ?");
    for_each_device_field(device, Binder{query});
    if (!query.executeStep()) return std::nullopt;
    return query.getColumn(0).getInt64();
}

std::int64_t Store::Impl::make_device_id(const DeviceKey& device) {
    if (const auto id = device_id(device)) return *id;
    SQLite::Statement insert(
        *db,
        "INSERT INTO devices (vendor, name, arch, multiprocessors, partition) VALUES (?, ?, ?, ?, "
        "?)");
    for_each_device_field(device, Binder{insert});
    insert.exec();
    return db->getLastInsertRowid();
}

/// All records of a device, or those of one problem and restriction.
std::vector<Record> Store::Impl::select(const DeviceKey& device, const Problem* problem,
                                        const std::string& restriction) const {
    std::vector<Record> records;
    const auto id = device_id(device);
    if (!id) return records;
    const char* one = "AND signature = ? AND shape = ? AND restriction = ?";
    SQLite::Statement query(
        *db, formatted("SELECT {} FROM records WHERE device = ? {} ORDER BY signature, shape, "
                       "restriction",
                       record_columns().list(), problem != nullptr ? one : ""));
    query.bind(1, *id);
    if (problem != nullptr) {
        query.bind(2, problem->signature.text());
        query.bind(3, problem->shape.text());
        query.bind(4, restriction);
    }
    while (query.executeStep()) {
        Record& record = records.emplace_back();
        record.device = device;
        const std::string key =
            query.getColumn(1).getString() + "/" + query.getColumn(2).getString();
        const auto parsed = Problem::parse(key);
        if (!parsed || !validate(*parsed)) throw BadRow(formatted("'{}' is no problem", key));
        record.problem = *parsed;
        for_each_record_field(record, Reader{query, 3});
    }
    return records;
}

void Store::Impl::insert_record(std::int64_t device, const Record& record) {
    const Names columns = record_columns();
    SQLite::Statement insert(*db, formatted("INSERT OR REPLACE INTO records ({}) VALUES ({})",
                                            columns.list(), columns.parameters()));
    insert.bind(1, device);
    insert.bind(2, record.problem.signature.text());
    insert.bind(3, record.problem.shape.text());
    for_each_record_field(record, Binder{insert, 4});
    insert.exec();
}

void Store::Impl::insert_measurement(std::int64_t device, const Record& record,
                                     const Measurement& measurement) {
    const Names columns = measurement_columns();
    SQLite::Statement insert(*db, formatted("INSERT INTO measurements ({}) VALUES ({})",
                                            columns.list(), columns.parameters()));
    insert.bind(1, device);
    insert.bind(2, record.problem.signature.text());
    insert.bind(3, record.problem.shape.text());
    insert.bind(4, record.restriction);
    for_each_measurement_field(measurement, Binder{insert, 5});
    insert.exec();
}

bool Store::Impl::has_binary(const std::string& sha256) const {
    SQLite::Statement query(*db, "SELECT 1 FROM binaries WHERE sha256 = ?");
    query.bind(1, sha256);
    return query.executeStep();
}

/// Replaces what is there: the bytes at hand are known to be right, those on disk are not.
void Store::Impl::insert_binary(const std::string& sha256, std::span<const std::byte> binary) {
    std::vector<char> packed(ZSTD_compressBound(binary.size()));
    const std::size_t size =
        ZSTD_compress(packed.data(), packed.size(), binary.data(), binary.size(), 9);
    if (ZSTD_isError(size) != 0) throw std::bad_alloc();  // nothing else can fail in this call
    SQLite::Statement insert(
        *db, "INSERT OR REPLACE INTO binaries (sha256, raw_bytes, zstd) VALUES (?, ?, ?)");
    insert.bind(1, sha256);
    insert.bind(2, static_cast<std::int64_t>(binary.size()));
    insert.bindNoCopy(3, packed.data(), static_cast<int>(size));
    insert.exec();
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

std::string default_store_path() {
    const auto variable = [](const char* name) {
        const char* value = std::getenv(name);
        return std::string(value == nullptr ? "" : value);
    };
    if (const auto path = variable("ATTUNE_STORE"); !path.empty()) return path;
    if (const auto data = variable("XDG_DATA_HOME"); !data.empty())
        return data + "/attune/store.sqlite";
    const auto home = variable("HOME");
    return home.empty() ? "" : home + "/.local/share/attune/store.sqlite";
}

Result<Store> Store::open(const std::string& path, Access access) {
    auto db = open_store_file(path, access);
    if (!db) return db.error();
    return Store(std::make_unique<Impl>(Impl{std::move(*db), path}));
}

Result<std::vector<Record>> Store::records(const DeviceKey& device) const {
    return impl_->guarded(
        [&]() -> Result<std::vector<Record>> { return impl_->select(device, nullptr, ""); });
}

Result<std::vector<DeviceKey>> Store::devices() const {
    return impl_->guarded([&]() -> Result<std::vector<DeviceKey>> {
        std::vector<DeviceKey> devices;
        SQLite::Statement query(
            *impl_->db,
            "SELECT vendor, name, arch, multiprocessors, partition FROM devices "
            "ORDER BY vendor, name, arch, multiprocessors, partition");
        while (query.executeStep()) for_each_device_field(devices.emplace_back(), Reader{query});
        return devices;
    });
}

Result<std::optional<Record>> Store::find(const DeviceKey& device, const Problem& problem,
                                          const std::string& restriction) const {
    return impl_->guarded([&]() -> Result<std::optional<Record>> {
        auto records = impl_->select(device, &problem, restriction);
        if (records.empty()) return std::optional<Record>();
        return std::optional<Record>(std::move(records.front()));
    });
}

Result<bool> Store::put(const Record& record, std::span<const std::byte> binary,
                        std::span<const Measurement> measurements) {
    if (auto good = check(record, binary); !good) return good.error();
    return impl_->guarded([&]() -> Result<bool> {
        WriteScope scope(*impl_->db);
        const std::int64_t device = impl_->make_device_id(record.device);
        for (const Measurement& measurement : measurements)
            impl_->insert_measurement(device, record, measurement);
        const auto old = impl_->select(record.device, &record.problem, record.restriction);
        const bool replaces = old.empty() || !outranks(old.front(), record);
        if (replaces) {
            if (!binary.empty()) {
                impl_->insert_binary(record.binary_sha256, binary);
            } else if (!record.binary_sha256.empty() && !impl_->has_binary(record.binary_sha256)) {
                return Error{Code::invalid_argument,
                             "the record names a binary that neither it brings nor the store has",
                             ""};
            }
            impl_->insert_record(device, record);
            impl_->db->exec(
                "DELETE FROM binaries WHERE sha256 NOT IN (SELECT binary_sha256 FROM records)");
        }
        scope.commit();
        return replaces;
    });
}

Result<void> Store::atomically(const std::function<Result<void>()>& work) {
    return impl_->guarded([&]() -> Result<void> {
        SQLite::Transaction transaction(*impl_->db, SQLite::TransactionBehavior::IMMEDIATE);
        if (auto done = work(); !done) return done;
        transaction.commit();
        return {};
    });
}

Result<std::vector<Measurement>> Store::measurements(const DeviceKey& device,
                                                     const Problem& problem,
                                                     const std::string& restriction) const {
    return impl_->guarded([&]() -> Result<std::vector<Measurement>> {
        std::vector<Measurement> measurements;
        const auto id = impl_->device_id(device);
        if (!id) return measurements;
        SQLite::Statement query(
            *impl_->db,
            formatted("SELECT {} FROM measurements WHERE device = ? AND signature = ? AND shape = "
                      "? AND restriction = ? ORDER BY id",
                      measurement_columns().list()));
        query.bind(1, *id);
        query.bind(2, problem.signature.text());
        query.bind(3, problem.shape.text());
        query.bind(4, restriction);
        while (query.executeStep())
            for_each_measurement_field(measurements.emplace_back(), Reader{query, 4});
        return measurements;
    });
}

Result<std::vector<std::byte>> Store::binary(const std::string& sha256) const {
    return impl_->guarded([&]() -> Result<std::vector<std::byte>> {
        SQLite::Statement query(*impl_->db,
                                "SELECT raw_bytes, zstd FROM binaries WHERE sha256 = ?");
        query.bind(1, sha256);
        if (!query.executeStep())
            return Error{Code::not_found, formatted("the store has no binary {}", sha256),
                         "run attune build"};
        const Error damaged{Code::corrupt,
                            formatted("binary {} in {} is damaged", sha256, impl_->path),
                            "tune its problems again, or run attune build"};
        const auto raw_bytes = query.getColumn(0).getInt64();
        const SQLite::Column packed = query.getColumn(1);
        const auto packed_bytes = static_cast<std::size_t>(packed.getBytes());
        if (raw_bytes < 0 || static_cast<std::size_t>(raw_bytes) > max_binary_bytes) return damaged;
        std::vector<std::byte> bytes(static_cast<std::size_t>(raw_bytes));
        const std::size_t size =
            ZSTD_decompress(bytes.data(), bytes.size(), packed.getBlob(), packed_bytes);
        const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        if (size != bytes.size() || sha256_hex(text) != sha256) return damaged;
        return bytes;
    });
}

}  // namespace attune
