// The host's C++ compiler, run as a child process: kernels for the emulator.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "generator/formatted.h"
#include "tuner/compiler.h"

extern char** environ;

namespace attune {
namespace {

namespace fs = std::filesystem;

constexpr const char* target_header = "templates/target/emu.h";

/// A private folder, gone with the object.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::error_code ignored;
        std::string name = (fs::temp_directory_path(ignored) / "attune-host-XXXXXX").string();
        made_ = mkdtemp(name.data()) != nullptr;
        path_ = name;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code ignored;
        if (made_) fs::remove_all(path_, ignored);
    }
    bool made() const { return made_; }
    const fs::path& path() const { return path_; }

private:
    fs::path path_;
    bool made_;
};

Result<void> write_file(const fs::path& path, std::string_view text) {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (file) return {};
    return Error{Code::io_error, formatted("cannot write {}", path.string()),
                 "set TMPDIR to a folder with space"};
}

std::string read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs a program with its output in a file; its exit status (128 + signal where one ended it), or
/// -1 if it could not be started.
int run(const std::vector<std::string>& command, const fs::path& output) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    pid_t child = 0;
    const int failed = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) return -1;
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class HostCompiler final : public Compiler {
public:
    HostCompiler(std::string program, std::string toolchain,
                 const std::vector<TemplateFile>& templates)
        : program_(std::move(program)), toolchain_(std::move(toolchain)), templates_(templates) {}

    std::string toolchain() const override { return toolchain_; }
    Result<Binary> compile(const Source& source, const std::string& arch) override;

private:
    Result<void> write_sources(const fs::path& folder, const Source& source) const;

    std::string program_;
    std::string toolchain_;
    std::vector<TemplateFile> templates_;
};

Result<void> HostCompiler::write_sources(const fs::path& folder, const Source& source) const {
    for (const TemplateFile& file : templates_) {
        if (const Result<void> done = write_file(folder / file.name, file.text); !done) return done;
        if (file.name != target_header) continue;
        if (const Result<void> done = write_file(folder / "target.h", file.text); !done)
            return done;
    }
    return write_file(folder / "kernel.cpp", source.text);
}

/// Every arch is emulated, so `arch` does not matter. -O0: what a kernel does is calls into the
/// emulator, so optimising it costs more time than it saves. No contraction: a product and a sum
/// are rounded as the kernel writes them.
Result<Binary> HostCompiler::compile(const Source& source, const std::string&) {
    const auto start = std::chrono::steady_clock::now();
    const TemporaryFolder folder;
    if (!folder.made())
        return Error{Code::io_error,
                     formatted("cannot make a temporary folder: {}", std::strerror(errno)),
                     "set TMPDIR to a writable folder"};
    if (const Result<void> written = write_sources(folder.path(), source); !written)
        return written.error();
    const fs::path object = folder.path() / "kernel.so", log = folder.path() / "log";
    const int status = run(
        {program_, "-std=c++20", "-O0", "-shared", "-fPIC", "-fvisibility=hidden",
         "-fno-exceptions", "-fno-rtti", "-ffp-contract=off", "-w", "-I", folder.path().string(),
         (folder.path() / "kernel.cpp").string(), "-o", object.string()},
        log);
    Binary binary;
    binary.log = read_file(log);
    if (status != 0)
        return Error{Code::compile_failed,
                     formatted("{} ended with status {}: {}", program_, status, binary.log),
                     "read the log; ATTUNE_CXX picks another compiler"};
    const std::string bytes = read_file(object);
    const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    binary.bytes.assign(first, first + bytes.size());
    binary.entry = source.entry;
    binary.toolchain = toolchain_;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    binary.compile_ms = took.count();
    return binary;
}

/// "g++ 12.2.0"; empty if the program does not run.
std::string version_of(const std::string& program) {
    const TemporaryFolder folder;
    const fs::path log = folder.path() / "log";
    if (!folder.made() || run({program, "-dumpfullversion", "-dumpversion"}, log) != 0) return "";
    const std::string text = read_file(log);
    return formatted("{} {}", fs::path(program).filename().string(),
                     text.substr(0, text.find('\n')));
}

}  // namespace

Result<std::unique_ptr<Compiler>> open_host_compiler(const std::vector<TemplateFile>& templates) {
    std::vector<std::string> candidates{"c++", "g++", "clang++"};
    if (const char* chosen = std::getenv("ATTUNE_CXX")) candidates = {chosen};
    std::string sought;
    for (const std::string& program : candidates) {
        std::string version = version_of(program);
        if (!version.empty())
            return std::unique_ptr<Compiler>(
                std::make_unique<HostCompiler>(program, std::move(version), templates));
        sought += (sought.empty() ? "" : ", ") + program;
    }
    return Error{Code::library_missing,
                 formatted("no C++ compiler for the emulator's kernels: sought {}", sought),
                 "install g++, or set ATTUNE_CXX"};
}

}  // namespace attune
