#include "tuner/measure.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "generator/formatted.h"
#include "tuner/bench.h"
#include "tuner/device_buffer.h"
#include "tuner/probe.h"

namespace attune {
namespace {

constexpr unsigned long long hold_timeout_ns = 2'000'000'000;
constexpr unsigned long long clock_span_ns = 20'000;

/// Of sorted values; `at` in 0..1.
double quantile(const std::vector<double>& sorted, double at) {
    const double place = at * (sorted.size() - 1);
    const auto low = static_cast<std::size_t>(place);
    const std::size_t high = std::min(low + 1, sorted.size() - 1);
    return sorted[low] + (place - low) * (sorted[high] - sorted[low]);
}

/// Events made once, as many as the longest burst needs.
class Events {
public:
    explicit Events(Device& device) : device_(device) {}
    ~Events() {
        for (const Event event : events_) (void)device_.destroy_event(event);
    }
    Events(const Events&) = delete;

    Result<void> reserve(std::size_t count) {
        while (events_.size() < count) {
            auto event = device_.create_event();
            if (!event) return event.error();
            events_.push_back(*event);
        }
        return {};
    }
    Event operator[](std::size_t i) const { return events_[i]; }

private:
    Device& device_;
    std::vector<Event> events_;
};

/// The emulator: a launch has run when it returns.
class PlainStopwatch final : public Stopwatch {
public:
    explicit PlainStopwatch(Device& device) : device_(device), events_(device) {}

    Result<Burst> burst(int, const std::function<Result<void>(int)>& enqueue) override {
        auto done = events_.reserve(2);
        if (done) done = device_.record(events_[0]);
        if (done) done = enqueue(0);
        if (done) done = device_.record(events_[1]);
        if (!done) return done.error();
        auto elapsed = device_.elapsed_ms(events_[0], events_[1]);
        if (!elapsed) return elapsed.error();
        return Burst{{1e3 * *elapsed}, 0};
    }

private:
    Device& device_;
    Events events_;
};

/// A GPU: hold, event, launch, event, launch, event, ..., clock; then release and read.
class HeldStopwatch final : public Stopwatch {
public:
    HeldStopwatch(Device& device, Probe hold, Probe clock, DeviceBuffer results)
        : device_(device),
          events_(device),
          hold_(std::move(hold)),
          clock_(std::move(clock)),
          results_(std::move(results)) {}

    /// Runs both probes once: a driver that loads code lazily may wait for the queue to drain
    /// before a kernel's first launch, and a held queue does not.
    Result<void> warm_up() {
        set_flag(1);
        auto done = fill_queue(0, {});
        return done ? device_.synchronize() : done;
    }

    Result<Burst> burst(int launches, const std::function<Result<void>(int)>& enqueue) override {
        auto reserved = events_.reserve(launches + 1);
        if (!reserved) return reserved.error();
        set_flag(0);
        auto queued = fill_queue(launches, enqueue);
        set_flag(1);  // also where an enqueue failed: nothing may stay held
        const auto finished = device_.synchronize();
        if (!queued) return queued.error();
        if (!finished) return finished.error();
        return read(launches);
    }

private:
    void set_flag(std::uint32_t value) {
        *device_.host_flag() = value;
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }

    Result<void> fill_queue(int launches, const std::function<Result<void>(int)>& enqueue) {
        const HoldParams hold{reinterpret_cast<const unsigned*>(device_.host_flag_device_ptr()),
                              results_.as<unsigned>() + 2, hold_timeout_ns};
        auto done = hold_.launch(1, hold);
        for (int i = 0; done && i < launches; ++i) {
            if (i == 0) done = device_.record(events_[0]);
            if (done) done = enqueue(i);
            if (done) done = device_.record(events_[i + 1]);
        }
        if (done) done = clock_.launch(1, ClockParams{results_.as<unsigned>(), clock_span_ns});
        return done;
    }

    Result<Burst> read(int launches) {
        auto results = read_back<unsigned>(device_, results_.ptr(), 3);
        if (!results) return results.error();
        if ((*results)[2] != 0)
            return Error{Code::timed_out, "the queue was not filled before its hold ran out",
                         "measure on a less busy machine"};
        Burst burst;
        burst.clock_mhz = 1e3 * (*results)[0] / (*results)[1];
        for (int i = 1; i < launches; ++i) {
            auto elapsed = device_.elapsed_ms(events_[i], events_[i + 1]);
            if (!elapsed) return elapsed.error();
            burst.samples_us.push_back(1e3 * *elapsed);
        }
        return burst;
    }

    Device& device_;
    Events events_;
    Probe hold_;
    Probe clock_;
    DeviceBuffer results_;  // cycles, ns, timed out
};

}  // namespace

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return quantile(values, 0.5);
}

double relative_spread(std::vector<double> values) {
    if (values.size() < 2) return 0;
    std::sort(values.begin(), values.end());
    const double middle = quantile(values, 0.5);
    return middle > 0 ? (quantile(values, 0.75) - quantile(values, 0.25)) / middle : 0;
}

std::optional<std::size_t> slow_block(const std::vector<double>& clocks_mhz, double tolerance) {
    const auto slowest = std::min_element(clocks_mhz.begin(), clocks_mhz.end());
    if (clocks_mhz.size() < 2 || *slowest <= 0) return std::nullopt;
    std::vector<double> others(clocks_mhz.begin(), slowest);
    others.insert(others.end(), slowest + 1, clocks_mhz.end());
    if (*slowest >= (1 - tolerance) * median(others)) return std::nullopt;
    return slowest - clocks_mhz.begin();
}

std::string MeasurePolicy::id() const {
    return formatted("held/n{}.b{}-{}.spread{:g}.gap{:g}.drop{:g}.reject{:g}.l2x{:g}",
                     launches_per_burst, min_bursts, max_bursts, target_spread, idle_gap_ms,
                     drop_factor, reject_factor, cold_l2_factor);
}

Result<std::unique_ptr<Stopwatch>> Stopwatch::create(Device& device, Compiler& compiler) {
    if (device.host_flag() == nullptr)
        return std::unique_ptr<Stopwatch>(std::make_unique<PlainStopwatch>(device));
    auto hold = Probe::load(device, compiler, hold_text());
    if (!hold) return hold.error();
    auto clock = Probe::load(device, compiler, clock_text());
    if (!clock) return clock.error();
    auto results = DeviceBuffer::allocate(device, 3 * sizeof(unsigned));
    if (!results) return results.error();
    auto held = std::make_unique<HeldStopwatch>(device, *std::move(hold), *std::move(clock),
                                                *std::move(results));
    auto warm = held->warm_up();
    if (!warm) return warm.error();
    return std::unique_ptr<Stopwatch>(std::move(held));
}

}  // namespace attune
