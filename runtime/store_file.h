// The store's file: opening it safely, its schema, and what SQLite's errors mean to a user.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <memory>
#include <string>

#include "generator/status.h"
#include "runtime/store.h"

namespace attune {

/// A connection to a store of the present schema.
Result<std::unique_ptr<SQLite::Database>> open_store_file(const std::string& path,
                                                          Store::Access access);

Error store_error(const std::string& path, const SQLite::Exception& exception);
Error damaged_store(const std::string& path, const std::string& what);

}  // namespace attune
