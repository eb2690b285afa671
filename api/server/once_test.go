package server

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// safe are the methods that change something and may be sent again without a request_id, with the reason.
var safe = map[string]string{
	"IngestEvents":                 "events have ids",
	"IngestTelemetry":              "a sample that is sent again is stored once",
	"ReportMetrics":                "a report of an instance and time counts once",
	"AcknowledgeConfiguration":     "the same acknowledgement changes nothing",
	"SuggestTrials":                "a client gets the trials that it holds",
	"CheckTrialEarlyStoppingState": "a trial that is to stop stays so",
	"RenewTrialLease":              "a lease that is renewed again is longer by the time between",
	"Backup":                       "changes nothing",
	"Compact":                      "changes no record",
	"ListAuditRecords":             "changes nothing",
}

// Every mutation takes a request_id, and has an answer to one that is sent again.
func TestMutationsTakeRequestIDs(t *testing.T) {
	f := serve(t, nil)
	seen := map[string]bool{}
	for method, r := range methodRules {
		if !strings.HasPrefix(method, "/autosched.v1.") {
			continue
		}
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(
			protoreflect.FullName(strings.ReplaceAll(method[1:], "/", ".")))
		if err != nil {
			t.Fatal(err)
		}
		of := d.(protoreflect.MethodDescriptor)
		takes := of.Input().Fields().ByName("request_id") != nil
		why := safe[path.Base(method)]
		seen[path.Base(method)] = true
		if takes != (r.changes() && why == "") {
			t.Errorf("%s: takes a request_id %v, changes something %v, safe: %q", method, takes, r.changes(), why)
		}
		if !takes || of.IsStreamingClient() { // a stream makes its answer itself
			continue
		}
		if _, err := f.server.made(t.Context(), method, "x"); status.Code(err) == codes.Internal {
			t.Errorf("%s: %v", method, err)
		}
	}
	for _, method := range slices.Sorted(maps.Keys(safe)) {
		if !seen[method] {
			t.Errorf("there is no method %s", method)
		}
	}
}

// A freeze of all schedulers is several changes and one request: a late copy does not freeze again.
func TestFreezeOnce(t *testing.T) {
	f := serve(t, nil)
	for _, id := range []string{"a", "b"} {
		if _, err := f.tuning.CreateScheduler(t.Context(), request(id, pb.SchedulerSpec_AUTO)); err != nil {
			t.Fatal(err)
		}
	}
	freeze := &pb.FreezeTuningRequest{Name: "schedulers/-", Reason: "a holiday", RequestId: "freeze"}
	thaw := &pb.UnfreezeTuningRequest{Name: "schedulers/-", RequestId: "thaw"}
	for i, frozen := range []bool{true, false, false} { // thawed, and the copy of the freeze
		got := must[*pb.FreezeTuningResponse](t)(f.tuning.FreezeTuning(t.Context(), freeze)).GetSchedulers()
		if len(got) != 2 || (got[0].GetFreeze() != nil) != frozen || (got[1].GetFreeze() != nil) != frozen {
			t.Errorf("freeze %d: %v", i, got)
		}
		if got := must[*pb.UnfreezeTuningResponse](t)(f.tuning.UnfreezeTuning(t.Context(), thaw)).GetSchedulers(); len(
			got) != 2 || got[0].GetFreeze() != nil {
			t.Errorf("thaw %d: %v", i, got)
		}
	}
}
