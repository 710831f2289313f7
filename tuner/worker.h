// Worker = a child process that does what may crash, hang or abort: compiling and measuring.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "generator/status.h"
#include "tuner/worker_message.h"

namespace attune {

class Worker {
public:
    /// Starts `command` with a socket as its standard input; its output and errors go to a file in
    /// memory whose last line explains a crash.
    static Result<Worker> start(const std::vector<std::string>& command);
    Worker(Worker&& other) noexcept;
    Worker& operator=(Worker&& other) noexcept;
    ~Worker();  // kills and reaps

    /// Sends a request and waits for its answer. Messages {"stage": NAME} on the way restart the
    /// timeout and go to `on_stage`. An error that the worker answered is in the message
    /// (error_of). An error here means that the worker is lost, and it is killed: timed_out, or
    /// device_error with the signal it died of.
    Result<Message> call(const Message& request, double timeout_s,
                         const std::function<void(const std::string&)>& on_stage = {});

private:
    Worker(pid_t pid, int socket, int log) : pid_(pid), socket_(socket), log_(log) {}
    void finish();
    Error lost(const Error& cause, const std::string& stage);
    std::string last_log_line() const;

    pid_t pid_ = -1;
    int socket_ = -1;
    int log_ = -1;
};

/// The other side: answers requests on `socket` until it closes, then ends the process at once,
/// busy or not. Nothing is given back on the way: the system takes what a process held, and what a
/// worker did does not depend on who was quicker. `stage` tells the tuner what is being done.
using Stage = std::function<void(const std::string&)>;
using Handler = std::function<Result<Message>(const Message& request, const Stage& stage)>;
[[noreturn]] void serve(int socket, const Handler& handler);

/// Moves the socket off standard input and sends what libraries print to the error file instead.
int take_worker_socket();

}  // namespace attune
