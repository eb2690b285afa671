package patterns

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/patterns/cluster"
	"github.com/autosched/autosched/telemetry"
)

// open is a finding that holds, with the state of its waste.
type open struct {
	Finding
	// The times of Finding since Options.Zero, which stamp converts.
	began, opened, closed time.Duration

	subject *cluster.Subject // of a derived condition, nil otherwise
	counted time.Duration
	matched time.Duration // last
	updated time.Duration
	rate    float64 // GPUs wasted at the moment, of a detector
	marks   map[time.Duration]bool
}

// condState is the state of a derived condition of a subject.
type condState struct {
	on    bool
	since time.Duration // when it began to hold, or entered
	holds bool
	trust float64
}

// matched opens a finding, or notes that an open one was matched again.
func (s *Scanner) matched(r *compiled, e Entity, f *cluster.Fact, marks []mark) {
	if o := r.open[e]; o != nil {
		o.matched = f.At
		s.countRuns(r, o, marks)
		return
	}
	o := &open{Finding: Finding{Rule: r.rule.ID, Entity: e, Confidence: .9, Action: r.rule.Action}, opened: f.At,
		began: marks[0].at, counted: f.At, matched: f.At}
	for i, m := range marks {
		o.began = min(o.began, m.at)
		if f.Subject == nil {
			t := r.rule.match().terms()[r.steps[i]]
			o.Evidence = append(o.Evidence, Evidence{What: t.words(), Value: 1, Threshold: 1, From: s.at(m.at),
				To: s.at(m.at)})
		}
	}
	words, action := r.rule.Words, r.rule.Action
	if f.Subject != nil {
		o.subject, o.Confidence = f.Subject, 0
		s.derivedEvidence(r, o)
		v := s.viewOf(r, f.Subject, nil)
		for i := range r.rule.Variants {
			if x := &r.rule.Variants[i]; v.judge(&x.When) == yes {
				words, action = x.Words, x.Action
				o.Evidence, _ = v.evidence(&x.When, o.Evidence, 1)
				break
			}
		}
	} else if f.Job != nil && e.Kind == "job" {
		o.Job = f.Job.Name
	}
	o.Action = action
	s.countRuns(r, o, marks)
	s.firstWaste(r, o)
	s.affected(r, o, f)
	o.Words = s.say(words, o)
	s.begin(r, o)
}

// words describes a term for people.
func (t *Term) words() string {
	switch {
	case t.Derived != "":
		return t.Derived
	case t.Event == "message":
		return "message " + strconv.Quote(t.Value+t.Regex)
	case t.RanBelow > 0:
		return fmt.Sprintf("%s %s within %v of its start", t.Event, strings.Join(t.Status, " or "), t.RanBelow)
	case len(t.Status) > 0:
		return t.Event + " " + strings.Join(t.Status, " or ")
	}
	return t.Event
}

// begin adds a finding to the open ones.
func (s *Scanner) begin(r *compiled, o *open) {
	if len(r.open) >= s.o.Cap {
		s.cluster.Drop(r.rule.ID)
		return
	}
	o.Open, o.closed, o.updated = true, max(o.opened, o.began), o.opened
	r.open[o.Entity] = o
	r.opened = append(r.opened, o)
	s.emit(o)
}

// at converts an instant of the scan.
func (s *Scanner) at(t time.Duration) time.Time { return s.o.Zero.Add(t).UTC() }

// since is the inverse of at.
func (s *Scanner) since(t time.Time) time.Duration { return t.Sub(s.o.Zero) }

// stamp brings the times of a finding up to date.
func (s *Scanner) stamp(o *open) *Finding {
	o.Began, o.Opened, o.Closed = s.at(o.began), s.at(o.opened), s.at(o.closed)
	if o.Evidence == nil {
		o.Evidence = []Evidence{}
	}
	return &o.Finding
}

// emit reports a finding.
func (s *Scanner) emit(o *open) {
	o.Cost = o.WastedGPUHours * s.o.Price
	if s.o.OnFinding != nil {
		s.o.OnFinding(s.stamp(o))
	}
}

// derivedEvidence fills in the evidence of the derived conditions that hold. Confidence never falls.
func (s *Scanner) derivedEvidence(r *compiled, o *open) {
	margin, trust := 1., 1.
	o.Evidence = nil
	for i, st := range r.states[o.subject] {
		if !st.on {
			continue
		}
		d := &r.rule.Derive[i]
		v := s.viewOf(r, o.subject, d)
		if v.judge(&d.Condition) == yes {
			o.Evidence, margin = v.evidence(&d.Condition, o.Evidence, margin)
		}
		trust = min(trust, v.trust, st.trust)
	}
	o.Confidence = max(o.Confidence, math.Round(1000*trust*(.6+.4*min(1, margin)))/1000)
	for _, e := range o.Evidence {
		o.began = min(o.began, s.since(e.From))
	}
	if j := o.subject.Job; j != nil {
		o.Job = j.Name
		if j.Running {
			o.began = max(o.began, j.Start)
		}
	}
}

