package workload

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
	"unique"
)

// MilliGPU is a number of GPUs in thousandths: 1000 is one whole GPU.
type MilliGPU int64

// GPUs is n whole GPUs.
func GPUs(n int) MilliGPU { return MilliGPU(n) * 1000 }

// Whole rounds up to whole GPUs, the grant of a policy without sharing. Sums take [MilliGPU.Count].
func (m MilliGPU) Whole() int { return int((m + 999) / 1000) }

// Count is the number of GPUs with its fraction.
func (m MilliGPU) Count() float64 { return float64(m) / 1000 }

// Of is the GPUs that a job which asks for m has of the whole ones that it holds: a part of each, if it asks for parts.
func (m MilliGPU) Of(held int) float64 {
	whole := m.Whole()
	if whole == 0 {
		return float64(held)
	}
	return float64(held) * m.Count() / float64(whole)
}

// Cover is the whole GPUs that hold a sum of shares. Each share is rounded to a thousandth, so that the seven sevenths
// of a GPU may add up to 1.001.
func (m MilliGPU) Cover() int {
	n := m / 1000
	if m-1000*n > min(4*n, 100) {
		n++
	}
	return int(n)
}

// Limits beyond which a job is refused by readers and by Validate. They bound
// arithmetic: GPU-time of one job must fit an int64 of nanoseconds.
const (
	MaxGPUs     = 1_000_000
	MaxDuration = 10 * 365 * 24 * time.Hour // ten years
	MaxSubmit   = 100 * 365 * 24 * time.Hour
	// MaxGPUTime bounds the GPU-time of one job: sums of a few must fit an int64.
	MaxGPUTime = time.Duration(math.MaxInt64 / 4)
)

// Status is how a job ended, as its trace reports.
type Status uint8

// The states a trace reports. Unknown is for traces without a status. Running is that
// of a job that had started and not ended when its trace was written: its Duration is
// how long it had run until then, a lower bound. Pending is the status of one that had not started: its Duration
// is an expectation.
const (
	Unknown Status = iota
	Completed
	Cancelled
	Failed
	Running
	TimedOut // ended by the cluster at its time limit
	Pending
	OutOfMemory // failed, as its memory did not suffice
)

// Ended reports whether the job had ended when its trace was written, so that its Duration is known.
func (s Status) Ended() bool { return s != Running && s != Pending }

func (s Status) String() string {
	switch s {
	case Completed:
		return "completed"
	case Cancelled:
		return "cancelled"
	case Failed:
		return "failed"
	case Running:
		return "running"
	case TimedOut:
		return "timed_out"
	case Pending:
		return "pending"
	case OutOfMemory:
		return "out_of_memory"
	}
	return ""
}

// Job is one gang of GPUs held together from start to finish: all of them or
// none.
type Job struct {
	ID     string
	User   string
	Tenant string // virtual cluster
	// Key identifies recurring jobs: jobs with the same key are expected to behave alike.
	// Readers hash user and name, or tenant, GPUs and batch where names are
	// absent.
	Key   string
	Model string // model class, empty if unknown
	// Submit is the instant of submission, since the workload's zero. It may be
	// negative for jobs submitted before it.
	Submit time.Duration
	// Duration is the run time at the requested GPUs, consolidated and alone.
	// It is the ground truth: only the simulator may read it.
	Duration time.Duration
	GPUs     MilliGPU
	// Members is how many equal jobs the job stands for, that
	// start, stop and end together, each on its share of GPUs; 0 and 1 are itself.
	Members int32
	Status  Status
	// HasWait says that Wait is known: the queueing delay the job had in the
	// cluster its trace comes from, from when it could run until its first start.
	// It describes that cluster; no simulation uses it, nor does the digest.
	HasWait bool
	// Deadline is the instant by which the job should have ended, 0 for none.
	Deadline time.Duration
	Wait     time.Duration
	Requested
	// Nodes is the host list (see slurmtext.HostList) of the nodes that the job ran on in the
	// cluster its trace comes from, empty if unknown. As of Wait, no simulation uses it,
	// nor does the digest.
	Nodes string
}

// Request is a job's demand besides GPUs. A zero field asks for
// nothing.
type Request struct {
	// GPUModel and Partition are properties of the nodes that the job may run on, as
	// NodeGroup names them.
	GPUModel  string
	Partition string
	// MilliCPUs and Memory (bytes) are sums over the job's nodes.
	MilliCPUs int64
	Memory    int64
	// TimeLimit is the run time after which the cluster ends the job. It counts from the start at which
	// the job had no progress, without the time that it waits after a preemption.
	TimeLimit time.Duration
	// NodeCount is the number of nodes to run on, with an equal share of the GPUs on each.
	NodeCount int32
	// Nice is how much the user lowers the job's priority, in the scheduler's units.
	Nice int32
	// Priority is the one that the cluster recorded, in the scheduler's units: higher is earlier.
	Priority int64
	// QOS is the quality of service and Account the account charged, as Slurm names them.
	QOS     string
	Account string
	// Requeue is the effect of a preemption on the job's progress, and HoldOff the time after it in which
	// the job may not start.
	Requeue RequeueMode
	HoldOff time.Duration
}

