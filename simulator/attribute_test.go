package simulator

import (
	"math"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

func TestDelaysByHand(t *testing.T) {
	// Two nodes of 4 GPUs; a may hold 4, b 2, and 2 are in no quota.
	c := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 4}},
		VCs: []workload.VC{{Tenant: "a", GPUs: 4}, {Tenant: "b", GPUs: 2}}}
	w := jobsOf(t,
		tenantJob("a", 0, 100, 3),  // node 0
		tenantJob("b", 0, 200, 3),  // node 1: 2 of its own, 1 outside quotas
		tenantJob("b", 10, 10, 2),  // needs 2 outside quotas and 1 is left: until 200
		tenantJob("a", 20, 10, 2),  // runs 100..110
		tenantJob("a", 30, 10, 4),  // runs 200..210
		tenantJob("c", 40, 500, 1), // has no quota: the last outside quotas, on node 0
	)
	s := ran(t, c, w, &inOrder{}, Options{Quota: QuotaStrict, Attribute: true})
	// Job 3 needs one outside quotas, which is there until c comes, and a GPU is free
	// on each node: fragmentation 20..40. Then quota, until job 0 ends. Job 4
	// needs 3 outside quotas until 100 and 2 until 110: quota. From then on it has
	// its quota, 3 GPUs are free beside c and 1 beside job 1: fragmentation until
	// node 1 is empty at 200, when job 2 goes beside c.
	want := map[Cause]float64{
		CauseQuota:         (200 - 10) + (100 - 40) + (110 - 30),
		CauseFragmentation: (40 - 20) + (200 - 110),
		CausePriority:      0,
		CauseHeadOfLine:    0,
	}
	for cause, seconds := range want {
		if got := s.Delays()[cause]; math.Abs(got.Seconds*6-seconds) > 1e-9 || math.Abs(got.Share-seconds/440) > 1e-12 {
			t.Errorf("%v: %g s in all, share %g; want %g s", cause, got.Seconds*6, got.Share, seconds)
		}
	}
	if t.Failed() {
		t.Log(starts(s))
	}
}

// TestHeadOfLine: behind a blocking head, jobs wait though there is a place;
// the head itself waits for GPUs.
func TestHeadOfLine(t *testing.T) {
	c := workload.Uniform(1, 4)
	w := jobsOf(t, tenantJob("", 0, 100, 3), tenantJob("", 0, 10, 4), tenantJob("", 50, 10, 1))
	s := ran(t, c, w, &inOrder{blocks: true}, Options{Attribute: true})
	d := s.Delays() // 100 s of the head for GPUs, and of the last 50..100 behind it, 100..110 for GPUs
	if got := d[CauseHeadOfLine].Seconds * 3; got != 50 {
		t.Errorf("head of line: %g s", got)
	}
	if got := d[CausePriority].Seconds * 3; got != 110 {
		t.Errorf("priority: %g s", got)
	}
	if s := ran(t, c, w, &inOrder{}, Options{Attribute: true}); s.Delays()[CauseHeadOfLine].Share != 0 {
		t.Error("nothing waits in vain behind a job that does not block")
	}
	// Decisions once a minute: a lone job waits for the round and for nothing else.
	s = ran(t, c, jobsOf(t, tenantJob("", 10, 10, 1)), &inOrder{}, Options{Attribute: true, Round: time.Minute})
	if d := s.Delays()[CauseHeadOfLine]; d.Seconds != 50 || d.Share != 1 {
		t.Errorf("waiting for the round: %+v", d)
	}
}

// TestJobTimeIsExact: sums beyond the range of nanoseconds in 64 bits.
func TestJobTimeIsExact(t *testing.T) {
	var sum jobTime
	const year = 365 * 24 * time.Hour
	for range 1000 {
		sum.add(1_000_000, 10*year+1)
	}
	if want := (jobTime{s: 1_000_000_000*10*365*86400 + 1, ns: 0}); sum != want {
		t.Errorf("%+v, want %+v", sum, want)
	}
}

// TestMeasuringChangesNothing: the reports cost no decision.
func TestMeasuringChangesNothing(t *testing.T) {
	w := jobsOf(t, tenantJob("a", 0, 100, 3), tenantJob("b", 0, 200, 3), tenantJob("b", 10, 10, 2),
		tenantJob("a", 20, 10, 2), tenantJob("c", 40, 500, 1))
	plain := ran(t, twoTenants(), w, &inOrder{}, Options{})
	measured := ran(t, twoTenants(), w, &inOrder{}, Options{PerTenant: true, Attribute: true})
	if a, b := plain.Summarize(), measured.Summarize(); a != b || starts(plain) != starts(measured) {
		t.Errorf("%+v\n%+v", a, b)
	}
	if plain.TenantHeld(0) != 0 || measured.Tenants() != 1 {
		t.Error("a policy sees one tenant where quotas are off")
	}
}