// renew brings the evidence up to date, where the conditions still hold.
func (s *Scanner) renew(r *compiled, o *open) {
	was, began := o.Evidence, o.began
	s.derivedEvidence(r, o)
	if len(o.Evidence) < len(was) {
		o.Evidence = was
	}
	o.began = began
}

// wasteRate is the number of GPUs that an open finding wastes now, where it is known.
func (s *Scanner) wasteRate(r *compiled, o *open) (float64, bool) {
	if r.rule.Waste == "" || o.subject == nil {
		return o.rate, r.rule.Detect != ""
	}
	switch o.subject.Kind {
	case "job":
		j := o.subject.Job
		if !j.Running {
			return 0, false
		}
		if s.now()-j.Sampled > 5*time.Minute+2*s.o.Period && j.Use.Samples > 0 {
			return 0, false // not measured: not known to be wasted
		}
		if r.rule.Waste == "unused" {
			n, known := s.freed(r, j)
			return float64(n), known
		}
		return j.Share, r.rule.Waste == "held"
	case "gpu":
		return 1, r.rule.Waste == "held"
	case "partition", "queue":
		p := s.cluster.PoolOf(o.subject.Name)
		n, known := p.Free()
		return float64(min(n, p.PendingGPUs())), known
	case "tenant":
		if t := s.cluster.Tenants[o.subject.Name]; t != nil {
			return float64(max(0, t.Quota-t.Held)), true
		}
	}
	return 0, false
}

// firstWaste counts the waste before a finding opened.
func (s *Scanner) firstWaste(r *compiled, o *open) {
	if rate, known := s.wasteRate(r, o); known {
		o.WastedGPUHours += rate * (o.opened - o.began).Hours()
	}
}

// countRuns adds the GPU-hours of matched jobs, once for each.
func (s *Scanner) countRuns(r *compiled, o *open, marks []mark) {
	if r.rule.Waste != "runs" {
		return
	}
	if o.marks == nil {
		o.marks = map[time.Duration]bool{}
	}
	for _, m := range marks {
		if !o.marks[m.at] {
			o.marks[m.at] = true
			o.WastedGPUHours += m.gpuHours
		}
	}
}

// count adds the waste since the last count.
func (s *Scanner) count(r *compiled, o *open) {
	if rate, known := s.wasteRate(r, o); known && s.now() > o.counted {
		o.WastedGPUHours += rate * (s.now() - o.counted).Hours()
	}
	o.counted = max(o.counted, s.now())
	o.closed = max(o.closed, s.now())
}

// closeFinding ends the open finding of an entity.
func (s *Scanner) closeFinding(r *compiled, e Entity, at time.Duration) {
	o := r.open[e]
	if o == nil {
		return
	}
	if rate, known := s.wasteRate(r, o); known && at > o.counted {
		o.WastedGPUHours += rate * (at - o.counted).Hours()
	}
	o.Open, o.closed = false, max(at, o.opened)
	delete(r.open, e)
	if i := slices.Index(r.opened, o); i >= 0 {
		r.opened = slices.Delete(r.opened, i, i+1)
	}
	s.emit(o)
}

// closeJob ends the findings about a job, its GPUs and its workers.
func (s *Scanner) closeJob(j *cluster.Job, at time.Duration) {
	for _, r := range s.rules {
		switch r.kind {
		case "job":
			s.closeFinding(r, Entity{"job", j.Name}, at)
			delete(r.matchers, Entity{"job", j.Name})
			delete(r.states, &j.Subject)
		case "worker", "gpu":
			for i := len(r.opened) - 1; i >= 0; i-- {
				if r.opened[i].Job == j.Name {
					s.closeFinding(r, r.opened[i].Entity, at)
				}
			}
		}
		if r.detector != nil {
			r.detector.jobEnded(s, j, at)
		}
	}
}

// closeGPU ends the findings about a GPU.
func (s *Scanner) closeGPU(g *cluster.GPU) {
	for _, r := range s.rules {
		if r.kind == "gpu" {
			s.closeFinding(r, Entity{"gpu", g.Name}, s.now())
			delete(r.states, &g.Subject)
		}
	}
}

// confirm raises the confidence of a job's open findings.
func (s *Scanner) confirm(r *compiled, f *cluster.Fact) {
	for _, o := range r.opened {
		if o.Job == f.Job.Name && o.Confidence < .95 {
			o.Confidence = .95
			what := strings.TrimSpace(f.Name + " " + f.Status)
			if f.Text != "" {
				what = "message " + strconv.Quote(clip(f.Text))
			}
			o.Evidence = append(o.Evidence, Evidence{What: what, Value: 1, Threshold: 1, From: s.at(f.At),
				To: s.at(f.At)})
			s.emit(o)
		}
	}
}

