// Applications of functions alone: what needs no engine. Networks: tests/cli/test_app.py.
#include "penstock/app/app.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/app/tune.h"
#include "penstock/pipeline/pipeline.h"
#include "tests/support/identity_model.h"
#include "tests/support/no_more_threads.h"
#include "tests/support/temporary_folder.h"

namespace penstock::app {
namespace {

using function::Function;
using function::Inputs;
using function::Outputs;
using ::testing::HasSubstr;

Type scalar() {
  return Type::tensor(DType::kF32, std::vector<Dim>{{1, "", Dim::kOpen}});
}
Type items(const std::string& symbol, std::int64_t bound) {
  return Type::tensor(DType::kF32,
                      std::vector<Dim>{{Dim::kOpen, symbol, bound}, {1, "", Dim::kOpen}});
}

std::vector<Where> line(const std::string& file, int number) {
  return {{Where::kFile, file}, {Where::kLine, number}};
}

float value_of(const Tensor& tensor) {
  return tensor.as<float>()[0];
}

/// add: sum = a + b. scatter: as many items as x says, 0, 1, 2, ... gather: their sum.
std::vector<Function> functions() {
  return {
      function::stateless("add", {{"a", scalar()}, {"b", scalar()}}, {{"sum", scalar()}},
                          [](Inputs in, Outputs out) -> Status {
                            out[0]->as<float>()[0] = value_of(*in[0]) + value_of(*in[1]);
                            return {};
                          }),
      function::stateless("scatter", {{"x", scalar()}}, {{"items", items("n", 8)}},
                          [](Inputs in, Outputs out) -> Status {
                            const auto count = static_cast<std::int64_t>(value_of(*in[0])) % 9;
                            if (!out[0]->set_dims(std::array<std::int64_t, 2>{count, 1})) return {};
                            for (std::size_t i = 0; i < out[0]->count(); ++i)
                              out[0]->as<float>()[i] = static_cast<float>(i);
                            return {};
                          }),
      function::stateless("gather", {{"items", items("m", 8)}}, {{"x", scalar()}},
                          [](Inputs in, Outputs out) -> Status {
                            float sum = 0;
                            for (const float x : in[0]->as<float>()) sum += x;
                            out[0]->as<float>()[0] = sum;
                            return {};
                          }),
      function::stateless("open", {{"x", scalar()}}, {{"y", items("n", Dim::kOpen)}},
                          [](Inputs, Outputs) -> Status { return {}; }),
  };
}

Node node(const std::string& name, const std::string& function,
          const std::vector<std::pair<std::string, std::string>>& inputs) {
  Node made;
  made.name = name;
  made.runs = FunctionNode{function, {}, {}, 1, {}};
  for (const auto& [port, source] : inputs) made.inputs.push_back({port, source, {}});
  return made;
}

std::vector<float> run(const App& app, int frames) {
  const auto package = pack(app, {}, functions());
  EXPECT_TRUE(package) << package.error().message();
  if (!package) return {};
  const auto pipeline =
      pipeline::Pipeline::start(package->plan, package->folder, {}, {.functions = functions()});
  EXPECT_TRUE(pipeline) << pipeline.error().message();
  if (!pipeline) return {};
  std::vector<float> results;
  for (int i = 0; i < frames; ++i) {
    Tensor input = Tensor::allocate(DType::kF32, {1});
    input.as<float>()[0] = static_cast<float>(i);
    const auto outputs = (*pipeline)->run(std::array{input});
    EXPECT_TRUE(outputs) << outputs.error().message();
    results.push_back(outputs ? value_of(outputs->front()) : -1);
  }
  return results;
}

App diamond() {
  return {.name = "diamond",
          .inputs = {{"x", std::nullopt, {}}},
          // In no order: what each reads says when it runs.
          .nodes = {node("join", "add", {{"a", "left.sum"}, {"b", "right.sum"}}),
                    node("left", "add", {{"a", "x"}, {"b", "x"}}),
                    node("right", "add", {{"a", "left.sum"}, {"b", "x"}})},
          .outputs = {{"y", "join.sum", {}}}};
}

TEST(AppTest, ADagOfFunctionsRuns) {
  EXPECT_THAT(run(diamond(), 4), ::testing::ElementsAre(0, 5, 10, 15));
}

TEST(AppTest, ThePlanNamesTensorsByNodeAndPort) {
  const auto package = pack(diamond(), {}, functions());
  ASSERT_TRUE(package) << package.error().message();
  const auto& plan = package->plan;
  EXPECT_EQ(plan.model, "diamond");
  EXPECT_EQ(plan.stages[0].name, "left");
  EXPECT_EQ(plan.stages[2].inputs, (std::vector<std::string>{"left.sum", "right.sum"}));
  EXPECT_EQ(plan.outputs[0].name, "y");
}

TEST(AppTest, APackageWhoseModelsLieOutsideItsFolderOfModelsIsRefused) {
  const TemporaryFolder folder;
  for (const std::string model : {"net.onnx", "other/net.onnx"}) {
    plan::Plan plan;
    plan.model = "net";
    plan.inputs = {{"x", scalar()}};
    plan.outputs = {{"y", scalar()}};
    plan::Stage stage;
    stage.name = "stage0";
    stage.devices = {{.host = {}, .cpus = {device::inherited_cpus().front()}}};
    stage.inputs = {"x"};
    stage.outputs = {"y"};
    stage.partitions.push_back({"fake", model, {"x"}, {"y"}, {}});
    plan.stages.push_back(std::move(stage));
    plan::connect(plan);
    auto writer = plan::PackageWriter::create(folder.path() / "net");
    ASSERT_TRUE(writer) << writer.error().message();
    for (const std::string& file : {model, std::string("stages/other.onnx")}) {
      std::filesystem::create_directories((writer->folder() / file).parent_path());
      std::ofstream(writer->folder() / file) << testing::identity_model();
    }
    const auto written = writer->commit(std::move(plan));
    ASSERT_TRUE(written) << written.error().message();
    App app{.name = "app", .inputs = {{"x", std::nullopt, {}}}, .outputs = {{"y", "net.y", {}}}};
    app.nodes.emplace_back().name = "net";
    app.nodes[0].runs = Network{.model = folder.path() / "net"};
    app.nodes[0].inputs = {{"x", "x", {}}};
    const auto refused = pack(app, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message(),
                HasSubstr(concat("model '", model, "' of its package: expected a file in")));
  }
}

TEST(AppTest, ItemsAreScatteredAndGathered) {
  App app{.name = "items",
          .inputs = {{"x", std::nullopt, {}}},
          .nodes = {node("scatter", "scatter", {{"x", "x"}}),
                    node("add", "add", {{"a", "scatter.items"}, {"b", "x"}}),
                    node("gather", "gather", {{"items", "add.sum"}})},
          .outputs = {{"y", "gather.x", {}}}};
  app.nodes[1].each = {"a"};
  const auto results = run(app, 20);
  for (int i = 0; i < 20; ++i) {
    const int count = i % 9;
    const int sum = count * (count - 1) / 2 + count * i;
    EXPECT_EQ(results[static_cast<std::size_t>(i)], static_cast<float>(sum));
  }
}

TEST(AppTest, AStateFeedsTheNextFrame) {
  App app{.name = "sum",
          .inputs = {{"x", std::nullopt, {}}},
          .nodes = {node("add", "add", {{"a", "x"}})},
          .outputs = {{"y", "add.sum", {}}},
          .states = {{"add.sum", "add.b", {}, {}}}};
  EXPECT_THAT(run(app, 5), ::testing::ElementsAre(0, 1, 3, 6, 10));
}

/// sum = x + the last sum, by two replicas.
App sum_of_replicas(int streams) {
  App app{.name = "sum",
          .inputs = {{"x", std::nullopt, {}}},
          .nodes = {node("add", "add", {{"a", "x"}})},
          .outputs = {{"y", "add.sum", {}}},
          .states = {{"add.sum", "add.b", {}, line("a.yaml", 4)}}};
  std::get<FunctionNode>(app.nodes[0].runs).replicas = 2;
  app.streams.most = streams;
  return app;
}

TEST(AppTest, EachOfSeveralStreamsHasAReplicaForItsState) {
  const auto package = pack(sum_of_replicas(3), {}, functions());
  ASSERT_TRUE(package) << package.error().message();
  EXPECT_EQ(package->plan.stages.at(0).devices.size(), 2U);
  const auto pipeline =
      pipeline::Pipeline::start(package->plan, package->folder, {}, {.functions = functions()});
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  constexpr std::uint64_t kStreams = 3;
  for (int frame = 0; frame < 60; ++frame) {
    Tensor input = Tensor::allocate(DType::kF32, {1});
    input.as<float>()[0] = static_cast<float>(frame);
    const auto stream = static_cast<std::uint64_t>(frame) % kStreams;
    ASSERT_TRUE((*pipeline)->push(std::array{input}, pipeline::kForever, {.stream = stream}));
    if (frame % 6 != 5) continue;  // Two of each stream are on their way at once.
    for (int i = 0; i < 6; ++i) {
      const auto output = (*pipeline)->pop();
      ASSERT_TRUE(output && *output && (*output)->ok());
      const auto number = (*output)->number();
      float expected = 0;
      for (auto n = number % kStreams; n <= number; n += kStreams) {
        expected += static_cast<float>(n);
      }
      EXPECT_EQ(value_of((**output)[0]), expected) << number;
    }
  }
}

TEST(AppTest, ReplicasThatWriteTheStateOfOneStreamAreRefused) {
  const auto package = pack(sum_of_replicas(1), {}, functions());
  ASSERT_FALSE(package);
  EXPECT_EQ(package.error().message(),
            "a.yaml:4: state 'add.sum' -> 'add.b': node 'add' writes it: expected one replica, "
            "found 2; leave 'replicas' out there, or give several streams, of which each has one "
            "of them ('streams: {most: 2}')");
}

TEST(AppTest, WhatDoesNotFitIsNamed) {
  const auto message = [](const std::function<void(App&)>& spoil) {
    App app = diamond();
    spoil(app);
    const auto package = pack(app, {}, functions());
    EXPECT_FALSE(package);
    return package ? "" : package.error().message();
  };
  EXPECT_EQ(
      message([](App& app) { app.nodes[1].inputs[0] = {"a", "join.sum", line("a.yaml", 9)}; }),
      "node 'join': the nodes feed each other in a cycle: join -> left -> join; a value of "
      "the frame before is a state (states: from, to)");
  EXPECT_EQ(message([](App& app) { app.nodes[0].inputs[0] = {"a", "lef.sum", line("a.yaml", 9)}; }),
            "a.yaml:9: node 'join': input 'a': no source 'lef.sum'; expected an input ('x') or "
            "'node.port', the nodes being 'join', 'left', 'right'");
  EXPECT_EQ(message([](App& app) { app.nodes[0].inputs[0] = {"a", "left.y", line("a.yaml", 9)}; }),
            "a.yaml:9: node 'join': input 'a': node 'left' has no output 'y'; there are: 'sum'");
  EXPECT_EQ(message([](App& app) { app.nodes[0].inputs[0] = {"c", "x", line("a.yaml", 9)}; }),
            "a.yaml:9: node 'join': input 'c': the node has no such input; there are: 'a', 'b'");
  EXPECT_EQ(message([](App& app) { app.nodes[0].inputs.pop_back(); }),
            "node 'join': input 'b' (f32[1]) has no source; connect it to an input of the "
            "application or to 'node.port'");
  EXPECT_EQ(message([](App& app) {
              app.inputs[0].type = Type::tensor(DType::kU8, scalar().dims);
              app.nodes[1].inputs[0].place = line("a.yaml", 7);
            }),
            "a.yaml:7: node 'left': input 'a': expected f32[1], found u8[1] from 'x'; give the "
            "input the type that is expected, or convert it in a function between");
  EXPECT_EQ(message([](App& app) { app.nodes[2].name = "left"; }), "node 'left': is there twice");
  EXPECT_EQ(message([](App& app) { app.outputs[0].name = "x"; }),
            "output 'x': an input has that name; choose another");
  EXPECT_EQ(message([](App& app) { app.outputs.push_back({"z", "join.sum", line("a.yaml", 8)}); }),
            "a.yaml:8: output 'z': 'join.sum' is output 'y' already");
  EXPECT_EQ(message([](App& app) { app.outputs.push_back({"", "left.sum", line("a.yaml", 8)}); }),
            "a.yaml:8: output '': expected a name");
  EXPECT_EQ(message([](App& app) { app.nodes[1].runs = FunctionNode{"sub", {}, {}, 1, {}}; }),
            "node 'left': no function 'sub'; there are: 'add', 'scatter', 'gather', 'open'; the "
            "program that "
            "runs the pipeline registers them; a library is named by its path, './lib.so', a "
            "Python module by 'functions: module.py'");
  EXPECT_EQ(message([](App& app) { app.nodes[1].runs = FunctionNode{"open", {}, {}, 1, {}}; }),
            "node 'left': function 'open': output 'y': expected a type of known rank with a bound "
            "for every open dimension, found f32[n,1]");
  EXPECT_EQ(message([](App& app) {
              app.inputs[0].name = "right.sum";
              app.inputs[0].place = line("a.yaml", 3);
            }),
            "a.yaml:3: input 'right.sum': a node's output is called so; choose another");
  EXPECT_EQ(message([](App& app) { app.states.push_back({"x", "left.a", {}, line("s", 3)}); }),
            "s:3: states: 'x' is an input of the application: expected a node's output, "
            "'node.port'; let a function hand the input on");
  EXPECT_THAT(message([](App& app) { app.nodes[1].each = {"a"}; }),
              HasSubstr("node 'left': input 'a': expected f32[1], found f32[] as one item of 'x'"));
  EXPECT_EQ(
      message([](App& app) { app.states.push_back({"join.sum", "left.a", {}, line("s", 3)}); }),
      "node 'left': input 'a': has a source and a state; leave one of them out");
  EXPECT_EQ(message([](App& app) { app.inputs.push_back({"mask", scalar(), line("a.yaml", 4)}); }),
            "a.yaml:4: input 'mask': nothing reads it; connect it to a node's input, or leave it "
            "out");
}

/// There is no backend that could compile or ask anything.
TEST(AppTest, AnOptionThatNamesAPlaceIsRefusedBeforeAnyNodeIsMade) {
  const auto message = [](std::variant<Network, FunctionNode, ServedNode> runs) {
    App app = diamond();
    app.nodes.push_back({.name = "n", .runs = std::move(runs), .place = line("a.yaml", 7)});
    app.nodes.back().places["options"] = line("a.yaml", 9);
    const auto package = pack(app, {}, functions());
    return package ? "" : package.error().message();
  };
  Network network{"nowhere.onnx"};
  network.split.backend = "fake";
  network.split.backend_options = {{"CACHE_DIR", "here"}};
  EXPECT_EQ(message(network),
            "a.yaml:9: node 'n': option 'CACHE_DIR' names a place on the disk, which an "
            "application may not; leave it out there, and give it where the application is run "
            "(--backend-option fake:CACHE_DIR=...)");
  const ServedNode served{.model = {"127.0.0.1:1", "m", ""}, .options = {{"token_file", "t"}}};
  EXPECT_THAT(message(served), HasSubstr("--backend-option remote:token_file=...)"));
}

/// The backend `remote` where nobody is there: each device is waited for until two are asked at
/// once.
class Nobody final : public backend::Backend {
 public:
  [[nodiscard]] backend::Description describe() const override {
    return {"remote", "1", "", "", true};
  }
  [[nodiscard]] std::string rules() const override { return "{}"; }
  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override {
    const auto& host = request.device.host;
    std::unique_lock lock(mutex_);
    ++waiting_;
    met_ = met_ || waiting_ > 1;
    changed_.notify_all();
    if (host != "first:1") changed_.wait_for(lock, std::chrono::seconds(20), [&] { return met_; });
    --waiting_;
    return make_error(Code::kUnavailable, "nobody is there").within({Where::kPeer, host});
  }
  [[nodiscard]] bool met() const { return met_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool met_ = false;
};

TEST(AppTest, ServersThatAreAwayAreWaitedForTogether) {
  const auto nobody = std::make_shared<Nobody>();
  backend::Registry backends;
  backends.add(nobody);
  ServedNode served{.model = {"first:1", "m", ""}};
  for (const auto* host : {"second:1", "third:1"}) {
    served.standby.push_back({.host = host, .kind = device::Device::Kind::kServer});
  }
  const App app{.nodes = {{.name = "n", .runs = served}}};
  const auto package = pack(app, backends, {});
  ASSERT_FALSE(package);
  EXPECT_THAT(package.error().message(), HasSubstr("first:1"));
  EXPECT_TRUE(nobody->met());
}

TEST(TypeTextTest, ReadsWhatTypesPrint) {
  for (const auto* text :
       {"f32[1,3,224,224]", "u8[h<=1080,w<=1920,3]", "i64[?,n]", "f32[]", "f32", "bool[?<=7]"}) {
    const auto type = parse_type(text);
    ASSERT_TRUE(type) << text;
    EXPECT_EQ(to_string(*type), text);
  }
  for (const auto* text :
       {"", "float[1]", "f32[1", "f32[1,]", "f32[-1]", "f32[n<=]", "f32[n<=x]"}) {
    EXPECT_FALSE(parse_type(text)) << text;
  }
}

TEST(BuildAppTest, WhereTheSystemHasNoThreadThatIsSaid) {
  const TemporaryFolder folder;
  tune::Options options;
  options.output = folder.path() / "app.penstock";
  auto database = cost::Database::in_memory();
  ASSERT_TRUE(database) << database.error().message();
  const NoMoreThreads limited;
  const auto refused = build_app({}, options, {}, *database);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("no thread could be started"));
}

class YamlTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }

