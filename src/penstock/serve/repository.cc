// Loads, replaces and unloads versions of models, which go once no request holds them.
#include "penstock/serve/repository.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "penstock/app/source.h"
#include "penstock/base/printable.h"
#include "penstock/base/words.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/serve/load_settings.h"
#include "penstock/serve/upload.h"

namespace penstock::serve {
namespace {

constexpr const char* kUnloaded =
    "unloaded";  // Why a model is not served that a request took away.

Error unknown_model(const std::string& name) {
  return not_found("Request for unknown model: '", name, "' is not found");
}

Result<std::uint64_t> parse_version(const std::string& text) {
  std::uint64_t version = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, version);
  if (error == std::errc() && stop == end && !text.empty()) return version;
  return invalid_argument("expected a version such as '1', found '", text.substr(0, 32), "'");
}

/// Of what a request brought: where all files of its version lie.
std::filesystem::path folder_of(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? path : path.parent_path();
}

Error names_no_file() {
  return invalid_argument(
      "load parameter 'config': default_model_filename names one of the files that a request "
      "brings, and this one brings none");
}

std::unique_ptr<Shared> make_shared_parts(const Server::Options& options,
                                          const backend::Registry& backends) {
  pipeline::Options start;
  start.functions = options.functions;
  start.backend_options = options.backend_options;
  start.warn = options.warn;
  start.stopped = options.stopped;
  start.trace = options.trace;
  const auto& limits = options.limits;
  return std::unique_ptr<Shared>(new Shared{
      backends, std::move(start), limits, SharedMemory(limits.regions, limits.region_bytes),
      ByteBudget(limits.request_bytes), std::make_shared<ReplyBudget>(limits.request_bytes),
      options.trace ? std::make_unique<RequestTrace>() : nullptr});
}

}  // namespace

Result<ModelSource> parse_source(const std::string& text) {
  ModelSource source;
  const auto equals = text.find('=');
  source.path = equals == std::string::npos ? text : text.substr(equals + 1);
  if (equals != std::string::npos) source.name = text.substr(0, equals);
  if (const auto colon = source.name.rfind(':'); colon != std::string::npos) {
    auto version = parse_version(source.name.substr(colon + 1));
    if (!version) return std::move(version).error().within("'" + text + "'");
    source.version = *version;
    source.name.resize(colon);
  }
  const bool nameless = equals != std::string::npos && source.name.empty();
  if (source.path.empty() || nameless) {
    return invalid_argument(
        "expected [NAME[:VERSION]=]PATH, found '", text, "'; write ",
        nameless ? "a name before the '=', or the path alone" : "the path of what is to be served");
  }
  if (equals == std::string::npos) {
    auto path = source.path.has_filename() ? source.path : source.path.parent_path();
    source.name = path.stem().string();
    if (path.stem().extension() == ".penstock") source.name = path.stem().stem().string();
  }
  if (auto named = check_model_name(source.name); !named) {
    const bool none = source.name.find_first_not_of('.') == std::string::npos;
    if (equals == std::string::npos && none) {
      return invalid_argument(
          "'", printable(text),
          "': no model's name follows from this path; write NAME=", printable(text));
    }
    return std::move(named).error().within("'" + printable(text) + "'");
  }
  return source;
}

Result<std::vector<ModelSource*>> models_called(std::vector<ModelSource>& models,
                                                const std::string& name) {
  std::vector<ModelSource*> called;
  for (auto& model : models) {
    const bool only = name.empty() && models.size() == 1;
    const auto versioned = concat(model.name, ":", model.version);
    if (only || model.name == name || versioned == name) called.push_back(&model);
  }
  if (!called.empty()) return called;
  const auto known = quoted_names(models);
  return invalid_argument("expected a model that is served (", known.empty() ? "none" : known,
                          "), found '", name, "'");
}

Repository::Repository(const Server::Options& options, const backend::Registry& backends)
    : shared_(make_shared_parts(options, backends)),
      patience_(options.patience),
      native_code_(options.native_code),
      uploads_native_code_(options.uploads_native_code) {
  for (const auto& model : options.models) {
    given_[model.name][model.version] = {model.path, native_code_, nullptr, 0, model.settings};
  }
}

Repository::~Repository() {
  drain();
  for (auto& [name, versions] : models_) {
    for (auto& [number, version] : versions) {
      if (version.model == nullptr) continue;
      version.model->give_up();
      version.model->pins()->wait_for_none();
    }
  }
}

Status Repository::load_all() {
  const std::scoped_lock changing(changing_);
  for (const auto& [name, sources] : given_) PENSTOCK_CHECK_OK(apply(name, sources));
  return {};
}

