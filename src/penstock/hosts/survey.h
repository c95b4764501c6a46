// Survey: what hosts say of themselves, and what the ways between them carry.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/database.h"
#include "penstock/hosts/hosts.h"
#include "penstock/hosts/network.h"
#include "penstock/hosts/sharing.h"
#include "penstock/hosts/worker.h"

namespace penstock::hosts {

/// As Hosts::hosts.
struct Surveyed {
  std::unique_ptr<Worker> worker;  ///< Null: it could not be reached.
  std::optional<Error> error;      ///< Why.
};

struct Survey {
  std::vector<Surveyed> hosts;
  MeasuredLinks links;
  std::vector<Sharing> sharing;  ///< Of hosts with two peers or more; `links.wires` tells it too.
  std::vector<Sharing> uplinks;  ///< Of two hosts with a peer each; `links.uplinks` tells it too.
  std::vector<Error> failed;     ///< Ways that could not be measured.
};

/// Asks all hosts, one after the other, so that measuring one way disturbs no other. A host that
/// cannot be reached is no error. The ways are measured, between hosts too, then the uplinks that
/// hosts share, and then what the ways of each host share. `links` has what was measured alone.
Survey survey(const Hosts& hosts, const Reach& reach, const SurveyLimits& limits = {});

/// Newer measurements over known ones.
void add(MeasuredLinks& known, const MeasuredLinks& newer);

/// What was measured of links by earlier surveys from this machine, and what this one has measured.
MeasuredLinks known_links(cost::Database& database, const Hosts& hosts);
/// \error as cost::Database::put_link()
Status keep_links(cost::Database& database, const Hosts& hosts, const MeasuredLinks& links);

/// What the file leaves open is taken from what the workers say: CPUs, quota, memory, and the kind.
void complete(Hosts& hosts, const Survey& survey);

}  // namespace penstock::hosts
