package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/metadata"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
)

// TestSpans: calls, ingests, commits and rounds have spans with the names and attributes that the
// page lists, linked to the caller's trace.
func TestSpans(t *testing.T) {
	recorded := tracetest.NewInMemoryExporter()
	traces := trace.NewTracerProvider(trace.WithSyncer(recorded))
	f := serveWith(t, t.TempDir(), controller.Options{Decide: round.DecideOnline, Tracer: traces.Tracer("test")},
		Options{Builtins: []controller.Builtin{testBuiltin}, Traces: traces})
	const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	if _, err := f.tuning.CreateScheduler(ctx, request("s", pb.SchedulerSpec_AUTO)); err != nil {
		t.Fatal(err)
	}
	f.ingest("s", submitted("j", 0), submitted("k", time.Hour))
	f.waitRounds("s", 1)
	f.stop()
	spans := recorded.GetSpans()
	page := string(must[[]byte](t)(os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))))
	find := func(name string, has ...attribute.KeyValue) tracetest.SpanStub {
		t.Helper()
		for _, s := range spans {
			if s.Name == name && !slices.ContainsFunc(has, func(a attribute.KeyValue) bool {
				return !slices.Contains(s.Attributes, a)
			}) {
				return s
			}
		}
		t.Errorf("no span %s with %v", name, has)
		return tracetest.SpanStub{}
	}
	call := find("autosched.v1.TuningService/CreateScheduler")
	if call.SpanContext.TraceID().String() != traceID {
		t.Errorf("the call is of trace %v", call.SpanContext.TraceID())
	}
	scheduler := attribute.String("autosched.scheduler", "s")
	commit := find("autosched.commit", scheduler, attribute.String("autosched.kind", "changes"))
	if commit.Parent.SpanID() != call.SpanContext.SpanID() {
		t.Error("the commit is not within the call")
	}
	ingest := find("autosched.ingest", scheduler, attribute.Int("autosched.events", 2),
		attribute.Int("autosched.calls", 1))
	stream := find("autosched.v1.TuningService/IngestEvents")
	if len(ingest.Links) != 1 || ingest.Links[0].SpanContext.SpanID() != stream.SpanContext.SpanID() {
		t.Errorf("the ingest has links %v", ingest.Links)
	}
	events := find("autosched.commit", attribute.String("autosched.kind", "events"))
	if events.Parent.SpanID() != ingest.SpanContext.SpanID() {
		t.Error("the commit of events is not within the ingest")
	}
	find("autosched.round", scheduler, attribute.Bool("autosched.urgent", false))
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "autosched.v1.") {
			continue
		}
		if !strings.Contains(page, "`"+s.Name+"`") {
			t.Errorf("docs/operations.md does not list %s", s.Name)
		}
		for _, a := range s.Attributes {
			if !strings.Contains(page, "`"+string(a.Key)+"`") {
				t.Errorf("docs/operations.md does not list %s", a.Key)
			}
		}
	}
}
