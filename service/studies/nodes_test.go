package studies_test

import (
	"testing"

	"github.com/autosched/autosched/service/stores"
)

// Studies are kept as well on the store of several nodes.
func TestNodes(t *testing.T) {
	stores.Nodes(t, TestClientsOnAFailingDisk, TestLeasesExpire, TestAuditOfTrials, TestProposeAndDelete, TestHeldStudy,
		TestRunGoesOn, TestRunDrops, TestRunMeasuresAgain, TestManyTrials)
}
