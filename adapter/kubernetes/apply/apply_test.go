package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/space"
)

// byName has a parameter for each setting of a queue, such as a.queueingStrategy, and reads 0 as no limit.
type byName struct{}

var kueueNames = []string{"queueingStrategy", "preemption.withinClusterQueue", "preemption.reclaimWithinCohort",
	"fairSharing.weight", "borrowingLimit", "lendingLimit"}

func (byName) Names() []string { return kueueNames }

func (byName) Settings(values space.Values, _ []map[string]any) ([]Setting, error) {
	var out []Setting
	for _, id := range slices.Sorted(maps.Keys(values)) {
		q, name, _ := strings.Cut(id, ".")
		out = append(out, Setting{Queue: q, Name: name, Value: fmt.Sprint(values[id])})
	}
	return out, nil
}

func (byName) Values(tuned []string, settings []Setting, _ []map[string]any) (space.Values, error) {
	out := space.Values{}
	for _, s := range settings {
		id := s.Queue + "." + s.Name
		if slices.Contains(tuned, id) {
			out[id] = space.Text(s.Value)
		}
	}
	return out, nil
}

func clusterQueue(name string, gpus, borrowing string) map[string]any {
	quota := map[string]any{"name": "nvidia.com/gpu", "nominalQuota": gpus}
	if borrowing != "" {
		quota["borrowingLimit"] = borrowing
	}
	return map[string]any{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{"cohortName": "all", "queueingStrategy": "BestEffortFIFO",
			"preemption": map[string]any{"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
			"resourceGroups": []any{map[string]any{"coveredResources": []any{"cpu", "nvidia.com/gpu"},
				"flavors": []any{map[string]any{"name": "h100", "resources": []any{
					map[string]any{"name": "cpu", "nominalQuota": "100"}, quota}}}}}}}
}

// quotaPath is where the queues of clusterQueue have a quota.
func quotaPath(name string) string { return "/spec/resourceGroups/0/flavors/0/resources/1/" + name }

// fixture is a driver of queues a and b on a stand-in.
type fixture struct {
	t   *testing.T
	s   *standIn
	o   Options
	now time.Time
}

func newFixture(t *testing.T, tuned ...string) *fixture {
	f := &fixture{t: t, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	f.s = newStandIn(t, clusterQueue("a", "32", "8"), clusterQueue("b", "16", "16"))
	f.o = Options{Scheduler: &Kueue{Mapping: byName{}}, Tuned: tuned,
		HandOver: []string{"*"}, Timeout: time.Second, Now: func() time.Time { return f.now }}
	f.o.Client, f.o.Config = f.s.client()
	return f
}

func (f *fixture) open() *Driver {
	f.t.Helper()
	d, err := Open(f.t.Context(), f.o)
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

func config(t *testing.T, revision int64, values ...string) *pb.Configuration {
	t.Helper()
	v := space.Values{}
	for _, s := range values {
		id, value, _ := strings.Cut(s, "=")
		v[id] = space.Text(value)
		if n, err := strconv.Atoi(value); err == nil && inText(id) {
			v[id] = space.Int(n)
		}
	}
	parameters, err := adapter.ToProto(v)
	if err != nil {
		t.Fatal(err)
	}
	return &pb.Configuration{Name: fmt.Sprint("schedulers/x/configurations/", revision), Revision: revision,
		Origin: pb.Configuration_TUNED, Parameters: parameters, Epoch: &pb.Epoch{Id: "e", Counter: 1}}
}

// apply applies a configuration, with an error that has a text or none if it is empty, and returns the acknowledgement.
func (f *fixture) apply(d *Driver, c *pb.Configuration, fault string) *pb.Acknowledgement {
	f.t.Helper()
	got, err := d.Apply(f.t.Context(), c)
	if fault == "" && err != nil || fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
		f.t.Fatalf("revision %d: %v, want %q", c.GetRevision(), err, fault)
	}
	return client.Outcome(c, got, err)
}

// has compares a field.
func (f *fixture) has(queue, path, want string, by ...string) {
	f.t.Helper()
	o := f.s.get(queue)
	if got := text(at(o.Object, path)); got != want {
		f.t.Errorf("%s %s is %s, want %s", queue, path, got, want)
	}
	if got := managers(o, path); len(by) > 0 && !slices.Equal(got, by) {
		f.t.Errorf("%s %s is of %v, want %v", queue, path, got, by)
	}
}

const strategy, within, reclaim = "/spec/queueingStrategy", "/spec/preemption/withinClusterQueue",
	"/spec/preemption/reclaimWithinCohort"

// TestApply: the values in force are adopted, exactly the fields that differ are set, and nothing is written twice.
func TestApply(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a.queueingStrategy", "a.borrowingLimit", "b.preemption.withinClusterQueue", "b.borrowingLimit")
	d := f.open()
	first := config(t, 1, "a.queueingStrategy=StrictFIFO", "a.borrowingLimit=8",
		"b.preemption.withinClusterQueue=Never", "b.borrowingLimit=16")
	first.Origin = pb.Configuration_DEFAULT
	ack := f.apply(d, first, "")
	if got, _ := adapter.FromProto(ack.GetEffectiveParameters()); f.s.writes+f.s.dry != 0 || len(got) != 1 ||
		!got["a.queueingStrategy"].Equal(space.Text("BestEffortFIFO")) ||
		ack.GetState() != pb.Acknowledgement_PARTIALLY_APPLIED || d.Level() != InForce {
		t.Errorf("adopts %v after %d writes, %v", ack, f.s.writes, d.Level())
	}
	c := config(t, 2, "a.queueingStrategy=StrictFIFO", "a.borrowingLimit=4",
		"b.preemption.withinClusterQueue=LowerPriority", "b.borrowingLimit=16")
	if ack := f.apply(d, c, ""); ack.GetState() != pb.Acknowledgement_APPLIED || d.Level() != Accepted {
		t.Errorf("%v, %v", ack, d.Level())
	}
	f.has("a", strategy, "StrictFIFO", Manager)
	f.has("a", quotaPath("borrowingLimit"), "4", Manager)
	f.has("b", within, "LowerPriority", Manager)
	f.has("b", quotaPath("borrowingLimit"), "16", "gitops")
	f.has("b", strategy, "BestEffortFIFO", "gitops")
	f.has("b", reclaim, "Never", "gitops")
	m, err := markOf(f.s.get("a"), true)
	if err != nil || m == nil || m.Revision != 2 || m.Epoch != 1 || m.First[quotaPath("borrowingLimit")] != "8" ||
		!m.holds(f.s.get("a")) {
		t.Errorf("marked by %+v, %v", m, err)
	}
	version, writes := f.s.version, f.s.writes
	f.apply(d, c, "")
	f.apply(f.open(), c, "")
	if f.s.version != version || f.s.writes != writes {
		t.Errorf("written again: %d, %d", f.s.version-version, f.s.writes-writes)
	}
	// Fields that were set stay the adapter's when others are.
	f.apply(d, config(t, 3, "a.queueingStrategy=StrictFIFO", "b.preemption.withinClusterQueue=LowerPriority",
		"b.borrowingLimit=8", "a.borrowingLimit=0"), "")
	f.has("a", strategy, "StrictFIFO", Manager)
	f.has("b", quotaPath("borrowingLimit"), "8", Manager)
	old := config(t, 2)
	old.Epoch.Counter = 0
	f.apply(f.open(), old, "an old copy of the store")
}

// TestOwners: a field of another manager's is set only where an operator handed it over, and force takes no other.
func TestOwners(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a.queueingStrategy", "a.preemption.withinClusterQueue", "a.lendingLimit")
	f.o.HandOver = nil
	strict := config(t, 1, "a.queueingStrategy=StrictFIFO")
	ack := f.apply(f.open(), strict, "gitops's: hand it over by --hand-over spec.queueingStrategy")
	if ack.GetState() != pb.Acknowledgement_FAILED {
		t.Error(ack)
	}
	f.o.HandOver = []string{"spec.queueingStrategy"}
	both := config(t, 2, "a.queueingStrategy=StrictFIFO", "a.preemption.withinClusterQueue=LowerPriority")
	f.apply(f.open(), both, "spec.preemption.withinClusterQueue is gitops's")
	f.apply(f.open(), config(t, 2, "a.lendingLimit=8"), "is gitops's")
	f.has("a", strategy, "BestEffortFIFO", "gitops")
	f.o.HandOver = []string{"clusterqueues.kueue.x-k8s.io/b spec.queueingStrategy"}
	f.apply(f.open(), strict, "belongs to another manager")
	f.o.HandOver = []string{"clusterqueues.kueue.x-k8s.io/a spec.queueingStrategy"}
	// The scheduler writes the object between the look and the write.
	f.s.fault = func(n int, after bool) error {
		if n == 1 && !after {
			o := f.s.get1("a")
			f.s.version++
			o.SetResourceVersion(fmt.Sprint(f.s.version))
		}
		return nil
	}
	d := f.open()
	f.apply(d, strict, "")
	f.s.fault = nil
	f.has("a", strategy, "StrictFIFO", Manager)
	f.has("a", within, "Never", "gitops")
	// The same value by another manager is a claim, too.
	f.s.apply("a", strategy, "StrictFIFO", "argocd")
	f.apply(d, config(t, 3, "a.queueingStrategy=BestEffortFIFO"), "argocd's: start the adapter once with --take-over")
}

// TestDrift: a change by someone else is reported with the values in force, and nothing is applied until an operator
// says so.
func TestDrift(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a.queueingStrategy", "a.borrowingLimit")
	d := f.open()
	look := func(want pb.Acknowledgement_State, text string) {
		t.Helper()
		req, news, reported := d.Look(t.Context())
		if got := req.GetAcknowledgement(); got.GetState() != want || !strings.Contains(news, text) {
			t.Fatalf("%v: %s, want %v: %s", req, news, want, text)
		}
		if reported != nil {
			reported()
		}
	}
	look(0, "")
	f.apply(d, config(t, 1, "a.queueingStrategy=StrictFIFO", "a.borrowingLimit=4"), "")
	look(0, "")
	next := config(t, 2, "a.queueingStrategy=StrictFIFO", "a.borrowingLimit=2")
	for path, value := range map[string]string{strategy: "BestEffortFIFO", quotaPath("borrowingLimit"): "16"} {
		was := text(at(f.s.get("a").Object, path))
		f.s.edit("a", path, value, "kubectl-edit")
		look(pb.Acknowledgement_PARTIALLY_APPLIED, "kubectl-edit; new configurations are not applied")
		look(0, "")
		f.apply(d, next, "changed by someone else")
		f.apply(f.open(), next, "by kubectl-edit: put it back, or start the adapter once with --take-over")
		f.has("a", path, value, "kubectl-edit")
		f.s.edit("a", path, was, "kubectl-edit")
		look(pb.Acknowledgement_APPLIED, "in force is revision 1")
	}
	f.s.edit("a", strategy, "BestEffortFIFO", "kubectl-edit")
	f.o.TakeOver, f.o.HandOver = true, nil
	d = f.open()
	f.s.fault = func(int, bool) error { return fmt.Errorf("away from %v", d.Level()) }
	f.apply(d, next, "away from nothing")
	if f.s.fault = nil; !d.TakesOver() {
		t.Error("the one time is over, and nothing was set")
	}
	f.apply(d, next, "")
	f.has("a", strategy, "StrictFIFO", Manager)
	if d.TakesOver() {
		t.Error("it takes over again")
	}
	f.s.edit("a", strategy, "BestEffortFIFO", "kubectl-edit")
	f.apply(d, next, "changed by someone else") // it was for once
	f.s.edit("a", strategy, "StrictFIFO", "kubectl-edit")
	f.s.edit("a", "/metadata/annotations", map[string]any{}, "kubectl-edit")
	f.apply(d, next, "applied-in-lists is gone: put it back")
}

// TestRefused: what cannot be is refused before anything is written, and what the scheduler does not take is put back.
func TestRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a.queueingStrategy", "b.queueingStrategy", "b.preemption.withinClusterQueue")
	d := f.open()
	wrong := config(t, 1, "a.queueingStrategy=StrictFIFO", "b.queueingStrategy=Wrong")
	if ack := f.apply(d, wrong, "is invalid"); ack.GetState() != pb.Acknowledgement_REJECTED || f.s.writes != 0 {
		t.Errorf("%v after %d writes", ack, f.s.writes)
	}
	f.s.inactive = "b"
	stopped := config(t, 2, "a.queueingStrategy=StrictFIFO", "b.queueingStrategy=StrictFIFO")
	ack := f.apply(d, stopped, "FlavorNotFound")
	if ack.GetState() != pb.Acknowledgement_REJECTED ||
		!strings.Contains(ack.GetError(), "the values before are back") {
		t.Error(ack)
	}
	f.has("a", strategy, "BestEffortFIFO")
	f.has("b", strategy, "BestEffortFIFO")
	f.apply(d, stopped, "nothing is changed: Kueue stops the queue")
	f = newFixture(t, f.o.Tuned...)
	f.s.deaf = true
	d = f.open()
	d.pace = time.Microsecond
	looks := 0
	d.o.Now = func() time.Time { looks++; return f.now.Add(time.Duration(looks) * 10 * time.Millisecond) }
	if ack := f.apply(d, stopped, "is it running?"); ack.GetState() != pb.Acknowledgement_FAILED {
		t.Error(ack)
	}
	f.has("a", strategy, "BestEffortFIFO")
	f = newFixture(t, f.o.Tuned...)
	d = f.open()
	f.s.lacks = "queueingStrategy"
	f.apply(d, stopped, "the API server has no such field")
	if _, err := Open(t.Context(), f.o); err == nil {
		t.Error("opened without a field")
	}
	f.s.lacks = ""
	f.apply(d, config(t, 1, "c.queueingStrategy=StrictFIFO"), "there is no such queue")
	// Settings of preemption change once a day, but for the way back.
	to := func(rev int64, v string) *pb.Configuration {
		return config(t, rev, "b.preemption.withinClusterQueue="+v)
	}
	f.apply(d, to(3, "LowerPriority"), "")
	f.now = f.now.Add(23 * time.Hour)
	f.apply(d, to(4, "LowerOrNewerEqualPriority"), "once a day, and clusterqueues.kueue.x-k8s.io/b did: not before "+
		"2026-11-02T12:00:00Z")
	f.now = f.now.Add(time.Hour)
	f.apply(d, to(4, "LowerOrNewerEqualPriority"), "")
	back := to(5, "LowerPriority")
	back.Origin = pb.Configuration_REVERTED
	f.apply(d, back, "")
}

// TestDeleted: a queue that goes away during an apply takes the others' changes back.
func TestDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a.queueingStrategy", "b.queueingStrategy")
	d := f.open()
	f.s.fault = func(n int, after bool) error {
		if n == 1 && after {
			delete(f.s.objects, pathOf(f.s.get1("b")))
		}
		return nil
	}
	c := config(t, 1, "a.queueingStrategy=StrictFIFO", "b.queueingStrategy=StrictFIFO")
	if ack := f.apply(d, c, "the values before are back"); ack.GetState() != pb.Acknowledgement_FAILED {
		t.Error(ack)
	}
	f.has("a", strategy, "BestEffortFIFO")
	f.apply(d, c, "b: there is no such queue")
}

