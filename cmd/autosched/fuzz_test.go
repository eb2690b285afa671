package main

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/schedulers"
)

// FuzzReadScheduler: no file of a registration makes reading it panic.
func FuzzReadScheduler(f *testing.F) {
	f.Add("name: schedulers/s\nspec: {scheduler_type: tiresias, cluster: {nodes: 2, gpus_per_node: 8}}\n")
	f.Add(`{"spec":{"parameters":[{"parameter_id":"a","boolean_value_spec":{}}]}}`)
	f.Add("a: &a [1]\nb: [*a, *a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := readScheduler(strings.NewReader(text), "-"); err == nil && s == nil {
			t.Fatal("neither a scheduler nor an error")
		}
	})
}

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
