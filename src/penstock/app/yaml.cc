// Applications as YAML: docs/app.schema.json says the same to editors.
#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <set>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "penstock/app/app.h"
#include "penstock/tensor/utf.h"

namespace penstock::app {
namespace {

namespace fs = std::filesystem;
using Names = std::initializer_list<std::string_view>;

/// One place in the file. The first thing wrong is kept, with its line; what is read after it is a
/// harmless default, so that code reads as a list of fields.
class Field {
 public:
  Field(const YAML::Node& value, std::string path, const std::string& file,
        std::optional<Error>& error)
      : Field(value, value.Mark(), std::move(path), file, error) {}

  /// The file and its line.
  [[nodiscard]] std::vector<Where> place() const {
    std::vector<Where> place{{Where::kFile, *file_}};
    if (!mark_.is_null()) place.emplace_back(Where::kLine, mark_.line + 1);
    return place;
  }

  void fail(const std::string& what) const {
    if (*error_) return;
    *error_ = invalid_argument(path_, path_.empty() ? "" : ": ", what).within(place());
  }
  void fail_expected(std::string_view expected) const {
    fail(concat("expected ", expected, ", found ", shown()));
  }

  [[nodiscard]] bool is_nothing() const { return value_.IsNull(); }
  [[nodiscard]] bool is_mapping() const { return value_.IsMap(); }

  [[nodiscard]] std::string string() const {
    if (value_.IsScalar()) return value_.Scalar();
    return fail_expected("a text"), std::string();
  }

  /// A value as parse_literal() reads it: a scalar, or lists of them.
  [[nodiscard]] std::string literal() const {
    if (value_.IsScalar()) return value_.Scalar();
    if (!value_.IsSequence()) return fail_expected("a value or a list of values"), std::string();
    std::vector<std::string> items;
    each([&](const Field& item) {
      auto text = item.literal();
      const bool plain = item.value_.IsSequence() || text.find_first_of(",[]\"") == text.npos;
      items.push_back(plain ? std::move(text) : "\"" + text + "\"");
    });
    return "[" + join(items, ", ") + "]";
  }

  [[nodiscard]] bool boolean() const {
    bool value = false;
    if (!value_.IsScalar() || !YAML::convert<bool>::decode(value_, value)) {
      fail_expected("true or false");
    }
    return value;
  }

  [[nodiscard]] double positive() const {
    double value = 0;
    constexpr double kMost = 1e12;
    if (!value_.IsScalar() || !YAML::convert<double>::decode(value_, value) || std::isnan(value) ||
        value < 0.001 || value > kMost) {
      fail_expected("a number from 0.001 to 1e12");
      return 1;
    }
    return value;
  }

  [[nodiscard]] int integer(int lowest, int highest) const {
    int value = 0;
    if (!value_.IsScalar() || !YAML::convert<int>::decode(value_, value) || value < lowest ||
        value > highest) {
      fail_expected(concat("an integer from ", lowest, " to ", highest));
      return lowest;
    }
    return value;
  }

  template <typename Read>
  void each(Read read) const {
    if (!value_.IsSequence()) return fail_expected("a list");
    for (std::size_t i = 0; i < value_.size() && !*error_; ++i) {
      read(Field(value_[i], concat(path_, "[", i, "]"), *file_, *error_));
    }
  }

  /// The fields of a mapping, in the file's order: read(name, field).
  template <typename Read>
  void each_named(Read read) const {
    if (!value_.IsMap()) return fail_expected("a mapping of names");
    std::set<std::string> seen;
    for (const auto& pair : value_) {
      if (*error_) return;
      const YAML::Node& key = pair.first;
      const Field name(key, path_, *file_, *error_);
      if (!key.IsScalar()) return name.fail_expected("a name");
      if (!seen.insert(key.Scalar()).second)
        return name.fail("'" + key.Scalar() + "' is there twice");
      // A scalar may stand lines below its name, as blocks of text do; all else begins at its name.
      const auto mark = pair.second.IsScalar() ? pair.second.Mark() : key.Mark();
      read(key.Scalar(), Field(pair.second, mark, path_of(key.Scalar()), *file_, *error_));
    }
  }

