package tryout

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Check simulates the example of a file and compares the events with the ones
// written there below a line of dashes, or, to update, writes it.
//
// Above the dashes stand comments from # on, and lines such as
//
//	cluster 2 x 4                         # nodes x GPUs; 1 x 4 if not said
//	set queues=3 queue_thresholds=100,250
//	job a 0 300 4                         # name, submitted, runs for, GPUs
//	job b 10 50 1 model=vgg16 tenant=x deadline=900
//	vc x 3                                # tenant, GPUs[, weight]
//	quota borrow                          # or strict
//	restarts                              # have their costs; none if left out
//	told                                  # run times are reported to the scheduler
//	budget 100                            # events
//	reconfigure 150 queues=2              # from an instant on
//
// with times in seconds.
func Check(t *testing.T, file string, s *space.Space, policy func(space.Config) simulator.Policy, update bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	input, want, _ := strings.Cut(string(text), dashes)
	got := parse(t, input).play(t, s, policy)
	if update {
		if err := os.WriteFile(file, []byte(input+dashes+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s: got:\n%s\nwant:\n%s", file, got, want)
	}
}

const dashes = "\n----\n"

// example is a file's input.
type example struct {
	cluster workload.Cluster
	sets    []string
	jobs    []workload.Job
	options simulator.Options
	// At an instant, other settings.
	reconfigure     time.Duration
	reconfigureSets []string
}

func parse(t *testing.T, input string) *example {
	t.Helper()
	e := &example{cluster: workload.Uniform(1, 4),
		options: simulator.Options{Peer: simulator.Peer{NoRestartCost: true}}}
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for line := range strings.Lines(input) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "cluster":
			e.cluster = workload.Uniform(int(number(f[1])), int(number(f[3])))
		case "set":
			e.sets = append(e.sets, f[1:]...)
		case "restarts":
			e.options.Peer.NoRestartCost = false
		case "told":
			e.options.Estimate = func(j *workload.Job) time.Duration { return j.Duration }
		case "budget":
			e.options.EventBudget = int(number(f[1]))
		case "reconfigure":
			e.reconfigure, e.reconfigureSets = Seconds(number(f[1])), f[2:]
		case "vc":
			v := workload.VC{Tenant: f[1], GPUs: int(number(f[2]))}
			if len(f) > 3 {
				v.Weight = number(f[3])
			}
			e.cluster.VCs = append(e.cluster.VCs, v)
		case "quota":
			switch f[1] {
			case "strict":
				e.options.Quota = simulator.QuotaStrict
			case "borrow":
				e.options.Quota = simulator.QuotaBorrow
			default:
				t.Fatalf("cannot read %q", line)
			}
		case "job":
			j := Job(f[1], number(f[2]), number(f[3]), int(number(f[4])))
			for _, more := range f[5:] {
				switch name, value, _ := strings.Cut(more, "="); name {
				case "model":
					j.Model = value
				case "tenant":
					j.Tenant = value
				case "priority":
					j.Requested = workload.Request{Priority: int64(number(value))}.Shared()
				case "deadline":
					j.Deadline = Seconds(number(value))
				default:
					t.Fatalf("cannot read %q", line)
				}
			}
			e.jobs = append(e.jobs, j)
		default:
			t.Fatalf("cannot read %q", line)
		}
	}
	return e
}

// play prints one line per event, and in the end the outcome of each job.
func (e *example) play(t *testing.T, s *space.Space, policy func(space.Config) simulator.Policy) string {
	t.Helper()
	config := func(sets []string) space.Config {
		c, err := s.Parse(s.Default(), sets)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	w, err := workload.New("example", time.Time{}, e.jobs)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var sim simulator.Sim
	e.options.Observer = func(ev simulator.Event) { tell(&out, &sim, ev) }
	if err := sim.Start(e.cluster, w, policy(config(e.sets)), e.options); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if e.reconfigureSets != nil {
		if err := sim.RunUntil(ctx, e.reconfigure); err != nil {
			t.Fatal(err)
		}
		sim.Reconfigure(policy(config(e.reconfigureSets)))
		fmt.Fprintf(&out, "%8s reconfigured\n", decimal(e.reconfigure))
	}
	if err := sim.Run(ctx); err != nil {
		fmt.Fprintln(&out, err)
		return out.String()
	}
	fmt.Fprintln(&out)
	for _, o := range sim.Outcomes(nil) {
		fmt.Fprintf(&out, "%s: JCT %s, waited %s, preempted %d, restarting %s, attained %s GPU-s", sim.JobName(o.ID),
			decimal(o.JCT()), decimal(o.Wait), o.Preemptions, decimal(o.Restart), decimal(o.Attained))
		if o.Spread {
			fmt.Fprint(&out, ", spread")
		}
		if o.Missed() {
			fmt.Fprint(&out, ", late")
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

// tell writes a line about an event.
func tell(out *bytes.Buffer, sim *simulator.Sim, ev simulator.Event) {
	fmt.Fprintf(out, "%8s %-9s %s", decimal(ev.Time), ev.Kind, sim.JobName(ev.Job))
	switch ev.Kind {
	case workload.Started, workload.Resumed, workload.Resized:
		fmt.Fprint(out, " on")
		for _, n := range sim.Placement(nil, ev.Job) {
			fmt.Fprintf(out, " %d:%d", n.Node, n.GPUs)
		}
		if partner := sim.JobPartner(ev.Job); partner >= 0 {
			fmt.Fprintf(out, " beside %s", sim.JobName(partner))
		}
	}
	if ev.Seen.HasLevel {
		fmt.Fprintf(out, ", service %s", decimal(ev.Seen.LevelAttained))
	}
	if ev.Seen.LeaseUntil != 0 {
		fmt.Fprintf(out, ", lease until %s", decimal(ev.Seen.LeaseUntil))
	}
	fmt.Fprintln(out)
}

// decimal is a span in seconds, to a millisecond.
func decimal(d time.Duration) string {
	return strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64)
}
