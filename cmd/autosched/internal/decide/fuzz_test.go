package decide

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/schedulers"
)

// FuzzParseRow: a row of a comparison that is read has a scheduler and a valid configuration.
func FuzzParseRow(f *testing.F) {
	f.Add("a=tiresias:queues=2,queue_thresholds=100,preset")
	f.Add("fifo")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "/.") { // the name of a file
			return
		}
		row, err := parseRow(text, schedulers.Find)
		if err == nil && row.Scheduler == nil {
			t.Fatalf("%q has no scheduler", text)
		}
	})
}