// RequeueMode is the effect of a preemption on a job's progress.
type RequeueMode uint8

// The modes. Where nothing is known, schedulers decide: most let jobs keep their progress.
const (
	RequeueUnknown  RequeueMode = iota
	RequeueResumes              // it continues from a checkpoint
	RequeueRestarts             // it begins anew
)

var requeueNames = [...]string{"", "resume", "restart"}

func (m RequeueMode) String() string {
	if int(m) < len(requeueNames) {
		return requeueNames[m]
	}
	return fmt.Sprintf("RequeueMode(%d)", m)
}

// ParseRequeue reads a mode by its name: "resume", "restart", or "" for unknown.
func ParseRequeue(name string) (RequeueMode, error) {
	if i := slices.Index(requeueNames[:], name); i >= 0 {
		return RequeueMode(i), nil
	}
	return 0, fmt.Errorf("requeue: %q is neither resume nor restart", name)
}

// Requested is a Request that equal ones share the memory of; the zero value asks for nothing.
type Requested struct{ shared unique.Handle[Request] }

// Shared is the request as jobs hold it.
func (r Request) Shared() Requested {
	if r == (Request{}) {
		return Requested{}
	}
	return Requested{unique.Make(r)}
}

// more reports whether a request has any of the fields that few jobs' have.
func (r *Request) more() bool {
	return r.NodeCount != 0 || r.Nice != 0 || r.Priority != 0 || r.QOS != "" || r.Account != "" ||
		r.Requeue != RequeueUnknown || r.HoldOff != 0
}

// Equal reports whether two jobs ask for the same.
func (r Requested) Equal(o Requested) bool { return r == o }

// Request returns the shared request.
func (r Requested) Request() Request {
	if r == (Requested{}) {
		return Request{}
	}
	return r.shared.Value()
}

// PerGPU is the share of the requested CPUs, in thousandths, and bytes of memory that goes with
// each whole GPU, rounded up.
func (j *Job) PerGPU() (milliCPUs, memory int64) {
	n, r := max(1, int64(j.GPUs.Whole())), j.Request()
	return (r.MilliCPUs + n - 1) / n, (r.Memory + n - 1) / n
}

// Shape is the number of nodes that the job, or each of its members, runs on, and the GPUs on each of
// them: the node count asked for, or as few nodes of a number of GPUs as its size needs, of which the last may
// give it fewer.
func (j *Job) Shape(perNode int) (nodes, each int) {
	gpus := j.GPUs.Whole() / j.Size()
	if nodes = int(j.Request().NodeCount); nodes == 0 {
		nodes = (gpus + perNode - 1) / max(1, perNode)
	}
	return nodes, (gpus + nodes - 1) / max(1, nodes)
}

// Limits of a Request: sums over the jobs of a cluster must fit an int64.
const (
	MaxMilliCPUs = 1_000_000_000
	MaxMemory    = 1 << 50 // 1 PiB
	MaxPriority  = 1 << 40
)

// DeadlineAt is the Job.Deadline for an instant that is one, since the zero: at
// the zero itself a nanosecond keeps it apart from none.
func DeadlineAt(at time.Duration) time.Duration {
	if at == 0 {
		return 1
	}
	return at
}

// Size is the number of jobs that j stands for.
func (j *Job) Size() int { return int(max(1, j.Members)) }

// Validate names the first field that no simulation can accept.
func (j *Job) Validate() error {
	switch {
	case j.ID == "":
		return fmt.Errorf("id: is empty")
	case j.GPUs <= 0:
		return fmt.Errorf("gpus: %g is not positive", float64(j.GPUs)/1000)
	case j.GPUs > GPUs(MaxGPUs):
		return fmt.Errorf("gpus: %g is more than %d", float64(j.GPUs)/1000, MaxGPUs)
	case j.Duration <= 0:
		return fmt.Errorf("duration: %v is not positive", j.Duration)
	case j.Duration > MaxDuration:
		return fmt.Errorf("duration: %v is more than ten years", j.Duration)
	case j.Submit > MaxSubmit || j.Submit < -MaxSubmit:
		return fmt.Errorf("submit: %v is more than a hundred years from the workload's zero", j.Submit)
	case j.Wait < 0 || j.Wait > MaxDuration:
		return fmt.Errorf("wait: %v is not between 0 and ten years", j.Wait)
	case j.Members < 0 || j.Members > 1 && j.GPUs%(1000*MilliGPU(j.Members)) != 0:
		return fmt.Errorf("members: %g GPUs cannot be shared by %d jobs", float64(j.GPUs)/1000, j.Members)
	case j.Deadline > MaxSubmit || j.Deadline < -MaxSubmit:
		return fmt.Errorf("deadline: %v is more than a hundred years from the workload's zero", j.Deadline)
	case float64(j.Duration)*j.GPUs.Count() > float64(MaxGPUTime):
		return fmt.Errorf("gpus, duration: %d GPUs for %v is more GPU-time than can be counted",
			j.GPUs.Whole(), j.Duration)
	}
	if field, why := j.checkRequest(); field != "" {
		return fmt.Errorf("%s: %s", strings.ReplaceAll(field, "_", " "), why)
	}
	return nil
}

