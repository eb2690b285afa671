package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

type parsedTrace struct {
	TraceEvents []struct {
		Name  string
		Ph    string
		S     string
		Ts    float64
		Dur   float64
		Pid   int
		Tid   int
		Cname string
		Args  struct {
			Job    string
			Name   string
			GPUs   int `json:"gpus"`
			End    string
			Text   string
			Shares bool
		}
	}
}

// churn starts fitting jobs and sometimes stops a job for the first waiting one, by exchange.
type churn struct {
	inOrder
	stop, start []ID
}

func (p *churn) Plan(plan *Plan) {
	p.inOrder.Plan(plan)
	s := p.s
	if s.Waiting() == 0 || s.events%3 != 0 {
		return
	}
	p.stop, p.start = p.stop[:0], p.start[:0]
	for j := range s.Submitted() {
		switch {
		case s.JobRunning(j) && s.JobStarts(j) < 4 && s.JobSince(j) < s.Now():
			p.stop = append(p.stop, j)
		case s.JobActive(j) && !s.JobRunning(j) && len(p.start) == 0:
			p.start = append(p.start, j)
		}
	}
	plan.Exchange(p.stop, p.start)
}

func TestTimeline(t *testing.T) {
	for _, mode := range []Placement{ConsolidateFewest, Count} {
		r := rand.New(rand.NewPCG(1, 2))
		var jobs []workload.Job
		for range 200 {
			jobs = append(jobs, tenantJob(fmt.Sprintf("t%d", r.IntN(3)), r.IntN(5000), 1+r.IntN(600), 1+r.IntN(6)))
		}
		slices.SortFunc(jobs, func(a, b workload.Job) int { return int(a.Submit - b.Submit) })
		w := jobsOf(t, jobs...)
		var out bytes.Buffer
		var s Sim
		line := NewTimeline(&out, &s, w.Zero())
		if err := s.Start(workload.Uniform(4, 4), w, &churn{},
			Options{Placement: mode, Observer: line.Observe}); err != nil {
			t.Fatal(err)
		}
		if err := s.RunUntil(context.Background(), 1000*time.Second); err != nil {
			t.Fatal(err)
		}
		line.Mark("configuration", "queues=3")
		s.Reconfigure(&churn{})
		if err := s.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := line.Close(); err != nil {
			t.Fatal(err)
		}
		var trace parsedTrace
		if err := json.Unmarshal(out.Bytes(), &trace); err != nil {
			t.Fatal(err)
		}
		type span struct{ from, to float64 }
		tracks := map[[2]int][]span{}
		names := map[[2]int]string{}
		colour := map[string]string{}
		gpuTime, preempts, marks, slots := map[string]float64{}, map[string]int{}, 0, 0
		for _, e := range trace.TraceEvents {
			switch e.Ph {
			case "M":
				if e.Args.Name != "" {
					names[[2]int{e.Pid, e.Tid}] = e.Args.Name
				}
			case "X":
				at := [2]int{e.Pid, e.Tid}
				slots = max(slots, e.Tid)
				tracks[at] = append(tracks[at], span{e.Ts, e.Ts + e.Dur})
				gpuTime[e.Args.Job] += e.Dur * float64(e.Args.GPUs)
				if c := colour[e.Name]; c != "" && c != e.Cname || e.Cname == "" {
					t.Errorf("%s is %q and %q", e.Name, c, e.Cname)
				}
				colour[e.Name] = e.Cname
				if names[at] == "" || names[[2]int{e.Pid, 0}] == "" {
					t.Fatalf("track %v has no name", at)
				}
			case "i":
				if e.S == "g" {
					marks++
					if e.Ts != 1000e6-float64(s.began.Microseconds()) || e.Args.Text != "queues=3" {
						t.Errorf("the mark is at %g: %s", e.Ts, e.Args.Text)
					}
				} else {
					preempts[e.Args.Job+fmt.Sprint(e.Ts)]++
				}
			}
		}
		for at, spans := range tracks {
			slices.SortFunc(spans, func(a, b span) int { return int(a.from - b.from) })
			for i := 1; i < len(spans); i++ {
				if spans[i].from < spans[i-1].to-.0005 {
					t.Fatalf("track %v: %v and %v overlap", at, spans[i-1], spans[i])
				}
			}
		}
		sum := 0
		for _, o := range s.Outcomes(nil) {
			if got, want := gpuTime[s.JobName(o.ID)], float64(o.Attained)/1e3; got < want-1 || got > want+1 {
				t.Errorf("%s: %g GPU-microseconds, want %g", s.JobName(o.ID), got, want)
			}
			sum += o.Preemptions
		}
		if sum == 0 || len(preempts) != sum || marks != 1 || len(colour) != 3 {
			t.Errorf("%d preemptions of %d, %d marks, tenants %v", len(preempts), sum, marks, colour)
		}
		if mode != Count && (slots > 4 || len(tracks) < 8) {
			t.Errorf("%d tracks, up to %d on a node of 4 GPUs", len(tracks), slots)
		}
		if mode == Count && !strings.Contains(out.String(), `"cluster"`) {
			t.Error("no process for the cluster")
		}
	}
}

func TestMicro(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 1: "0.001", 1000: "1", 1_234_056: "1234.056"} {
		if got, _ := micro(d).MarshalJSON(); string(got) != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
}
