package trace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/workload"
)

// input is the source of a format: bounded lines in; jobs and rejections out.
type input struct {
	opts   Options
	report *Report
	source *lines.Reader // of the file being read
	format *Format
	file   string // the report's name of the file being read
	raw    int64  // bytes of the files read before, as they are
	out    int64  // and after decompression
	total  int64  // size of all files

	check    bool // only the report is asked for: jobs are counted, not kept
	taken    int  // jobs
	jobs     jobList
	ids      names                         // of the jobs
	texts    map[string]string             // equal texts share memory
	hosts    map[string]string             // host lists that were checked
	arena    arena                         // holds ids
	nodes    map[string]workload.NodeGroup // machines of a list, one each, by name
	most     map[string]int                // GPUs that one job held of a machine
	machines map[string][]change           // what jobs held of it, where that is known
	// hours and changes are of the GPUs that jobs held.
	hours   [workload.OutOfMemory + 1]float64 // by status
	changes list[change]
	first   time.Duration // submission
	last    time.Duration
	strict  error // the first rejection where none is allowed
	// state is a format's state between rows and files (Format.finish).
	state any

	clock     localClock // of Options.Zone
	line      int        // number of the present line, from 1
	numbered  int        // lines read from the file
	pushed    []pushedLine
	zero      time.Time
	hasZero   bool // the trace names its zero; submissions count from it
	noZone    bool // there were times without a zone, read as UTC
	wallClock bool // submissions count from the Unix epoch until they are rebased
	hasKeys   bool // the trace has a column of keys: jobs without one stay so
	synthetic bool
}

func newInput(t traceFiles, opts Options) *input {
	in := &input{opts: opts, report: &Report{File: t.name}, texts: map[string]string{},
		most: map[string]int{}, machines: map[string][]change{}, clock: localClock{zone: opts.Zone}}
	for i := range t.files {
		if t.files[i].size == 0 && len(t.files) > 1 {
			in.total = 0
			break
		}
		in.total += t.files[i].size
	}
	if len(t.files) > 1 {
		for i := range t.files {
			in.report.Files = append(in.report.Files, t.files[i].name)
		}
	}
	return in
}

func (in *input) run(ctx context.Context, t traceFiles) (*workload.Workload, error) {
	for i := range t.files {
		if err := in.read(ctx, &t.files[i], t.folder); err != nil {
			if len(t.files) > 1 {
				err = fmt.Errorf("%s: %w", t.files[i].name, err)
			}
			return nil, err
		}
	}
	if in.format == nil {
		if len(in.report.Machines) > 0 {
			return nil, fmt.Errorf("%w: it lists machines; name the file of the jobs too", ErrNoJobs)
		}
		return nil, fmt.Errorf("%w: no file of the folder is a trace; autosched trace --help lists the formats",
			ErrFormat)
	}
	if in.format.finish != nil {
		if err := in.format.finish(in); err != nil {
			return nil, err
		}
		if in.strict != nil {
			return nil, in.strict
		}
	}
	if in.taken == 0 {
		return nil, in.noJobs()
	}
	return in.finish(), nil
}

// noJobs says why nothing is left.
func (in *input) noJobs() error {
	r := in.report
	switch {
	case len(r.First) > 0 && r.LeftOut+r.Merged == 0:
		return fmt.Errorf("%w: all %d rows were rejected, first %s", ErrNoJobs, r.Rejected, r.First[0])
	case r.LeftOut > 0:
		most := slices.MaxFunc(r.LeftOutReasons, func(a, b ReasonCount) int { return a.Jobs - b.Jobs })
		return fmt.Errorf("%w: of %d rows %d were rejected and %d jobs left out, most because: %s",
			ErrNoJobs, r.Rows, r.Rejected, r.LeftOut, most.Reason)
	case len(r.First) > 0:
		return fmt.Errorf("%w: %d of %d rows were rejected, first %s", ErrNoJobs, r.Rejected, r.Rows, r.First[0])
	}
	return fmt.Errorf("%w: there is no row below the header", ErrNoJobs)
}

