// Message = what tuner and worker say to each other: a JSON head and bytes, length-prefixed.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "generator/status.h"

namespace attune {

/// On the wire: "ATW1", u32 bytes of head, u32 bytes of blob, head, blob.
struct Message {
    nlohmann::json head;
    std::vector<std::byte> blob;
};

/// io_error: the other side has closed.
Result<void> send_message(int socket, const Message& message);
/// timed_out; io_error: the other side has closed; corrupt: what came is no message.
/// timeout_s < 0 waits for ever.
Result<Message> receive_message(int socket, double timeout_s);

/// {"error": {...}} and back; ok where the head has no error.
nlohmann::json error_head(const Error& error);
Result<void> error_of(const Message& message);

}  // namespace attune
