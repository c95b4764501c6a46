// Models that servers have, by name.
#include "penstock/base/address.h"
#include "penstock/device/address.h"
#include "penstock/plan/plan.h"

namespace penstock::plan {
namespace {

constexpr std::string_view kServed = "oip://";

}  // namespace

std::string to_string(const ServedModel& model) {
  return concat(kServed, model.address, "/", model.name, model.version.empty() ? "" : ":",
                model.version);
}

bool is_served_model(std::string_view text) {
  return text.starts_with(kServed);
}

Result<ServedModel> parse_served_model(std::string_view text) {
  const auto refuse = [&](const auto&... why) {
    return invalid_argument(
        "model '", text, "': ", why...,
        "; write oip://host:port/name or oip://host:port/name:version, or oip://host:port/ "
        "for the only model of the server");
  };
  if (!is_served_model(text)) return refuse("expected a server's");
  const auto place = text.substr(kServed.size());
  // A socket's file has slashes of its own, the name has none.
  const bool is_file = socket_file(place).has_value();
  const auto slash = is_file ? place.rfind('/') : place.find('/');
  ServedModel model;
  model.address = place.substr(0, slash);
  if (is_file && (slash == place.npos || !device::is_server(model.address))) {
    return invalid_argument("model '", text,
                            "': expected the model's name behind the socket's file; write "
                            "oip://unix:PATH/name, or oip://unix:PATH/ for the only model there");
  }
  if (!device::is_server(model.address)) {
    return refuse("expected host:port, found '", model.address, "'");
  }
  if (slash == place.npos) return refuse("expected the model's name behind the server");
  const auto name = place.substr(slash + 1);
  if (name.empty()) return model;  // The only one that it has.
  const auto colon = name.rfind(':');
  model.name = name.substr(0, colon);
  if (colon != name.npos) model.version = name.substr(colon + 1);
  if (model.name.empty() || model.name.find('/') != model.name.npos ||
      (colon != name.npos && model.version.empty())) {
    return refuse("expected a name, and a version or none, found '", name, "'");
  }
  return model;
}

}  // namespace penstock::plan
