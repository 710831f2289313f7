#include "tuner/worker_serve.h"

#include <cmath>
#include <limits>
#include <map>

#include "generator/formatted.h"
#include "tuner/bench.h"
#include "tuner/devices.h"
#include "tuner/peak.h"
#include "tuner/worker_json.h"

namespace attune {
namespace {

/// JSON has no NaN and no infinity.
double finite(double value) {
    return std::isfinite(value) ? value : std::numeric_limits<double>::max();
}

class MeasureServer {
public:
    MeasureServer(std::string device_id, CompilerOpener open_compiler)
        : device_id_(std::move(device_id)), open_compiler_(std::move(open_compiler)) {}

    Result<Message> answer(const Message& request, const Stage& stage) {
        const auto what = field<std::string>(request.head, "do");
        if (!what) return what.error();
        if (*what == "open") return open();
        if (*what == "prepare") return prepare(request, stage);
        if (*what == "candidate") return candidate(request, stage);
        if (*what == "final") return final_round(request, stage);
        if (*what == "peak") return peak(request, stage);
        return Error{Code::internal, "a worker was asked to " + *what, ""};
    }

private:
    Result<Message> open() {
        auto device = open_device(device_id_);
        if (!device) return device.error();
        const DeviceInfo& info = (*device)->info();
        auto compiler = open_compiler_(compiler_for(info.target.vendor, info.emulated));
        if (!compiler) return compiler.error();
        device_ = std::move(*device);
        compiler_ = std::move(*compiler);
        return Message{{{"info", device_->info()}}, {}};
    }

    Result<Message> prepare(const Message& request, const Stage& stage) {
        const auto text = field<std::string>(request.head, "problem");
        const auto seed = field<unsigned>(request.head, "seed");
        if (!text || !seed) return text ? seed.error() : text.error();
        const auto problem = Problem::parse(*text);
        if (!problem) return problem.error();
        bench_.reset();
        stage("prepare");
        auto bench = Bench::prepare(*device_, *compiler_, *problem, *seed);
        if (!bench) return bench.error();
        bench_ = std::move(*bench);
        return Message{{{"prepared", *text}}, {}};
    }

    struct Asked {
        Binary binary;
        MeasurePolicy policy;
        double best_us;
        bool timed;
    };

    Result<Message> candidate(const Message& request, const Stage& stage) {
        const auto config = field<std::string>(request.head, "config");
        auto binary = field<Binary>(request.head, "binary");
        const auto policy = field<MeasurePolicy>(request.head, "policy");
        const auto best_us = field<double>(request.head, "best_us");
        const auto timed = field<bool>(request.head, "timed");
        if (!config || !binary || !policy || !best_us || !timed || !bench_)
            return Error{Code::internal, "a candidate came incomplete or before its problem", ""};
        binary->bytes = request.blob;
        Measurement row;
        row.config = *config;
        const auto done = measure(row, {std::move(*binary), *policy, *best_us, *timed}, stage);
        bool device_lost = false;
        if (!done) {
            const bool late = done.error().code == Code::timed_out;
            row.verdict = late ? Verdict::timed_out : Verdict::launch_failed;
            row.reason = done.error().message;
            device_lost = done.error().code == Code::device_error || late;
        }
        return Message{{{"measurement", row}, {"device_lost", device_lost}}, {}};
    }

    Result<void> measure(Measurement& row, const Asked& asked, const Stage& stage) {
        stage("load");
        auto candidate = bench_->load(row.config, asked.binary);
        if (!candidate) return candidate.error();
        row.shared_bytes = int(candidate->launch.shared_bytes);
        auto done = check_and_time(row, *candidate, asked, stage);
        if (done) return bench_->unload(*candidate);
        (void)bench_->unload(*candidate);
        return done;
    }

    Result<void> check_and_time(Measurement& row, const Candidate& candidate, const Asked& asked,
                                const Stage& stage) {
        stage("check");
        const auto check = bench_->check(candidate);
        if (!check) return check.error();
        row.max_error = finite(check->max_error);
        row.error_bar = finite(check->error_bar);
        if (!check->ok) {
            row.verdict = Verdict::wrong;
            row.reason = check->reason;
        }
        if (!check->ok || !asked.timed) return {};
        stage("time");
        auto timing = bench_->time(candidate, asked.policy, asked.best_us);
        if (!timing) return timing.error();
        row.samples_us = std::move(timing->samples_us);
        row.clocks_mhz = std::move(timing->clocks_mhz);
        row.median_us = timing->median_us;
        row.spread = timing->spread;
        if (timing->rejected) {
            row.verdict = Verdict::slow;
            row.reason = formatted("{:.1f} us against {:.1f}", row.median_us, asked.best_us);
        }
        return {};
    }

