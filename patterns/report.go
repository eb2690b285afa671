package patterns

import (
	"math"
	"time"

	"github.com/autosched/autosched/patterns/cluster"
)

// JobReport has the bottleneck of a job that ended and the causes of its waits.
type JobReport struct {
	Job string `json:"job"`
	// Bottleneck is compute_underused, data_pipeline, communication, memory_bound or
	// cannot_tell, and Evidence its grounds.
	Bottleneck string     `json:"bottleneck"`
	Evidence   []Evidence `json:"evidence,omitempty"`
	// Stability is stable, normal or unstable by the spread of its iterations' times, empty if
	// that is not known.
	Stability string `json:"stability,omitempty"`
	// Waits is the time that the job waited, by inferred cause: quota, fragmentation,
	// priority, capacity, head_of_line, limits, cannot_tell.
	Waits map[string]time.Duration `json:"waits_ns,omitempty"`
}

var causeNames = [cluster.Causes]string{"quota", "fragmentation", "priority", "capacity", "head_of_line", "limits",
	"cannot_tell"}

// Bounds of the classes of bottlenecks, as shares.
const (
	lowBusy      = .2 // mean
	lowMemory    = .3
	highBusy     = .8
	fullMemory   = .9
	manyDips     = .1 // of a GPU's samples begin a dip
	narrowerBusy = .7 // of the use by narrower jobs of the key
	leastSamples = 20 // of a class
	leastSampled = 10 * time.Minute
	leastKernels = .01
	wholeKernels = .3 // of the SMs, while a kernel runs
)

// keyBusy is how busy the narrowest job of a key was.
type keyBusy struct {
	gpus int
	busy float64
}

// report reports a job that has ended.
func (s *Scanner) report(j *cluster.Job) {
	if s.o.OnJob == nil {
		return
	}
	r := &JobReport{Job: j.Name, Bottleneck: "cannot_tell", Stability: j.Stability}
	for i, w := range j.Waits {
		if i == cluster.WaitCannotTell && w > 0 && j.Hold > j.Submit {
			held := min(w, j.Hold-j.Submit)
			w -= held
			r.wait("limits", held)
		}
		r.wait(causeNames[i], w)
	}
	if j.Use.Samples >= leastSamples && time.Duration(j.Use.Samples)*s.o.Period >= leastSampled {
		s.bottleneck(j, r)
	}
	s.o.OnJob(r)
}

// bottleneck classifies a job by its samples.
func (s *Scanner) bottleneck(j *cluster.Job, r *JobReport) {
	busy := j.Use.Busy / float64(j.Use.Samples)
	memory, hasMemory := 0., j.Use.Occupied > 0
	if hasMemory {
		memory = j.Use.Memory / float64(j.Use.Occupied)
	}
	kernels := j.Use.Kernels / float64(j.Use.Samples)
	add := func(what string, value, threshold float64) {
		r.Evidence = append(r.Evidence, Evidence{What: what, Value: math.Round(1e4*value) / 1e4,
			Threshold: threshold, Unit: "share", From: s.at(j.Start), To: s.at(s.now())})
	}
	dips := float64(j.Use.Dips) / float64(j.Use.Samples)
	narrow := s.narrow[j.Key]
	switch {
	case j.Key != "" && narrow.gpus > 0 && j.GPUs >= 2*narrow.gpus && busy < narrowerBusy*narrow.busy:
		r.Bottleneck = "communication"
		add("busy relative to narrower jobs of its key", busy/narrow.busy, narrowerBusy)
	case hasMemory && memory > fullMemory && busy > highBusy:
		r.Bottleneck = "memory_bound"
		add("memory", memory, fullMemory)
		add("busy", busy, highBusy)
	case j.GPUs == 1 && j.HasRows && dips > manyDips:
		r.Bottleneck = "data_pipeline"
		add("samples that begin a dip", dips, manyDips)
	case j.GPUs == 1 && j.Use.Active == j.Use.Samples && kernels > leastKernels && kernels < lowBusy &&
		busy > wholeKernels*kernels:
		r.Bottleneck = "data_pipeline" // the GPU is used well while kernels run, and waits for the next
		add("kernels", kernels, lowBusy)
		add("SMs in use while kernels run", busy/kernels, wholeKernels)
	case hasMemory && kernels < lowBusy && memory < lowMemory:
		r.Bottleneck = "compute_underused"
		add("busy", busy, lowBusy)
		add("memory", memory, lowMemory)
	}
	if j.Key != "" && (narrow.gpus == 0 || j.GPUs < narrow.gpus) && len(s.narrow) < s.o.Cap {
		s.narrow[j.Key] = keyBusy{j.GPUs, busy}
	}
}

func (r *JobReport) wait(cause string, d time.Duration) {
	if d <= 0 {
		return
	}
	if r.Waits == nil {
		r.Waits = map[string]time.Duration{}
	}
	r.Waits[cause] += d
}