  Result<App> read(const std::string& text) {
    std::ofstream(file_) << text;
    return read_yaml(file_);
  }

  std::string message(const std::string& text) {
    const auto app = read(text);
    EXPECT_FALSE(app) << text;
    if (app) return "";
    const auto& found = app.error().message();
    const auto name = file_.filename().string();
    const auto at = found.find(name + ":");
    return at == found.npos ? found : found.substr(at + name.size());
  }

 private:
  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / concat("penstock_app_test_", ::getpid(), ".yaml");
};

TEST_F(YamlTest, BracketsInsideOneAnotherAreBounded) {
  constexpr std::size_t kMany = 100'000;
  const std::string deep(kMany, '[');
  EXPECT_THAT(message("penstock_app: 1\nnodes: " + deep + std::string(kMany, ']') + "\n"),
              ::testing::MatchesRegex(
                  ":2: expected at most [0-9]+ levels inside one another; mend the file"));
}

TEST_F(YamlTest, ErrorsNameTheLine) {
  EXPECT_THAT(message("penstock_app: 1\nnodes: {a: [}\n"), HasSubstr(":2: not YAML: "));
  EXPECT_THAT(message("penstock_app: 1\ninputs: {x: f32[4]}\n"),
              HasSubstr(":2: not YAML: end of map flow not found; within { } and [ ], a text with "
                        "brackets or commas needs quotes: {x: 'f32[4]'}"));
  EXPECT_THAT(
      message("penstock_app: 1\nnodes:\n  a: {function: f}\n b: {function: g}\n"),
      HasSubstr(":4: not YAML: end of map not found; what belongs together begins in one column"));
  for (const auto* text : {"penstock_app: 1\nnodes:\n\ta: {function: f}\n",
                           "penstock_app: 1\nnodes:\n  a:\n \tfunction: f\n"}) {
    EXPECT_THAT(message(text), HasSubstr("; indent with spaces, not tabs"));
  }
  EXPECT_EQ(message("penstock_app: 1\nname: \xff\n"),
            ":2: expected text in UTF-8, found other bytes; save the file so");
  EXPECT_EQ(message("penstock_app: 2\nnodes: {}\n"),
            ":1: penstock_app: expected 1, the version of the format, found '2'");
  EXPECT_EQ(message("nodes: {}\n"),
            ":1: expected 'penstock_app: 1', the version of the format, found none");
  EXPECT_EQ(message("penstock_app: 1\n"), ":1: nodes: missing");
  EXPECT_EQ(
      message("penstock_app: 1\nnode: {}\n"),
      ":2: node: unknown field; expected one of penstock_app, name, functions, inputs, nodes, "
      "outputs, states, streams, max_age_ms, on_error; did you mean 'nodes' or 'name'?");
  EXPECT_EQ(
      message(
          "penstock_app: 1\nstreams: {most: 0}\nnodes: {a: {function: f}}\noutputs: {y: a.y}\n"),
      ":2: streams.most: expected an integer from 1 to 2147483647, found '0'");
  EXPECT_EQ(message("penstock_app: 1\nnodes:\n  a:\n    inputs: {x: y}\n"),
            ":3: nodes.a: expected one of 'network', 'function', 'ready' and 'model', found none");
  EXPECT_EQ(message("penstock_app: 1\nnodes:\n  a:\n    netwrok: x.onnx\n"),
            ":3: nodes.a: expected one of 'network', 'function', 'ready' and 'model', found none; "
            "did you mean 'network'?");
  EXPECT_EQ(message("penstock_app: 1\nnodes:\n  a:\n    function: f\n    replicas: many\n"),
            ":5: nodes.a.replicas: expected an integer from 1 to 1024, found 'many'");
  EXPECT_EQ(message("penstock_app: 1\nnodes:\n  a: {function: f}\n  a: {function: g}\n"),
            ":4: nodes: 'a' is there twice");
  EXPECT_EQ(message("penstock_app: 1\ninputs:\n  x: float\nnodes: {}\n"),
            ":3: inputs.x: expected a type such as f32[1,3,224,224] or u8[h<=1080,w<=1920,3], "
            "its dimensions between commas, found 'float'");
  EXPECT_THAT(message("penstock_app: 1\nnodes:\n  a: {network: nowhere.onnx}\n"),
              HasSubstr(":3: nodes.a.network: no such file: '"));
  EXPECT_EQ(message("penstock_app: 1\nnodes: {a: {function: f}}\noutputs: {y: a.y}\n"
                    "states: [{to: a.x}]\n"),
            ":4: states[0]: from: missing");
  EXPECT_EQ(message("[]"), ":1: expected a mapping of names, found a list");
  EXPECT_THAT(message(""), HasSubstr("expected an application, found an empty file"));
  EXPECT_EQ(message("penstock_app: 1\ninputs:\n  x: [f32]\n"),
            ":3: inputs.x: expected a text, found a list");
  EXPECT_EQ(message("penstock_app: 1\nnodes: {}\n"),
            ":2: nodes: expected one node or more, found none");
  EXPECT_EQ(message("penstock_app: 1\nnodes: {a: {function: f}}\n"), ":1: outputs: missing");
  EXPECT_EQ(message("penstock_app: 1\nnodes: {a: {function: f}}\noutputs: {}\n"),
            ":3: outputs: expected one output or more, found none");
}

