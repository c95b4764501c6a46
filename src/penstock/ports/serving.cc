// What gateway::start_serving() loads: the server with all of its ports.
#include "penstock/gateway/serving.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/address.h"
#include "penstock/base/option_name.h"
#include "penstock/grpc/front.h"
#include "penstock/grpc/listener.h"
#include "penstock/host/host.h"
#include "penstock/http/tls_check.h"
#include "penstock/metrics/families.h"
#include "penstock/rest/front.h"
#include "penstock/serve/access.h"
#include "penstock/serve/access_log.h"
#include "penstock/serve/server.h"

namespace penstock::ports {
namespace {

using gateway::Options;

Result<Options> with_models(Options options) {
  for (const auto& text : options.models) {
    PENSTOCK_TRY(auto source, serve::parse_source(text));
    options.server.models.push_back(std::move(source));
  }
  for (const auto& [name, settings] : options.settings) {
    PENSTOCK_TRY(const auto called, serve::models_called(options.server.models, name));
    for (auto* model : called) {
      auto& [constants, states] = model->settings;
      for (const auto& [input, value] : settings.constants)
        constants.insert_or_assign(input, value);
      states.insert(states.end(), settings.states.begin(), settings.states.end());
    }
  }
  return options;
}

Status check_models(const std::vector<serve::ModelSource>& models) {
  for (std::size_t i = 0; i < models.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (models[i].name != models[j].name || models[i].version != models[j].version) continue;
      return invalid_argument("'", models[j].path.string(), "' and '", models[i].path.string(),
                              "' are both model '", models[i].name, "' version ", models[i].version,
                              "; name them NAME[:VERSION]=PATH");
    }
  }
  return {};
}

std::string listen_option() {
  return in_words_of_caller("--listen", "listen");
}
std::string http_option() {
  return in_words_of_caller("--http", "http");
}

/// As of the option that brought it about.
Error told_of(std::string option, Error error) {
  return std::move(error).within(std::move(option));
}
Status told_of(const std::string& option, Status status) {
  return status ? Status() : told_of(option, std::move(status).error());
}

/// Who has no certificate listens where others cannot read along.
Status check_address(const std::string& option, const std::string& address,
                     const Options& options) {
  const bool http = option == http_option();
  const bool file = !http && socket_file(address);
  const auto split = file ? Result<HostAndPort>(HostAndPort()) : split_address(address);
  if (split) {
    const bool encrypted = !options.tls.key.empty();
    return told_of(option, serve::check_exposure(address, encrypted, options.insecure));
  }
  return told_of(
      option, invalid_argument("'", address, "' cannot be listened on: ", split.error().message(),
                               http ? "" : "; a socket's file is unix:PATH"));
}

/// The option that named the file which is wrong.
Status check_files(const TlsFiles& tls) {
  const Status checked = http::check_tls(tls);
  if (checked) return {};
  const auto* place = checked.error().find(Where::kFile);
  const std::array<std::pair<OptionName, const std::filesystem::path*>, 3> given = {{
      {OptionName::kTlsCertificate, &tls.certificate},
      {OptionName::kTlsKey, &tls.key},
      {OptionName::kTlsClientAuthority, &tls.client_authority},
  }};
  for (const auto& [option, file] : given) {
    if (place == nullptr || place->name != file->string()) continue;
    return told_of(std::string(name_of(option)), checked.error());
  }
  return checked;
}

/// What a worker shows to others, and whom it believes there.
Status check_peers(const Options& options) {
  if (!options.peer_authority.empty()) {
    if (options.tls.key.empty()) {
      return invalid_argument("--peer-authority needs ", OptionName::kTlsCertificate, " and ",
                              OptionName::kTlsKey);
    }
    PENSTOCK_CHECK_OK(http::check_authority(options.peer_authority));
  }
  if (options.peer_token.empty()) return {};
  std::string token;
  std::getline(std::ifstream(options.peer_token), token);
  if (!token.empty()) return {};
  return invalid_argument("cannot be used as --peer-token: expected a token in its first line")
      .within({Where::kFile, options.peer_token.string()});
}

Status check_encryption(const Options& options) {
  const TlsFiles& tls = options.tls;
  if (tls.key.empty() != tls.certificate.empty()) {
    return invalid_argument(OptionName::kTlsCertificate, " and ", OptionName::kTlsKey,
                            " belong together: one is missing");
  }
  if (tls.key.empty() && !tls.client_authority.empty()) {
    return invalid_argument(OptionName::kTlsClientAuthority, " needs ", OptionName::kTlsCertificate,
                            " and ", OptionName::kTlsKey);
  }
  if (!tls.key.empty()) PENSTOCK_CHECK_OK(check_files(tls));
  return check_peers(options);
}

/// Of the option where it is the address that cannot be had.
Error told_of_port(const std::string& option, Error error, const std::string& address) {
  if (error.code != Code::kUnavailable) return error;
  if (option == listen_option() && address == Options().grpc) {  // Nobody chose it.
    error = std::move(error).adding("; serve and worker have the same port unless they are told");
  }
  return told_of(option, std::move(error));
}

/// Before models are loaded, which may take minutes.
Status check_port(const std::string& option, const std::string& address, const Options& options) {
  PENSTOCK_CHECK_OK(check_address(option, address, options));
  if (option == listen_option() && socket_file(address)) return {};
  auto free = grpc::Listener::bind(address);
  return free ? Status() : told_of_port(option, std::move(free).error(), address);
}

Status check_ports(const Options& options) {
  PENSTOCK_CHECK_OK(check_address(listen_option(), options.grpc, options));
  if (options.http == options.grpc && !options.http.ends_with(":0")) {
    return told_of(http_option(), invalid_argument("expected another port than ", listen_option(),
                                                   " has, found '", options.http, "' for both"));
  }
  PENSTOCK_CHECK_OK(check_port(listen_option(), options.grpc, options));
  if (options.http.empty()) return {};
  return check_port(http_option(), options.http, options);
}

Result<serve::Access> open_access(const Options& options) {
  serve::Access::Options access;
  access.tokens = options.tokens;
  access.client_certificates = !options.tls.client_authority.empty();
  access.say = options.server.warn;
  return serve::Access::open(access);
}

/// As it is reached itself, so it reaches others.
grpc::PeerOptions peers_of(const Options& options) {
  grpc::PeerOptions peers;
  peers.token = options.peer_token;
  if (options.tls.key.empty()) return peers;
  peers.tls = true;
  peers.certificate = options.tls.certificate;
  peers.key = options.tls.key;
  const bool named = !options.peer_authority.empty();
  peers.roots = named ? options.peer_authority : options.tls.client_authority;
  return peers;
}

/// Null without a key.
grpc::NewCertificates certificates_of(const TlsFiles& tls) {
  if (tls.key.empty()) return {};
  return [watch = http::TlsWatch(tls)]() mutable { return watch.look(); };
}

/// What a worker has of others.
void add_worker(metrics::Families& families, const host::Host::Load& load) {
  const auto add = [&](const char* name, const char* help, auto value) {
    families.add(metrics::Kind::kGauge, name, help, {}, static_cast<double>(value));
  };
  add("penstock_worker_sessions", "Callers that have something here", load.sessions);
  add("penstock_worker_stages", "Stages that are open for them", load.stages);
  add("penstock_worker_calls", "Calls of stages in progress", load.calls);
  add("penstock_worker_kept_bytes", "Tensors that other workers are to pull", load.kept_bytes);
  add("penstock_worker_stored_bytes", "Files of stages on disk", load.stored_bytes);
}

class Ports final : public gateway::Serving {
 public:
  Ports(serve::Access opened, std::chrono::nanoseconds patience)
      : access_(std::move(opened)), patience_(patience) {}
  Ports(const Ports&) = delete;
  Ports& operator=(const Ports&) = delete;
  ~Ports() override {
    if (!stopped_) patience_ = std::chrono::nanoseconds(0);
    close();
  }

