// Reads the token file again when it changes, and compares hashes of tokens in constant time.
#include "penstock/serve/access.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "penstock/base/hash.h"
#include "penstock/base/hexadecimal.h"
#include "penstock/base/option_name.h"
#include "penstock/base/secret.h"
#include "penstock/base/words.h"
#include "penstock/device/address.h"

namespace penstock::serve {

namespace fs = std::filesystem;

// Access::State holds these: they have its linkage.

struct Rights {
  bool infer = false, load = false, admin = false;
  std::string text;  ///< As in the file.
};

/// One line of the file.
struct Client {
  std::string name;
  std::string hash;  ///< Of its token; empty: it shows a certificate.
  Rights rights;
};

/// By which a changed file is known.
struct Stamp {
  fs::file_time_type written;
  std::uintmax_t bytes = 0;
  bool operator==(const Stamp&) const = default;
};

namespace {

constexpr std::string_view kHashPrefix = "sha256:";
constexpr std::string_view kRights = "some of infer,load,admin, with commas and no blanks";

std::optional<Stamp> stamp_of(const fs::path& file) {
  std::error_code failed;
  Stamp stamp;
  stamp.written = fs::last_write_time(file, failed);
  if (failed) return std::nullopt;
  stamp.bytes = fs::file_size(file, failed);
  if (failed) return std::nullopt;
  return stamp;
}

Result<Rights> parse_rights(const std::string& text) {
  Rights rights{.text = text};
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "infer") {
      rights.infer = true;
    } else if (word == "load") {
      rights.load = true;
    } else if (word == "admin") {
      rights.admin = true;
    } else {
      return invalid_argument("expected rights, which are ", kRights, ", found '", text, "'");
    }
  }
  if (text.empty() || text.back() == ',') {
    return invalid_argument("expected rights, which are ", kRights, ", found '", text, "'");
  }
  return rights;
}

Result<Client> parse_client(const std::vector<std::string>& words) {
  if (words.size() != 3) {
    return invalid_argument(
        "expected 'NAME sha256:HASH RIGHTS' or 'NAME certificate RIGHTS', found ",
        counted(words.size(), "word"), "; 'penstock token NAME' prints such a line");
  }
  PENSTOCK_TRY(Rights rights, parse_rights(words[2]));
  Client client{.name = words[0], .hash = {}, .rights = std::move(rights)};
  if (words[1] == "certificate") return client;
  const std::string_view key = words[1];
  if (!key.starts_with(kHashPrefix) || !is_sha256(key.substr(kHashPrefix.size()))) {
    // The word is not repeated: it may be a token that somebody wrote where its hash belongs.
    return invalid_argument("the second word of '", words[0],
                            "' is neither 'certificate' nor 'sha256:' and 64 hexadecimal digits; "
                            "'penstock token NAME' prints such a line");
  }
  client.hash = key.substr(kHashPrefix.size());
  return client;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line.substr(0, line.find('#')));
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(std::move(word));
  return words;
}

Result<std::vector<Client>> read_clients(const fs::path& file) {
  std::error_code unknown;
  if (fs::is_directory(file, unknown)) {
    return invalid_argument(
               "expected a file of tokens, found a folder; 'penstock token NAME >> FILE' makes one")
        .within({Where::kFile, file.string()});
  }
  std::ifstream in(file);
  if (!in) {
    return not_found("cannot be read: ", std::generic_category().message(errno),
                     "; 'penstock token NAME >> FILE' makes one")
        .within({Where::kFile, file.string()});
  }
  std::vector<Client> clients;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const auto words = words_of(line);
    if (words.empty()) continue;
    auto client = parse_client(words);
    if (client && std::ranges::count(clients, client->name, &Client::name) != 0) {
      client = invalid_argument("the name '", words[0], "' stands in a line before; give another");
    }
    if (!client) {
      return std::move(client)
          .error()
          .within({Where::kLine, number})
          .within({Where::kFile, file.string()});
    }
    clients.push_back(*std::move(client));
  }
  return clients;
}

/// What a file says that lets nobody in; empty where it does.
std::string warning_of(const std::vector<Client>& clients, const fs::path& file) {
  if (!clients.empty()) return {};
  return concat("file of tokens '", file.string(),
                "' names nobody: every request but those for health is refused until it does; "
                "'penstock token NAME >> ",
                file.string(), "' adds a client, and the file is read again then");
}

bool has(const Rights& rights, Right right) {
  switch (right) {
    case Right::kInfer:
    case Right::kSharedMemory:
      return rights.infer;
    case Right::kLoad:
      return rights.load;
    case Right::kAdmin:
      return rights.admin;
  }
  return false;
}

std::string_view words_for(Right right) {
  switch (right) {
    case Right::kInfer:
      return "use models";
    case Right::kSharedMemory:
      return "use shared memory";
    case Right::kLoad:
      return "load or unload models";
    case Right::kAdmin:
      return "see metrics or change settings";
  }
  return "";
}

/// By the token where there is one, which is compared with all; else by the certificate.
const Client* find_client(const std::vector<Client>& clients, const Credentials& credentials) {
  const Client* found = nullptr;
  const std::string hash = sha256_of(credentials.token);
  for (const auto& client : clients) {
    const bool same = credentials.token.empty()
                          ? client.hash.empty() && client.name == credentials.certificate_name
                          : equal_in_constant_time(client.hash, hash);
    if (same) found = &client;
  }
  return found;
}

