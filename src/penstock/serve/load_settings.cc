// Reads the parameters `constant:NAME` and `state:OUT` of a load, and finds their files.
#include "penstock/serve/load_settings.h"

#include <string>
#include <string_view>
#include <utility>

#include "penstock/session/identify.h"

namespace penstock::serve {
namespace {

constexpr std::string_view kArray = ".npy";

/// "constant:sr", as it is shown.
std::string shown(const char* kind, const std::string& name) {
  return concat("load parameter '", kind, ":", name.substr(0, 128), "'");
}

Status check_model(const std::string& parameter, const std::filesystem::path& model) {
  const auto kind = identify(model);
  if (kind == FileKind::kModel) return {};
  return invalid_argument(
      parameter, ": is for a model (.onnx), found ",
      kind == FileKind::kPackage ? "a package, which has its own" : "an application, which says so",
      "; leave it out");
}

/// The file of the request that a value names.
Result<std::string> find_file(const std::string& parameter, const std::string& name,
                              const LoadOptions& options,
                              const std::optional<BroughtVersion>& brought) {
  if (brought && options.files.contains(concat(brought->number, "/", name))) {
    return (brought->folder / name).string();
  }
  if (!brought) {
    return invalid_argument(parameter, ": '", name.substr(0, 128),
                            "' is a file, which has to come with its model: expected "
                            "'file:1/model.onnx' and 'file:1/",
                            name.substr(0, 128), "' in the request, or a value such as 16000");
  }
  return invalid_argument(parameter, ": '", name.substr(0, 128),
                          "' is none of the files that the request brings: expected it as 'file:",
                          brought->number, "/", name.substr(0, 128), "', or a value such as 16000");
}

/// "IN" or "IN:FILE.npy", the last ':' counts.
Result<plan::StateEdge> read_state(const std::string& from, const std::string& text,
                                   const LoadOptions& options,
                                   const std::optional<BroughtVersion>& brought) {
  plan::StateEdge edge{from, text, {}};
  const auto colon = text.rfind(':');
  if (text.ends_with(kArray) && colon != std::string::npos) {
    edge.to.resize(colon);
    PENSTOCK_TRY(edge.initial,
                 find_file(shown("state", from), text.substr(colon + 1), options, brought));
  }
  if (edge.from.empty() || edge.to.empty()) {
    return invalid_argument(shown("state", from),
                            ": expected 'state:OUT' with the value IN or IN:FILE.npy");
  }
  return edge;
}

}  // namespace

Result<app::ModelSettings> read_settings(const LoadOptions& options,
                                         const std::filesystem::path& model,
                                         const std::optional<BroughtVersion>& brought) {
  app::ModelSettings settings;
  for (const auto& [name, value] : options.constants) {
    const auto parameter = shown("constant", name);
    PENSTOCK_CHECK_OK(check_model(parameter, model));
    if (name.empty() || value.empty()) {
      return invalid_argument(parameter,
                              ": expected 'constant:NAME' with a value such as 16000, true or "
                              "[1, 2], or a .npy file of the request");
    }
    auto text = value;
    if (text.ends_with(kArray)) {
      PENSTOCK_TRY(text, find_file(parameter, value, options, brought));
    }
    settings.constants.emplace(name, std::move(text));
  }
  for (const auto& [from, text] : options.states) {
    PENSTOCK_CHECK_OK(check_model(shown("state", from), model));
    PENSTOCK_TRY(auto edge, read_state(from, text, options, brought));
    settings.states.push_back(std::move(edge));
  }
  return settings;
}

}  // namespace penstock::serve
