#include "tuner/worker_message.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace attune {
namespace {

constexpr char magic[4] = {'A', 'T', 'W', '1'};
constexpr std::uint32_t most_bytes = 1u << 30;

struct Prefix {
    char magic[4];
    std::uint32_t head_bytes;
    std::uint32_t blob_bytes;
};

using Clock = std::chrono::steady_clock;

Error closed() {
    return {Code::io_error, "the other side has closed", ""};
}

Result<void> send_all(int socket, const void* data, std::size_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return closed();
        at += sent;
        bytes -= std::size_t(sent);
    }
    return {};
}

/// Waits until `deadline` (null: for ever) for the next byte.
Result<void> wait_readable(int socket, const Clock::time_point* deadline) {
    for (;;) {
        int wait_ms = -1;
        if (deadline != nullptr) {
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
            wait_ms = int(std::max<std::int64_t>(0, left.count()));
        }
        pollfd readable{socket, POLLIN, 0};
        const int ready = poll(&readable, 1, wait_ms);
        if (ready > 0) return {};
        if (ready == 0) return Error{Code::timed_out, "no answer in time", ""};
        if (errno != EINTR) return closed();
    }
}

Result<void> receive_all(int socket, void* data, std::size_t bytes,
                         const Clock::time_point* deadline) {
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
        if (auto readable = wait_readable(socket, deadline); !readable) return readable;
        const ssize_t got = recv(socket, at, bytes, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return closed();
        at += got;
        bytes -= std::size_t(got);
    }
    return {};
}

}  // namespace

Result<void> send_message(int socket, const Message& message) {
    const std::string head =
        message.head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (head.size() > most_bytes || message.blob.size() > most_bytes)
        return Error{Code::invalid_argument, "a message is longer than 1 GiB", ""};
    Prefix prefix{};
    std::memcpy(prefix.magic, magic, sizeof magic);
    prefix.head_bytes = std::uint32_t(head.size());
    prefix.blob_bytes = std::uint32_t(message.blob.size());
    if (auto sent = send_all(socket, &prefix, sizeof prefix); !sent) return sent;
    if (auto sent = send_all(socket, head.data(), head.size()); !sent) return sent;
    return send_all(socket, message.blob.data(), message.blob.size());
}

Result<Message> receive_message(int socket, double timeout_s) {
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(std::max(0.0, timeout_s)));
    const Clock::time_point* deadline = timeout_s < 0 ? nullptr : &until;
    Prefix prefix;
    if (auto got = receive_all(socket, &prefix, sizeof prefix, deadline); !got) return got.error();
    if (std::memcmp(prefix.magic, magic, sizeof magic) != 0 || prefix.head_bytes > most_bytes ||
        prefix.blob_bytes > most_bytes)
        return Error{Code::corrupt, "what came is no message", ""};
    std::string head(prefix.head_bytes, '\0');
    if (auto got = receive_all(socket, head.data(), head.size(), deadline); !got)
        return got.error();
    Message message;
    message.blob.resize(prefix.blob_bytes);
    if (auto got = receive_all(socket, message.blob.data(), message.blob.size(), deadline); !got)
        return got.error();
    message.head = nlohmann::json::parse(head, nullptr, false);
    if (!message.head.is_object())
        return Error{Code::corrupt, "the head of a message is no JSON object", ""};
    return message;
}

nlohmann::json error_head(const Error& error) {
    return {
        {"error",
         {{"code", int(error.code)}, {"message", error.message}, {"next_step", error.next_step}}}};
}

Result<void> error_of(const Message& message) {
    const auto found = message.head.find("error");
    if (found == message.head.end()) return {};
    return Error{Code(found->value("code", int(Code::internal))), found->value("message", ""),
                 found->value("next_step", "")};
}

}  // namespace attune