func clip(text string) string {
	const most = 120
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return text
}

// maxAffected bounds the jobs that wait and are named.
const maxAffected = 5

// affected lists the jobs and tenants that pay for a finding besides its entity: the job that it is part of, its
// tenant, and the first jobs of other tenants that wait where the finding wastes GPUs.
func (s *Scanner) affected(r *compiled, o *open, f *cluster.Fact) {
	own, where := "", ""
	j := s.cluster.Jobs[o.Job]
	if j == nil && f != nil {
		j = f.Job // the last that a user, a key ran
	}
	switch o.Entity.Kind {
	case "tenant":
		own = o.Entity.Name
	case "queue", "partition":
		where = o.Entity.Name
	default:
		if j != nil {
			own, where = j.Tenant, j.Queue
		}
	}
	if o.Job != "" && o.Entity.Kind != "job" {
		o.Affected = append(o.Affected, "job/"+o.Job)
	}
	if own != "" && o.Entity.Kind != "tenant" {
		o.Affected = append(o.Affected, "tenant/"+own)
	}
	if r.rule.Waste == "" && o.rate == 0 {
		return
	}
	var list []*cluster.Job
	shares := map[string]bool{}
	for _, p := range s.cluster.Pending.List {
		if p.Name == o.Job || p.Hold > s.now() || own != "" && p.Tenant == own {
			continue
		}
		if _, known := shares[p.Queue]; !known {
			shares[p.Queue] = s.cluster.Share(p.Queue, where)
		}
		if shares[p.Queue] {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *cluster.Job) int { return a.Seq - b.Seq })
	for _, p := range list[:min(maxAffected, len(list))] {
		o.Affected = append(o.Affected, "job/"+p.Name)
	}
}

// say fills the numbers of a finding into its words: {entity}, {job}, {gpus}, {freed}, {keep}, {wasted},
// {hours}, {tenant}.
func (s *Scanner) say(words string, o *open) string {
	if !strings.Contains(words, "{") {
		return words
	}
	gpus, tenant, freed := 0, "", 0
	if j := s.cluster.Jobs[o.Job]; j != nil {
		gpus, tenant = j.GPUs, j.Tenant
		for _, r := range s.rules {
			if r.rule.ID == o.Rule && r.rule.RightSize.Busy > 0 {
				freed, _ = s.freed(r, j)
			}
		}
	}
	if tenant == "" {
		words = strings.ReplaceAll(words, " of {tenant}", "")
	}
	return strings.NewReplacer("{entity}", o.Entity.Name, "{job}", o.Job, "{gpus}", gpuText(gpus),
		"{tenant}", tenant, "{freed}", strconv.Itoa(freed), "{keep}", gpuText(max(1, gpus-freed)),
		"{wasted}", strconv.FormatFloat(o.WastedGPUHours, 'f', 1, 64),
		"{hours}", strconv.FormatFloat((o.opened-o.began).Hours(), 'f', 1, 64)).Replace(words)
}

func gpuText(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return strconv.Itoa(n) + " GPUs"
}

// attend counts waste, closes findings that were not matched again, and reports the others once
// an hour.
func (s *Scanner) attend(r *compiled) {
	for i := len(r.opened) - 1; i >= 0; i-- {
		o := r.opened[i]
		if q := time.Duration(r.rule.Quiet); q > 0 && s.now()-o.matched > q {
			s.closeFinding(r, o.Entity, o.matched+q)
			continue
		}
		s.count(r, o)
		if s.now()-o.updated >= time.Hour {
			o.updated = s.now()
			if o.subject != nil {
				s.renew(r, o)
			}
			s.emit(o)
		}
	}
}

// Inputs of rules, as notes name them.
const (
	inputGPUs       = "samples of GPUs"
	inputIterations = "times of iterations"
	inputGuardrails = "measurements of guardrails"
	inputMessages   = "lines of logs"
	inputStarts     = "starts of jobs"
	inputPlaces     = "nodes of all running jobs"
	inputStops      = "preemptions"
	inputSize       = "size of the cluster"
	inputQuotas     = "quotas"
)

