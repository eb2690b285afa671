package controller

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/autosched/autosched/workload"
)

// The names of spans and attributes, which docs/operations.md lists.
const (
	ingestSpan = "autosched.ingest"
	commitSpan = "autosched.commit"
	roundSpan  = "autosched.round"

	schedulerKey = attribute.Key("autosched.scheduler")
	eventsKey    = attribute.Key("autosched.events")
	callsKey     = attribute.Key("autosched.calls")
	kindKey      = attribute.Key("autosched.kind")
	intervalKey  = attribute.Key("autosched.interval")
	urgentKey    = attribute.Key("autosched.urgent")
)

// endSpan ends a span with an error or nil.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// linksTo are the spans of calls that are served together.
func linksTo(group []*ingestCall) (links []trace.Link) {
	for _, c := range group {
		if sc := trace.SpanContextFromContext(c.ctx); sc.IsValid() {
			links = append(links, trace.Link{SpanContext: sc})
		}
	}
	return links
}

// tracedStore has a span for each commit.
type tracedStore struct {
	Store
	tracer trace.Tracer
}

func (t tracedStore) Commit(ctx context.Context, c Change) (err error) {
	ctx, span := t.tracer.Start(ctx, commitSpan, trace.WithAttributes(schedulerKey.String(c.Scheduler.ID),
		kindKey.String("changes")))
	defer func() { endSpan(span, err) }()
	return t.Store.Commit(ctx, c)
}

func (t tracedStore) AppendEvents(ctx context.Context, scheduler string, events []workload.Event) (err error) {
	ctx, span := t.tracer.Start(ctx, commitSpan, trace.WithAttributes(schedulerKey.String(scheduler),
		kindKey.String("events"), eventsKey.Int(len(events))))
	defer func() { endSpan(span, err) }()
	return t.Store.AppendEvents(ctx, scheduler, events)
}
