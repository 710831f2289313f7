// fake_worker ROLE WHAT: as `attune worker`, but every compiler is a FakeCompiler, so that GPUs
// whose driver is a fake are tuned without NVRTC and hiprtc.
#include "tests/fake_code.h"
#include "tuner/worker_serve.h"

int main(int argc, char** argv) {
    using namespace attune;
    if (argc != 3) return 2;
    const auto open = [](const std::string&) -> Result<std::unique_ptr<Compiler>> {
        return std::unique_ptr<Compiler>(std::make_unique<FakeCompiler>());
    };
    const int socket = take_worker_socket();
    const bool compiles = std::string(argv[1]) == "compile";
    serve(socket, compiles ? compile_handler(open("")) : measure_handler(argv[2], open));
}
