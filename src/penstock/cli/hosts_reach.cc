// Reaches the workers of hosts over gRPC. A library that the program loads when it needs it.

#include "penstock/grpc/client/worker_probe.h"
#include "penstock/site/reach.h"

namespace penstock::cli {
namespace {

constexpr double kSilenceSeconds = 60;  // Compiling, or one run, for longer is a hang.

hosts::WayBothWays both_ways(const grpc::MeasuredWay& way) {
  hosts::WayBothWays made{way.latency_seconds, way.there_bytes_per_second,
                          way.back_bytes_per_second};
  if (way.messages) {
    made.messages = {way.messages->message, way.messages->byte_in, way.messages->byte_out};
  }
  return made;
}

class Reached final : public hosts::Worker {
 public:
  explicit Reached(std::unique_ptr<grpc::WorkerProbe> probe) : probe_(std::move(probe)) {
    const auto& said = probe_->description();
    description_ = {said.host, said.penstock, said.topology, said.memory_left_bytes, {}};
    for (const auto& backend : said.backends) {
      description_.backends.push_back({backend.name, backend.engine_version, backend.unavailable});
    }
  }

  [[nodiscard]] const hosts::Description& description() const override { return description_; }

  Result<hosts::WayBothWays> way() override {
    PENSTOCK_TRY(const auto way, probe_->way());
    return both_ways(way);
  }
  Result<hosts::WayBothWays> way_to(const std::string& address) override {
    PENSTOCK_TRY(const auto way, probe_->way_to(address));
    return both_ways(way);
  }
  Rate moving(bool there, double seconds) override { return probe_->moving(there, seconds); }
  Rate moving_to(const std::string& address, bool there, double seconds) override {
    return probe_->moving_to(address, there, seconds);
  }
  Result<hosts::JobEnd> run(const std::string& job, const std::vector<hosts::JobFile>& files,
                            const std::function<bool()>& interrupted) override {
    std::vector<grpc::WorkerProbe::File> sent;
    for (const auto& [path, file] : files) sent.push_back({path, file});
    PENSTOCK_TRY(auto end, probe_->measure(job, sent, kSilenceSeconds, interrupted));
    return hosts::JobEnd{std::move(end.report), std::move(end.died), std::move(end.why)};
  }

 private:
  std::unique_ptr<grpc::WorkerProbe> probe_;
  hosts::Description description_;
};

Result<std::unique_ptr<hosts::Worker>> reach(const hosts::Host& host,
                                             const std::vector<std::string>& peers) {
  auto connection = host.connection;
  auto options = grpc::read_peer_options(host.address, connection);
  if (!options) return std::move(options).error().within({Where::kPeer, host.name});
  auto probe = grpc::WorkerProbe::connect(*std::move(options), peers);
  if (!probe) return std::move(probe).error().within({Where::kPeer, host.name});
  return std::unique_ptr<hosts::Worker>(std::make_unique<Reached>(*std::move(probe)));
}

}  // namespace
}  // namespace penstock::cli

extern "C" void penstock_make_reach(penstock::hosts::Reach& made) {
  made = penstock::cli::reach;
}
