// How long a run takes before and after it trains, in seconds.
#pragma once

namespace draftsmith {

struct SetUpTimes {
  double products_s = 0;     // measuring layouts, choosing the algorithms of products
  double allocate_s = 0;     // memory of the devices and of the slots
  double first_state_s = 0;  // memory of the state on the host, drawn or read
  double load_s = 0;         // the target's weights and tables, of all devices
  double restore_s = 0;      // the first state, to all drafters
  double warm_up_s = 0;      // of all devices
  double total_s = 0;        // and all else until the threads start
};

}  // namespace draftsmith
