#include "tuner/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <utility>

#include "generator/formatted.h"

namespace attune {
namespace {

constexpr off_t log_tail_bytes = 4096;

std::string how_it_ended(int status) {
    if (WIFSIGNALED(status))
        return formatted("SIG{}",
                         sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?");
    return formatted("exit code {}", WEXITSTATUS(status));
}

}  // namespace

Result<Worker> Worker::start(const std::vector<std::string>& command) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return Error{Code::io_error, formatted("no socket pair: {}", std::strerror(errno)), ""};
    const int log = memfd_create("attune-worker-log", MFD_CLOEXEC);
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(pair[1], 0);
        dup2(log, 1);
        dup2(log, 2);
        execvp(argv[0], argv.data());
        _exit(127);
    }
    close(pair[1]);
    Worker worker(pid, pair[0], log);
    if (pid < 0) return Error{Code::io_error, formatted("fork: {}", std::strerror(errno)), ""};
    return worker;
}

Worker::Worker(Worker&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      socket_(std::exchange(other.socket_, -1)),
      log_(std::exchange(other.log_, -1)) {}

Worker& Worker::operator=(Worker&& other) noexcept {
    finish();
    pid_ = std::exchange(other.pid_, -1);
    socket_ = std::exchange(other.socket_, -1);
    log_ = std::exchange(other.log_, -1);
    return *this;
}

Worker::~Worker() {
    finish();
}

void Worker::finish() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
    if (log_ >= 0) close(std::exchange(log_, -1));
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
}

Result<Message> Worker::call(const Message& request, double timeout_s,
                             const std::function<void(const std::string&)>& on_stage) {
    std::string stage;
    if (auto sent = send_message(socket_, request); !sent) return lost(sent.error(), stage);
    for (;;) {
        auto answer = receive_message(socket_, timeout_s);
        if (!answer) return lost(answer.error(), stage);
        if (!answer->head.contains("stage")) return answer;
        stage = answer->head["stage"].is_string() ? answer->head["stage"].get<std::string>() : "";
        if (on_stage) on_stage(stage);
    }
}

Error Worker::lost(const Error& cause, const std::string& stage) {
    const std::string during = stage.empty() ? "" : " during " + stage;
    if (cause.code != Code::io_error) {
        finish();
        return {cause.code, cause.message + during, ""};
    }
    int status = 0;
    // The socket is closed: the process has ended, or does so now.
    close(std::exchange(socket_, -1));
    for (int wait_ms = 0; waitpid(pid_, &status, WNOHANG) == 0; ++wait_ms) {
        if (wait_ms == 1000) kill(pid_, SIGKILL);
        usleep(1000);
    }
    pid_ = -1;
    const std::string line = last_log_line();
    finish();
    return {Code::device_error, how_it_ended(status) + during + (line.empty() ? "" : ": " + line),
            ""};
}

std::string Worker::last_log_line() const {
    const off_t size = lseek(log_, 0, SEEK_END);
    std::string text(std::size_t(std::min(std::max<off_t>(size, 0), log_tail_bytes)), '\0');
    const ssize_t got = pread(log_, text.data(), text.size(), size - off_t(text.size()));
    text.resize(std::size_t(std::max<ssize_t>(0, got)));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
}

void serve(int socket, const Handler& handler) {
    std::thread([socket] {
        pollfd closed{socket, 0, 0};
        while (poll(&closed, 1, -1) < 0) continue;
        _exit(0);
    }).detach();
    for (;;) {
        auto request = receive_message(socket, -1);
        if (!request) _exit(0);
        const Stage stage = [socket](const std::string& name) {
            (void)send_message(socket, {{{"stage", name}}, {}});
        };
        auto answer = handler(*request, stage);
        const Message reply = answer ? std::move(*answer) : Message{error_head(answer.error()), {}};
        if (!send_message(socket, reply)) _exit(0);
    }
}

int take_worker_socket() {
    const int socket = fcntl(0, F_DUPFD_CLOEXEC, 3);
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null, 0);
    close(null);
    return socket;
}

}  // namespace attune