  /// Refuses fields of other names: a misspelt one would be ignored else.
  void only(Names names) const {
    each_named([&](const std::string& name, const Field&) {
      if (std::ranges::find(names, name) != names.end()) return;
      for (const auto& pair : value_) {
        if (pair.first.Scalar() != name) continue;
        Field(pair.first, path_of(name), *file_, *error_)
            .fail("unknown field; expected one of " + join(names, ", "));
      }
    });
  }

  [[nodiscard]] std::optional<Field> find(std::string_view name) const {
    if (!value_.IsMap()) return std::nullopt;
    const auto found = value_[std::string(name)];
    if (!found.IsDefined()) return std::nullopt;
    return Field(found, path_of(name), *file_, *error_);
  }

  [[nodiscard]] std::vector<std::string> strings() const {
    std::vector<std::string> list;
    each([&](const Field& item) { list.push_back(item.string()); });
    return list;
  }

  /// What a parser made of the text, or its error with the line before it.
  template <typename T>
  T take(Result<T> parsed) const {
    if (parsed) return *std::move(parsed);
    fail(parsed.error().message());
    return T();
  }

 private:
  Field(const YAML::Node& value, const YAML::Mark& mark, std::string path, const std::string& file,
        std::optional<Error>& error)
      : value_(value), mark_(mark), path_(std::move(path)), file_(&file), error_(&error) {}

  [[nodiscard]] std::string path_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : concat(path_, ".", name);
  }

  [[nodiscard]] std::string shown() const {
    constexpr std::size_t kMost = 60;
    if (value_.IsMap()) return "a mapping";
    if (value_.IsSequence()) return "a list";
    if (!value_.IsScalar()) return "nothing";
    const auto& text = value_.Scalar();
    return "'" + (text.size() > kMost ? text.substr(0, kMost) + "..." : text) + "'";
  }

  YAML::Node value_;
  YAML::Mark mark_;  // Where a message points.
  std::string path_;
  const std::string* file_;  // Both are the reader's, who outlives every Field.
  std::optional<Error>* error_;
};

std::chrono::microseconds milliseconds(const Field& field) {
  return std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::duration<double, std::milli>(field.positive()));
}

std::vector<device::Device> read_devices(const Field& field) {
  return field.take(device::parse_devices(field.string()));
}

class Reader {
 public:
  Reader(fs::path folder, std::optional<Error>& error)
      : folder_(std::move(folder)), error_(error) {}

  App read(const Field& field) {
    App app;
    app.place = field.place();
    if (field.is_nothing()) field.fail("expected an application, found an empty file");
    field.only({"penstock_app", "name", "inputs", "nodes", "outputs", "states", "streams",
                "max_age_ms", "on_error"});
    const auto version = field.find("penstock_app");
    if (!version) field.fail("expected 'penstock_app: 1', the version of the format, found none");
    if (version && version->string() != "1") version->fail_expected("1, the version of the format");
    if (const auto name = field.find("name")) app.name = name->string();
    if (const auto inputs = field.find("inputs")) read_inputs(*inputs, app);
    if (const auto nodes = field.find("nodes")) {
      nodes->each_named([&](const std::string& name, const Field& node) {
        app.nodes.push_back(read_node(name, node));
      });
      if (app.nodes.empty()) nodes->fail("expected one node or more, found none");
    } else {
      field.fail("nodes: missing");
    }
    if (const auto outputs = field.find("outputs")) {
      outputs->each_named([&](const std::string& name, const Field& source) {
        app.outputs.push_back({name, source.string(), source.place()});
      });
      if (app.outputs.empty()) outputs->fail("expected one output or more, found none");
    } else {
      field.fail("outputs: missing");
    }
    if (const auto states = field.find("states")) {
      states->each([&](const Field& state) { app.states.push_back(read_state(state)); });
    }
    if (const auto streams = field.find("streams")) app.streams = read_streams(*streams);
    if (const auto max_age = field.find("max_age_ms")) app.max_age = milliseconds(*max_age);
    if (const auto on_error = field.find("on_error")) {
      const auto text = on_error->string();
      if (text != "deliver" && text != "stop") on_error->fail_expected("deliver or stop");
      app.on_error = text == "stop" ? plan::OnError::kStop : plan::OnError::kDeliver;
    }
    return app;
  }

 private:
  static void read_inputs(const Field& field, App& app) {
    field.each_named([&](const std::string& name, const Field& type) {
      Input input{name, std::nullopt, type.place()};
      if (const auto text = type.is_nothing() ? "any" : type.string(); text != "any") {
        input.type = type.take(parse_type(text));
      }
      app.inputs.push_back(std::move(input));
    });
  }

