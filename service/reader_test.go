package service_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// faultyCopy is a copy with records that cannot be read.
type faultyCopy struct {
	*store.Store
	damage []controller.Damage     // of Load
	alter  func(*controller.Saved) // of each scheduler
	err    error                   // of LoadScheduler
}

func (c *faultyCopy) Load() ([]controller.Saved, []controller.Request, []controller.Damage, error) {
	saved, requests, damage, err := c.Store.Load()
	for i := range saved {
		if c.alter != nil {
			c.alter(&saved[i])
		}
	}
	return saved, requests, append(damage, c.damage...), err
}

func (c *faultyCopy) LoadScheduler(id string) (controller.Saved, bool, error) {
	one, found, err := c.Store.LoadScheduler(id)
	if c.alter != nil {
		c.alter(&one)
	}
	return one, found, errors.Join(err, c.err)
}

// copied is a directory that a service writes, and a reader of it.
type copied struct {
	t       *testing.T
	dir     *store.Store
	writes  *controller.Service
	reports *reports.Keeper
}

func newCopied(t *testing.T) *copied {
	dir, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	never := func(context.Context, round.Input) (round.Decision, error) { panic("there are no rounds") }
	c := &copied{t: t, dir: dir}
	if c.writes, err = controller.NewService(controller.Options{Store: dir, Decide: never}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.writes.Run(context.Background(), controller.Hooks{}) }()
	c.reports = reports.New(reports.Options{Store: dir, Schedulers: c.writes})
	t.Cleanup(func() {
		c.reports.Close()
		c.writes.Close()
		_ = dir.Close()
	})
	return c
}

func (c *copied) register(id string) {
	c.t.Helper()
	if _, err := c.writes.Register(c.t.Context(), controller.Call{Origin: audit.Origin{Actor: "ann", Verb: "Create"}},
		controller.Registration{ID: id, Type: controller.External, Objective: "wait", Mode: controller.Recommend,
			Cluster: workload.Uniform(1, 8), Policy: controller.DefaultPolicy(), Params: []space.Param{
				{ID: "x", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.9)}}}); err != nil {
		c.t.Fatal(err)
	}
}