/// By request: no version of it is served, nor failed to load.
bool Repository::is_unloaded(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = models_.find(name);
  return found == models_.end() || std::ranges::all_of(found->second, [](const auto& held) {
           return held.second.model == nullptr && held.second.reason == kUnloaded;
         });
}

Reloaded Repository::reload() {
  const std::scoped_lock changing(changing_);
  Reloaded reloaded;
  for (const auto& [name, sources] : given_) {
    if (is_unloaded(name)) continue;
    if (Status loaded = apply(name, sources); loaded) {
      ++reloaded.models;
    } else {
      reloaded.errors.push_back(std::move(loaded).error());
    }
  }
  return reloaded;
}

Status Repository::load(const std::string& name, const LoadOptions& options) {
  PENSTOCK_CHECK_OK(check_model_name(name));
  const std::scoped_lock changing(changing_);
  PENSTOCK_TRY(const auto config,
               read_config(name, options.config.empty() ? "{}" : options.config));
  if (!options.files.empty()) {
    PENSTOCK_TRY(auto sources, receive(name, config, options));
    PENSTOCK_CHECK_OK(obey(config, sources));
    return apply(name, sources);
  }
  if (!config.file.empty()) return names_no_file();
  if (const auto given = given_.find(name); given != given_.end()) {
    auto sources = given->second;
    PENSTOCK_CHECK_OK(obey(config, sources));
    for (auto& [number, source] : sources) {
      PENSTOCK_TRY(auto settings, read_settings(options, source.path, std::nullopt));
      if (!settings.empty()) source.settings = std::move(settings);
    }
    return apply(name, sources);
  }
  return not_found("failed to load '", name,
                   "': the server was started without a model of that name, and the request brings "
                   "no files");
}

/// Leaves the versions that the configuration serves, which have to be as it says.
Status Repository::obey(const LoadConfig& config, Sources& sources) {
  std::set<std::uint64_t> there;
  std::uint64_t bytes = 0;
  for (const auto& [number, source] : sources) {
    there.insert(number);
    bytes += source.bytes;
  }
  PENSTOCK_TRY(const auto served, choose_versions(config, there));
  std::erase_if(sources, [&](const auto& source) { return !served.contains(source.first); });
  for (auto& [number, source] : sources) {
    source.config = config;
    source.bytes = std::exchange(bytes, 0);  // All lie there for as long as one is served.
  }
  return {};
}

Result<Repository::Sources> Repository::receive(const std::string& name, const LoadConfig& config,
                                                const LoadOptions& options) {
  if (options.config.empty()) {
    return invalid_argument(
        "Load parameter 'config' must be specified for model file override: give at least {}");
  }
  std::uint64_t used = 0;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [called, versions] : models_) {
      for (const auto& [number, version] : versions)
        used += called == name ? 0 : version.source.bytes;
    }
  }
  const std::uint64_t most = shared_->limits.upload_bytes;
  PENSTOCK_TRY(const auto upload, write_upload(config, options, most - std::min(used, most)));
  Sources sources;
  for (const auto& [number, path] : upload.versions) {
    const std::uint64_t bytes = sources.empty() ? upload.bytes : 0;
    PENSTOCK_TRY(auto settings,
                 read_settings(options, path, BroughtVersion{number, folder_of(path)}));
    sources[number] = {path, uploads_native_code_, upload.files, bytes, std::move(settings)};
  }
  return sources;
}

/// The versions that are wanted first, so that there is always one; then the others go.
Status Repository::apply(const std::string& name, const Sources& wanted) {
  PENSTOCK_CHECK_OK(check_room(name, wanted));
  Load load{.name = name, .wanted = wanted};
  Status loaded = load_from(load, wanted.begin());
  if (!loaded) {
    for (const auto& [number, model] : load.started) note_failure(load, number, loaded.error());
    return loaded;
  }
  put_in_place(load);
  std::vector<std::uint64_t> others;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [number, version] : models_[name]) {
      if (!wanted.contains(number)) others.push_back(number);
    }
  }
  for (const auto number : others) retire(name, number, kUnloaded);
  return {};
}

/// All of them or none: each stands beside what is served until those behind it stand, too.
Status Repository::load_from(Load& load, Sources::const_iterator first) {
  if (first == load.wanted.end()) return {};
  const auto& [number, source] = *first;
  Status others;
  Status loaded = load_version(load, number, source, [&] {
    others = load_from(load, std::next(first));
    return others;
  });
  if (!others) return others;  // As the one of them says it that failed.
  if (loaded) return {};
  return std::move(loaded).error().within(concat("model '", load.name, "' version ", number));
}

