package simulator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
)

// inOrder starts waiting jobs in order of ID; unless it blocks, it looks past
// jobs that find no place.
type inOrder struct {
	s      *View
	plan   *Plan
	blocks bool
}

func (p *inOrder) Reset(v *View, plan *Plan) { p.s, p.plan = v, plan }
func (p *inOrder) Admit(ID, Seen)            {}
func (p *inOrder) Finish(ID)                 {}
func (p *inOrder) Plan(plan *Plan) {
	for j := range p.s.Submitted() {
		if p.s.JobActive(j) && !p.s.JobRunning(j) && !plan.Start(j) && p.blocks {
			return
		}
	}
}

// tenantJob is a job of a tenant, in seconds.
func tenantJob(tenant string, submit, duration, gpus int) workload.Job {
	return workload.Job{Tenant: tenant, Submit: time.Duration(submit) * time.Second,
		Duration: time.Duration(duration) * time.Second, GPUs: workload.GPUs(gpus), Model: "resnet50"}
}

func jobsOf(t testing.TB, jobs ...workload.Job) *workload.Workload {
	t.Helper()
	for i := range jobs {
		jobs[i].ID = fmt.Sprintf("j%d", i)
	}
	w, err := workload.New("test", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func ran(t testing.TB, c workload.Cluster, w *workload.Workload, p Policy, o Options) *Sim {
	t.Helper()
	s := new(Sim)
	if err := s.Start(c, w, p, o); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

// twoTenants has 8 GPUs: 3 of a's, 3 of b's, 2 in no quota.
func twoTenants() workload.Cluster {
	return workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 1, GPUsPerNode: 8}},
		VCs: []workload.VC{{Tenant: "a", GPUs: 3}, {Tenant: "b", GPUs: 3}}}
}

// starts are the instants at which the jobs first started, in seconds.
func starts(s *Sim) string {
	var out []string
	for _, o := range s.Outcomes(nil) {
		out = append(out, fmt.Sprint(o.Start.Seconds()))
	}
	return strings.Join(out, " ")
}

func TestQuotasByHand(t *testing.T) {
	w := jobsOf(t,
		tenantJob("a", 0, 100, 3), // a's quota
		tenantJob("a", 0, 100, 2), // the two GPUs in no quota
		tenantJob("a", 0, 100, 1), // has to wait for either under strict quotas
		tenantJob("c", 0, 100, 1), // has no quota: only the unassigned rest
		tenantJob("b", 50, 100, 3),
	)
	for _, x := range []struct {
		quota Quota
		want  string
	}{
		// Off and borrowing give the free GPUs to the first to come: 3+2+1+1 at 0, so
		// that b, whose quota that was, waits until 100.
		{QuotaOff, "0 0 0 0 100"},
		{QuotaBorrow, "0 0 0 0 100"},
		// Strict: a holds 5, its third job and c wait for the shared two, and b's
		// three GPUs are there when it comes.
		{QuotaStrict, "0 0 100 100 50"},
	} {
		if got := starts(ran(t, twoTenants(), w, &inOrder{}, Options{Quota: x.quota})); got != x.want {
			t.Errorf("quota %d: jobs start at %s, want %s", x.quota, got, x.want)
		}
	}
}