// adopt publishes a configuration.
func (c *copied) adopt(id string, x float64) {
	c.t.Helper()
	sp, err := c.writes.Space(id)
	if err != nil {
		c.t.Fatal(err)
	}
	next, err := c.writes.Propose(c.t.Context(), controller.Call{}, id, sp.Default().With("x", space.Num(x)), "found",
		rollout.Evidence{Trial: "schedulers/" + id + "/studies/s/trials/1", Metric: "wait"})
	if err == nil {
		_, err = c.writes.Approve(c.t.Context(), controller.Call{}, id, rollout.Approve{Revision: next.Revision}, nil)
	}
	if err == nil {
		_, _, err = c.writes.Acknowledge(c.t.Context(), controller.Call{}, id, next.Revision,
			rollout.Ack{State: rollout.AckApplied})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// read makes a reader, which is closed with the test.
func (c *copied) read(of service.Copy) (*service.Reader, error) {
	c.t.Helper()
	files, err := access.Open(access.Files{}, access.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := service.NewReader(of, service.ReaderOptions{Access: files, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		c.t.Cleanup(r.Close)
	}
	return r, err
}

// shows is the revision of a scheduler that a reader answers, 0 if it knows no such scheduler, and the reports of it.
func shows(t *testing.T, r *service.Reader, id string) (revision int64, reported int) {
	t.Helper()
	config := pb.NewConfigurationServiceClient(r.Conn())
	now, err := config.GetCurrentConfiguration(t.Context(),
		&pb.GetCurrentConfigurationRequest{Name: "schedulers/" + id})
	if status.Code(err) == codes.NotFound {
		return 0, 0
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.GetConfiguration(t.Context(), &pb.GetConfigurationRequest{Name: now.GetConfiguration().GetName()})
	if err != nil {
		t.Fatal(err)
	}
	return c.GetRevision(), len(c.GetReportedMetrics())
}

// TestReaderRereads: a reader answers as of when it read, and what it reads again as of then.
func TestReaderRereads(t *testing.T) {
	c := newCopied(t)
	c.register("a")
	c.register("b")
	r, err := c.read(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when, id string, revision int64, reported int) {
		t.Helper()
		if got, metrics := shows(t, r, id); got != revision || metrics != reported {
			t.Errorf("%s, %s: revision %d with %d reported metrics, want %d with %d", when, id, got, metrics, revision,
				reported)
		}
	}
	expect("at first", "a", 1, 0)
	c.adopt("a", .5)
	c.adopt("b", .5)
	c.register("new")
	expect("before it reads again", "a", 1, 0)
	expect("before it reads again", "new", 0, 0)
	if err := r.Reread([]string{"a", "new"}, nil); err != nil {
		t.Fatal(err)
	}
	expect("read again", "a", 2, 0)
	expect("read again", "new", 1, 0)
	expect("not read again", "b", 1, 0)

	saved, _, err := c.writes.Scheduler("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.reports.Append(t.Context(), controller.Call{}, "a", []reports.Report{{Revision: 2,
		Key:     reports.Key{Time: time.Now().Truncate(reports.Interval)},
		Metrics: map[string]float64{"wait": 1}}}); err != nil {
		t.Fatal(err)
	}
	expect("before its reports are read", "a", 2, 0)
	if err := r.Reread(nil, []string{saved.UID}); err != nil {
		t.Fatal(err)
	}
	expect("its reports are read", "a", 2, 1)

	if err := c.dir.Purge(t.Context(), controller.Expired{Scheduler: "a", UID: saved.UID,
		Audit: &audit.Record{Resource: "schedulers/a"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Reread([]string{"a"}, nil); err != nil {
		t.Fatal(err)
	}
	expect("purged", "a", 0, 0)

	if _, err := pb.NewTuningServiceClient(r.Conn()).GetScheduler(t.Context(),
		&pb.GetSchedulerRequest{Name: "schedulers/b"}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that needs more than records: %v", err)
	}
	if _, err := pb.NewConfigurationServiceClient(r.Conn()).AcknowledgeConfiguration(t.Context(),
		&pb.AcknowledgeConfigurationRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a write: %v", err)
	}
}

// TestReaderOfDamage: a copy of which a record cannot be read is none, and neither is one of which a part cannot be
// read again: another copy may have it.
func TestReaderOfDamage(t *testing.T) {
	c := newCopied(t)
	c.register("a")
	c.adopt("a", .5)
	broken := errors.New("a page is damaged")
	for name, fault := range map[string]struct {
		copy   faultyCopy
		at     bool // once it reads all
		reread bool
	}{
		"nothing":              {},
		"a record of the file": {copy: faultyCopy{damage: []controller.Damage{{Err: broken}}}, at: true},
		"a scheduler": {copy: faultyCopy{alter: func(s *controller.Saved) { s.Fault = broken }}, at: true,
			reread: true},
		"the scheduler is unread": {copy: faultyCopy{err: broken}, reread: true},
		"a revision of it": {copy: faultyCopy{alter: func(s *controller.Saved) {
			s.Revisions = []controller.SchedulerRevision{{Number: 1, Damage: broken}}
		}},
			at: true, reread: true},
		"a configuration": {copy: faultyCopy{alter: func(s *controller.Saved) {
			lost := *s.Configurations[0]
			lost.State, lost.Reason = rollout.Lost, broken.Error()
			s.Configurations[0] = &lost
		}}, at: true, reread: true},
	} {
		t.Run(name, func(t *testing.T) {
			bad := fault.copy
			bad.Store = c.dir
			says := func(when string, err error, want bool) {
				t.Helper()
				if (err != nil) != want || err != nil && !strings.Contains(err.Error(), broken.Error()) {
					t.Errorf("%s: %v", when, err)
				}
			}
			_, err := c.read(&bad)
			says("made", err, fault.at)
			good := &faultyCopy{Store: c.dir}
			r, err := c.read(good)
			if err != nil {
				t.Fatal(err)
			}
			good.alter, good.err = bad.alter, bad.err
			says("read again", r.Reread([]string{"a"}, nil), fault.reread)
			if revision, _ := shows(t, r, "a"); revision != 2 {
				t.Errorf("revision %d", revision)
			}
		})
	}
}