  /// \pre  no other function was called before
  Status open(const Options& options, const backend::Registry& backends) {
    if (!options.access_log.empty()) {
      auto log = serve::AccessLog::open(options.access_log, options.server.warn);
      if (!log)
        return told_of(in_words_of_caller("--access-log", "access_log"), std::move(log).error());
      log_ = *std::move(log);
    }
    PENSTOCK_TRY(server_, serve::Server::start(options.server, backends));
    if (options.worker) {
      PENSTOCK_TRY(host_, host::Host::start(*server_, *options.worker));
    }
    const TlsFiles& tls = options.tls;
    auto listening = grpc::Front::start(*server_, access_,
                                        {.address = options.grpc,
                                         .certificates = certificates_of(tls),
                                         .log = log_.get(),
                                         .host = host_.get(),
                                         .peers = peers_of(options),
                                         .say = options.server.warn});
    if (!listening) {
      return told_of_port(listen_option(), std::move(listening).error(), options.grpc);
    }
    grpc_ = *std::move(listening);
    if (options.http.empty()) return {};
    rest::Front::Options http{.address = options.http, .log = log_.get()};
    http.say = options.server.warn;
    if (host_ != nullptr) {
      http.figures = [&host = *host_](metrics::Families& families) {
        add_worker(families, host.load());
      };
    }
    if (!tls.key.empty()) http.tls = tls;
    auto opened = rest::Front::start(*server_, access_, std::move(http));
    if (!opened) return told_of_port(http_option(), std::move(opened).error(), options.http);
    http_ = *std::move(opened);
    http_address_ = http_->address();
    return {};
  }