// checkRequest names the first field of a request that no simulation can accept, and why.
func (j *Job) checkRequest() (field, why string) {
	if j.Requested == (Requested{}) {
		return "", ""
	}
	r := j.Request()
	switch {
	case r.MilliCPUs < 0 || r.MilliCPUs > MaxMilliCPUs:
		return "cpus", fmt.Sprintf("%g is not between 0 and a million", float64(r.MilliCPUs)/1000)
	case r.Memory < 0 || r.Memory > MaxMemory:
		return "memory", fmt.Sprintf("%d bytes is not between 0 and 2^50", r.Memory)
	case r.TimeLimit < 0 || r.TimeLimit > MaxDuration:
		return "time_limit", fmt.Sprintf("%v is not between 0 and ten years", r.TimeLimit)
	case r.NodeCount < 0 || r.NodeCount > MaxPlaces:
		return "node_count", fmt.Sprintf("%d is not between 0 and %d", r.NodeCount, MaxPlaces)
	case r.NodeCount > 0 && j.Members > 1:
		return "node_count", fmt.Sprintf("a group of %d jobs has none", j.Members)
	case r.NodeCount > 0 && j.GPUs%(1000*MilliGPU(r.NodeCount)) != 0:
		return "node_count", fmt.Sprintf("%g GPUs cannot be shared equally by %d nodes", float64(j.GPUs)/1000,
			r.NodeCount)
	case r.Priority < -MaxPriority || r.Priority > MaxPriority:
		return "priority", fmt.Sprintf("%d is not between -2^40 and 2^40", r.Priority)
	case r.Requeue > RequeueRestarts:
		return "requeue", fmt.Sprintf("%d is not known", r.Requeue)
	case r.HoldOff < 0 || r.HoldOff > MaxDuration:
		return "hold_off", fmt.Sprintf("%v is not between 0 and ten years", r.HoldOff)
	}
	return "", ""
}

// Workload is a list of jobs in order of submission. It is read-only once
// made and may be shared by any number of simulations.
type Workload struct {
	name      string
	zero      time.Time
	jobs      []Job
	synthetic bool
	digest    func() string
}

// New sorts the jobs by submission, keeping the given order among equals, and
// checks them: an error names the first bad or repeated job. It takes
// ownership of the slice. zero is the wall-clock time of instant 0.
func New(name string, zero time.Time, jobs []Job) (*Workload, error) {
	seen := make(map[string]struct{}, len(jobs))
	for i := range jobs {
		if err := jobs[i].Validate(); err != nil {
			return nil, fmt.Errorf("workload %s: job %d (%q): %w", name, i, jobs[i].ID, err)
		}
		if _, dup := seen[jobs[i].ID]; dup {
			return nil, fmt.Errorf("workload %s: job %d: id: %q is used twice", name, i, jobs[i].ID)
		}
		seen[jobs[i].ID] = struct{}{}
	}
	SortBySubmit(jobs)
	return NewSorted(name, zero, jobs, false), nil
}

// NewSorted is New for jobs that are in order of submission and were checked
// one by one, as readers and generators do.
func NewSorted(name string, zero time.Time, jobs []Job, synthetic bool) *Workload {
	w := &Workload{name: name, zero: zero.UTC(), jobs: jobs, synthetic: synthetic}
	w.digest = sync.OnceValue(func() string { return digestOf(w) })
	return w
}

// Name says where the workload comes from: a file name or a profile.
func (w *Workload) Name() string { return w.name }

// Zero is the wall-clock time of instant 0.
func (w *Workload) Zero() time.Time { return w.zero }

// Clock is the wall-clock time of an instant of the workload.
func (w *Workload) Clock(at time.Duration) time.Time { return w.zero.Add(at) }

// Jobs in order of submission. The caller must not change them.
func (w *Workload) Jobs() []Job { return w.jobs }

