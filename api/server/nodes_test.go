package server

import (
	"testing"

	"github.com/autosched/autosched/service/stores"
)

// The API answers the same on the store of several nodes.
func TestNodes(t *testing.T) {
	stores.Nodes(t, TestWorkloads, TestWorkloadsAreRefused, TestReportsOfTheEpoch, TestRequestIDs,
		TestMutationsTakeRequestIDs, TestFreezeOnce, TestApproveAndRollBack, TestPollWatchAcknowledge,
		TestLimitOfSchedulers, TestLimitOfEvents, TestLimitOfRequests, TestLimitOfAcknowledgements,
		TestUpdateScheduler)
}
