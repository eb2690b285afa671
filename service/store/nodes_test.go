package store_test

import (
	"testing"

	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/stores"
)

func init() {
	store.OpenRecords = func(dir string, o store.Options) (store.Records, error) { return stores.Open(dir, o) }
	store.RecordsOf = stores.Records
}

// Records are kept as well on the store of several nodes.
func TestNodes(t *testing.T) {
	stores.Nodes(t, store.TestStudies, store.TestWorkloads, store.TestAuditLogIsKeptByDay)
}
