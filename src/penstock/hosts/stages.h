// What stages on hosts need besides their devices: CPUs of this machine, and who stands by.
#pragma once

#include "penstock/base/result.h"
#include "penstock/hosts/hosts.h"
#include "penstock/hosts/plan.h"
#include "penstock/partition/split.h"

namespace penstock::hosts {

/// Completes stages that were chosen over hosts: the CPUs here that start their calls, and, if
/// wanted, for each the device of another host that has most time left for it and the memory.
/// \error kFailedPrecondition  no host can stand by for a stage.
Status equip(partition::ChosenStages& stages, const Hosts& hosts, const SiteAnswer& answer,
             bool with_standby);

}  // namespace penstock::hosts