TEST_F(YamlTest, ReadsAnApplication) {
  const auto app = read(R"(penstock_app: 1
inputs:
  x: f32[1]
  other: any
nodes:
  first:
    function: add
    inputs: {a: x, b: other}
    options: {gain: 0.5}
    replicas: 2
    devices: cpu:0,cpu:1
    max_run_ms: 1.5
outputs: {y: first.sum}
states:
  - {from: first.sum, to: first.b}
streams: {most: 8, evict: true}
max_age_ms: 20
on_error: stop
)");
  ASSERT_TRUE(app) << app.error().message();
  EXPECT_EQ(app->name, concat("penstock_app_test_", ::getpid()));
  EXPECT_EQ(to_string(*app->inputs[0].type), "f32[1]");
  EXPECT_FALSE(app->inputs[1].type);
  const auto& first = app->nodes[0];
  const auto& runs = std::get<FunctionNode>(first.runs);
  EXPECT_EQ(runs.name, "add");
  EXPECT_EQ(runs.options.at("gain"), "0.5");
  EXPECT_EQ(runs.devices.size(), 2U);
  EXPECT_EQ(first.max_run, std::chrono::microseconds(1500));
  EXPECT_EQ(first.inputs[1].source, "other");
  EXPECT_EQ(app->states[0].to, "first.b");
  EXPECT_EQ(app->streams, (plan::Streams{8, true}));
  EXPECT_EQ(app->on_error, plan::OnError::kStop);
  EXPECT_EQ(app->max_age, std::chrono::milliseconds(20));
}