func TestQuotaErrors(t *testing.T) {
	fits := jobsOf(t, tenantJob("a", 0, 1, 5))
	wide := jobsOf(t, tenantJob("a", 0, 1, 6))
	none := jobsOf(t, tenantJob("c", 0, 1, 3))
	if err := new(Sim).Start(twoTenants(), fits, &inOrder{}, Options{Quota: QuotaStrict}); err != nil {
		t.Errorf("3 of its own and 2 of nobody's are 5: %v", err)
	}
	for _, w := range []*workload.Workload{wide, none} {
		if err := new(Sim).Start(twoTenants(), w, &inOrder{}, Options{Quota: QuotaStrict}); !errors.Is(err, ErrQuota) ||
			!strings.Contains(err.Error(), `"j0"`) {
			t.Errorf("strict: %v", err)
		}
		if err := new(Sim).Start(twoTenants(), w, &inOrder{}, Options{Quota: QuotaBorrow}); err != nil {
			t.Errorf("borrowing: %v", err)
		}
	}
	for want, vcs := range map[string][]workload.VC{
		"no virtual clusters": nil,
		"negative":            {{Tenant: "a", GPUs: -1}},
		"add up to 9 GPUs":    {{Tenant: "a", GPUs: 4}, {Tenant: "b", GPUs: 5}},
		"named twice":         {{Tenant: "a", GPUs: 1}, {Tenant: "a", GPUs: 1}},
		"weight":              {{Tenant: "a", GPUs: 1, Weight: -1}},
	} {
		c := twoTenants()
		c.VCs = vcs
		if err := new(Sim).Start(c, fits, &inOrder{}, Options{Quota: QuotaStrict}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// chaos starts, stops, resizes and packs jobs at random.
type chaos struct {
	s     *View
	t     *rapid.T
	check func()
	turns int
}

func (p *chaos) Reset(v *View, _ *Plan) { p.s = v }
func (p *chaos) Admit(ID, Seen)         { p.check() }
func (p *chaos) Finish(ID)              { p.check() }

func (p *chaos) Plan(plan *Plan) {
	if p.turns++; p.turns > 40 { // enough: let it end
		(&inOrder{s: p.s}).Plan(plan)
		return
	}
	for range rapid.IntRange(1, 6).Draw(p.t, "moves") {
		j := ID(rapid.IntRange(0, int(p.s.Submitted())-1).Draw(p.t, "job"))
		if !p.s.JobActive(j) {
			continue
		}
		g := rapid.IntRange(1, 8).Draw(p.t, "GPUs")
		switch {
		case !p.s.JobRunning(j) && g > 6:
			for with := range p.s.Submitted() {
				if p.s.JobRunning(with) && !p.s.JobShares(with) && p.s.JobHeld(with) == p.s.JobGPUs(j) {
					plan.Share(j, with)
					break
				}
			}
		case !p.s.JobRunning(j) && g > 4:
			plan.Grant(j, g)
		case !p.s.JobRunning(j):
			plan.Start(j)
		case g > 4 && !p.s.JobShares(j):
			plan.Resize(j, g)
		case g == 1:
			plan.Exchange([]ID{j}, nil)
		default:
			plan.Preempt(j)
		}
		p.check()
	}
	plan.WakeAt(p.s.Now() + 10*time.Second)
}

// TestQuotasBalance: whatever is started, stopped, resized and packed in
// whatever order, each tenant is charged for exactly what its jobs hold, the excess
// over quotas adds up, and in the end no tenant holds anything. The bookkeeping
// of time agrees with the jobs' own.
func TestQuotasBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 3, GPUsPerNode: 4}},
			VCs: []workload.VC{{Tenant: "a", GPUs: 4}, {Tenant: "b", GPUs: 5}}}
		jobs := make([]workload.Job, rapid.IntRange(1, 15).Draw(t, "jobs"))
		for i := range jobs {
			jobs[i] = tenantJob(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"),
				rapid.IntRange(0, 300).Draw(t, "submit"),
				rapid.IntRange(1, 9000).Draw(t, "duration"), rapid.IntRange(1, 3).Draw(t, "GPUs"))
		}
		w := jobsOf(testing.TB(new(testing.T)), jobs...)
		o := Options{Quota: rapid.SampledFrom([]Quota{QuotaStrict, QuotaBorrow}).Draw(t, "quota"), PerTenant: true,
			Attribute: true,
			Placement: rapid.SampledFrom([]Placement{ConsolidateFewest, Count}).Draw(t, "placement")}
		s := new(Sim)
		packed := false
		p := &chaos{t: t, check: func() {
			held := make([]int, len(s.tenants))
			waiting := make([]int, len(s.kinds.list))
			for i := range s.jobs {
				switch j := &s.jobs[i]; j.phase {
				case running:
					held[j.tenant] += int(j.held)
					packed = packed || j.shares
				case pending:
					waiting[s.kind(ID(i))]++
				}
			}
			common := 0
			for i := range s.tenants {
				if s.tenants[i].held != held[i] {
					t.Fatalf("%s is charged for %d GPUs and its jobs hold %d",
						s.tenants[i].name, s.tenants[i].held, held[i])
				}
				common += max(0, held[i]-s.tenants[i].gpus)
			}
			if s.common != common {
				t.Fatalf("%d GPUs are held beyond quotas, counted as %d", common, s.common)
			}
			if o.Quota == QuotaStrict && !packed && common > s.shared {
				t.Fatalf("strict quotas, and %d GPUs are held beyond them; %d are in none", common, s.shared)
			}
			for i := range waiting {
				if s.kinds.list[i].jobs != waiting[i] {
					t.Fatalf("%d jobs of kind %+v wait, counted as %d",
						waiting[i], s.kinds.list[i].key, s.kinds.list[i].jobs)
				}
			}
		}}
		if err := s.Start(c, w, p, o); err != nil {
			t.Fatal(err)
		}
		if err := s.RunUntil(context.Background(), 200*time.Second); err != nil {
			t.Fatal(err)
		}
		fork := new(Sim)
		s.Fork(fork, &inOrder{})
		before := fmt.Sprint(s.tenants, s.kinds.list, s.Delays())
		if err := fork.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if after := fmt.Sprint(s.tenants, s.kinds.list, s.Delays()); after != before {
			t.Fatalf("a fork changed its source from %s to %s", before, after)
		}
		if err := s.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, done := range []*Sim{s, fork} {
			if done.common != 0 {
				t.Fatalf("in the end %d GPUs are held beyond quotas", done.common)
			}
			var attained, waited time.Duration
			for _, x := range done.Outcomes(nil) {
				attained += x.Attained
				waited += x.Wait
			}
			reports, _ := done.TenantReports()
			hours := 0.0
			for i := range reports {
				hours += reports[i].GPUHours
				if done.tenants[i].held != 0 {
					t.Fatalf("in the end %s holds %d GPUs", done.tenants[i].name, done.tenants[i].held)
				}
			}
			if d := hours - attained.Hours(); max(d, -d) > 1e-9*(1+hours) {
				t.Fatalf("tenants held %g GPU-hours, jobs %g", hours, attained.Hours())
			}
			var sum jobTime
			for i := range done.kinds.list {
				for _, d := range done.kinds.list[i].delays {
					sum.s, sum.ns = sum.s+d.s, sum.ns+d.ns
				}
			}
			if got := time.Duration(sum.s)*time.Second + time.Duration(sum.ns); got != waited {
				t.Fatalf("causes explain %v of waiting and jobs waited %v", got, waited)
			}
			explained := 0.0
			for i := range reports {
				for _, d := range reports[i].Delays {
					explained += d.Seconds * float64(reports[i].Jobs)
				}
			}
			if d := explained - waited.Seconds(); max(d, -d) > 1e-9*(1+explained) {
				t.Fatalf("tenants' causes explain %g s of waiting and jobs waited %v", explained, waited)
			}
		}
	})
}
