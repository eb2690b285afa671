package reports_test

import (
	"testing"

	"github.com/autosched/autosched/service/stores"
)

// Reports are kept as well on the store of several nodes.
func TestNodes(t *testing.T) {
	stores.Nodes(t, TestReports, TestRetention, TestMaxMetrics, TestTakenBack, TestNotTakenBack, TestFreezeExpires)
}
