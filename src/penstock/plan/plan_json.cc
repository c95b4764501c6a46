// A function that writes and one that reads for each part of a plan, and the check of the version.
#include "penstock/plan/plan_json.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "penstock/base/hexadecimal.h"
#include "penstock/plan/json_reader.h"

namespace penstock::plan {
namespace {

using Written = nlohmann::ordered_json;  // Its fields come in the order of the code.

constexpr std::string_view kVersionField = "penstock_plan";
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

// --- Types -------------------------------------------------------------------------------------

/// 3 (fixed), "batch" (open), null (open, without a name), or an object for what else there is.
Written dim_to_json(const Dim& dim) {
  const bool bare = dim.bound == Dim::kOpen && (dim.fixed() || dim.usual == Dim::kOpen);
  if (dim.fixed() && bare && dim.symbol.empty()) return dim.size;
  if (!dim.fixed() && bare) return dim.symbol.empty() ? Written() : Written(dim.symbol);
  Written json = Written::object();
  if (dim.fixed()) json["size"] = dim.size;
  if (!dim.symbol.empty()) json["symbol"] = dim.symbol;
  if (dim.bound != Dim::kOpen) json["bound"] = dim.bound;
  if (!dim.fixed() && dim.usual != Dim::kOpen) json["usual"] = dim.usual;
  return json;
}

Dim read_dim(const Field& field) {
  const auto& json = field.json();
  Dim dim;
  if (json.is_null()) return dim;
  if (json.is_string()) {
    dim.symbol = field.string();
  } else if (json.is_object()) {
    field.only({"size", "symbol", "bound", "usual"});
    if (const auto size = field.find("size")) dim.size = size->integer(0, kAny);
    if (const auto symbol = field.find("symbol")) dim.symbol = symbol->string();
    if (const auto bound = field.find("bound")) dim.bound = bound->integer(0, kAny);
    if (const auto usual = field.find("usual")) dim.usual = usual->integer(0, kAny);
  } else if (json.is_number_integer()) {
    dim.size = field.integer(0, kAny);
  } else {
    field.fail("a size, a name, null, or an object with size, symbol, bound, usual");
  }
  return dim;
}

void put_type(Written& json, const Type& type) {
  if (type.kind == Type::Kind::kUnknown) return;
  if (type.kind == Type::Kind::kOther) {
    json["onnx_type"] = to_hexadecimal(type.onnx);
    return;
  }
  json["dtype"] = to_string(type.dtype);
  if (!type.ranked) return;
  json["shape"] = Written::array();
  for (const auto& dim : type.dims) json["shape"].push_back(dim_to_json(dim));
}

DType read_dtype(const Field& field) {
  const auto text = field.string();
  if (text == to_string(DType::kUndefined)) return DType::kUndefined;
  const auto dtype = parse_dtype(text);
  if (!dtype) field.fail("an element type such as 'f32' or 'i64'");
  return dtype.value_or(DType::kUndefined);
}

Type read_type(const Field& field) {
  Type type;
  if (const auto other = field.find("onnx_type")) {
    if (field.find("dtype") || field.find("shape")) {
      field.fail("either 'onnx_type' or 'dtype' and 'shape'");
    }
    const auto bytes = from_hexadecimal(other->string());
    if (!bytes) other->fail("pairs of hexadecimal digits");
    type.kind = Type::Kind::kOther;
    type.onnx = bytes.value_or("");
    return type;
  }
  const auto shape = field.find("shape");
  const auto dtype = field.find("dtype");
  if (!dtype) {
    if (shape) field.fail_missing("dtype");
    return type;
  }
  type.kind = Type::Kind::kTensor;
  type.dtype = read_dtype(*dtype);
  type.ranked = shape.has_value();
  if (shape) shape->each([&](const Field& dim) { type.dims.push_back(read_dim(dim)); });
  return type;
}

// --- Writing -----------------------------------------------------------------------------------

Written tensor_to_json(const TensorInfo& info) {
  Written json = {{"name", info.name}};
  put_type(json, info.type);
  if (info.range) json["values"] = {info.range->least, info.range->most};
  if (!info.words.empty()) json["words"] = info.words;
  return json;
}

Written tensors_to_json(const std::vector<TensorInfo>& list) {
  Written json = Written::array();
  for (const auto& info : list) json.push_back(tensor_to_json(info));
  return json;
}

Written map_to_json(const std::map<std::string, std::string>& map) {
  Written json = Written::object();
  for (const auto& [key, value] : map) json[key] = value;
  return json;
}

Written parameter_to_json(const Parameter& parameter) {
  Written json = tensor_to_json({parameter.name, parameter.type});
  json["file"] = parameter.file;
  return json;
}

Written bound_to_json(const BoundInput& input) {
  Written json = tensor_to_json({input.name, input.type});
  if (!input.value.empty()) json["value"] = input.value;
  if (!input.file.empty()) json["file"] = input.file;
  if (input.position != SIZE_MAX) json["position"] = input.position;
  return json;
}

Written batched_to_json(const std::vector<BatchedModel>& batched) {
  Written json = Written::array();
  for (const auto& [frames, model] : batched)
    json.push_back({{"frames", frames}, {"model", model}});
  return json;
}

Written partition_to_json(const Partition& partition) {
  Written json;
  json["backend"] = partition.backend;
  json["model"] = partition.served ? to_string(*partition.served) : partition.model;
  if (!partition.batched.empty()) json["batched"] = batched_to_json(partition.batched);
  json["inputs"] = partition.inputs;
  json["outputs"] = partition.outputs;
  json["options"] = map_to_json(partition.options);
  if (!partition.ports.empty()) json["ports"] = map_to_json(partition.ports);
  if (partition.idempotent) json["idempotent"] = true;
  return json;
}

Written devices_to_json(const std::vector<device::Device>& devices) {
  Written json = Written::array();
  for (const auto& device : devices) json.push_back(device::to_string(device));
  return json;
}

/// How a stage's calls are made; written only where it says something.
void put_calls(Written& json, const Stage& stage) {
  if (stage.lanes != 0) json["lanes"] = stage.lanes;
  if (stage.max_left_behind != 0) json["max_left_behind"] = stage.max_left_behind;
  if (!stage.host_cpus.empty()) json["host_cpus"] = stage.host_cpus;
  if (stage.batch != Batch()) {
    json["batch"] = {{"frames", stage.batch.frames}, {"wait_us", stage.batch.wait.count()}};
  }
  if (!stage.standby.empty()) json["standby"] = devices_to_json(stage.standby);
  if (stage.predicted_seconds != 0) json["predicted_seconds"] = stage.predicted_seconds;
}

Written stage_to_json(const Stage& stage) {
  Written json;
  json["name"] = stage.name;
  json["devices"] = devices_to_json(stage.devices);
  json["pinned"] = stage.pinned;
  json["flush_denormals"] = stage.flush_denormals;
  // Written only where they say something: a plan without functions reads as it always did.
  if (stage.stateful) json["stateful"] = true;
  if (!stage.each.empty()) json["each"] = stage.each;
  if (stage.max_run) json["max_run_us"] = stage.max_run->count();
  put_calls(json, stage);
  json["inputs"] = stage.inputs;
  json["outputs"] = stage.outputs;
  json["parameters"] = stage.parameters;
  json["partitions"] = Written::array();
  for (const auto& partition : stage.partitions) {
    json["partitions"].push_back(partition_to_json(partition));
  }
  json["nodes"] = stage.nodes;
  if (!stage.draws.empty()) json["draws"] = stage.draws;
  return json;
}

std::string end_to_text(const Plan& plan, int end) {
  if (end == kPipelineInput) return "input";
  if (end == kPipelineOutput) return "output";
  const auto position = static_cast<std::size_t>(end);
  return end >= 0 && position < plan.stages.size() ? plan.stages[position].name
                                                   : concat("stage number ", end);
}

Written edge_to_json(const Plan& plan, const Edge& edge) {
  Written json;
  json["from"] = end_to_text(plan, edge.from);
  json["to"] = Written::array();
  for (const int to : edge.to) json["to"].push_back(end_to_text(plan, to));
  json["tensors"] = edge.tensors;
  json["capacity"] = edge.capacity;
  json["policy"] = to_string(edge.policy);
  return json;
}

Written state_to_json(const StateEdge& state) {
  Written json = {{"from", state.from}, {"to", state.to}};
  if (!state.initial.empty()) json["initial"] = state.initial;
  return json;
}

Written prediction_to_json(const Prediction& prediction) {
  return {{"period_seconds", prediction.period_seconds},
          {"latency_seconds", prediction.latency_seconds},
          {"lower_bound_seconds", prediction.lower_bound_seconds}};
}

Written origin_to_json(const Origin& origin) {
  return {{"penstock", origin.penstock},
          {"cpu", origin.cpu},
          {"engines", map_to_json(origin.engines)},
          {"model_file", origin.model_file},
          {"model_sha256", origin.model_sha256}};
}

/// Indented by two; a list of plain values that fits the line stays on it, so shapes read well.
void print(const Written& json, std::size_t indent, std::string& text) {
  constexpr std::size_t kLine = 100;
  const auto flat = [&] { return json.dump(-1, ' ', false, Written::error_handler_t::replace); };
  if (!json.is_structured() || json.empty()) {
    text += flat();
    return;
  }
  const bool plain = std::ranges::none_of(json, [](const Written& j) { return j.is_structured(); });
  if (json.is_array() && plain && json.size() < kLine) {
    const auto line = flat();
    if (line.size() + indent < kLine) {
      text += line;
      return;
    }
  }
  const std::string margin(indent + 2, ' ');
  text += json.is_array() ? "[" : "{";
  bool first = true;
  for (const auto& [key, value] : json.items()) {
    text += (std::exchange(first, false) ? "\n" : ",\n") + margin;
    if (json.is_object()) {
      text += Written(key).dump(-1, ' ', false, Written::error_handler_t::replace) + ": ";
    }
    print(value, indent + 2, text);
  }
  text += "\n" + std::string(indent, ' ') + (json.is_array() ? "]" : "}");
}

// --- Reading -----------------------------------------------------------------------------------

std::vector<std::string> read_strings(const Field& field) {
  std::vector<std::string> list;
  field.each([&](const Field& item) { list.push_back(item.string()); });
  return list;
}

std::map<std::string, std::string> read_map(const Field& field) {
  std::map<std::string, std::string> map;
  field.each_named([&](const std::string& name, const Field& item) { map[name] = item.string(); });
  return map;
}

/// Reads a list of objects, if the field is there.
template <typename T, typename Read>
void read_list(const std::optional<Field>& field, std::vector<T>& list, Read read) {
  if (field) field->each([&](const Field& item) { list.push_back(read(item)); });
}

WholeRange read_range(const Field& field) {
  constexpr std::int64_t kFarthest = 1LL << 52U;  // A double holds them all.
  std::vector<std::int64_t> ends;
  field.each([&](const Field& end) { ends.push_back(end.integer(-kFarthest, kFarthest)); });
  if (ends.size() == 2 && ends[0] <= ends[1]) return {ends[0], ends[1]};
  field.fail("the least and the largest number");
  return {};
}

TensorInfo read_tensor(const Field& field) {
  field.only({"name", "dtype", "shape", "onnx_type", "values", "words"});
  TensorInfo info{field.at("name").string(), read_type(field)};
  if (const auto values = field.find("values")) info.range = read_range(*values);
  if (const auto words = field.find("words")) {
    words->each([&](const Field& word) { info.words.push_back(word.string()); });
  }
  return info;
}

Parameter read_parameter(const Field& field) {
  field.only({"name", "dtype", "shape", "onnx_type", "file"});
  return {field.at("name").string(), read_type(field), field.at("file").string()};
}

BoundInput read_bound(const Field& field) {
  field.only({"name", "dtype", "shape", "value", "file", "position"});
  BoundInput input{field.at("name").string(), read_type(field), {}, {}};
  if (const auto value = field.find("value")) input.value = value->string();
  if (const auto file = field.find("file")) input.file = file->string();
  if (const auto position = field.find("position")) {
    input.position = static_cast<std::size_t>(position->integer(0, kAny));
  }
  return input;
}

device::Device read_device(const Field& field) {
  auto device = device::parse_device(field.string());
  if (device) return *std::move(device);
  field.fail("a device such as 'cpu:0'");
  return {};
}

BatchedModel read_batched(const Field& field) {
  field.only({"frames", "model"});
  return {static_cast<int>(field.at("frames").integer(2, kMaxInt)), field.at("model").string()};
}

/// A path, or the address of a server and a model's name.
void read_model(const Field& field, Partition& partition) {
  auto text = field.string();
  if (!is_served_model(text)) {
    partition.model = std::move(text);
  } else if (auto served = parse_served_model(text)) {
    partition.served = *std::move(served);
  } else {
    field.fail("a model such as 'oip://host:port/name'");
  }
}

Partition read_partition(const Field& field) {
  field.only(
      {"backend", "model", "batched", "inputs", "outputs", "options", "ports", "idempotent"});
  Partition partition;
  partition.backend = field.at("backend").string();
  read_model(field.at("model"), partition);
  read_list(field.find("batched"), partition.batched, read_batched);
  partition.inputs = read_strings(field.at("inputs"));
  partition.outputs = read_strings(field.at("outputs"));
  if (const auto options = field.find("options")) partition.options = read_map(*options);
  if (const auto ports = field.find("ports")) partition.ports = read_map(*ports);
  if (const auto idempotent = field.find("idempotent")) {
    partition.idempotent = idempotent->boolean();
  }
  return partition;
}

/// The integer of that name, if it is there.
void read_int(const Field& field, std::string_view name, std::int64_t lowest, int& value) {
  if (const auto found = field.find(name)) {
    value = static_cast<int>(found->integer(lowest, kMaxInt));
  }
}

Batch read_batch(const Field& field) {
  field.only({"frames", "wait_us"});
  Batch batch;
  read_int(field, "frames", 1, batch.frames);
  if (const auto wait = field.find("wait_us")) {
    batch.wait = std::chrono::microseconds(wait->integer(0, kAny));
  }
  return batch;
}

Streams read_streams(const Field& field) {
  field.only({"most", "evict"});
  Streams streams;
  read_int(field, "most", 1, streams.most);
  if (const auto evict = field.find("evict")) streams.evict = evict->boolean();
  return streams;
}

void read_calls(const Field& field, Stage& stage) {
  read_int(field, "lanes", 0, stage.lanes);
  read_int(field, "max_left_behind", 0, stage.max_left_behind);
  read_list(field.find("host_cpus"), stage.host_cpus,
            [](const Field& cpu) { return static_cast<int>(cpu.integer(0, kMaxInt)); });
  if (const auto batch = field.find("batch")) stage.batch = read_batch(*batch);
  read_list(field.find("standby"), stage.standby, read_device);
  if (const auto seconds = field.find("predicted_seconds")) {
    stage.predicted_seconds = seconds->number();
  }
}

Stage read_stage(const Field& field) {
  field.only({"name", "devices", "pinned", "flush_denormals", "stateful", "each", "max_run_us",
              "lanes", "max_left_behind", "host_cpus", "batch", "standby", "predicted_seconds",
              "inputs", "outputs", "parameters", "partitions", "nodes", "draws"});
  Stage stage;
  stage.name = field.at("name").string();
  read_list(field.at("devices"), stage.devices, read_device);
  if (const auto pinned = field.find("pinned")) stage.pinned = pinned->boolean();
  if (const auto flush = field.find("flush_denormals")) stage.flush_denormals = flush->boolean();
  if (const auto stateful = field.find("stateful")) stage.stateful = stateful->boolean();
  if (const auto each = field.find("each")) stage.each = read_strings(*each);
  if (const auto max_run = field.find("max_run_us")) {
    stage.max_run = std::chrono::microseconds(max_run->integer(1, kAny));
  }
  read_calls(field, stage);
  stage.inputs = read_strings(field.at("inputs"));
  stage.outputs = read_strings(field.at("outputs"));
  if (const auto parameters = field.find("parameters")) {
    stage.parameters = read_strings(*parameters);
  }
  read_list(field.at("partitions"), stage.partitions, read_partition);
  if (const auto nodes = field.find("nodes")) stage.nodes = read_strings(*nodes);
  if (const auto draws = field.find("draws")) stage.draws = read_strings(*draws);
  return stage;
}

int read_end(const Plan& plan, const Field& field, bool beginning) {
  const auto text = field.string();
  if (text == (beginning ? "input" : "output")) return beginning ? kPipelineInput : kPipelineOutput;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    if (plan.stages[i].name == text) return static_cast<int>(i);
  }
  field.fail(beginning ? "'input' or the name of a stage" : "'output' or the name of a stage");
  return kPipelineInput;
}

Edge read_edge(const Plan& plan, const Field& field) {
  field.only({"from", "to", "tensors", "capacity", "policy"});
  Edge edge;
  edge.from = read_end(plan, field.at("from"), true);
  field.at("to").each([&](const Field& to) { edge.to.push_back(read_end(plan, to, false)); });
  edge.tensors = read_strings(field.at("tensors"));
  if (const auto capacity = field.find("capacity")) {
    edge.capacity = static_cast<int>(capacity->integer(0, kMaxInt));
  }
  if (const auto text = field.find("policy")) {
    const auto policy = parse_full_policy(text->string());
    if (!policy) text->fail("one of block, drop_oldest, drop_newest, latest, error");
    edge.policy = policy.value_or(FullPolicy::kBlock);
  }
  return edge;
}

StateEdge read_state(const Field& field) {
  field.only({"from", "to", "initial"});
  StateEdge state{field.at("from").string(), field.at("to").string(), {}};
  if (const auto initial = field.find("initial")) state.initial = initial->string();
  return state;
}

OnError read_on_error(const Field& field) {
  const auto text = field.string();
  if (text != "deliver" && text != "stop") field.fail("'deliver' or 'stop'");
  return text == "stop" ? OnError::kStop : OnError::kDeliver;
}

Prediction read_prediction(const Field& field) {
  field.only({"period_seconds", "latency_seconds", "lower_bound_seconds"});
  const auto seconds = [&](std::string_view name) {
    const auto found = field.find(name);
    return found ? found->number() : 0.0;
  };
  return {seconds("period_seconds"), seconds("latency_seconds"), seconds("lower_bound_seconds")};
}

Origin read_origin(const Field& field) {
  field.only({"penstock", "cpu", "engines", "model_file", "model_sha256"});
  Origin origin;
  if (const auto penstock = field.find("penstock")) origin.penstock = penstock->string();
  if (const auto cpu = field.find("cpu")) origin.cpu = cpu->string();
  if (const auto engines = field.find("engines")) origin.engines = read_map(*engines);
  if (const auto file = field.find("model_file")) origin.model_file = file->string();
  if (const auto hash = field.find("model_sha256")) origin.model_sha256 = hash->string();
  return origin;
}

void read_settings(const Field& field, Plan& plan) {
  if (const auto on_error = field.find("on_error")) plan.on_error = read_on_error(*on_error);
  if (const auto max_age = field.find("max_age_us")) {
    plan.max_age = std::chrono::microseconds(max_age->integer(1, kAny));
  }
  if (const auto custom_ops = field.find("custom_ops")) plan.custom_ops = read_strings(*custom_ops);
  if (const auto prediction = field.find("prediction")) {
    plan.prediction = read_prediction(*prediction);
  }
  if (const auto origin = field.find("origin")) plan.origin = read_origin(*origin);
  if (const auto files = field.find("files")) plan.files = read_map(*files);
}

Plan read_plan(const Field& field) {
  field.only({kVersionField, "model", "model_hash", "on_error", "max_age_us", "inputs", "outputs",
              "tensors", "bound_inputs", "parameters", "stages", "edges", "states", "streams",
              "custom_ops", "prediction", "origin", "files"});
  Plan plan;
  plan.model = field.at("model").string();
  if (const auto hash = field.find("model_hash")) plan.model_hash = hash->string();
  read_list(field.at("inputs"), plan.inputs, read_tensor);
  read_list(field.at("outputs"), plan.outputs, read_tensor);
  read_list(field.find("tensors"), plan.tensors, read_tensor);
  read_list(field.find("bound_inputs"), plan.bound_inputs, read_bound);
  read_list(field.find("parameters"), plan.parameters, read_parameter);
  read_list(field.at("stages"), plan.stages, read_stage);
  read_list(field.at("edges"), plan.edges, [&](const Field& f) { return read_edge(plan, f); });
  read_list(field.find("states"), plan.states, read_state);
  if (const auto streams = field.find("streams")) plan.streams = read_streams(*streams);
  read_settings(field, plan);
  return plan;
}

/// Checked before all else: another version may mean other fields.
Status check_version(const Json& json) {
  if (!json.is_object())
    return invalid_argument("expected an object with 'penstock_plan', found ", json.type_name());
  const auto found = json.find(kVersionField);
  if (found == json.end()) {
    return invalid_argument("penstock_plan: missing; expected ", kVersion,
                            ", the version of the format: is this a plan of Penstock?");
  }
  static_assert(kVersion == kOldestVersion + 1);
  if (*found == kVersion || *found == kOldestVersion) return {};
  std::string maker;
  const auto origin = json.find("origin");
  if (origin != json.end() && origin->is_object() && origin->contains("penstock") &&
      (*origin)["penstock"].is_string()) {
    maker = " (made by Penstock " + (*origin)["penstock"].get<std::string>() + ")";
  }
  return make_error(Code::kFailedPrecondition, "penstock_plan: expected version ", kOldestVersion,
                    " or ", kVersion, ", found ",
                    found->dump(-1, ' ', false, Json::error_handler_t::replace), maker,
                    "; split the model again with this release, or use the release that made it");
}

}  // namespace