Error unknown_client(const Credentials& credentials) {
  if (!credentials.token.empty()) {
    return make_error(Code::kUnauthenticated, "the token is not known here");
  }
  if (!credentials.certificate_name.empty()) {
    return make_error(Code::kUnauthenticated, "the certificate's name '",
                      credentials.certificate_name, "' is not in the server's file of tokens");
  }
  return make_error(Code::kUnauthenticated,
                    "expected a token, found none: send 'authorization: Bearer TOKEN'");
}

}  // namespace

struct Access::State {
  Options options;
  mutable std::mutex mutex;
  mutable std::optional<Stamp> stamp;                                // Of what was read last.
  mutable std::shared_ptr<const std::vector<Client>> known_clients;  // Null: no file.
  mutable std::uint64_t generation = 0;                              // How often it was read again.

  /// What the file says now, and its generation.
  struct Known {
    std::shared_ptr<const std::vector<Client>> clients;
    std::uint64_t generation = 0;
  };
  [[nodiscard]] Known known() const {
    if (options.tokens.empty()) return {};
    const std::scoped_lock lock(mutex);
    read_again();
    return {known_clients, generation};
  }

  /// \pre  holds the lock.
  void read_again() const {
    const auto found = stamp_of(options.tokens);
    if (found == stamp) return;
    stamp = found;
    auto read = read_clients(options.tokens);
    if (read) known_clients = std::make_shared<const std::vector<Client>>(*std::move(read));
    ++generation;
    if (options.say) {
      options.say(read ? concat("tokens read again from ", options.tokens.string())
                       : concat("the tokens read before still hold: ", read.error().message()));
      if (read) warn_of_nobody();
    }
  }

  void warn_of_nobody() const {
    const auto warning = warning_of(*known_clients, options.tokens);
    if (options.say && !warning.empty()) options.say(warning);
  }
};

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  if (!std::ranges::equal(authorization.substr(0, kScheme.size()), kScheme, {}, lower)) return {};
  authorization.remove_prefix(kScheme.size());
  while (authorization.starts_with(' ')) authorization.remove_prefix(1);
  while (authorization.ends_with(' ')) authorization.remove_suffix(1);
  return authorization;
}

Access::Access(std::unique_ptr<State> state) : state_(std::move(state)) {}
Access::Access(Access&&) noexcept = default;
Access& Access::operator=(Access&&) noexcept = default;
Access::~Access() = default;

Result<Access> Access::open(Options options) {
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  if (const auto& file = state->options.tokens; !file.empty()) {
    state->stamp = stamp_of(file);
    auto clients = read_clients(file);
    if (!clients) {
      return std::move(clients).error().within(std::string(name_of(OptionName::kTokens)));
    }
    state->known_clients = std::make_shared<const std::vector<Client>>(*std::move(clients));
    state->warn_of_nobody();
  }
  return Access(std::move(state));
}

std::uint64_t Access::generation() const {
  return state_->known().generation;
}

bool Access::takes_tokens() const {
  return !state_->options.tokens.empty();
}

Result<std::string> Access::check(Right right, const Credentials& credentials) const {
  if (right == Right::kSharedMemory && !credentials.local) {
    return make_error(Code::kPermissionDenied,
                      "shared memory is for clients of the server's own machine; send the tensors "
                      "in the request");
  }
  const auto clients = state_->known().clients;
  if (clients == nullptr && state_->options.client_certificates) {
    if (credentials.certificate_name.empty()) {
      return make_error(Code::kUnauthenticated, "expected a client certificate, found none");
    }
    return credentials.certificate_name;
  }
  if (clients == nullptr) {
    if (credentials.local || right == Right::kInfer) return std::string();
    return make_error(Code::kPermissionDenied, "only clients of the server's own machine may ",
                      words_for(right), "; start the server with ", OptionName::kTokens, " or ",
                      OptionName::kTlsClientAuthority);
  }
  const Client* client = find_client(*clients, credentials);
  if (client == nullptr) return unknown_client(credentials);
  if (!has(client->rights, right)) {
    return make_error(Code::kPermissionDenied, "'", client->name, "' may not ", words_for(right),
                      ": its rights are ", client->rights.text);
  }
  return client->name;
}

Result<NewToken> make_token(const std::string& name, const std::string& rights) {
  if (words_of(name) != std::vector{name}) {
    return invalid_argument("expected a name without blanks and '#', found '", name, "'");
  }
  PENSTOCK_CHECK_OK(parse_rights(rights));
  PENSTOCK_TRY(const auto secret, make_secret());
  std::string token = to_hexadecimal(secret);
  std::string line = concat(name, " ", kHashPrefix, sha256_of(token), " ", rights);
  return NewToken{.token = std::move(token), .line = std::move(line)};
}

Status check_exposure(const std::string& address, bool encrypted, bool insecure) {
  if (encrypted || insecure || device::is_loopback(address)) return {};
  return make_error(Code::kPermissionDenied, "plain text would leave this machine at '", address,
                    "': give a certificate (", OptionName::kTlsCertificate, ", ",
                    OptionName::kTlsKey,
                    "), listen on 127.0.0.1, or "
                    "say ",
                    OptionName::kInsecure);
}

}  // namespace penstock::serve