TEST(YamlFolderTest, PathsLeadNowhereElseAndTellNothingOfIt) {
  const TemporaryFolder outside;
  const auto folder = outside.path() / "sent";
  std::filesystem::create_directories(folder / "sub");
  for (const auto* file : {"secret.npy", "sent/net.onnx", "sent/own.npy", "sent/sub/deep.npy"}) {
    std::ofstream(outside.path() / file) << "";
  }
  std::filesystem::create_symlink(outside.path() / "secret.npy", folder / "link.npy");
  std::filesystem::create_symlink(outside.path() / "none.npy", folder / "dangling.npy");
  std::filesystem::create_directory_symlink(outside.path(), folder / "up");
  std::filesystem::create_symlink("own.npy", folder / "same.npy");
  const auto message = [&](const std::string& path) -> std::string {
    std::ofstream(folder / "app.yaml")
        << "penstock_app: 1\nnodes: {n: {network: net.onnx, constants: {s: '" << path
        << "'}}}\noutputs: {y: n.y}\n";
    const auto app = read_yaml(folder / "app.yaml", folder);
    return app ? "" : app.error().message();
  };
  for (const auto* own : {"own.npy", "sub/deep.npy", "./sub/../own.npy", "same.npy"}) {
    EXPECT_EQ(message(own), "");
  }
  const auto expected = (folder / "app.yaml").string() +
                        ":2: nodes.n.constants.s: expected a file that was sent with it, found '";
  for (const auto& path :
       {outside.path() / "secret.npy", outside.path() / "none.npy", folder / "own.npy"}) {
    EXPECT_EQ(message(path.string()).substr(0, expected.size()), expected) << path;
  }
  for (const std::string path :
       {"../secret.npy", "../none.npy", "sub/../../secret.npy", "../sent/own.npy", "link.npy",
        "dangling.npy", "up/secret.npy", "none.npy"}) {
    EXPECT_EQ(message(path), expected + path + "'");
  }
}

TEST(AppTest, AnErrorOfAStageIsPlacedAtItsNodeWhateverItsReasonSays) {
  App app;
  app.nodes = {{.name = "left", .place = line("a.yaml", 7)},
               {.name = "right", .place = line("a.yaml", 9)}};
  const auto placed = [&](const std::string& stage, const std::string& reason) {
    return place_error(app, invalid_argument(reason).within({Where::kStage, stage})).message();
  };
  EXPECT_EQ(placed("left", "no device"), "a.yaml:7: stage 'left': no device");
  EXPECT_EQ(placed("right/stage1", "no device"), "a.yaml:9: stage 'right/stage1': no device");
  EXPECT_EQ(placed("leftover", "stage 'left': no"), "stage 'leftover': stage 'left': no");
  EXPECT_EQ(place_error(app, invalid_argument("stage 'left': no")).message(), "stage 'left': no");
}

}  // namespace
}  // namespace penstock::app