std::string to_json(const Plan& plan) {
  Written json;
  json[kVersionField] = kVersion;
  json["model"] = plan.model;
  json["model_hash"] = plan.model_hash;
  json["on_error"] = plan.on_error == OnError::kStop ? "stop" : "deliver";
  if (plan.max_age) json["max_age_us"] = plan.max_age->count();
  json["inputs"] = tensors_to_json(plan.inputs);
  json["outputs"] = tensors_to_json(plan.outputs);
  json["tensors"] = tensors_to_json(plan.tensors);
  if (!plan.bound_inputs.empty()) {
    json["bound_inputs"] = Written::array();
    for (const auto& item : plan.bound_inputs) json["bound_inputs"].push_back(bound_to_json(item));
  }
  json["parameters"] = Written::array();
  for (const auto& item : plan.parameters) json["parameters"].push_back(parameter_to_json(item));
  json["stages"] = Written::array();
  for (const auto& stage : plan.stages) json["stages"].push_back(stage_to_json(stage));
  json["edges"] = Written::array();
  for (const auto& edge : plan.edges) json["edges"].push_back(edge_to_json(plan, edge));
  if (!plan.states.empty()) {
    json["states"] = Written::array();
    for (const auto& state : plan.states) json["states"].push_back(state_to_json(state));
  }
  if (plan.streams != Streams()) {
    json["streams"] = {{"most", plan.streams.most}, {"evict", plan.streams.evict}};
  }
  json["custom_ops"] = plan.custom_ops;
  json["prediction"] = prediction_to_json(plan.prediction);
  json["origin"] = origin_to_json(plan.origin);
  json["files"] = map_to_json(plan.files);
  std::string text;
  print(json, 0, text);
  return text + "\n";
}

Result<Plan> from_json(std::string_view text) {
  PENSTOCK_TRY(const auto document, Document::parse(text));
  PENSTOCK_CHECK_OK(check_version(document.value()));
  std::optional<Error> error;
  auto plan = read_plan(Field(document.value(), "", error));
  if (error) return *std::move(error);
  PENSTOCK_CHECK_OK(validate(plan));
  return plan;
}

}  // namespace penstock::plan
