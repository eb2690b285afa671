package findings

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// Stored is the Source of a service: its events and its telemetry.
type Stored struct {
	Service *controller.Service
	Log     controller.EventLog // no events are read if nil
	Kept    *samples.Store      // no telemetry is read if nil
}

// Schedulers implements Source, as the methods below do.
func (s *Stored) Schedulers() []string { return s.Service.Schedulers("", math.MaxInt) }

func (s *Stored) Scheduler(id string) (Scheduler, error) {
	c, _, err := s.Service.Scheduler(id)
	return Scheduler{Zero: c.Zero, Cluster: c.Cluster,
		Version: fmt.Sprint(c.UID, " ", c.Revision, " ", c.ClockSet, " ", c.Zero.UnixNano())}, err
}

func (s *Stored) Events(ctx context.Context, id string, f func(workload.Event) error) error {
	select {
	case <-s.Service.Rebuilt():
	case <-ctx.Done():
		return ctx.Err()
	}
	c, _, err := s.Service.Scheduler(id)
	if err != nil || s.Log == nil {
		return err
	}
	_, err = controller.ReadEvents(ctx, s.Log, &c, f) // the service reports damage
	return err
}

func (s *Stored) Sampled(id string) (time.Duration, error) {
	if s.Kept == nil {
		return 0, nil
	}
	return s.Kept.Newest(id)
}

func (s *Stored) Samples(ctx context.Context, id string, from, to time.Duration,
	f func(*telemetry.GPUSample) error) error {
	if s.Kept == nil {
		return nil
	}
	return s.Kept.Read(ctx, id, samples.Query{From: from, To: to}, f)
}

func (s *Stored) Iterations(ctx context.Context, id string, from, to time.Duration,
	f func(*telemetry.Iteration) error) error {
	if s.Kept == nil {
		return nil
	}
	return s.Kept.Iterations(ctx, id, from, to, f)
}

// Look examines a look at an adopted configuration: how far it delays jobs beyond the prediction.
func (k *Keeper) Look(id string, l controller.Look) {
	if l.Verdict.Judgement == round.Early {
		return
	}
	k.Guardrail(id, patterns.Guardrail{Time: time.Duration(l.At.UnixNano()),
		Revision: strconv.FormatInt(l.Revision, 10), Applied: time.Duration(l.Applied.UnixNano()),
		Name: "delay of jobs by the change, in widths of the forecast band", Value: l.Verdict.Excess, Low: math.Inf(-1),
		High: 1, DemandOutside: l.Verdict.Judgement == round.DemandLeft})
}