// Len is the number of jobs.
func (w *Workload) Len() int { return len(w.jobs) }

// Ended is the number of jobs that had ended when the trace was written.
func (w *Workload) Ended() int {
	n := 0
	for i := range w.jobs {
		if w.jobs[i].Status.Ended() {
			n++
		}
	}
	return n
}

// Synthetic reports whether a generator made the workload. Reports
// must say so.
func (w *Workload) Synthetic() bool { return w.synthetic }

// AsSynthetic returns the same workload labelled synthetic.
func (w *Workload) AsSynthetic() *Workload { return NewSorted(w.name, w.zero, w.jobs, true) }

// Digest identifies the content (jobs and zero, not the name): equal digests
// mean equal simulations. It is a hexadecimal SHA-256.
func (w *Workload) Digest() string { return w.digest() }

// Window returns the jobs submitted in [from, to), on the same zero. The jobs
// are shared, not copied.
func (w *Workload) Window(from, to time.Duration) *Workload {
	lo := sort.Search(len(w.jobs), func(i int) bool { return w.jobs[i].Submit >= from })
	hi := sort.Search(len(w.jobs), func(i int) bool { return w.jobs[i].Submit >= to })
	if hi < lo {
		hi = lo
	}
	return NewSorted(w.name, w.zero, w.jobs[lo:hi:hi], w.synthetic)
}

// Span returns the first and the last submission; zeros if there is no job.
func (w *Workload) Span() (first, last time.Duration) {
	if len(w.jobs) == 0 {
		return 0, 0
	}
	return w.jobs[0].Submit, w.jobs[len(w.jobs)-1].Submit
}

// OfferedLoad is GPU-seconds over the GPU-time of a span, or in an hour of a shorter one: a
// burst says nothing of the load.
func OfferedLoad(gpuSeconds float64, span time.Duration, gpus int) float64 {
	return gpuSeconds / (max(span, time.Hour).Seconds() * float64(gpus))
}

// SortBySubmit sorts jobs by submission and keeps the order of jobs submitted at one instant. It sorts
// numbers, because jobs are large to move.
func SortBySubmit(jobs []Job) {
	sorted := true
	for i := 1; i < len(jobs) && sorted; i++ {
		sorted = jobs[i-1].Submit <= jobs[i].Submit
	}
	if sorted {
		return
	}
	type place struct {
		submit time.Duration
		i      int
	}
	order := make([]place, len(jobs))
	for i := range jobs {
		order[i] = place{jobs[i].Submit, i}
	}
	slices.SortFunc(order, func(a, b place) int {
		if c := cmp.Compare(a.submit, b.submit); c != 0 {
			return c
		}
		return cmp.Compare(a.i, b.i)
	})
	// Along each cycle of the permutation the jobs move up one place.
	for i := range order {
		if order[i].i < 0 {
			continue
		}
		first, to := jobs[i], i
		for {
			from := order[to].i
			order[to].i = -1
			if from == i {
				jobs[to] = first
				break
			}
			jobs[to], to = jobs[from], from
		}
	}
}

func digestOf(w *Workload) string {
	h := sha256.New()
	buf := make([]byte, 0, 4096)
	num := func(v int64) { buf = binary.LittleEndian.AppendUint64(buf, uint64(v)) }
	text := func(s string) {
		num(int64(len(s)))
		buf = append(buf, s...)
	}
	num(w.zero.Unix())
	num(int64(w.zero.Nanosecond()))
	for i := range w.jobs {
		j := &w.jobs[i]
		for _, s := range [...]string{j.ID, j.User, j.Tenant, j.Key, j.Model} {
			text(s)
		}
		num(int64(j.Submit))
		num(int64(j.Duration))
		num(int64(j.GPUs))
		// Rare fields are marked beside the status.
		status := int64(j.Status)
		if j.Deadline != 0 {
			status |= 1 << 8
		}
		r := j.Request()
		if r != (Request{}) {
			status |= 1 << 9
		}
		if r.more() {
			status |= 1 << 10
		}
		num(status)
		if j.Deadline != 0 {
			num(int64(j.Deadline))
		}
		if r != (Request{}) {
			text(r.GPUModel)
			text(r.Partition)
			num(r.MilliCPUs)
			num(r.Memory)
			num(int64(r.TimeLimit))
		}
		if r.more() {
			num(int64(r.NodeCount))
			num(int64(r.Nice))
			num(r.Priority)
			text(r.QOS)
			text(r.Account)
			num(int64(r.Requeue))
			num(int64(r.HoldOff))
		}
		if j.Members > 1 { // likewise: no string is so long
			num(-int64(j.Members))
		}
		if len(buf) > 3<<10 {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	h.Write(buf)
	return hex.EncodeToString(h.Sum(nil))
}