/// What was started, once all stand. What it replaces goes then: until its requests end, none of
/// the load's other versions waits.
void Repository::put_in_place(Load& load) {
  std::vector<std::unique_ptr<RunningModel>> before;
  before.reserve(load.started.size());  // What may find no memory comes before what changes.
  Sources sources = load.wanted;
  {
    const std::scoped_lock lock(mutex_);
    for (auto& [number, model] : load.started) {
      Version& version = models_[load.name][number];
      before.push_back(std::exchange(version.model, std::move(model)));
      version.source = std::move(sources.at(number));
      version.state = "READY";
      version.reason.clear();
    }
  }
  for (auto& model : before) {
    if (model != nullptr) take_away(std::move(model));
  }
}

Status Repository::check_room(const std::string& name, const Sources& wanted) {
  const std::scoped_lock lock(mutex_);
  std::size_t loaded = 0;
  for (const auto& [called, versions] : models_) {
    for (const auto& [number, held] : versions) {
      if (held.model != nullptr && (called != name || !wanted.contains(number))) ++loaded;
    }
  }
  if (loaded + wanted.size() <= shared_->limits.models) return {};
  return make_error(Code::kResourceExhausted, "model '", name, "': the server takes ",
                    shared_->limits.models, " models, ", loaded,
                    " others are loaded, and this load wants ", wanted.size(), "; unload one");
}

Status Repository::load_version(Load& load, std::uint64_t number, const Source& source,
                                const Others& others) {
  RunningModel* running = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    Version& version = models_[load.name][number];
    running = version.model.get();
    if (running == nullptr) version.state = "LOADING";
  }
  Status loaded = pipeline::guarded([&] {
    return running != nullptr ? renew(load, number, source, *running, others)
                              : start(load, number, source, others);
  });
  if (!loaded) note_failure(load, number, loaded.error());
  if (loaded || source.files == nullptr) return loaded;
  const auto sent = folder_of(source.path).parent_path();  // All its versions lie there.
  return in_senders_words(std::move(loaded).error(), sent, "file:");
}

/// What is served goes on. What the server was started with is known to be missing; nothing is left
/// of an upload.
void Repository::note_failure(const Load& load, std::uint64_t number, const Error& error) {
  const std::scoped_lock lock(mutex_);
  Version& version = models_[load.name][number];
  if (version.model != nullptr) return;
  if (load.wanted.at(number).files == nullptr) {
    version.state = "UNAVAILABLE";
    version.reason = error.message();
  } else {
    forget(load.name, number);
  }
}

void Repository::forget(const std::string& name, std::uint64_t number) {
  models_[name].erase(number);
  if (models_[name].empty()) models_.erase(name);
}

Result<plan::Package> Repository::load_source(const Source& source) const {
  app::Bounds bounds{.native_code = source.native_code};
  if (source.files != nullptr) {
    bounds.other_machines = source.native_code;
    bounds.folder = folder_of(source.path);
  }
  PENSTOCK_TRY(auto package, app::load_source(source.path, bounds, shared_->backends,
                                              shared_->start.functions, source.settings));
  PENSTOCK_CHECK_OK(check_plan(source.config, package.plan));
  return package;
}

Status Repository::start(Load& load, std::uint64_t number, const Source& source,
                         const Others& others) {
  PENSTOCK_TRY(auto package, load_source(source));
  auto started =
      RunningModel::start(load.name, std::to_string(number), package, source.native_code, *shared_);
  if (!started) return app::in_users_words(std::move(started).error(), source.path, package.plan);
  load.started.emplace(number, *std::move(started));
  return others();
}

/// The pipeline goes on with the new plan; where the interface is another, another pipeline takes
/// its place.
Status Repository::renew(Load& load, std::uint64_t number, const Source& source,
                         RunningModel& model, const Others& others) {
  if (model.closed_by()) return start(load, number, source, others);
  PENSTOCK_TRY(auto package, load_source(source));
  if (!model.has_interface_of(package.plan)) return start(load, number, source, others);
  Status replaced = model.replace(package, source.native_code, others);
  if (!replaced) return app::in_users_words(std::move(replaced).error(), source.path, package.plan);
  const std::scoped_lock lock(mutex_);
  models_[load.name][number].source = source;
  return {};
}

Status Repository::unload(const std::string& name) {
  const std::scoped_lock changing(changing_);
  std::vector<std::uint64_t> numbers;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) return {};
    for (const auto& [number, version] : found->second) numbers.push_back(number);
  }
  for (const auto number : numbers) retire(name, number, kUnloaded);
  return {};
}

