// Reads and writes with nlohmann/json; a field that is missing or wrong is returned as an error.
#include "penstock/cost/peaks_json.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "penstock/device/place.h"

namespace penstock::cost {
namespace {

using Json = nlohmann::ordered_json;

Json with_peaks(Json json, const Peaks& peaks) {
  Json fp32 = Json::array(), reading = Json::array();
  for (const auto& width : peaks.widths) {
    fp32.push_back({{"name", width.name}, {"flops_per_second", width.flops_per_second}});
  }
  for (const auto& level : peaks.levels) {
    reading.push_back({{"name", level.name},
                       {"bytes", level.bytes > 0 ? Json(level.bytes) : Json(nullptr)},
                       {"bytes_per_second", level.bytes_per_second}});
  }
  json["fp32"] = std::move(fp32);
  json["reading"] = std::move(reading);
  return json;
}

}  // namespace

std::string to_json(const Peaks& peaks) {
  return with_peaks(Json::object(), peaks).dump();
}

Result<Peaks> peaks_from_json(std::string_view text) {
  Peaks peaks;
  try {
    const auto json = Json::parse(text);
    for (const auto& width : json.at("fp32")) {
      peaks.widths.push_back({width.at("name"), width.at("flops_per_second")});
    }
    for (const auto& level : json.at("reading")) {
      const auto& bytes = level.at("bytes");
      peaks.levels.push_back({level.at("name"), bytes.is_null() ? 0 : bytes.get<double>(),
                              level.at("bytes_per_second")});
    }
  } catch (const Json::exception& error) {
    return invalid_argument("peaks: ", error.what());
  }
  return peaks;
}

std::string to_json(const std::vector<DevicePeaks>& machine) {
  Json list = Json::array();
  for (const auto& [device, peaks] : machine) {
    list.push_back(with_peaks({{"device", device::to_string(device)}}, peaks));
  }
  return list.dump();
}

}  // namespace penstock::cost