    Result<Message> final_round(const Message& request, const Stage& stage) {
        const auto policy = field<MeasurePolicy>(request.head, "policy");
        const auto list = field<std::vector<nlohmann::json>>(request.head, "candidates");
        if (!policy || !list || !bench_)
            return Error{Code::internal, "a final round came incomplete", ""};
        stage("load");
        std::vector<Candidate> candidates;
        auto at = request.blob.begin();
        for (const nlohmann::json& entry : *list) {
            const auto config = field<std::string>(entry, "config");
            auto binary = field<Binary>(entry, "binary");
            const auto bytes = field<std::int64_t>(entry, "bytes");
            if (!config || !binary || !bytes || *bytes > request.blob.end() - at)
                return Error{Code::internal, "a finalist came incomplete", ""};
            binary->bytes.assign(at, at + *bytes);
            at += *bytes;
            auto candidate = bench_->load(*config, *binary);
            if (!candidate) return candidate.error();
            candidates.push_back(std::move(*candidate));
        }
        stage("final");
        auto timings = bench_->time_interleaved(candidates, *policy);
        for (const Candidate& candidate : candidates) (void)bench_->unload(candidate);
        if (!timings) return timings.error();
        return Message{{{"timings", *timings}}, {}};
    }

    /// Measured once in this process for each instruction.
    Result<Message> peak(const Message& request, const Stage& stage) {
        const auto text = field<std::string>(request.head, "dtype");
        if (!text) return text.error();
        const auto dtype = parse_dtype(*text);
        if (!dtype) return dtype.error();
        const auto config_text = field<std::string>(request.head, "config");
        if (!config_text) return config_text.error();
        const auto config = Config::parse(*config_text);
        if (!config) return config.error();
        const auto probe = mma_probe(*config, *dtype, device_->info().target);
        if (!probe) return probe.error();
        auto known = mma_tflops_.find(probe->text.call);
        if (known == mma_tflops_.end()) {
            stage("peak");
            const auto peak = measure_mma(*device_, *compiler_, *probe);
            if (!peak) return peak.error();
            known = mma_tflops_.emplace(probe->text.call, peak->rate).first;
        }
        return Message{{{"mma_tflops", known->second}}, {}};
    }

    std::string device_id_;
    CompilerOpener open_compiler_;
    std::map<std::string, double> mma_tflops_;  // by the probe's call
    std::unique_ptr<Device> device_;
    std::unique_ptr<Compiler> compiler_;
    std::unique_ptr<Bench> bench_;  // refers to both
};

}  // namespace

Handler compile_handler(const std::string& name) {
    return compile_handler(open_compiler_here(name));
}

Handler compile_handler(Result<std::unique_ptr<Compiler>> compiler) {
    auto opened = std::make_shared<Result<std::unique_ptr<Compiler>>>(std::move(compiler));
    return [opened](const Message& request, const Stage&) -> Result<Message> {
        if (!*opened) return opened->error();
        Compiler& compiler = ***opened;
        if (request.head.contains("toolchain"))
            return Message{{{"toolchain", compiler.toolchain()},
                            {"opened", compiler.opened()},
                            {"archs", compiler.archs()}},
                           {}};
        const auto source = field<Source>(request.head, "source");
        const auto arch = field<std::string>(request.head, "arch");
        if (!source || !arch) return source ? arch.error() : source.error();
        auto binary = compiler.compile(*source, *arch);
        if (!binary) return binary.error();
        Message answer{{{"binary", *binary}}, {}};
        answer.blob = std::move(binary->bytes);
        return answer;
    };
}

Handler measure_handler(const std::string& device) {
    return measure_handler(device, open_compiler);
}

Handler measure_handler(const std::string& device, CompilerOpener opener) {
    auto server = std::make_shared<MeasureServer>(device, std::move(opener));
    return [server](const Message& request, const Stage& stage) {
        return server->answer(request, stage);
    };
}

int run_worker(std::span<const std::string> arguments) {
    if (arguments.size() != 2) return 2;
    const int socket = take_worker_socket();
    const bool compiles = arguments[0] == "compile";
    serve(socket, compiles ? compile_handler(arguments[1]) : measure_handler(arguments[1]));
}

}  // namespace attune