  Node read_node(const std::string& name, const Field& field) {
    Node node;
    node.name = name;
    node.place = field.place();
    field.each_named(
        [&](const std::string& key, const Field& value) { node.places[key] = value.place(); });
    const bool network = field.find("network").has_value();
    if (network == field.find("function").has_value()) {
      field.fail(
          concat("expected either 'network' or 'function', found ", network ? "both" : "neither"));
      return node;
    }
    node.runs = network ? std::variant<Network, FunctionNode>(read_network(field))
                        : std::variant<Network, FunctionNode>(read_function(field));
    if (const auto inputs = field.find("inputs")) {
      inputs->each_named([&](const std::string& port, const Field& source) {
        node.inputs.push_back({port, source.string(), source.place()});
      });
    }
    if (const auto each = field.find("each")) node.each = each->strings();
    if (const auto max_run = field.find("max_run_ms")) node.max_run = milliseconds(*max_run);
    return node;
  }

  Network read_network(const Field& field) {
    field.only({"network", "inputs", "each", "max_run_ms", "cuts", "replicas", "devices", "backend",
                "options", "shapes", "constants", "parameters", "as_is", "custom_ops", "unpinned",
                "batch"});
    Network network;
    network.model = path_at(*field.find("network"));
    auto& split = network.split;
    if (const auto cuts = field.find("cuts")) split.cuts = cuts->strings();
    if (const auto replicas = field.find("replicas")) {
      split.replicas = replicas->integer(1, plan::kMostInstances);
    }
    if (const auto devices = field.find("devices")) split.devices = read_devices(*devices);
    if (const auto backend = field.find("backend")) split.backend = backend->string();
    if (const auto options = field.find("options")) split.backend_options = read_options(*options);
    if (const auto unpinned = field.find("unpinned")) split.pinned = !unpinned->boolean();
    if (const auto batch = field.find("batch")) split.batches[""] = read_batch(*batch);
    if (const auto libraries = field.find("custom_ops")) {
      libraries->each([&](const Field& file) { split.custom_ops.push_back(path_at(file)); });
    }
    if (const auto shapes = field.find("shapes")) {
      shapes->each_named([&](const std::string& input, const Field& dims) {
        auto shape = graph::parse_shape(input + "=" + dims.string());
        if (shape) {
          network.import.shapes.insert(*std::move(shape));
        } else {
          dims.fail_expected("sizes such as 1x3x224x224, 1x1..512 (1 to 512) or ?x80 (open)");
        }
      });
    }
    if (const auto constants = field.find("constants")) {
      constants->each_named([&](const std::string& input, const Field& value) {
        auto text = value.literal();
        if (text.ends_with(".npy")) text = path_at(value).string();
        network.import.constants[input] = std::move(text);
      });
    }
    if (const auto parameters = field.find("parameters")) {
      network.import.parameters = parameters->strings();
    }
    if (const auto as_is = field.find("as_is")) network.import.as_is = as_is->boolean();
    return network;
  }

  /// 8, or {frames: 8, wait_ms: 2}.
  static partition::AskedBatch read_batch(const Field& field) {
    if (!field.is_mapping()) return {.frames = field.integer(1, partition::kMostFrames)};
    field.only({"frames", "wait_ms"});
    partition::AskedBatch batch;
    if (const auto frames = field.find("frames")) {
      batch.frames = frames->integer(1, partition::kMostFrames);
    } else {
      field.fail("frames: missing");
    }
    if (const auto wait = field.find("wait_ms")) batch.wait = milliseconds(*wait);
    return batch;
  }

  FunctionNode read_function(const Field& field) {
    field.only(
        {"function", "name", "inputs", "each", "max_run_ms", "replicas", "devices", "options"});
    FunctionNode function;
    const auto source = *field.find("function");
    const auto text = source.string();
    if (text.empty()) source.fail_expected("a library's path or a function's name");
    const bool library = text.find('/') != text.npos || text.ends_with(".so");
    if (library) {
      function.library = path_at(source);
    } else {
      function.name = text;
    }
    if (const auto name = field.find("name")) {
      if (!library) name->fail("'name' says which function of a library; 'function' names it here");
      function.name = name->string();
    }
    if (const auto replicas = field.find("replicas")) {
      function.replicas = replicas->integer(1, plan::kMostInstances);
    }
    if (const auto devices = field.find("devices")) function.devices = read_devices(*devices);
    if (const auto options = field.find("options")) function.options = read_options(*options);
    return function;
  }