// needs are the inputs without which a rule finds nothing.
func (r *compiled) needs() (out []string) {
	switch r.rule.Detect {
	case "straggler", "iteration_outlier", "cv_class":
		return []string{inputIterations}
	case "config_regression":
		return []string{inputGuardrails}
	case "preemption_thrash":
		return []string{inputStops}
	case "queue_spiral":
		return []string{inputStarts, inputSize}
	}
	switch r.kind {
	case "gpu":
		out = append(out, inputGPUs)
	case "tenant":
		out = append(out, inputQuotas)
	case "partition":
		out = append(out, inputSize, inputPlaces)
	}
	m := r.rule.match()
	for _, t := range m.terms() {
		switch t.Event {
		case "message":
			out = append(out, inputMessages)
		case "job.ended":
			out = append(out, inputStarts)
		case "gpu.xid":
			out = append(out, inputGPUs)
		case "job.preempted":
			out = append(out, inputStops)
		}
	}
	if r.rule.State == "pending" {
		out = append(out, inputStarts)
	}
	for i := range r.rule.Derive {
		if r.kind == "job" && r.rule.Derive[i].samples() {
			out = append(out, inputGPUs)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// samples reports whether a condition cannot hold without samples of GPUs.
func (c *Condition) samples() bool {
	if len(c.Any) > 0 {
		return !slices.ContainsFunc(c.Any, func(x Condition) bool { return !x.samples() })
	}
	if len(c.All) > 0 {
		return slices.ContainsFunc(c.All, func(x Condition) bool { return x.samples() })
	}
	return !c.Optional && (c.Each != "" || c.of("job").compute == nil || c.Signal == "used_share")
}

// inputs returns the inputs that have come.
func (s *Scanner) inputs() map[string]bool {
	c := s.cluster
	p := c.PoolOf(cluster.AllJobs)
	return map[string]bool{inputGPUs: c.Seen.GPUs, inputIterations: c.Seen.Iterations, inputGuardrails: s.sawGuardrails,
		inputMessages: s.sawMessages, inputStarts: c.Seen.Starts, inputStops: c.Seen.Stops,
		inputPlaces: p.Unplaced == 0 && !c.Seen.Unplaced, inputSize: p.Total > 0 || p.EverSample,
		inputQuotas: len(c.Tenants) > 0}
}

// Examined are the ids of the rules whose inputs were seen, in order.
func (s *Scanner) Examined() (out []string) {
	seen := s.inputs()
	for _, r := range s.rules {
		if !slices.ContainsFunc(r.needs(), func(input string) bool { return !seen[input] }) {
			out = append(out, r.rule.ID)
		}
	}
	return out
}

// lacking are the ids of the rules that need an input which was not seen, by input.
func (s *Scanner) lacking() map[string][]string {
	seen := s.inputs()
	out := map[string][]string{}
	for _, r := range s.rules {
		for _, input := range r.needs() {
			if !seen[input] {
				out[input] = append(out[input], r.rule.ID)
			}
		}
	}
	return out
}

// Lacking are the inputs that rules need and that were not seen, in order.
func (s *Scanner) Lacking() []string { return slices.Sorted(maps.Keys(s.lacking())) }

// Joins counts the samples of GPUs by how they were joined to jobs.
func (s *Scanner) Joins() telemetry.JoinCounts { return s.cluster.Joins }

// Notes lists the rules that could not be examined, and why.
func (s *Scanner) Notes() (out []string) {
	lacking := s.lacking()
	for _, input := range slices.Sorted(maps.Keys(lacking)) {
		out = append(out, fmt.Sprintf("no %s: %s", input, strings.Join(lacking[input], ", ")))
	}
	if r := s.cluster.Joins.Report(); r.Joined < r.Samples {
		out = append(out, fmt.Sprintf("%d samples of GPUs could not be joined to a running job", r.Samples-r.Joined))
	}
	for _, what := range slices.Sorted(maps.Keys(s.cluster.Dropped)) {
		out = append(out, fmt.Sprintf("%s: the cap was hit: %d records or entities beyond it were not examined", what,
			s.cluster.Dropped[what]))
	}
	return out
}

// Lint lists probable mistakes in a valid set of rules.
func (r *RuleSet) Lint() (out []string) {
	for i := range r.Rules {
		rule := &r.Rules[i]
		m := rule.match()
		if m == nil {
			continue
		}
		for k := range rule.Derive {
			d := &rule.Derive[k]
			used := slices.ContainsFunc(rule.Derive, func(x Derive) bool { return x.Needs == d.Name })
			for _, t := range slices.Concat(m.terms(), m.Negate, rule.Until) {
				used = used || t.Derived == d.Name
			}
			if !used {
				out = append(out, fmt.Sprintf("%s: derive %s: no term uses it", rule.ID, d.Name))
			}
			if d.Coverage == 0 && d.samples() && (rule.GroupBy[0] == "job" || rule.GroupBy[0] == "gpu") {
				out = append(out, fmt.Sprintf("%s: derive %s: coverage: is not set: one sample decides about a window",
					rule.ID, d.Name))
			}
		}
		if len(rule.Derive) == 0 && rule.Quiet == 0 && len(rule.Until) == 0 && !slices.Contains(rule.GroupBy, "job") {
			out = append(out, rule.ID+": quiet, until: are not set: a finding stays open until the end")
		}
	}
	return out
}

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