// TestEffects: a setting that does nothing in this installation is named at the start.
func TestEffects(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a.fairSharing.weight")
	if _, err := Open(t.Context(), f.o); err == nil || !strings.Contains(err.Error(), "without fair sharing") {
		t.Error(err)
	}
	f.s.edit("a", "/status/fairSharing", map[string]any{"weightedShare": int64(0)}, "kueue")
	f.apply(f.open(), config(t, 1, "a.fairSharing.weight=2"), "")
	f.has("a", "/spec/fairSharing/weight", "2", Manager)
	for _, name := range []string{"borrowingLimit", "lendingLimit", "preemption.reclaimWithinCohort"} {
		f := newFixture(t, "b."+name)
		f.s.edit("b", "/spec/cohortName", nil, "gitops")
		if _, err := Open(t.Context(), f.o); err == nil || !strings.Contains(err.Error(), "in no cohort") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLost: nothing is written without the lease, and what was written is not acknowledged.
func TestLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a.queueingStrategy", "b.queueingStrategy")
	until := f.now.Add(5 * time.Second)
	f.o.Until = func() time.Time { return until }
	d := f.open()
	c := config(t, 1, "a.queueingStrategy=StrictFIFO", "b.queueingStrategy=StrictFIFO")
	f.s.fault = func(n int, after bool) error {
		if n == 1 && after {
			until = f.now
		}
		return nil
	}
	if _, err := d.Apply(t.Context(), c); !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
	if f.s.writes != 1 {
		t.Errorf("%d writes", f.s.writes)
	}
	until = f.now.Add(time.Second)
	f.apply(f.open(), c, "") // the next one that has the lease
	f.has("b", strategy, "StrictFIFO")
}

// TestRelease: the values stay, or the first ones come back; the fields are no manager's, and nothing is applied then.
func TestRelease(t *testing.T) {
	t.Parallel()
	for _, restore := range []bool{false, true} {
		f := newFixture(t, "a.queueingStrategy", "a.borrowingLimit", "b.queueingStrategy")
		d := f.open()
		f.apply(d, config(t, 1, "a.queueingStrategy=StrictFIFO"), "")
		c := config(t, 2, "a.queueingStrategy=StrictFIFO", "a.borrowingLimit=2")
		f.apply(d, c, "")
		if err := f.open().Release(t.Context(), restore); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{strategy: "StrictFIFO", quotaPath("borrowingLimit"): "2"}
		if restore {
			want = map[string]string{strategy: "BestEffortFIFO", quotaPath("borrowingLimit"): "8"}
		}
		for path, v := range want {
			f.has("a", path, v)
			if got := managers(f.s.get("a"), path); len(got) > 0 {
				t.Errorf("%s is still of %v", path, got)
			}
		}
		if _, news, _ := d.Look(t.Context()); !strings.Contains(news, "an operator took its fields back") {
			t.Error(news)
		}
		f.apply(d, c, "an operator took its fields back")
		f.o.TakeOver = true
		f.apply(f.open(), config(t, 3, "a.queueingStrategy=BestEffortFIFO", "a.borrowingLimit=1"), "")
		f.o.TakeOver = false
		f.apply(f.open(), config(t, 4, "a.queueingStrategy=StrictFIFO", "a.borrowingLimit=1"), "")
	}
}

// TestCuts: whatever request of an apply is cut off, before or after it takes effect, and whether the adapter ends
// there or goes on, no configuration is acknowledged that is not in force whole, no GPU may be borrowed twice, and
// the next apply completes.
func TestCuts(t *testing.T) {
	t.Parallel()
	values := []map[string]string{
		{"a.queueingStrategy": "BestEffortFIFO", "a.borrowingLimit": "8", "b.borrowingLimit": "16",
			"b.preemption.withinClusterQueue": "Never"},
		{"a.queueingStrategy": "StrictFIFO", "a.borrowingLimit": "16", "b.borrowingLimit": "8",
			"b.preemption.withinClusterQueue": "LowerPriority"}}
	var all [2]*pb.Configuration
	for i, v := range values {
		var list []string
		for id, value := range v {
			list = append(list, id+"="+value)
		}
		all[i] = config(t, int64(i+1), list...)
	}
	of := func(f *fixture) (rev int) { // 0 or 1, -1 for a mixture
		live := Live{}
		for _, name := range []string{"a", "b"} {
			live[Object{Resource: clusterQueues, Name: name}] = f.s.get1(name)
		}
		got, err := f.o.Scheduler.Values(f.o.Tuned, live)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			equal := true
			for id, value := range v {
				equal = equal && got[id].Equal(space.Text(value))
			}
			if equal {
				return i
			}
		}
		return -1
	}
	all[0].Origin = pb.Configuration_RESTORED
	cuts := 0
	for _, ends := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for n := 1; ; n++ {
				f := newFixture(t, slices.Sorted(maps.Keys(values[0]))...)
				f.s.change = func() {
					sum := 0
					for _, q := range []string{"a", "b"} {
						var gpus int
						_, _ = fmt.Sscan(text(at(f.s.get1(q).Object, quotaPath("borrowingLimit"))), &gpus)
						sum += gpus
					}
					if sum > 24 {
						t.Fatalf("%d GPUs may be borrowed of 24", sum)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				cut := false
				f.s.fault = func(at int, is bool) error {
					if cut && ends || at == n && is == after {
						cut = true
						return errCut
					}
					return nil
				}
				got, err := f.open().Apply(ctx, all[1])
				if !cut {
					cancel()
					if err != nil || of(f) != 1 {
						t.Fatal(err)
					}
					break
				}
				cuts++
				switch state := client.Outcome(all[1], got, err).GetState(); {
				case state != pb.Acknowledgement_FAILED:
					t.Errorf("cut %d: acknowledges %v", n, state)
				case !ends && of(f) != 0:
					t.Errorf("cut %d: the values before are not back: %v", n, err)
				}
				cancel()
				f.s.fault = nil
				for i := range 2 { // the same, or the one before
					f.now = f.now.Add(betweenPreemptions)
					d := f.open()
					to := all[(i+n)%2]
					if ack := f.apply(d, to, ""); ack.GetState() != pb.Acknowledgement_APPLIED || of(f) != (i+n)%2 {
						t.Errorf("cut %d: then %v", n, ack)
					}
				}
			}
		}
	}
	if cuts < 4*4 {
		t.Errorf("%d cuts", cuts)
	}
}