// read reads one file.
func (in *input) read(ctx context.Context, t *traceFile, folder bool) (err error) {
	f, err := t.open()
	if err != nil {
		return err
	}
	defer f.Close()
	in.file, in.line, in.numbered, in.pushed = t.name, 0, 0, nil
	if in.source, err = lines.New(ctx, f, in.limits()); err != nil {
		return err
	}
	defer in.source.Close()
	read, err := in.detect(folder)
	if err != nil {
		return err
	}
	if read == nil {
		in.report.Ignored = append(in.report.Ignored, t.name)
		in.report.Files = slices.DeleteFunc(in.report.Files, func(name string) bool { return name == t.name })
	} else {
		if c := in.source.Compression; c != "" && in.report.Compression == "" {
			in.report.Compressed, in.report.Compression = true, c
		}
		if err := read(in); err != nil {
			return err
		}
	}
	done := in.source
	in.source = nil
	in.raw += done.In()
	in.out += done.Out()
	if read == nil && in.total > 0 { // an ignored file is no work
		in.total -= max(0, t.size-done.In())
	}
	in.progress()
	return nil
}

// detect finds the reader of the file: of the format asked for, or of the one
// that recognises the first lines. All files of a trace have one format, but for
// lists of machines. Without an error it is nil for a file to be left out.
func (in *input) detect(folder bool) (func(*input) error, error) {
	head, err := in.source.Peek()
	if err != nil {
		return nil, err
	}
	for _, m := range machineLists {
		if m.matches(head) {
			if in.nodes != nil { // another list of the same machines, by other names
				return nil, nil
			}
			in.nodes = map[string]workload.NodeGroup{}
			return m.read, nil
		}
	}
	if len(in.opts.Columns) > 0 {
		return in.detectColumns(head, folder)
	}
	if in.opts.Format != "" {
		f := formatNamed(in.opts.Format)
		if f == nil {
			return nil, fmt.Errorf("%w: no format is called %q; known are %s", ErrFormat, in.opts.Format, formatNames())
		}
		if folder && !f.detect(head) {
			return nil, nil
		}
		in.format, in.report.Format = f, f.Name
		return f.read, nil
	}
	for i := range Formats {
		f := &Formats[i]
		if !f.detect(head) {
			continue
		}
		if in.format != nil && in.format != f {
			return nil,
				fmt.Errorf(
					"%w: it is %s, but a file before it is %s: a trace has one format; name the files to be "+
						"read, with commas between them", ErrFormat, f.Name, in.format.Name)
		}
		in.format, in.report.Format = f, f.Name
		return f.read, nil
	}
	if folder {
		return nil, nil
	}
	if len(head) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	}
	var want strings.Builder
	header := lines.Header(head)
	for _, f := range Formats {
		if f.hint != nil {
			if hint := f.hint(header); hint != "" {
				return nil, fmt.Errorf("%w: it begins with %s: %s", ErrFormat, lines.Excerpt(header), hint)
			}
		}
		fmt.Fprintf(&want, "\n  %s: %s", f.Name, f.Header)
	}
	columns := in.suggest(head)
	if columns == "" {
		columns = "if it is a table, say what its columns mean with --columns"
	}
	return nil, fmt.Errorf("%w: it begins with %s; a trace of a known format has one of these headers:%s\n%s",
		ErrFormat, lines.Excerpt(header), want.String(), columns)
}

// detectColumns is detect where Options.Columns map the columns.
func (in *input) detectColumns(head []byte, folder bool) (func(*input) error, error) {
	if in.format == nil {
		cs := in.opts.Columns
		f, err := Format{}, error(nil)
		known := slices.IndexFunc(Formats, func(f Format) bool {
			return f.withTenant != nil && f.detect(head) && (in.opts.Format == "" || in.opts.Format == f.Name)
		})
		if known >= 0 && len(cs) == 1 && cs[0].Field == "tenant" {
			if !bytes.Contains([]byte("|"+string(lines.Header(head))+"|"), []byte("|"+cs[0].Name+"|")) {
				return nil, fmt.Errorf("%w: the header lacks %s; it is %s", ErrFormat, cs[0].Name,
					lines.Excerpt(lines.Header(head)))
			}
			f = Formats[known].withTenant(cs[0].Name)
			in.report.Columns = cs
		} else if f, err = foreign(cs); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		in.format, in.report.Format = &f, f.Name
	}
	if folder && !in.format.detect(head) {
		return nil, nil
	}
	return in.format.read, nil
}