void Repository::retire(const std::string& name, std::uint64_t number, const std::string& reason) {
  std::unique_ptr<RunningModel> model;
  {
    const std::scoped_lock lock(mutex_);
    Version& version = models_[name][number];
    model = std::move(version.model);
    version.state = model == nullptr ? "UNAVAILABLE" : "UNLOADING";
    version.reason = reason;
  }
  if (model != nullptr) take_away(std::move(model));
  const std::scoped_lock lock(mutex_);
  Version& version = models_[name][number];
  version.state = "UNAVAILABLE";
  if (version.source.files != nullptr) forget(name, number);
}

void Repository::take_away(std::unique_ptr<RunningModel> model) const {
  if (!model->pins()->wait_for_none(patience_)) {
    model->give_up();
    model->pins()->wait_for_none();
  }
}

Result<const Repository::Version*> Repository::look_up(const std::string& name,
                                                       const std::string& text) const {
  const auto found = models_.find(name);
  if (found == models_.end()) return unknown_model(name);
  const Versions& versions = found->second;
  if (text.empty()) {
    const auto latest = std::find_if(versions.rbegin(), versions.rend(), [](const auto& version) {
      return version.second.model != nullptr;
    });
    if (latest != versions.rend()) return &latest->second;
    return not_found("Request for unknown model: '", name, "' has no available versions");
  }
  PENSTOCK_TRY(const auto number, parse_version(text));
  const auto version = versions.find(number);
  if (version != versions.end()) return &version->second;
  return not_found("Request for unknown model: '", name, "' version ", number, " is not found");
}

Result<Pinned<RunningModel>> Repository::find(const std::string& name,
                                              const std::string& version) const {
  const std::scoped_lock lock(mutex_);
  if (draining_) {
    last_refusal_ = std::chrono::steady_clock::now();
    return make_error(Code::kUnavailable, "the server is shutting down and takes no new requests");
  }
  PENSTOCK_TRY(const auto found, look_up(name, version));
  if (found->model != nullptr) return found->model->pin();
  return make_error(
      Code::kUnavailable, "Request for model '", name, "' version ", version,
      " is not at ready state: ", found->reason.empty() ? found->state : found->reason);
}

std::vector<Pinned<RunningModel>> Repository::ready_ones(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  std::vector<Pinned<RunningModel>> ready;
  for (const auto& [called, versions] : models_) {
    if (!name.empty() && name != called) continue;
    for (const auto& [number, version] : versions) {
      if (version.model != nullptr) ready.push_back(version.model->pin());
    }
  }
  return ready;
}

std::vector<std::string> Repository::ready_versions(const std::string& name) const {
  std::vector<std::string> versions;
  for (const auto& model : ready_ones(name)) versions.push_back(model->version());
  return versions;
}

Result<bool> Repository::is_ready(const std::string& name, const std::string& version) const {
  const std::scoped_lock lock(mutex_);
  const auto found = look_up(name, version);
  if (!found && version.empty() && models_.contains(name)) return false;
  if (!found) return found.error();
  return !draining_ && (*found)->model != nullptr && !(*found)->model->closed_by();
}

bool Repository::all_ready() const {
  const std::scoped_lock lock(mutex_);
  const auto is_well = [&](const std::string& name, std::uint64_t number, const Version& version) {
    const auto given = given_.find(name);
    if (given == given_.end() || !given->second.contains(number)) return true;  // A client sent it.
    return version.model != nullptr ? !version.model->closed_by() : version.reason == kUnloaded;
  };
  return !draining_ && std::ranges::all_of(models_, [&](const auto& model) {
    return std::ranges::all_of(model.second, [&](const auto& held) {
      return is_well(model.first, held.first, held.second);
    });
  });
}

std::vector<IndexEntry> Repository::index() const {
  const std::scoped_lock lock(mutex_);
  std::vector<IndexEntry> entries;
  for (const auto& [name, versions] : models_) {
    for (const auto& [number, version] : versions) {
      IndexEntry entry{name, std::to_string(number), version.state, version.reason};
      const auto closed =
          version.model == nullptr ? std::optional<Error>() : version.model->closed_by();
      if (closed) {
        entry.state = "UNAVAILABLE";
        entry.reason = closed->message();
      }
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

void Repository::drain() {
  const std::scoped_lock lock(mutex_);
  draining_ = true;
  last_refusal_ = std::chrono::steady_clock::now();
}

std::chrono::steady_clock::time_point Repository::last_refusal() const {
  const std::scoped_lock lock(mutex_);
  return last_refusal_;
}

bool Repository::is_draining() const {
  const std::scoped_lock lock(mutex_);
  return draining_;
}

std::size_t Repository::pending() const {
  const std::scoped_lock lock(mutex_);
  std::size_t pending = 0;
  for (const auto& [name, versions] : models_) {
    for (const auto& [number, version] : versions) {
      if (version.model != nullptr) pending += version.model->pins()->count();
    }
  }
  return pending;
}

}  // namespace penstock::serve
