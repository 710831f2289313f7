#include "tuner/bench_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "generator/formatted.h"
#include "tuner/float16.h"
#include "tuner/reference.h"

namespace attune {
namespace {

constexpr double cpu_multiply_adds = 1 << 26;  // about 0.1 s
constexpr std::size_t least_rows = 4096;
constexpr std::size_t run_rows = 32;
constexpr std::size_t most_runs = 2048;  // each costs a copy of some microseconds per check

/// FNV-1a over 32-bit words.
std::uint64_t mix(std::uint64_t hash, std::uint32_t word) {
    return (hash ^ word) * 0x100000001b3ull;
}

/// Distance of a result from what it must be; NaN is infinitely far, and so is infinity from a
/// number.
double distance(double got, double wanted) {
    if (got == wanted) return 0;
    const double difference = std::fabs(got - wanted);
    return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

/// Rows that attend many keys are small, and an error of theirs hides under the bar of rows that
/// attend few: each row is also held against its own size, with room for what a few values of a
/// small row may do by chance.
constexpr double row_slack = 4;

void add_row(Findings& found, const double* got, const double* wanted, std::size_t columns) {
    double error = 0, size = 0;
    for (std::size_t c = 0; c < columns; ++c) {
        error = std::max(error, distance(got[c], wanted[c]));
        size = std::max(size, std::fabs(wanted[c]));
    }
    found.max_error = std::max(found.max_error, error);
    if (size > 0) found.max_row_error = std::max(found.max_row_error, error / size);
}

bool fits_cpu(const Device& device, const Problem& problem) {
    return device.info().emulated || flops(problem) / 4 <= cpu_multiply_adds;
}

std::vector<double> widened(const std::vector<float>& values) {
    return {values.begin(), values.end()};
}

/// The reference kernel's outputs on the device.
struct DeviceReference {
    DeviceBuffer rows, o, baseline, lse;

    static Result<DeviceReference> allocate(Device& device, std::size_t count, std::size_t d) {
        DeviceReference made;
        const std::pair<DeviceBuffer*, std::size_t> buffers[] = {{&made.rows, 4 * count},
                                                                 {&made.o, 4 * count * d},
                                                                 {&made.baseline, 4 * count * d},
                                                                 {&made.lse, 4 * count}};
        for (const auto& [buffer, bytes] : buffers) {
            auto allocated = DeviceBuffer::allocate(device, bytes);
            if (!allocated) return allocated.error();
            *buffer = *std::move(allocated);
        }
        return made;
    }
};

}  // namespace

std::vector<RowRun> sample_rows(const Shape& shape, unsigned seed) {
    const std::size_t heads = std::size_t(shape.batch) * shape.heads_q;
    const std::size_t length = shape.seqlen_q;
    const std::size_t count = std::min(run_rows, length);
    if (heads * length <= least_rows) return {{0, heads * length}};
    const std::size_t runs = std::min(std::max(heads, (least_rows + count - 1) / count), most_runs);
    std::mt19937_64 engine(seed);
    std::vector<RowRun> out;
    for (std::size_t i = 0; i < runs; ++i) {
        const std::size_t head = i * heads / std::min(runs, heads) % heads;
        const std::size_t last = length - count;
        const std::size_t inside = engine() % (last / 16 + 1) * 16;
        const std::size_t starts[] = {0, last, inside, inside};
        out.push_back({head * length + starts[engine() % 4], count});
    }
    return out;
}

Result<Judge> Judge::make(Device& device, Compiler& compiler, const BenchCase& bench_case,
                          unsigned seed) {
    Judge judge;
    auto made = fits_cpu(device, bench_case.problem())
                    ? judge.use_cpu(device, bench_case)
                    : judge.use_device(device, compiler, bench_case, seed);
    if (!made) return made.error();
    for (const double lse : judge.lse_)
        judge.lse_bar_ =
            std::max(judge.lse_bar_, lse_bar(bench_case.problem().signature.dtype, lse));
    return judge;
}

Result<void> Judge::use_cpu(Device& device, const BenchCase& bench_case) {
    auto inputs = bench_case.read_inputs(device);
    if (!inputs) return inputs.error();
    const Problem& problem = bench_case.problem();
    Reference reference = compute_reference(problem, default_scale(problem.signature), inputs->q,
                                            inputs->k, inputs->v, inputs->scales);
    runs_ = {{0, bench_case.rows()}};
    o_ = std::move(reference.o);
    lse_ = std::move(reference.lse);
    value_dim_ = problem.signature.value_dim();
    set_error_bars(reference.baseline);
    return {};
}

Result<void> Judge::use_device(Device& device, Compiler& compiler, const BenchCase& bench_case,
                               unsigned seed) {
    runs_ = sample_rows(bench_case.problem().shape, seed);
    std::vector<unsigned> rows;
    for (const RowRun& run : runs_)
        for (std::size_t i = 0; i < run.count; ++i)
            rows.push_back(static_cast<unsigned>(run.first + i));
    const Signature& signature = bench_case.problem().signature;
    auto kernel =
        Probe::load(device, compiler, reference_text(signature, device.info().target.wave_size));
    if (!kernel) return kernel.error();
    auto out = DeviceReference::allocate(device, rows.size(), signature.value_dim());
    if (!out) return out.error();
    auto done = device.copy_to_device(out->rows.ptr(), rows.data(), 4 * rows.size());
    ReferenceParams params{bench_case.params(0), out->rows.as<unsigned>(),
                           out->o.as<float>(),   out->baseline.as<float>(),
                           out->lse.as<float>(), static_cast<int>(rows.size())};
    const auto ctas =
        static_cast<std::uint32_t>((rows.size() + reference_warps - 1) / reference_warps);
    if (done) done = kernel->launch(ctas, params);
    if (done) done = device.synchronize();
    if (!done) return done;
    const std::size_t elements = rows.size() * signature.value_dim();
    auto o = read_back<float>(device, out->o.ptr(), elements);
    auto baseline = read_back<float>(device, out->baseline.ptr(), elements);
    auto lse = read_back<float>(device, out->lse.ptr(), rows.size());
    if (!o) return o.error();
    if (!baseline) return baseline.error();
    if (!lse) return lse.error();
    o_ = widened(*o);
    lse_ = widened(*lse);
    value_dim_ = signature.value_dim();
    set_error_bars(widened(*baseline));
    return load_scan(device, compiler);
}

Result<void> Judge::load_scan(Device& device, Compiler& compiler) {
    auto scan = Probe::load(device, compiler, scan_text(device.info().target.wave_size));
    if (!scan) return scan.error();
    scan_.emplace(*std::move(scan));
    auto result = DeviceBuffer::allocate(device, 3 * sizeof(unsigned));
    if (!result) return result.error();
    scan_result_ = *std::move(result);
    return {};
}

void Judge::set_error_bars(const std::vector<double>& baseline) {
    Findings of_baseline;
    for (std::size_t i = 0; i < o_.size(); i += value_dim_)
        add_row(of_baseline, &baseline[i], &o_[i], value_dim_);
    error_bar_ = attune::error_bar(of_baseline.max_error);
    row_error_bar_ = row_slack * of_baseline.max_row_error + 1e-5;
}

Result<Findings> Judge::examine(Device& device, const BenchCase& bench_case) const {
    Findings found;
    auto done = compare_rows(device, bench_case, found);
    if (done && bench_case.problem().signature.lse) done = compare_lse(device, bench_case, found);
    if (done) done = scan(device, bench_case, found);
    if (!done) return done.error();
    return found;
}

Result<void> Judge::compare_rows(Device& device, const BenchCase& bench_case,
                                 Findings& found) const {
    const DType dtype = output_of(bench_case.problem().signature.dtype);
    const std::size_t d = value_dim_;
    const double* wanted = o_.data();
    std::vector<double> row(d);
    for (const RowRun& run : runs_) {
        auto got = read_back<std::uint16_t>(device, bench_case.o().ptr() + 2 * run.first * d,
                                            run.count * d);
        if (!got) return got.error();
        for (auto from = got->begin(); from != got->end(); from += d, wanted += d) {
            std::transform(from, from + d, row.begin(),
                           [&](std::uint16_t bits) { return to_float(bits, dtype); });
            add_row(found, row.data(), wanted, d);
        }
    }
    return {};
}

Result<void> Judge::compare_lse(Device& device, const BenchCase& bench_case,
                                Findings& found) const {
    auto got = read_back<float>(device, bench_case.lse().ptr(), bench_case.rows());
    if (!got) return got.error();
    auto wanted = lse_.begin();
    for (const RowRun& run : runs_)
        for (std::size_t i = 0; i < run.count; ++i)
            found.max_lse_error =
                std::max(found.max_lse_error, distance((*got)[run.first + i], *wanted++));
    for (const float value : *got) {
        found.nans += std::isnan(value);
        found.fingerprint = mix(found.fingerprint, std::bit_cast<std::uint32_t>(value));
    }
    return {};
}

Result<void> Judge::scan(Device& device, const BenchCase& bench_case, Findings& found) const {
    const std::uint16_t infinity = infinity_bits(output_of(bench_case.problem().signature.dtype));
    if (!scan_) {
        auto o = read_back<std::uint16_t>(device, bench_case.o().ptr(), bench_case.elements());
        if (!o) return o.error();
        for (const std::uint16_t bits : *o) {
            found.nans += (bits & 0x7fff) > infinity;
            found.fingerprint = mix(found.fingerprint, bits);
        }
        return {};
    }
    auto done = device.fill(scan_result_.ptr(), 0, scan_result_.bytes());
    const ScanParams params{reinterpret_cast<const void*>(bench_case.o().ptr()),
                            scan_result_.as<unsigned>(),
                            static_cast<long long>(bench_case.elements() / 8), infinity};
    if (done) done = scan_->launch(4 * device.info().target.multiprocessors, params);
    if (!done) return done;
    auto result = read_back<unsigned>(device, scan_result_.ptr(), 3);
    if (!result) return result.error();
    found.nans += (*result)[0];
    found.fingerprint = mix(mix(found.fingerprint, (*result)[1]), (*result)[2]);
    return {};
}

std::string Judge::fault(const Findings& findings) const {
    if (findings.nans > 0)
        return formatted("{} values of the output are NaN or were not written", findings.nans);
    if (!(findings.max_error <= error_bar_))
        return formatted("error {:.3g} is over the bar {:.3g}", findings.max_error, error_bar_);
    if (!(findings.max_row_error <= row_error_bar_))
        return formatted("error {:.3g} of a row's largest value is over the bar {:.3g}",
                         findings.max_row_error, row_error_bar_);
    if (!(findings.max_lse_error <= lse_bar_))
        return formatted("LSE error {:.3g} is over the bar {:.3g}", findings.max_lse_error,
                         lse_bar_);
    return {};
}

}  // namespace attune