// finish sorts, finds the zero and gives keys to jobs that have none.
func (in *input) finish() *workload.Workload {
	in.ids, in.texts = names{}, nil
	if in.noZone {
		in.note("times without a zone are taken for UTC: --timezone names the zone whose clock they show")
	}
	zero := in.zero
	if in.wallClock {
		zero = time.Unix(0, int64(in.first)).UTC().Truncate(24 * time.Hour)
	}
	in.report.Synthetic, in.report.Zero = in.synthetic, zero
	in.refuted()
	in.held(zero)
	if in.check {
		return nil
	}
	jobs := in.jobs.slice()
	workload.SortBySubmit(jobs)
	if in.wallClock {
		shift := time.Duration(zero.UnixNano())
		for i := range jobs {
			jobs[i].Submit -= shift
			if d := &jobs[i].Deadline; *d != 0 {
				*d = workload.DeadlineAt(*d - shift)
			}
		}
	}
	if !in.hasKeys {
		assignKeys(jobs, zero)
	}
	return workload.NewSorted(in.report.File, zero, jobs, in.synthetic)
}

// next returns the next line without its end, nil at the end of the input. It
// is valid until the next call. Lines that are too long are rejected here.
func (in *input) next() ([]byte, error) {
	for {
		if in.strict != nil {
			return nil, in.strict
		}
		if len(in.pushed) > 0 {
			line := in.pushed[0]
			in.pushed, in.line = in.pushed[1:], line.number
			return line.text, nil
		}
		line, long, err := in.source.Line()
		if err == io.EOF {
			return nil, nil
		}
		in.numbered++
		in.line = in.numbered
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", in.line, err)
		}
		if !long {
			return line, nil
		}
		if err := in.row(); err != nil {
			return nil, err
		}
		in.reject("line", "is longer than the limit", line)
	}
}

// row counts a row of data, used or not.
func (in *input) row() error {
	if in.report.Rows >= in.opts.MaxRows {
		return fmt.Errorf("line %d: %w: more than %d rows", in.line, ErrLimit, in.opts.MaxRows)
	}
	in.report.Rows++
	return in.manyJobs()
}

// manyJobs is an error if more jobs were taken than the options allow.
func (in *input) manyJobs() error {
	if most := in.opts.MaxJobs; most > 0 && in.taken > most {
		return fmt.Errorf("line %d: %w: more than %d jobs", in.line, ErrLimit, most)
	}
	return nil
}

func (in *input) reject(field, reason string, value []byte) {
	in.rejectRow(Rejection{File: in.file, Line: in.line, Field: field, Reason: reason}, value)
}

func (in *input) rejectRow(x Rejection, value []byte) {
	if in.strict != nil {
		return
	}
	if in.opts.Strict || len(in.report.First) < in.opts.KeepRejected {
		x.Value = lines.Excerpt(value)
	}
	in.report.reject(x, in.opts.KeepRejected)
	if in.opts.Strict {
		in.strict = fmt.Errorf("%w: %s", ErrRejected, x)
	}
}

// add takes a job whose fields were checked one by one.
func (in *input) add(j *workload.Job, idField string) {
	if in.ids.text == nil && !in.check {
		in.ids.text = func(i int32) string { return in.jobs.at(int(i)).ID }
	}
	number, hash := in.ids.find(j.ID)
	if number >= 0 {
		in.reject(idField, "repeats the id of an earlier row", []byte(j.ID))
		return
	}
	if in.addOnce(j) {
		in.ids.add(j.ID, hash)
		if in.taken == manyJobs {
			in.ids.reserve(in.expected())
		}
	}
}

// addOnce is add for a format that has made sure that no id is used twice.
func (in *input) addOnce(j *workload.Job) bool {
	if float64(j.Duration)*j.GPUs.Count() > float64(workload.MaxGPUTime) {
		in.reject("duration_s", "is more GPU-time than can be counted", []byte(j.Duration.String()))
		return false
	}
	if in.taken == 0 {
		in.first = j.Submit
	} else if j.Submit < in.last {
		in.report.Unsorted++
	}
	in.taken++
	in.first, in.last = min(in.first, j.Submit), j.Submit
	in.hold(j)
	if j.Nodes != "" && strings.IndexByte(j.Nodes, ',') < 0 && j.GPUs.Whole() > in.most[j.Nodes] {
		in.most[j.Nodes] = j.GPUs.Whole()
	}
	switch j.Status {
	case workload.Running:
		in.report.Running++
	case workload.Pending:
		in.report.Pending++
	}
	if !in.check {
		in.jobs.append(j, in.expected())
	}
	return true
}

