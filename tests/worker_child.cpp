// A worker process that misbehaves as told: worker_child MODE[:TEXT] ROLE WHAT.
//   real, worker as `attune worker ROLE WHAT`, which knows one role less: disassemble
//   echo         answers each request with itself, after a stage
//   crash, exit, hang, garbage, half       on every request
//   crash:TEXT, hang:TEXT, exit:TEXT       on requests about a kernel whose text holds TEXT, else
//   real
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/disassembly.h"
#include "tuner/worker_serve.h"

namespace {

using namespace attune;

[[noreturn]] void misbehave(int socket, const std::string& how) {
    std::cerr << "first line\nlast words of " << how << "\n";
    if (how == "crash") {
        signal(SIGSEGV, SIG_DFL);  // sanitizers catch it
        raise(SIGSEGV);
    }
    if (how == "garbage") (void)!write(socket, "this is no message at all", 25);
    if (how == "half") (void)!write(socket, "ATW1", 4);
    if (how == "exit" || how == "half") _exit(3);
    for (;;) pause();
}

std::string subject_of(const Message& request) {
    if (request.head.contains("dtype")) return request.head["dtype"].get<std::string>();
    if (request.head.contains("config")) return request.head["config"].get<std::string>();
    if (request.head.contains("source")) return request.head["source"]["text"].get<std::string>();
    return "";
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const std::string mode = argv[1], role = argv[2], what = argv[3];
    const std::string how = mode.substr(0, mode.find(':'));
    const int socket = take_worker_socket();
    Handler real;
    if (how == "real" || how == "worker" || mode != how) {
        if (role == "compile") real = compile_handler(what);
        if (role == "measure") real = measure_handler(what);
        if (role == "disassemble") real = disassemble_handler();
    }
    serve(socket, [&](const Message& request, const Stage& stage) -> Result<Message> {
        if (how == "echo") {
            stage("thinking");
            return request;
        }
        const bool meant = mode != how && subject_of(request).find(mode.substr(how.size() + 1)) !=
                                              std::string::npos;
        if (!real || meant) {
            stage("misbehaving");
            misbehave(socket, how);
        }
        return real(request, stage);
    });
}
