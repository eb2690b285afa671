package clitest

import (
	"testing"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// BuiltinTrace returns the built-in trace.
func BuiltinTrace(t testing.TB) *workload.Workload {
	t.Helper()
	w, _, err := trace.Open(t.Context(), trace.SampleName, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}