  [[nodiscard]] const std::string& grpc_address() const override { return grpc_->address(); }
  [[nodiscard]] const std::string& http_address() const override { return http_address_; }
  [[nodiscard]] std::vector<std::string> models() const override {
    std::vector<std::string> names;
    for (const auto& model : server_->index(true)) {
      names.push_back(concat(model.name, " version ", model.version));
    }
    return names;
  }
  [[nodiscard]] std::filesystem::path contents() const override {
    return host_ == nullptr ? std::filesystem::path() : host_->contents().folder();
  }
  serve::Reloaded reload() override {
    auto reloaded = server_->reload();
    Status logged = log_ == nullptr ? Status() : log_->reopen();
    if (!logged) reloaded.errors.push_back(std::move(logged).error());
    return reloaded;
  }
  [[nodiscard]] Result<std::uint64_t> write_trace(
      const std::filesystem::path& file) const override {
    return server_->write_trace(file);
  }
  bool stop() override { return close(); }

 private:
  bool close() {
    if (std::exchange(stopped_, true) || server_ == nullptr) return true;
    const auto end = std::chrono::steady_clock::now() + patience_;
    const auto left = [&] {
      return std::max(end - std::chrono::steady_clock::now(),
                      std::chrono::steady_clock::duration(0));
    };
    bool drained = server_->drain(patience_);
    if (host_ != nullptr) drained = host_->drain(left()) && drained;
    if (grpc_ != nullptr) grpc_->stop(left());
    if (http_ != nullptr) http_->stop(left());
    if (log_ != nullptr) log_->tell_lost();
    return drained;
  }

  // In the order in which they use one another.
  serve::Access access_;
  std::unique_ptr<serve::AccessLog> log_;
  std::unique_ptr<serve::Server> server_;
  std::unique_ptr<host::Host> host_;  // Null: it is no worker.
  std::unique_ptr<grpc::Front> grpc_;
  std::unique_ptr<rest::Front> http_;
  std::string http_address_;
  std::chrono::nanoseconds patience_;
  bool stopped_ = false;
};

Result<std::unique_ptr<gateway::Serving>> start(const Options& given,
                                                const backend::Registry& backends) {
  PENSTOCK_TRY(const auto options, with_models(given));
  PENSTOCK_CHECK_OK(check_models(options.server.models));
  PENSTOCK_CHECK_OK(check_encryption(options));
  PENSTOCK_CHECK_OK(check_ports(options));
  PENSTOCK_TRY(auto access, open_access(options));
  auto ports = std::make_unique<Ports>(std::move(access), options.server.patience);
  PENSTOCK_CHECK_OK(ports->open(options, backends));
  return std::unique_ptr<gateway::Serving>(std::move(ports));
}

}  // namespace
}  // namespace penstock::ports

/// What gateway::start_serving() looks for.
extern "C" void penstock_start_serving(
    const penstock::gateway::Options& options, const penstock::backend::Registry& backends,
    penstock::Result<std::unique_ptr<penstock::gateway::Serving>>& made) {
  made = penstock::ports::start(options, backends);
}