  State read_state(const Field& field) {
    field.only({"from", "to", "initial"});
    State state;
    state.place = field.place();
    for (const auto& [name, end] : {std::pair("from", &state.from), std::pair("to", &state.to)}) {
      if (const auto found = field.find(name)) {
        *end = found->string();
      } else {
        field.fail(concat(name, ": missing"));
      }
    }
    if (const auto initial = field.find("initial")) state.initial = path_at(*initial);
    return state;
  }

  static plan::Streams read_streams(const Field& field) {
    plan::Streams streams;
    field.only({"most", "evict"});
    if (const auto most = field.find("most")) {
      streams.most = most->integer(1, std::numeric_limits<int>::max());
    }
    if (const auto evict = field.find("evict")) streams.evict = evict->boolean();
    return streams;
  }

  static std::map<std::string, std::string> read_options(const Field& field) {
    std::map<std::string, std::string> options;
    field.each_named(
        [&](const std::string& name, const Field& value) { options[name] = value.string(); });
    return options;
  }

  /// A file that is there, relative to the application's folder.
  fs::path path_at(const Field& field) const {
    const fs::path given = field.string();
    const auto path = given.is_absolute() ? given : folder_ / given;
    std::error_code ignored;
    if (!error_ && !fs::exists(path, ignored)) {
      field.fail("no such file");
      error_->code = Code::kNotFound;
      error_ = (*std::move(error_)).adding(": '" + path.string() + "'");
    }
    return path;
  }

  const fs::path folder_;
  std::optional<Error>& error_;
};

/// One line of the library's own words.
std::string one_line(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20; }, ' ');
  return text;
}

/// The first line that is not UTF-8, counted from 1.
std::optional<int> find_other_text(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  for (int i = 1; std::getline(in, line); ++i) {
    if (!is_utf8(line)) return i;
  }
  return std::nullopt;
}

/// Whether a line up to the given one, counted from 0, is indented with a tab.
bool tab_indents(const fs::path& file, int last) {
  std::ifstream in(file);
  std::string line;
  for (int i = 0; i <= last && std::getline(in, line); ++i) {
    if (line.substr(0, line.find_first_not_of(" \t")).find('\t') != line.npos) return true;
  }
  return false;
}

/// What people write that is no YAML.
std::string_view advice(const fs::path& file, const YAML::Exception& error) {
  if (tab_indents(file, error.mark.line)) return "; indent with spaces, not tabs";
  if (error.msg.find("flow") == std::string::npos) return "";
  // `{x: f32[4]}`, whose bracket ends nothing.
  return "; within { } and [ ], a text with brackets or commas needs quotes: {x: 'f32[4]'}";
}

}  // namespace

Result<App> read_yaml(const fs::path& file) {
  const auto name = file.string();
  const auto line = [&](int number) {
    return std::vector<Where>{{Where::kFile, name}, {Where::kLine, number}};
  };
  try {
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) {
      return not_found("no such file").within({Where::kFile, name});
    }
    if (const auto other = find_other_text(file)) {
      return invalid_argument("expected text in UTF-8, found other bytes; save the file so")
          .within(line(*other));
    }
    const auto documents = YAML::LoadAllFromFile(name);
    if (documents.size() > 1) {
      return invalid_argument("expected one application in a file, found another document")
          .within(line(documents[1].Mark().line + 1));
    }
    const auto document = documents.empty() ? YAML::Node() : documents.front();
    std::optional<Error> error;
    const Field top(document, "", name, error);
    auto app = Reader(file.parent_path(), error).read(top);
    if (error) return *std::move(error);
    if (app.name.empty()) app.name = file.stem().string();
    return app;
  } catch (const YAML::Exception& e) {
    return invalid_argument("not YAML: ", one_line(e.msg), advice(file, e))
        .within(line(e.mark.line + 1));
  } catch (const std::exception& e) {
    return invalid_argument("cannot be read: ", one_line(e.what())).within({Where::kFile, name});
  }
}

}  // namespace penstock::app