// expected is how many rows the files have in all, if unread ones are like the ones
// read, with a twentieth more; 0 if the size of the files is not known.
func (in *input) expected() int {
	if in.source == nil || in.total == 0 {
		return 0
	}
	rows := float64(in.report.Rows) * float64(in.total) / float64(max(1, in.raw+in.source.In()))
	return min(in.opts.MaxRows, int(1.05*rows))
}

// limits are the limits of the file to be read.
func (in *input) limits() lines.Options {
	o := &in.opts
	return lines.Options{MaxLine: o.MaxLine, MaxBytes: o.MaxBytes, Before: in.out,
		MaxRatio: o.MaxRatio, Progress: in.progress}
}

func (in *input) progress() {
	if in.opts.Progress == nil {
		return
	}
	p := Progress{Bytes: in.raw, Total: in.total, Rows: in.report.Rows}
	if in.source != nil {
		p.Bytes += in.source.In()
	}
	in.opts.Progress(p)
}

// text shares the memory of equal texts: users, tenants and models recur. Where jobs
// are not kept, a format that keeps no state itself needs none.
func (in *input) text(b []byte) string {
	if len(b) == 0 || in.check && in.state == nil {
		return ""
	}
	if s, ok := in.texts[string(b)]; ok {
		return s
	}
	s := in.own(b)
	in.texts[s] = s
	return s
}

// own copies a text that is used once.
func (in *input) own(b []byte) string { return in.arena.own(b) }

// assignKeys gives recurrence keys to the jobs of a trace without names, where
// they have none: a hash of tenant, user, GPUs and batch, where a batch is jobs
// of one tenant and user with the same GPUs and gaps of at most BatchGap. The
// batch is known by its first submission on the wall clock, so that a window
// keeps its keys. Jobs are in order of submission.
func assignKeys(jobs []workload.Job, zero time.Time) {
	type stream struct {
		tenant, user string
		gpus         workload.MilliGPU
	}
	type batch struct {
		last time.Duration
		key  string
	}
	open := map[stream]batch{}
	for i := range jobs {
		j := &jobs[i]
		if j.Key != "" {
			continue
		}
		s := stream{j.Tenant, j.User, j.GPUs}
		b, ok := open[s]
		if !ok || j.Submit-b.last > workload.BatchGap {
			first := zero.Add(j.Submit)
			owner := j.Tenant
			if j.User != "" {
				owner += "\x00" + j.User
			}
			b.key = workload.KeyOf(owner, int64(j.GPUs), first.Unix(), int64(first.Nanosecond()))
		}
		b.last = j.Submit
		open[s] = b
		j.Key = b.key
	}
}

// addPending adds jobs that had not started. How long each would run is taken from the jobs that have ended, at most
// its time limit.
func (in *input) addPending(pending []workload.Job) {
	if len(pending) == 0 {
		return
	}
	typical := in.typicalRuns()
	for i := range pending {
		j := &pending[i]
		j.Status, j.Wait, j.HasWait = workload.Pending, 0, false
		j.Duration = typical(j)
		if limit := j.Request().TimeLimit; limit > 0 && (j.Duration == 0 || limit < j.Duration) {
			j.Duration = limit
		}
		ended := in.taken - in.report.Running - in.report.Pending
		if j.Duration == 0 && (!in.check || ended == 0) { // a check keeps no run times
			in.report.leaveOut("it has not started, and no job has ended that says how long it would run")
			continue
		}
		in.last = min(in.last, j.Submit) // in order of the file they came earlier
		in.addOnce(j)
	}
}

// typicalRuns returns the median run time of the jobs that have ended of a job's key, else of its user, else of all; 0
// where there are none.
func (in *input) typicalRuns() func(*workload.Job) time.Duration {
	type of struct{ key, user string }
	runs := map[of][]time.Duration{}
	for i := range in.jobs.len() {
		j := in.jobs.at(i)
		if !j.Status.Ended() {
			continue
		}
		runs[of{}] = append(runs[of{}], j.Duration)
		if j.Key != "" {
			runs[of{key: j.Key}] = append(runs[of{key: j.Key}], j.Duration)
		}
		if j.User != "" {
			runs[of{user: j.User}] = append(runs[of{user: j.User}], j.Duration)
		}
	}
	for _, r := range runs {
		slices.Sort(r)
	}
	return func(j *workload.Job) time.Duration {
		for _, k := range []of{{key: j.Key}, {user: j.User}, {}} {
			if r := runs[k]; len(r) > 0 {
				return r[len(r)/2]
			}
		}
		return 0
	}
}
