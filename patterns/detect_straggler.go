package patterns

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/patterns/cluster"
)

// straggler finds workers that are slower than a factor of the median of a job's workers in
// several of the last rows. The gang waits for the slowest, so that all its GPUs lose the
// difference.
type straggler struct {
	passive
	r     *compiled
	jobs  map[*cluster.Job]*stragglerJob
	nodes map[string]suspect
}

// suspect is where a node last had a straggler.
type suspect struct {
	job string
	at  time.Duration
}

type stragglerJob struct {
	rows, need, leave int
	factor            float64
	workers           []slowness
	sorted            []float64
}

// slowness is a worker's last rows.
type slowness struct {
	slow  []bool // ring
	ratio []float64
	next  int
	count int
}

func newStraggler(r *compiled) detector {
	return &straggler{r: r, jobs: map[*cluster.Job]*stragglerJob{}, nodes: map[string]suspect{}}
}

func (r *compiled) param(name string) float64 { return r.rule.Params[name] }

func (d *straggler) newJob() *stragglerJob {
	return &stragglerJob{rows: max(1, int(d.r.param("rows"))), need: max(1, int(d.r.param("slow"))),
		leave: int(d.r.param("leave")), factor: d.r.param("factor")}
}

// add takes in a row. Of each worker count then has the slow rows among the last.
func (x *stragglerJob) add(took []float64) {
	x.sorted = x.sorted[:0]
	for _, v := range took {
		if !math.IsNaN(v) {
			x.sorted = append(x.sorted, v)
		}
	}
	if len(x.sorted) < 2 {
		return
	}
	slices.Sort(x.sorted)
	n := len(x.sorted)
	median := (x.sorted[(n-1)/2] + x.sorted[n/2]) / 2
	for len(x.workers) < len(took) {
		x.workers = append(x.workers, slowness{slow: make([]bool, x.rows), ratio: make([]float64, x.rows)})
	}
	for i, v := range took {
		w := &x.workers[i]
		if w.slow[w.next] {
			w.count--
		}
		w.slow[w.next], w.ratio[w.next] = false, 0
		if !math.IsNaN(v) && median > 0 {
			w.ratio[w.next] = v / median
			if w.slow[w.next] = v > x.factor*median; w.slow[w.next] {
				w.count++
			}
		}
		w.next = (w.next + 1) % x.rows
	}
}

// excess is how much slower than the median a worker's slow rows are.
func (w *slowness) excess() float64 {
	sum, n := 0., 0
	for i, slow := range w.slow {
		if slow {
			sum += w.ratio[i]
			n++
		}
	}
	return sum / float64(max(1, n))
}

func (d *straggler) row(s *Scanner, j *cluster.Job, r *cluster.Row) {
	x := d.jobs[j]
	if x == nil {
		if len(d.jobs) >= s.o.Cap {
			s.cluster.Drop(d.r.rule.ID)
			return
		}
		x = d.newJob()
		d.jobs[j] = x
	}
	x.add(r.Took)
	for i := range x.workers {
		w := &x.workers[i]
		e := Entity{"worker", j.Name + "/" + strconv.Itoa(j.Workers[i])}
		o := d.r.open[e]
		switch {
		case o == nil && w.count >= x.need:
			d.open(s, j, i, w, x, e)
		case o != nil && w.count <= x.leave:
			s.closeFinding(d.r, e, s.now())
		case o != nil && w.count >= x.need:
			o.matched = s.now()
			o.rate = d.lost(j, w, x)
		}
	}
}

// lost is the number of a job's GPUs that wait for a worker, on average.
func (d *straggler) lost(j *cluster.Job, w *slowness, x *stragglerJob) float64 {
	return j.Share * (1 - 1/max(1, w.excess())) * float64(w.count) / float64(x.rows)
}

func (d *straggler) open(s *Scanner, j *cluster.Job, i int, w *slowness, x *stragglerJob, e Entity) {
	excess := w.excess()
	now := s.at(s.now())
	f := Finding{Entity: e, Job: j.Name,
		Confidence: min(1, .5+.25*float64(w.count)/float64(x.rows)+.5*(excess-x.factor)/x.factor),
		Evidence: []Evidence{
			{What: fmt.Sprintf("slow rows of the last %d", x.rows), Value: float64(w.count),
				Threshold: float64(x.need), Unit: "rows", From: now, To: now},
			{What: "time of its slow rows", Value: excess, Threshold: x.factor, Unit: "x the median",
				From: now, To: now}}}
	node := j.WorkerNode(i)
	if node != "" {
		f.Node = node
		f.Words = fmt.Sprintf("Worker %d of job %s, on node %s, is %.2f times as slow as the median worker: exclude "+
			"the node from the job's next start.", j.Workers[i], j.Name, node, excess)
		was := d.nodes[node]
		if was.job != "" && was.job != j.Name && s.now()-was.at <= hours(d.r.param("same_node_hours")) {
			f.Action = "drain_node"
			f.Confidence = max(f.Confidence, .95)
			f.Words = fmt.Sprintf("Node %s slows job %s down, as it did job %s %.1f h ago: propose to drain it.", node,
				j.Name, was.job, (s.now() - was.at).Hours())
		}
		if len(d.nodes) < s.o.Cap {
			d.nodes[node] = suspect{j.Name, s.now()}
		}
	}
	s.found(d.r, s.now(), f, d.lost(j, w, x))
}

func hours(x float64) time.Duration { return time.Duration(x * float64(time.Hour)) }

func (d *straggler) jobEnded(_ *Scanner, j *cluster.Job, _ time.Duration) { delete(d.jobs, j) }
