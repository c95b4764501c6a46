// Walks the serialised model by field numbers and checks the path of each external tensor.
#include "penstock/graph/external_files.h"

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/graph/external_data.h"
#include "penstock/graph/wire.h"

namespace penstock::graph {
namespace {

namespace fs = std::filesystem;

enum class Message : std::uint8_t {
  kModel,
  kTraining,
  kFunction,
  kGraph,
  kNode,
  kAttribute,
  kSparse,
  kTensor,
  kEntry
};

/// A field that is a message on the way to a tensor's external data.
struct Step {
  Message outer;
  int number;
  Message inner;
};

constexpr std::array kSteps = {
    Step{Message::kModel, onnx::ModelProto::kGraphFieldNumber, Message::kGraph},
    Step{Message::kModel, onnx::ModelProto::kFunctionsFieldNumber, Message::kFunction},
    Step{Message::kModel, onnx::ModelProto::kTrainingInfoFieldNumber, Message::kTraining},
    Step{Message::kTraining, onnx::TrainingInfoProto::kInitializationFieldNumber, Message::kGraph},
    Step{Message::kTraining, onnx::TrainingInfoProto::kAlgorithmFieldNumber, Message::kGraph},
    Step{Message::kFunction, onnx::FunctionProto::kNodeFieldNumber, Message::kNode},
    Step{Message::kFunction, onnx::FunctionProto::kAttributeProtoFieldNumber, Message::kAttribute},
    Step{Message::kGraph, onnx::GraphProto::kNodeFieldNumber, Message::kNode},
    Step{Message::kGraph, onnx::GraphProto::kInitializerFieldNumber, Message::kTensor},
    Step{Message::kGraph, onnx::GraphProto::kSparseInitializerFieldNumber, Message::kSparse},
    Step{Message::kNode, onnx::NodeProto::kAttributeFieldNumber, Message::kAttribute},
    Step{Message::kAttribute, onnx::AttributeProto::kTFieldNumber, Message::kTensor},
    Step{Message::kAttribute, onnx::AttributeProto::kTensorsFieldNumber, Message::kTensor},
    Step{Message::kAttribute, onnx::AttributeProto::kGFieldNumber, Message::kGraph},
    Step{Message::kAttribute, onnx::AttributeProto::kGraphsFieldNumber, Message::kGraph},
    Step{Message::kAttribute, onnx::AttributeProto::kSparseTensorFieldNumber, Message::kSparse},
    Step{Message::kAttribute, onnx::AttributeProto::kSparseTensorsFieldNumber, Message::kSparse},
    Step{Message::kSparse, onnx::SparseTensorProto::kValuesFieldNumber, Message::kTensor},
    Step{Message::kSparse, onnx::SparseTensorProto::kIndicesFieldNumber, Message::kTensor},
    Step{Message::kTensor, onnx::TensorProto::kExternalDataFieldNumber, Message::kEntry},
};

/// Shows each location to a function, which may refuse it.
class Walk {
 public:
  explicit Walk(std::function<Status(const std::string& location)> look) : look_(std::move(look)) {}

  /// False if the bytes are not well formed, or once a location is refused: see refused().
  bool visit(Message message, std::string_view bytes, int depth = 0) {
    constexpr int kDeepest = 200;  // Protobuf reads 100 levels.
    if (depth > kDeepest) return false;
    if (message == Message::kEntry) return visit_entry(bytes);
    return visit_fields(bytes, [&](std::uint32_t number, std::string_view content) {
      for (const auto& [outer, field, inner] : kSteps) {
        if (outer != message || field != static_cast<int>(number)) continue;
        return visit(inner, content, depth + 1);
      }
      return true;
    });
  }

  [[nodiscard]] const Status& refused() const { return refused_; }

 private:
  bool visit_entry(std::string_view bytes) {
    std::string key, value;
    const bool whole = visit_fields(bytes, [&](std::uint32_t number, std::string_view content) {
      if (number == onnx::StringStringEntryProto::kKeyFieldNumber) key = content;
      if (number == onnx::StringStringEntryProto::kValueFieldNumber) value = content;
      return true;
    });
    if (!whole || key != "location") return whole;
    refused_ = look_(value);
    return static_cast<bool>(refused_);
  }

  std::function<Status(const std::string& location)> look_;
  Status refused_;
};

/// Calls look(location, file) for each external tensor's file. \error as check_external_files()
template <typename Look>
Status visit_files(const fs::path& model, Look look) {
  PENSTOCK_TRY(const auto mapped, MappedFile::open(model));
  const auto folder = model.has_parent_path() ? model.parent_path() : fs::path(".");
  Walk walk([&](const std::string& location) -> Status {
    PENSTOCK_TRY(const auto file, resolve_location(folder, location));
    look(location, file);
    return {};
  });
  if (walk.visit(Message::kModel, mapped->bytes())) return {};
  if (!walk.refused()) return walk.refused();
  return make_error(Code::kDataLoss, "not an ONNX model");
}

}  // namespace

Status check_external_files(const fs::path& model) {
  return visit_files(model, [](const std::string& /*location*/, const fs::path& /*file*/) {});
}

Result<std::vector<std::string>> external_files(const fs::path& model) {
  std::set<std::string> locations;
  PENSTOCK_CHECK_OK(visit_files(model, [&](const std::string& location, const fs::path& /*file*/) {
    locations.insert(fs::path(location).lexically_normal().generic_string());
  }));
  return std::vector<std::string>(locations.begin(), locations.end());
}

fs::perms common_permissions(const fs::path& model) {
  std::error_code error;
  auto common = fs::status(model, error).permissions();
  const Status told =
      visit_files(model, [&](const std::string& /*location*/, const fs::path& file) {
        std::error_code unknown;
        common &= fs::status(file, unknown).permissions();
        if (unknown) error = unknown;
      });
  return !told || error ? fs::perms::owner_all : common;
}

}  // namespace penstock::graph
